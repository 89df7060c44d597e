"""Counter-based randomness: every draw is a function of (seed, purpose, chain, counter, element).

There is no state. So block lengths, thinning, progress bars and resuming cannot change a
chain, and chain c has the same numbers for any number of chains. Only this file draws
random numbers.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror & Shaw 2011, "Parallel
random numbers: as easy as 1, 2, 3"), written in TensorFlow operations. TensorFlow's own
generators give different floats inside and outside XLA. This one gives the same words and
indices in both, on every device, and normals that agree to rounding.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from sgmcmc.core import rejection

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


class Purpose(enum.IntEnum):
    """What a stream of random numbers is for; streams of different purposes are independent."""

    MINIBATCH = 1
    NOISE = 2
    REFRESH = 3
    INITIAL = 4
    MONITOR = 5
    MODE = 6
    START = 7
    CURVATURE = 8
    RUNG = 9
    HALF = 10
    PILOT = 11
    GIBBS = 12
    LATENT = 13
    INFERENCE = 17
    COMPLETION = 18


class Draw(enum.IntEnum):
    """What a stream's own streams are for."""

    GAMMA = 1
    BOOST = 2
    POISSON = 3


def _u32(x: int | tf.Tensor) -> tf.Tensor:
    if isinstance(x, int | np.integer):
        return tf.constant(int(x) & 0xFFFFFFFF, tf.uint32)
    return tf.cast(x, tf.uint32)


def _rotate_left(x: tf.Tensor, r: int) -> tf.Tensor:
    return tf.bitwise.bitwise_or(tf.bitwise.left_shift(x, _u32(r)), tf.bitwise.right_shift(x, _u32(32 - r)))


def threefry2x32(key: tuple, counter: tuple) -> tuple[tf.Tensor, tf.Tensor]:
    """Encrypt the pair `counter` under the pair `key`; uint32 tensors that broadcast against each other."""
    k0, k1 = key
    k2 = tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(k0, k1), _u32(PARITY))
    keys = (k0, k1, k2)
    x0, x1 = counter[0] + k0, counter[1] + k1
    for group in range(5):
        for r in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = tf.bitwise.bitwise_xor(_rotate_left(x1, r), x0)
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + _u32(group + 1)
    return x0, x1


def fresh_seed() -> int:
    """A seed from the operating system's entropy."""
    return secrets.randbits(63)


def child_seed(seed: int, purpose: Purpose) -> int:
    """A seed for a run within a run."""
    high, low = threefry2x32((_u32(seed), _u32(seed >> 32)), (_u32(int(purpose)), _u32(1)))
    return int(high) << 32 | int(low)


def keys(seed: int, purpose: Purpose, chains: int | range) -> np.ndarray:
    """The keys of these chains, uint32 [C, 2]; they depend on the lowest 64 bits of the seed."""
    chains = range(chains) if isinstance(chains, int) else chains
    numbers = tf.bitcast(tf.range(chains.start, chains.stop), tf.uint32)
    k0, k1 = threefry2x32((_u32(seed), _u32(seed >> 32)), (_u32(int(purpose)), _u32(0)))
    return np.stack([words.numpy() for words in threefry2x32((k0, k1), (numbers, _u32(0)))], axis=1)


class Stream:
    """The random numbers of one purpose, for all chains.

    Parameters
    ----------
    key : array_like
        The result of `keys`, uint32 [C, 2].
    """

    def __init__(self, key: tf.Tensor | np.ndarray) -> None:
        self._key = (key[:, 0, None], key[:, 1, None])  # each [C, 1]

    def bits(self, counters: tf.Tensor, elements: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Two uint32 words [K, C, m] for each counter, [K], chain and element, [m], or [C, m] if chains differ."""
        return threefry2x32(self._key, (_u32(elements), _u32(counters)[:, None, None]))

    def normal(self, counters: tf.Tensor, elements: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Standard normals by the inverse distribution function, [K, C, m], as `bits`."""
        high, low = self.bits(counters, elements)
        # The lowest bit is the sign; the others a probability in (0, 1/2), so that the tails keep the float's relative
        # precision: float32 reaches 6.3 standard deviations where a uniform on (0, 1) would stop at 5.4.
        if dtype == tf.float32:
            return _normal(high)
        positive = tf.equal(tf.bitwise.bitwise_and(high, _u32(1)), _u32(0))
        magnitude = tf.bitwise.right_shift(high, _u32(1))
        fraction = (tf.cast(low, dtype) + 0.5) * 2.0**-32
        x = -tf.math.ndtri((tf.cast(magnitude, dtype) + fraction) * 2.0**-32)
        return tf.where(positive, x, -x)

    def uniform(self, counters: tf.Tensor, elements: tf.Tensor) -> tf.Tensor:
        """Uniforms on (0, 1] in float64, [K, C, m], as `bits`: the largest words round to 1."""
        high, low = self.bits(counters, elements)
        return (tf.cast(high, tf.float64) + (tf.cast(low, tf.float64) + 0.5) * 2.0**-32) * 2.0**-32

    def integers(self, counters: tf.Tensor, elements: tf.Tensor, bound: int) -> tf.Tensor:
        """Independent uniform draws from {0, ..., bound - 1}, int32 [K, C, m]. From 64 bits: bias below 2^-32."""
        return self.integers_and_bits(counters, elements, bound)[0]

    def integers_and_bits(self, counters: tf.Tensor, elements: tf.Tensor, bound: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The same, and 32 further bits for each draw: uniform on {0, ..., 2^32 - 1}, independent of the draw."""
        high, low = self.bits(counters, elements)
        carry = _multiply_high(low, bound)
        total = high * _u32(bound) + carry
        overflow = tf.cast(total < carry, tf.uint32)
        return tf.bitcast(_multiply_high(high, bound) + overflow, tf.int32), total

    def log_gamma(self, counters: tf.Tensor, elements: tf.Tensor, shapes: tf.Tensor) -> tf.Tensor:
        """Logarithms of Gamma(shape, 1) draws for shapes [K, C, m], as `bits`; NaN where a shape is not positive.

        By rejection (Marsaglia and Tsang 2000, "A simple method for generating gamma
        variables"). For a shape below 1, log(U) / shape is added to a draw for shape + 1, so
        tiny draws keep their relative precision.
        """
        shape = tf.where((shapes > 0) & tf.math.is_finite(shapes), shapes, tf.ones_like(shapes))
        value = self._rejection(counters, elements, shape, _gamma_proposal, Draw.GAMMA)
        high, low = self._of(Draw.BOOST).bits(counters, elements)
        boost = tf.math.log(_open_uniform(high, low, shapes.dtype)) / shape
        value += tf.where(shape < 1, boost, tf.zeros_like(boost))
        return tf.where((shapes > 0) & tf.math.is_finite(shapes), value, tf.constant(np.nan, shapes.dtype))

    def poisson(self, counters: tf.Tensor, elements: tf.Tensor, means: tf.Tensor) -> tf.Tensor:
        """Poisson draws, of the type of the means [K, C, m], as `bits`; NaN where a mean is negative or infinite.

        By inversion for means below 10, else by transformed rejection (Hoermann 1993, "The transformed rejection
        method for generating Poisson random variables", algorithm PTRS).
        """
        allowed = (means >= 0) & tf.math.is_finite(means)
        mean = tf.where(allowed, means, tf.zeros_like(means))
        value = self._rejection(counters, elements, mean, _poisson_proposal, Draw.POISSON, _quick_poisson)
        return tf.where(allowed, value, tf.constant(np.nan, means.dtype))

    def _of(self, draw: Draw, attempt: int | tf.Tensor = 0) -> Stream:
        """The stream of one kind of draw and one attempt."""
        # No element of a parameter has the numbers from 2^31 on.
        k0, k1 = threefry2x32(self._key, (tf.bitwise.bitwise_or(_u32(attempt), _u32(1 << 31)), _u32(int(draw))))
        return Stream(tf.concat([k0, k1], axis=1))

    def _rejection(
        self,
        counters: tf.Tensor,
        elements: tf.Tensor,
        param: tf.Tensor,
        proposal: Callable,
        draw: Draw,
        quick: Callable | None = None,
    ) -> tf.Tensor:
        _, n_chains, width = param.shape
        numbers = tf.reshape(tf.broadcast_to(_u32(elements), [n_chains, width]), [-1])

        def by(made: Callable) -> Callable:
            def propose(attempt: tf.Tensor, at: tf.Tensor | None, param: tf.Tensor) -> tf.Tensor:
                stream = self._of(draw, attempt)
                if at is None:
                    return made(*stream.bits(counters, elements), param, attempt)
                key = tuple(tf.gather(k[:, 0], at // width % n_chains) for k in stream._key)
                counter = tf.gather(_u32(counters), at // (width * n_chains))
                words = threefry2x32(key, (tf.gather(numbers, at % (width * n_chains)), counter))
                return made(*words, param, attempt)

            return propose

        return rejection.drawn(by(proposal), param, by(quick) if quick else None)

    def permutation(self, counters: tf.Tensor, positions: tf.Tensor, bound: int) -> tf.Tensor:
        """The values at `positions`, int32 [K or 1, m], of a random permutation of {0, ..., bound - 1}: [K, C, m].

        There is one permutation for each counter and chain, and a value costs O(1): a keyed pseudo-random permutation,
        a Feistel network on the square grid a x a with a = ceil(sqrt(bound)). The few images that fall outside
        {0, ..., bound - 1} are permuted again until they fall inside ("cycle walking"); because a^2 exceeds bound by
        less than 2a + 1, that is rare when bound is large.
        """
        side = int(np.ceil(np.sqrt(bound)))
        rounds = 6 if bound > 4096 else 12
        words, _ = self.bits(counters, tf.range(rounds))
        round_keys = tf.unstack(words[..., None], axis=2)  # each [K, C, 1]

        def permute(x: tf.Tensor) -> tf.Tensor:
            left, right = x // _u32(side), x % _u32(side)
            for round_key in round_keys:
                total = left + _multiply_high(_mix(tf.bitwise.bitwise_xor(right, round_key)), side)
                left, right = right, tf.where(total >= _u32(side), total - _u32(side), total)
            return left * _u32(side) + right

        (x,) = tf.while_loop(
            lambda x: tf.reduce_any(x >= _u32(bound)),
            lambda x: (tf.where(x >= _u32(bound), permute(x), x),),
            (permute(tf.bitcast(positions, tf.uint32)[:, None, :]),),
        )
        return tf.bitcast(x, tf.int32)


def _open_uniform(high: tf.Tensor, low: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """A uniform on (0, 1] of the type."""
    if dtype == tf.float32:
        return (tf.cast(high, dtype) + 0.5) * 2.0**-32
    return (tf.cast(high, dtype) + (tf.cast(low, dtype) + 0.5) * 2.0**-32) * 2.0**-32


def _gamma_proposal(high: tf.Tensor, low: tf.Tensor, shape: tf.Tensor, attempt: tf.Tensor) -> tf.Tensor:
    """The log of a draw for `shape`, or shape + 1 if it is below 1; or `REFUSED`."""
    d = tf.where(shape < 1, shape + 1, shape) - 1 / 3
    y = tf.cast(_normal(high), shape.dtype) / (3 * tf.sqrt(d))
    far = tf.maximum(y, -0.999999)
    # log v - v + 1 + x^2/2d for v = (1 + y)^3, of which all but the rest of the series of the logarithm cancels.
    rest = tf.where(
        tf.abs(y) < 0.25,
        (y * y) * (y * y) * _polynomial(y, (1 / 11, -1 / 10, 1 / 9, -1 / 8, 1 / 7, -1 / 6, 1 / 5, -1 / 4)),
        tf.math.log1p(far) - far * (1 - far * (1 / 2 - far / 3)),
    )
    log_u = tf.cast(tf.math.log(_open_uniform(low, low, tf.float32)), shape.dtype)
    accepted = (y > -0.999999) & (log_u < 3 * d * rest)
    return tf.where(accepted, tf.math.log(d) + 3 * tf.math.log1p(far), tf.constant(rejection.REFUSED, shape.dtype))


INVERTED_BELOW = 10.0  # means
LAST_COUNT = 60  # of a mean below 10, exceeded with probability 1e-26
QUICK_COUNT = 12
QUICK_TAIL, QUICK_ERROR = 1e-5, 4e-7  # smaller probabilities, and differences, are left to float64
LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(16), 1)))


def _quick_poisson(high: tf.Tensor, low: tf.Tensor, mean: tf.Tensor, attempt: tf.Tensor) -> tf.Tensor:
    """A cheap draw in float32, or `REFUSED` where the full method is needed."""
    u, mean32 = _open_uniform(high, low, tf.float32), tf.cast(tf.minimum(mean, INVERTED_BELOW), tf.float32)
    state, near = _first_count(mean32), tf.zeros_like(u, tf.bool)
    for _ in range(QUICK_COUNT):
        near |= tf.abs(u - state[2]) < QUICK_ERROR
        state = _next_count(u, mean32, *state)
    _, _, tail, few = state
    refused = tf.constant(rejection.REFUSED, mean.dtype)
    small = tf.where((u < tail) | (u < QUICK_TAIL) | near, refused, tf.cast(few, mean.dtype))
    count, squeezed, _ = _transformed(high, low, mean)
    return tf.where(mean < INVERTED_BELOW, small, tf.where(squeezed, count, refused))


def _poisson_proposal(high: tf.Tensor, low: tf.Tensor, mean: tf.Tensor, attempt: tf.Tensor) -> tf.Tensor:
    """A draw, or `REFUSED`."""
    # Inversion needs one attempt.
    few = _inverted(_open_uniform(high, low, tf.float64), tf.where(attempt == 0, mean, tf.zeros_like(mean)))
    count, squeezed, ratio = _transformed(high, low, mean)
    accepted = squeezed | ((count >= 0) & (ratio <= _log_poisson(tf.maximum(count, 0), mean)))
    large = tf.where(accepted, count, tf.constant(rejection.REFUSED, mean.dtype))
    return tf.where(mean < INVERTED_BELOW, tf.cast(few, mean.dtype), large)


def _inverted(u: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """How many of P(X > 0), P(X > 1), ... exceed u, for means below `INVERTED_BELOW`; 0 for others.

    In float64: in float32 the rounding of a small tail would turn into counts that are far too large.
    """
    mean = tf.cast(tf.where(mean < INVERTED_BELOW, mean, tf.zeros_like(mean)), tf.float64)
    _, _, _, count = tf.while_loop(
        lambda k, mass, tail, count: (k < LAST_COUNT) & tf.reduce_any(u < tail),
        lambda *state: _next_count(u, mean, *state),
        _first_count(mean),
    )
    return count


def _first_count(mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """k = 0, P(X = 0), P(X > 0), and no count yet."""
    return tf.constant(0), tf.exp(-mean), -tf.math.expm1(-mean), tf.zeros_like(mean)


def _next_count(
    u: tf.Tensor, mean: tf.Tensor, k: tf.Tensor, mass: tf.Tensor, tail: tf.Tensor, count: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The same for k + 1, where u < P(X > k)."""
    exceeds = u < tail
    mass *= mean / tf.cast(k + 1, mean.dtype)
    return k + 1, mass, tf.where(exceeds, tail - mass, tail), count + tf.cast(exceeds, mean.dtype)


def _transformed(high: tf.Tensor, low: tf.Tensor, mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A proposal of PTRS, whether it is accepted without its probability, and otherwise up to which log probability."""
    mean = tf.maximum(mean, INVERTED_BELOW)
    b = 0.931 + 2.53 * tf.sqrt(mean)
    a = -0.059 + 0.02483 * b
    u = _open_uniform(high, high, mean.dtype) - 0.5
    v = _open_uniform(low, low, mean.dtype)
    us = 0.5 - tf.abs(u)
    us = tf.maximum(us, 2.0**-33)
    count = tf.floor((2 * a / us + b) * u + mean + 0.43)
    squeezed = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    ratio = tf.math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b))
    hopeless = (us < 0.013) & (v > us)
    return count, squeezed, tf.where(hopeless, tf.constant(np.inf, mean.dtype), ratio)


def _log_poisson(count: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """The log probability of a count, for means of at least 10.

    For large counts by Loader's deviance (2000, "Fast and accurate computation of binomial probabilities"), in which
    nothing large cancels.
    """
    mean = tf.maximum(mean, INVERTED_BELOW)
    factorials = tf.constant(LOG_FACTORIALS, mean.dtype)
    last = len(LOG_FACTORIALS) - 1
    few = tf.gather(factorials, tf.cast(tf.minimum(count, last), tf.int32))
    direct = count * tf.math.log(mean) - mean - few
    k = tf.maximum(count, last)
    e = (k - mean) / mean
    near = e**2 * _polynomial(e, (1 / 56, -1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2))
    deviance = mean * tf.where(tf.abs(e) < 0.05, near, k / mean * tf.math.log(k / mean) - e)
    stirling = (1 / 12 - (1 / 360 - 1 / (1260 * k**2)) / k**2) / k
    return tf.where(count < last, direct, -deviance - stirling - 0.5 * tf.math.log(2 * np.pi * k))


def _normal(high: tf.Tensor) -> tf.Tensor:
    """A standard normal in float32 from one word, as `Stream.normal` makes it."""
    positive = tf.equal(tf.bitwise.bitwise_and(high, _u32(1)), _u32(0))
    x = _central_normal_quantile((tf.cast(tf.bitwise.right_shift(high, _u32(1)), tf.float32) + 0.5) * 2.0**-32)
    return tf.where(positive, x, -x)


def _central_normal_quantile(tail: tf.Tensor) -> tf.Tensor:
    """x with P(Z > x) = tail for tail in (0, 1/2], in float32.

    Giles (2010), "Approximating the erfinv function", single precision: two polynomials in w = -log(1 - y^2) for
    y = 1 - 2 tail; here w is computed from the tail itself, where 1 - y^2 would cancel.
    """
    w = -tf.math.log(4.0 * tail * (1.0 - tail))
    centre = _polynomial(
        w - 2.5,
        (
            2.81022636e-08,
            3.43273939e-07,
            -3.5233877e-06,
            -4.39150654e-06,
            0.00021858087,
            -0.00125372503,
            -0.00417768164,
            0.246640727,
            1.50140941,
        ),
    )
    far = _polynomial(
        tf.sqrt(w) - 3.0,
        (
            -0.000200214257,
            0.000100950558,
            0.00134934322,
            -0.00367342844,
            0.00573950773,
            -0.0076224613,
            0.00943887047,
            1.00167406,
            2.83297682,
        ),
    )
    return np.float32(np.sqrt(2.0)) * (1.0 - 2.0 * tail) * tf.where(w < 5.0, centre, far)


def _polynomial(x: tf.Tensor, coefficients: tuple[float, ...]) -> tf.Tensor:
    value = tf.fill(tf.shape(x), tf.constant(coefficients[0], x.dtype))
    for c in coefficients[1:]:
        value = value * x + c
    return value


def _mix(x: tf.Tensor) -> tf.Tensor:
    """A bijection of uint32 with full avalanche (Wellons' "lowbias32" constants), the Feistel round function."""
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u32(16))) * _u32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u32(15))) * _u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _u32(16)))


def _multiply_high(x: tf.Tensor, factor: int) -> tf.Tensor:
    """The high 32 bits of the 64-bit product of a uint32 and a constant below 2^32: x scaled to {0, ..., factor - 1}.

    It uses products of 16 bits, since the obvious cast to uint64, shift and cast back is compiled wrongly: for the last
    element of a row of 8k + 1, XLA (TensorFlow 2.21, CPUs with AVX-512) stores 8 bytes where 4 belong, and so zeroes
    the 4 bytes behind.
    """
    low, high = _u32(factor & 0xFFFF), _u32(factor >> 16)
    x_low, x_high = tf.bitwise.bitwise_and(x, _u32(0xFFFF)), tf.bitwise.right_shift(x, _u32(16))
    middle = x_high * low + tf.bitwise.right_shift(x_low * low, _u32(16))
    other = x_low * high + tf.bitwise.bitwise_and(middle, _u32(0xFFFF))
    return x_high * high + tf.bitwise.right_shift(middle, _u32(16)) + tf.bitwise.right_shift(other, _u32(16))

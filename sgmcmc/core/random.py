"""Counter-based randomness: every draw is a function of (seed, purpose, chain, counter, element).

There is no state. So block lengths, thinning, progress bars and resuming cannot change a chain, and chain c has the
same numbers for any number of chains. Only this file draws random numbers.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as
1, 2, 3"), in TensorFlow operations. TensorFlow's own generators give different floats inside and outside XLA. This one
gives the same words and indices in both, on every device, and normals that agree up to rounding.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import rejection
from sgmcmc.core.tracing import traced_once
from sgmcmc.core.trees import Tree
from sgmcmc.core.variates import normal, u32
from sgmcmc.core.xla import multiply_high

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


class Purpose(enum.IntEnum):
    """The purpose of a stream of random numbers; streams of different purposes are independent."""

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
    SECOND = 19
    THIRD = 20


class Draw(enum.IntEnum):
    """The purpose of a stream derived from another."""

    GAMMA = 1
    POISSON = 2


class Proposals(NamedTuple):
    """The proposals for a kind of draw: ``full(high, low, attempt, param)`` of two words, `quick` as in `rejection`."""

    draw: Draw
    full: Callable[..., tf.Tensor]
    quick: Callable[..., tf.Tensor] | None = None


GAMMA = Proposals(Draw.GAMMA, rejection.log_proposal)
POISSON = Proposals(Draw.POISSON, rejection.proposal, rejection.quick_proposal)


def _rotate_left(x: tf.Tensor, r: int) -> tf.Tensor:
    return tf.bitwise.bitwise_or(tf.bitwise.left_shift(x, u32(r)), tf.bitwise.right_shift(x, u32(32 - r)))


@traced_once
def threefry2x32(k0: tf.Tensor, k1: tf.Tensor, x0: tf.Tensor, x1: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Encrypt the counter (x0, x1) under the key (k0, k1); uint32 tensors that broadcast against each other."""
    k2 = tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(k0, k1), u32(PARITY))
    keys = (k0, k1, k2)
    x0, x1 = x0 + k0, x1 + k1
    for group in range(5):
        for r in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = tf.bitwise.bitwise_xor(_rotate_left(x1, r), x0)
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + u32(group + 1)
    return x0, x1


def fresh_seed() -> int:
    return secrets.randbits(63)


def child_seed(seed: int, purpose: Purpose) -> int:
    """A seed for a run within a run."""
    high, low = threefry2x32(u32(seed), u32(seed >> 32), u32(int(purpose)), u32(1))
    return int(high) << 32 | int(low)


def keys(seed: int, purpose: Purpose, chains: int | range) -> np.ndarray:
    """The keys of these chains, uint32 [C, 2]; they depend on the lowest 64 bits of the seed."""
    chains = range(chains) if isinstance(chains, int) else chains
    numbers = tf.bitcast(tf.range(chains.start, chains.stop), tf.uint32)
    k0, k1 = threefry2x32(u32(seed), u32(seed >> 32), u32(int(purpose)), u32(0))
    return np.stack([words.numpy() for words in threefry2x32(k0, k1, numbers, u32(0))], axis=1)


class Stream:
    """The random numbers of one purpose, for all chains, from their `keys`, uint32 [C, 2]."""

    def __init__(self, key: tf.Tensor | np.ndarray) -> None:
        self._key = (key[:, 0, None], key[:, 1, None])  # each [C, 1]

    def bits(self, counters: tf.Tensor, elements: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Two uint32 words [K, C, m] for each counter, [K], chain and element, [m], or [C, m] if chains differ."""
        return threefry2x32(*self._key, u32(elements), u32(counters)[:, None, None])

    def normal(self, counters: tf.Tensor, elements: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Standard normals by the inverse distribution function, [K, C, m], as `bits`."""
        high, low = self.bits(counters, elements)
        # The lowest bit is the sign; the others a probability in (0, 1/2), so that the tails keep the float's relative
        # precision: float32 reaches 6.3 standard deviations where a uniform on (0, 1) would stop at 5.4.
        if dtype == tf.float32:
            return normal(high)
        positive = tf.equal(tf.bitwise.bitwise_and(high, u32(1)), u32(0))
        magnitude = tf.bitwise.right_shift(high, u32(1))
        fraction = (tf.cast(low, dtype) + 0.5) * 2.0**-32
        x = -tf.math.ndtri((tf.cast(magnitude, dtype) + fraction) * 2.0**-32)
        return tf.where(positive, x, -x)

    def uniform(self, counters: tf.Tensor, elements: tf.Tensor) -> tf.Tensor:
        """Uniforms on (0, 1] in float64, [K, C, m], as `bits`: the largest words round to 1."""
        high, low = self.bits(counters, elements)
        return (tf.cast(high, tf.float64) + (tf.cast(low, tf.float64) + 0.5) * 2.0**-32) * 2.0**-32

    def integers(self, counters: tf.Tensor, elements: tf.Tensor, bound: int | tf.Tensor) -> tf.Tensor:
        """Independent uniform draws from {0, ..., bound - 1}, int32 [K, C, m]. From 64 bits: bias below 2^-32.

        The bound is a number, or one for each counter and chain, int32 [K, C, 1].
        """
        return self.integers_and_bits(counters, elements, bound)[0]

    def integers_and_bits(
        self, counters: tf.Tensor, elements: tf.Tensor, bound: int | tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """As `integers`, with 32 further bits for each draw: uniform on {0, ..., 2^32 - 1}, independent of the draw."""
        high, low = self.bits(counters, elements)
        draw, rest = _scaled(high, low, u32(bound))
        return tf.bitcast(draw, tf.int32), rest

    def log_gamma(self, counters: tf.Tensor, elements: tf.Tensor, shapes: tf.Tensor) -> tf.Tensor:
        """Logarithms of Gamma(shape, 1) draws for shapes [K, C, m], as `bits`; NaN where a shape is not positive."""
        allowed = (shapes > 0) & tf.math.is_finite(shapes)
        value = self._rejection(counters, elements, tf.where(allowed, shapes, tf.ones_like(shapes)), GAMMA)
        return tf.where(allowed, value, tf.constant(np.nan, shapes.dtype))

    def poisson(self, counters: tf.Tensor, elements: tf.Tensor, means: tf.Tensor) -> tf.Tensor:
        """Poisson draws, of the type of the means [K, C, m], as `bits`; NaN where a mean is negative or infinite."""
        allowed = (means >= 0) & tf.math.is_finite(means)
        value = self._rejection(counters, elements, tf.where(allowed, means, tf.zeros_like(means)), POISSON)
        return tf.where(allowed, value, tf.constant(np.nan, means.dtype))

    def _rejection(self, counters: tf.Tensor, elements: tf.Tensor, param: tf.Tensor, proposals: Proposals) -> tf.Tensor:
        _, n_chains, width = param.shape
        numbers = tf.reshape(tf.broadcast_to(u32(elements), [n_chains, width]), [-1])

        def by(made: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
            def propose(attempt: tf.Tensor, at: tf.Tensor | None, param: tf.Tensor) -> tf.Tensor:
                stream = self._of(proposals.draw, attempt)
                if at is None:
                    return made(*stream.bits(counters, elements), attempt, param)
                key = tuple(tf.gather(k[:, 0], at // width % n_chains) for k in stream._key)
                counter = tf.gather(u32(counters), at // (width * n_chains))
                words = threefry2x32(*key, tf.gather(numbers, at % (width * n_chains)), counter)
                return made(*words, attempt, param)

            return propose

        return rejection.drawn(by(proposals.full), param, by(proposals.quick) if proposals.quick else None)

    def _of(self, draw: Draw, attempt: int | tf.Tensor = 0) -> Stream:
        """The stream of one kind of draw and one attempt."""
        # The numbers of the elements of a parameter are below 2^31.
        k0, k1 = threefry2x32(*self._key, tf.bitwise.bitwise_or(u32(attempt), u32(1 << 31)), u32(int(draw)))
        return Stream(tf.concat([k0, k1], axis=1))

    def permutation(
        self, counters: tf.Tensor, positions: tf.Tensor, bound: int | tf.Tensor, least: int | None = None
    ) -> tf.Tensor:
        """The values at `positions`, int32 [K or 1, m], of a random permutation of {0, ..., bound - 1}: [K, C, m].

        The bound is a number, or one for each counter and chain, int32 [K, C, 1], with `least` the smallest.

        Each counter and chain has its own permutation, a Feistel network on the square grid a x a with
        a = ceil(sqrt(bound)), so a value costs O(1). The few images outside {0, ..., bound - 1} are permuted again
        until they fall inside ("cycle walking").
        """
        side = u32(_side(bound))
        rounds = 6 if (bound if least is None else least) > 4096 else 12
        words, _ = self.bits(counters, tf.range(rounds))
        round_keys = tf.unstack(words[..., None], axis=2)  # each [K, C, 1]

        def permute(x: tf.Tensor, outside: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            image = _feistel(x, side, *round_keys)
            x = tf.where(outside, image, x)
            return x, x >= u32(bound)

        x = tf.broadcast_to(tf.bitcast(positions, tf.uint32)[:, None, :], [*words.shape[:2], positions.shape[1]])
        # The first permutation is inside the loop, so that XLA compiles it only once.
        x, _ = tf.while_loop(lambda _, outside: tf.reduce_any(outside), permute, (x, tf.ones(x.shape, tf.bool)))
        return tf.bitcast(x, tf.int32)


def _side(bound: int | tf.Tensor) -> int | tf.Tensor:
    """ceil(sqrt(bound)); for a Python number without operations, which take time to trace."""
    if isinstance(bound, int | np.integer):
        return int(np.ceil(np.sqrt(bound)))
    return tf.math.ceil(tf.sqrt(tf.cast(bound, tf.float64)))


@traced_once
def _scaled(high: tf.Tensor, low: tf.Tensor, bound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The highest 32 of the 96 bits of (high 2^32 + low) bound, and the next 32."""
    carry = multiply_high(low, bound)
    total = high * bound + carry
    overflow = tf.cast(total < carry, tf.uint32)
    return multiply_high(high, bound) + overflow, total


@traced_once
def _feistel(x: tf.Tensor, side: tf.Tensor, *round_keys: tf.Tensor) -> tf.Tensor:
    """The image of x in the square grid of this side, with a round for each key."""
    left, right = x // side, x % side
    for round_key in round_keys:
        left, right = right, _feistel_round(left, right, round_key, side)
    return left * side + right


@traced_once
def _feistel_round(left: tf.Tensor, right: tf.Tensor, round_key: tf.Tensor, side: tf.Tensor) -> tf.Tensor:
    total = left + multiply_high(_mix(tf.bitwise.bitwise_xor(right, round_key)), side)
    return tf.where(total >= side, total - side, total)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """A bijection of uint32 with full avalanche (Wellons' "lowbias32" constants), the Feistel round function."""
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, u32(16))) * u32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, u32(15))) * u32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, u32(16)))


OF_CHAINS = (
    Purpose.MINIBATCH,
    Purpose.NOISE,
    Purpose.REFRESH,
    Purpose.INITIAL,
    Purpose.MONITOR,
    Purpose.GIBBS,
    Purpose.LATENT,
    Purpose.SECOND,
    Purpose.THIRD,
)


OF_MINIBATCHES = (Purpose.MINIBATCH, Purpose.MONITOR)


def keys_of_chains(seed: int, chains: range, shared_minibatch: bool = False) -> Tree:
    """The keys for all purposes, {"keys": [purposes, C, 2]}; `key_of` selects from them."""

    def numbers(purpose: Purpose) -> range:
        # A minibatch that all chains share is that of chain 0, whichever chains these are.
        return range(len(chains)) if shared_minibatch and purpose in OF_MINIBATCHES else chains

    return {"keys": tf.constant(np.stack([keys(seed, purpose, numbers(purpose)) for purpose in OF_CHAINS]))}


def key_of(constants: Tree, purpose: Purpose) -> tf.Tensor:
    return constants["keys"][OF_CHAINS.index(purpose)]


def seeds(constants: Tree, purpose: Purpose, iterations: tf.Tensor) -> tf.Tensor:
    """The seeds of a user's function, two integers for each iteration and chain, int32 [K, C, 2]."""
    words = Stream(key_of(constants, purpose)).bits(iterations, tf.zeros([1], tf.int32))  # 2 of [K, C, 1]
    return tf.bitcast(tf.concat(words, axis=2), tf.int32)

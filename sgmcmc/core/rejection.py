"""Rejection sampling of Gamma and Poisson variates: only rejected elements are proposed again.

The accepted value of an element depends on its own random numbers alone, not on how many others were rejected.

Gamma variates: Marsaglia and Tsang (2000, "A simple method for generating gamma variables"). For a shape below 1,
log(U) / shape is added to a draw for shape + 1, so tiny draws keep their relative precision.

Poisson variates: inversion for means below 10, and otherwise transformed rejection (Hoermann 1993, "The transformed
rejection method for generating Poisson random variables", algorithm PTRS).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from sgmcmc.core.variates import normal, open_uniform, polynomial

REFUSED = np.nan
FEW = 4096  # up to so many elements are all proposed again, which is cheaper than finding the rejected ones
SHARE = 16  # the queue has room for one in this many elements


def drawn(
    propose: Callable[..., tf.Tensor], param: tf.Tensor, quick: Callable[..., tf.Tensor] | None = None
) -> tf.Tensor:
    """The first accepted proposal of each element, in the shape of the distributions' parameters.

    ``propose(attempt, at, param)`` returns proposals, `REFUSED` where they are rejected: of the elements `at`, int32
    [m] in C order, with parameters [m], or of all if `at` is None. (These keep their shape, since a reshape between
    the words of the generator and their use would make XLA's code grow exponentially.) `quick` is a cheaper `propose`
    for attempt 0. Every value that it accepts equals that of `propose`.
    """
    size = param.shape.num_elements()
    if size <= FEW:
        none = tf.fill(param.shape, tf.constant(REFUSED, param.dtype))
        return _accepted(lambda attempt: propose(attempt, None, param), none, 0)
    value = tf.reshape((quick or propose)(tf.constant(0), None, param), [-1])
    flat, queue = tf.reshape(param, [-1]), max(size // SHARE, FEW)

    def again(value: tf.Tensor) -> tuple[tf.Tensor]:
        at = _first_refused(value, queue)
        place = tf.minimum(at, size - 1)
        of_queue = tf.gather(flat, place)
        some = tf.where(at < size, tf.constant(REFUSED, value.dtype), tf.zeros([queue], value.dtype))
        some = _accepted(lambda attempt: propose(attempt, place, of_queue), some, 0 if quick else 1)
        longer = tf.concat([value, tf.zeros([1], value.dtype)], axis=0)  # the last place is for unused slots
        return (tf.tensor_scatter_nd_update(longer, at[:, None], some)[:size],)

    (value,) = tf.while_loop(lambda value: tf.reduce_any(tf.math.is_nan(value)), again, (value,))
    return tf.reshape(value, param.shape)


def _accepted(propose: Callable[[tf.Tensor], tf.Tensor], value: tf.Tensor, attempt: int) -> tf.Tensor:
    _, value = tf.while_loop(
        lambda attempt, value: tf.reduce_any(tf.math.is_nan(value)),
        lambda attempt, value: (attempt + 1, tf.where(tf.math.is_nan(value), propose(attempt), value)),
        (tf.constant(attempt), value),
    )
    return value


def _first_refused(value: tf.Tensor, n: int) -> tf.Tensor:
    """The places of the first n rejected elements, int32 [n], padded with the size."""
    size = value.shape[0]
    refused = tf.math.is_nan(value)
    rank = _running_count(refused)
    slot = tf.where(refused & (rank <= n), rank - 1, n)
    places = tf.tensor_scatter_nd_update(tf.fill([n + 1], size), slot[:, None], tf.range(size))
    return places[:n]


def _running_count(flags: tf.Tensor) -> tf.Tensor:
    """The cumulative count, int32; by rows first, since XLA's cumsum is quadratic."""
    size, width = flags.shape[0], 64
    padded = tf.pad(tf.cast(flags, tf.float32), [[0, -size % width]])
    rows = tf.reshape(padded, [-1, width])
    within = tf.matmul(rows, tf.linalg.band_part(tf.ones([width, width]), 0, -1))  # exact: whole numbers up to 64
    totals = tf.cast(within[:, -1], tf.int32)
    before = tf.cumsum(totals, exclusive=True)
    return tf.reshape(tf.cast(within, tf.int32) + before[:, None], [-1])[:size]


def log_proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """The logarithm of a draw, or `REFUSED`; NaN where the shape is NaN."""
    d = tf.where(shape < 1, shape + 1, shape) - 1 / 3
    y = tf.cast(normal(high), shape.dtype) / (3 * tf.sqrt(d))
    far = tf.maximum(y, -0.999999)
    # log v - v + 1 + x^2/2d for v = (1 + y)^3, where all but the remainder of the logarithm's series cancels.
    rest = tf.where(
        tf.abs(y) < 0.25,
        (y * y) * (y * y) * polynomial(y, (1 / 11, -1 / 10, 1 / 9, -1 / 8, 1 / 7, -1 / 6, 1 / 5, -1 / 4)),
        tf.math.log1p(far) - far * (1 - far * (1 / 2 - far / 3)),
    )
    log_u, log_accepted = tf.math.log(open_uniform(low, low, shape.dtype)), 3 * d * rest
    # Given acceptance, U divided by the acceptance probability is uniform again.
    boost = tf.where(shape < 1, (log_u - log_accepted) / shape, tf.zeros_like(shape))
    value = tf.math.log(d) + 3 * tf.math.log1p(far) + boost
    return tf.where((y > -0.999999) & (log_u < log_accepted), value, tf.constant(REFUSED, shape.dtype))


INVERTED_BELOW = 10.0  # means
LAST_COUNT = 60  # of a mean below 10, exceeded with probability 1e-26
QUICK_COUNT = 12
QUICK_TAIL, QUICK_ERROR = 1e-5, 4e-7  # smaller probabilities, and differences, are left to float64
LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(16), 1)))


def quick_proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """A cheap draw in float32, or `REFUSED` where the full method is needed."""
    u, mean32 = open_uniform(high, low, tf.float32), tf.cast(tf.minimum(mean, INVERTED_BELOW), tf.float32)
    state, near = _first_count(mean32), tf.zeros_like(u, tf.bool)
    for _ in range(QUICK_COUNT):
        near |= tf.abs(u - state[2]) < QUICK_ERROR
        state = _next_count(u, mean32, *state)
    _, _, tail, few = state
    refused = tf.constant(REFUSED, mean.dtype)
    small = tf.where((u < tail) | (u < QUICK_TAIL) | near, refused, tf.cast(few, mean.dtype))
    count, squeezed, _ = _transformed(high, low, mean)
    return tf.where(mean < INVERTED_BELOW, small, tf.where(squeezed, count, refused))


def proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """A draw, or `REFUSED`; inversion needs one attempt."""
    few = _inverted(open_uniform(high, low, tf.float64), tf.where(attempt == 0, mean, tf.zeros_like(mean)))
    count, squeezed, ratio = _transformed(high, low, mean)
    accepted = squeezed | ((count >= 0) & (ratio <= log_probability(tf.maximum(count, 0), mean)))
    large = tf.where(accepted, count, tf.constant(REFUSED, mean.dtype))
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
    """The state for k + 1, where u < P(X > k)."""
    exceeds = u < tail
    mass *= mean / tf.cast(k + 1, mean.dtype)
    return k + 1, mass, tf.where(exceeds, tail - mass, tail), count + tf.cast(exceeds, mean.dtype)


def _transformed(high: tf.Tensor, low: tf.Tensor, mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A proposal of PTRS, whether its probability is not needed to accept it, and the log probability it needs else."""
    mean = tf.maximum(mean, INVERTED_BELOW)
    b = 0.931 + 2.53 * tf.sqrt(mean)
    a = -0.059 + 0.02483 * b
    u = open_uniform(high, high, mean.dtype) - 0.5
    v = open_uniform(low, low, mean.dtype)
    us = 0.5 - tf.abs(u)
    us = tf.maximum(us, 2.0**-33)
    count = tf.floor((2 * a / us + b) * u + mean + 0.43)
    squeezed = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    ratio = tf.math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b))
    hopeless = (us < 0.013) & (v > us)
    return count, squeezed, tf.where(hopeless, tf.constant(np.inf, mean.dtype), ratio)


def log_probability(count: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """The log probability of a count, for means of at least 10.

    Large counts use Loader's deviance (2000, "Fast and accurate computation of binomial probabilities"), in which
    no large terms cancel.
    """
    mean = tf.maximum(mean, INVERTED_BELOW)
    factorials = tf.constant(LOG_FACTORIALS, mean.dtype)
    last = len(LOG_FACTORIALS) - 1
    few = tf.gather(factorials, tf.cast(tf.minimum(count, last), tf.int32))
    direct = count * tf.math.log(mean) - mean - few
    k = tf.maximum(count, last)
    e = (k - mean) / mean
    near = e**2 * polynomial(e, (1 / 56, -1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2))
    deviance = mean * tf.where(tf.abs(e) < 0.05, near, k / mean * tf.math.log(k / mean) - e)
    stirling = (1 / 12 - (1 / 360 - 1 / (1260 * k**2)) / k**2) / k
    return tf.where(count < last, direct, -deviance - stirling - 0.5 * tf.math.log(2 * np.pi * k))

"""The arguments `minibatchSize` and `subsampling`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import AUTO, POSITIVE, is_auto, require_number
from sgmcmc.arguments.trial import require_pure
from sgmcmc.core.errors import IN_OPERATIONS, attempted, refused, warn_user
from sgmcmc.core.files import checksum
from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.tracing import trace
from sgmcmc.dataset import Shards
from sgmcmc.dataset.arrays import numeric
from sgmcmc.dataset.bundles import Bundles
from sgmcmc.minibatch import Minibatch
from sgmcmc.minibatch.adaptive import PART
from sgmcmc.minibatch.adaptive import adaptive as in_parts
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.symmetric import symmetric
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import weighted
from sgmcmc.minibatch.within_shards import within_shards
from sgmcmc.run.checkpoint import summed, traced_identity
from sgmcmc.run.product import Sizing


@dataclass(frozen=True)
class preferential:  # noqa: N801 - reads as a function where it is used
    """Minibatches that prefer large gradients, for the argument `subsampling`.

    Observations are drawn with replacement in proportion to weights, and each term of
    the gradient is divided by n times its probability. Every probability is positive, so
    the estimate stays unbiased, with less noise [1]_. The weights are computed
    once, at the mode: the run searches for it, and the chain starts there. For plain
    gradients the weights are the norms of the gradients at the mode (eq. 11). For
    estimates from differences, such as control variates, they are the root mean square
    of each difference over draws from the normal approximation of the posterior. To
    first order this is the square root of tr(H_i Sigma H_i^T), with the observation's
    Hessian H_i and the covariance Sigma of the posterior (eq. 16). With a
    `preconditioner`, the norms are taken in its coordinates.

    Parameters
    ----------
    weights : array_like, optional
        Your own weights in place of these, (N,) and positive. An array as `subsampling`
        is the same, but without a floor.
    floor : float, default 0.1
        The share of the draws that are uniform, in [0, 1]. The probability of every
        observation is then at least ``floor / N``, so that its weight is at most
        ``1 / floor`` times its weight in uniform minibatches. With 0, observations whose
        terms vanish at the mode get a tenth of the mean weight, with a warning.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import preferential, sgld
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_t(3, size=1000)
    >>> dataset = {"x": x, "y": rng.random(1000) < 1 / (1 + np.exp(-x))}
    >>> def logLik(params, dataset):
    ...     eta = params["slope"] * dataset["x"]
    ...     return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))
    >>> expected = [
    ...     sgld(
    ...         logLik, dataset, {"slope": 0.0}, minibatchSize=10, nIters=10, verbose=False, seed=1,
    ...         subsampling=subsampling,
    ...     ).settings["expected"]["stepsize"]
    ...     for subsampling in ("uniform", preferential())
    ... ]
    >>> bool(expected[1] > 2 * expected[0])
    True
    """

    weights: Sequence[float] | np.ndarray | None = None
    floor: float = 0.1


@dataclass(frozen=True)
class adaptive:  # noqa: N801
    """Minibatches that grow with the distance from the mode, for the argument `minibatchSize`.

    With control variates, gradient noise is smaller near the mode, so fewer observations
    suffice there. Each gradient uses the number of observations that keeps a bound on the
    variance of its noise at a threshold [1]_::

        n = |theta - mode|^2 * sum(L_i^2 / p_i) / threshold

    where L_i is the Lipschitz constant of an observation's gradient and p_i its
    probability. The number n is at most N, and is rounded up to a multiple of a quarter
    of `pilot`, or of 32 if that is smaller. ``out.sampleStats`` holds the numbers:
    "minibatch_size" in each iteration, over all its leaps, and "observations" over all
    iterations so far. Without a threshold, a pilot chain of 2000 iterations sets it to
    the bound at the 95% quantile of its squared distances. At that distance n is then
    the pilot's size, and the L_i cancel.

    Parameters
    ----------
    lipschitz : array_like, optional
        The constants L_i, (N,), needed if there is a `threshold`: see
        `sgmcmc.diagnostics.lipschitzLogistic`.
    threshold : float, optional
        The bound on the variance of the gradient noise, summed over all elements of
        `params`. By default a pilot chain sets it.
    pilot : int or float, default 0.001
        The minibatch size of the pilot chain and of the search for the mode: a number
        from 1 to N or a proportion of N in (0, 1).

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS, eq. 19.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import adaptive, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=10_000)
    >>> dataset = {"x": x, "y": rng.random(10_000) < 1 / (1 + np.exp(-x))}
    >>> def logLik(params, dataset):
    ...     eta = params["slope"] * dataset["x"]
    ...     return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))
    >>> out = sgldcv(
    ...     logLik, dataset, {"slope": 0.0}, stepsize=1e-4, minibatchSize=adaptive(pilot=0.1), nIters=2000,
    ...     verbose=False, seed=1,
    ... )
    >>> bool(out.sampleStats["observations"][-1] < 0.5 * 1000 * 2000)
    True
    """

    lipschitz: Sequence[float] | np.ndarray | None = None
    threshold: float | None = None
    pilot: float = 0.001


GRADIENTS, CHAINS = 128, 2  # of the trial
FAR = 6.0  # standard errors: the chance of a false warning is 1e-8


def checked_scheme(
    of: str, scheme: Callable[[int, int], Any], n_data: int, n: int, dtype: tf.DType
) -> tuple[Minibatch, dict[str, Any]]:
    """The minibatches of the user's scheme, and what identifies it, as JSON. It may issue a warning of bias."""
    label = f"subsampling of {of}"
    must = f"{label} {IN_OPERATIONS}"
    made = attempted(must, lambda: scheme(n_data, n))
    if not isinstance(made, Minibatch):
        raise ValueError(f"{label} must return a Minibatch; got {made!r}.")
    if made.size != n or made.wants_importance or made.parts:
        raise ValueError(f"{label} must return a Minibatch of size {n}, without importance or parts; got {made}.")
    if made.scale is not None and not np.isclose(made.scale * n, n_data, rtol=1e-6):
        raise ValueError(f"{label} must have the scale N/n, {n_data / n}, or weights; got {made.scale}.")
    constants = attempted(must, lambda: made.prepare(None))
    key = keys(0, Purpose.MINIBATCH, CHAINS)
    counters = tf.constant(np.arange(GRADIENTS, dtype=np.uint32))

    def draw(counters: tf.Tensor) -> Any:
        return made.draw(Stream(key), counters, constants)

    traced = attempted(must, lambda: trace(draw, counters))
    require_pure(label, traced.graph, "Use the stream that `draw` is given.")
    indices, weights = attempted(must, lambda: traced(counters))
    _require_indices_and_weights(label, made, indices, weights, n_data, dtype)
    shape = indices.shape
    of_each = np.full(shape, made.scale) if weights is None else np.broadcast_to(np.asarray(weights, np.float64), shape)
    if not (np.isfinite(of_each).all() and (of_each > 0).all()):
        raise ValueError(f"{label} must draw positive finite weights; got a minimum of {of_each.min()}.")
    _warn_of_bias(label, np.asarray(indices, np.float64) / n_data, of_each, n_data)
    values = summed([] if weights is None else [weights])
    return made, {"own": checksum(np.asarray(indices)), "draw": traced_identity(values, traced)}


def _require_indices_and_weights(
    label: str, made: Minibatch, indices: tf.Tensor, weights: tf.Tensor | None, n_data: int, dtype: tf.DType
) -> None:
    shape, wanted = (GRADIENTS, CHAINS, made.size), "none" if made.scale is not None else "some"
    if indices.shape != shape or indices.dtype != tf.int32 or (weights is None) != (made.scale is not None):
        of_weights = None if weights is None else list(weights.shape)
        got = f"{indices.dtype.name}{list(indices.shape)} and weights {of_weights}"
        must = f"draw int32 indices [K, C, n], here {list(shape)}, and {wanted} weights"
        raise ValueError(f"{label} must {must}; got {got}.")
    if weights is not None and weights.dtype != dtype:
        raise ValueError(f"{label} must draw weights of type {dtype.name}; got {weights.dtype.name}.")
    least, most = np.min(indices), np.max(indices)
    if least < 0 or most >= n_data:
        raise ValueError(f"{label} must draw indices from 0 to {n_data - 1}; got {least} to {most}.")


def _warn_of_bias(label: str, place: np.ndarray, weights: np.ndarray, n_data: int) -> None:
    """Warn if the weighted sums of 1, i or i^2 over the observations i of a minibatch are clearly biased."""
    everywhere = np.arange(n_data) / n_data if n_data < 10**6 else (np.arange(10**6) + 0.5) / 10**6
    for power in (0, 1, 2):
        sums = (weights * place**power).sum(axis=2).ravel()
        exact = n_data * (everywhere**power).mean()
        error = max(sums.std(ddof=1) / np.sqrt(sums.size), 1e-6 * exact)
        if abs(sums.mean() - exact) > FAR * error:
            warn_user(
                f"{label} draws minibatches whose weighted sums are biased: the mean of {sums.size} sums of "
                f"(i/N)^{power} over the observations i is {sums.mean():.6g}, and the sum over all is {exact:.6g}. The "
                "draws are then not from the posterior."
            )
            return


SUBSAMPLING = {
    "uniform": without_replacement,
    "withReplacement": with_replacement,
    "reshuffled": reshuffled,
    "symmetric": symmetric,
}
WITHIN = {"uniform": False, "withReplacement": True}  # for shards: whether with replacement
SCHEMES = ", ".join(map(repr, SUBSAMPLING)) + ", preferential(), N positive weights or a function (N, n) -> Minibatch"
SOME, FEWEST = 0.01, 2  # until a size is found: a proportion of N, and the least number
SHARE = (lambda x: 0 <= x <= 1, "a number from 0 to 1")


class Minibatches(NamedTuple):
    n: int  # observations; for an adaptive size, those of the pilot chain
    minibatch: Minibatch
    sizing: Sizing | None  # what an adaptive size adapts to
    settings: dict[str, Any]  # as the user knows them, and as JSON
    of_leaps: Callable[[int], Minibatch] | None = None  # for several leaps per iteration, if that matters
    # If the size is to be found; that of `minibatch` is provisional.
    minibatch_of_size: Callable[[int], Minibatch] | None = None

    @property
    def is_number(self) -> bool:
        return self.sizing is None and self.minibatch_of_size is None

    def for_leaps(self, leaps: int) -> Minibatch:
        return self.minibatch if self.of_leaps is None else self.of_leaps(leaps)


def checked_minibatches(of: str, size: Any, subsampling: Any, n_data: int, dtype: tf.DType) -> Minibatches:
    if callable(subsampling) and not isinstance(subsampling, type):
        n = _number(of, "minibatchSize", size, n_data)
        own, identity = checked_scheme(of, subsampling, n_data, n, dtype)
        return Minibatches(n, own, None, {"minibatchSize": n, "subsampling": identity})
    made, drawn = _of_any_size(of, subsampling, n_data, dtype)
    if is_auto(size):
        n = max(round(SOME * n_data), min(FEWEST, n_data))
        return Minibatches(n, made(n), None, {"minibatchSize": AUTO, "subsampling": drawn}, minibatch_of_size=made)
    if not isinstance(size, adaptive):
        n = _number(of, "minibatchSize", size, n_data)
        return Minibatches(n, made(n), None, {"minibatchSize": n, "subsampling": drawn})
    n = _number(of, "pilot of adaptive", size.pilot, n_data, least=1)
    sizing = Sizing(made(n), *_bound(of, size, n_data))
    constants = None if sizing.lipschitz is None else checksum(sizing.lipschitz)
    adapts = {"pilot": n, "threshold": sizing.threshold, "lipschitz": constants}
    parts = in_parts(made(min(PART, max(n // 4, 1))), n_data)
    return Minibatches(n, parts, sizing, {"minibatchSize": adapts, "subsampling": drawn})


def minibatches_of_bundles(of: str, size: Any, subsampling: Any, data: Bundles, dtype: tf.DType) -> Minibatches:
    """Minibatches of whole bundles, at least one; `size` is a number of groups, or a proportion of them."""
    made, drawn = _of_any_size(of, subsampling, data.size, dtype)
    if is_auto(size):
        n = max(round(SOME * data.size), FEWEST)
        return Minibatches(n, made(n), None, {"minibatchSize": AUTO, "subsampling": drawn}, minibatch_of_size=made)
    n = max(round(_number(of, "minibatchSize", size, data.n_groups, least=1) * data.size / data.n_groups), 1)
    return Minibatches(n, made(n), None, {"minibatchSize": data.as_counted(n), "subsampling": drawn})


def minibatches_within(of: str, size: Any, subsampling: Any, shards: Shards) -> Minibatches:
    """The minibatches of chains that stay on a shard for some iterations."""
    n, replace, least = _number(of, "minibatchSize", size, sum(shards.sizes)), WITHIN[subsampling], min(shards.sizes)
    if n > least and not replace:
        must = f"be at most the {least} observations of the smallest shard, or come with subsampling='withReplacement'"
        raise refused(of, "minibatchSize", must, f"{n} observations")

    def of_leaps(leaps: int) -> Minibatch:
        return within_shards(shards.sizes, n, shards.hop * leaps, replace)

    settings = {"minibatchSize": n, "subsampling": subsampling, "shards": shards._asdict()}
    return Minibatches(n, of_leaps(1), None, settings, of_leaps)


def _number(of: str, argument: str, size: Any, n_data: int, least: int = 0) -> int:
    """The number of observations; a proportion gives at least `least`."""
    must = f"be an integer in [1, N] or a proportion in (0, 1) of N = {n_data} observations"
    number = float(size) if isinstance(size, Real | np.floating | np.integer) and not isinstance(size, bool) else np.nan
    if 0 < number < 1:
        n = max(round(number * n_data), least)
        if n == 0:
            raise refused(of, argument, must, f"{size!r}, which rounds to 0 observations")
        return n
    if not 1 <= number <= n_data or not number.is_integer():
        raise refused(of, argument, must, repr(size))
    if number == 1 < n_data and not isinstance(size, int | np.integer):  # a proportion of 1, or one observation?
        raise refused(of, argument, must, f"{size!r}: give 1 for one observation, or N for all")
    return int(number)


def _of_any_size(of: str, subsampling: Any, n_data: int, dtype: tf.DType) -> tuple[Callable[[int], Minibatch], str]:
    """A function from a size to minibatches, and a name that identifies it."""
    if isinstance(subsampling, str) and subsampling in SUBSAMPLING:
        return lambda n: SUBSAMPLING[subsampling](n_data, n), subsampling
    if subsampling is None or isinstance(subsampling, str | type):
        got = "the class preferential, without brackets" if subsampling is preferential else repr(subsampling)
        raise refused(of, "subsampling", f"be {SCHEMES}", got)
    floor, given = 0.0, subsampling
    if isinstance(subsampling, preferential):
        floor, given = require_number("floor of preferential", of, subsampling.floor, SHARE), subsampling.weights
        if given is None:
            return lambda n: weighted(n_data, n, dtype, floor=floor), f"preferential, floor {floor}"
    weights = _of_observations(of, "subsampling", given, n_data, "weight")
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise refused(of, "subsampling", "give positive finite weights", f"a smallest weight of {weights.min()}")
    probabilities = (1 - floor) * weights / weights.sum() + floor / n_data
    text = f"weights {checksum(weights)}" + (f", floor {floor}" if floor else "")
    return lambda n: weighted(n_data, n, dtype, probabilities), text


def _bound(of: str, size: adaptive, n_data: int) -> tuple[float | None, np.ndarray | None]:
    """The threshold and the Lipschitz constants of an adaptive size."""
    argument, constants = "lipschitz of adaptive", None
    if size.lipschitz is not None:
        constants = _of_observations(of, argument, size.lipschitz, n_data, "number")
        if not (np.isfinite(constants).all() and (constants >= 0).all() and constants.any()):
            raise refused(of, argument, "give finite, nonnegative numbers", f"a minimum of {constants.min()}")
    if size.threshold is None:
        return None, None  # the pilot chain's bound has the same constants, which cancel
    if constants is None:
        raise refused(of, argument, "be given with a threshold", "None")
    return require_number("threshold of adaptive", of, size.threshold, POSITIVE), constants


def _of_observations(of: str, argument: str, value: Any, n_data: int, what: str) -> np.ndarray:
    array = numeric(argument, of, value).astype(np.float64)
    if array.shape != (n_data,):
        raise refused(of, argument, f"give one {what} for each of {n_data} observations", array.shape)
    return array

"""The arguments `minibatchSize` and `subsampling`."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.checksum import checksum
from sgmcmc.core.types import Minibatch
from sgmcmc.dataset.data import Shards
from sgmcmc.dataset.entry import described, numeric
from sgmcmc.minibatch.adaptive import PART
from sgmcmc.minibatch.adaptive import adaptive as in_parts
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.symmetric import symmetric
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import weighted
from sgmcmc.minibatch.within_shards import within_shards
from sgmcmc.run.pilot import Sizing
from sgmcmc.samplers._checks import AUTO, POSITIVE, is_auto, require_number
from sgmcmc.samplers._scheme import checked_scheme
from sgmcmc.samplers.subsampling import adaptive, preferential

SUBSAMPLING = {
    "uniform": without_replacement,
    "withReplacement": with_replacement,
    "reshuffled": reshuffled,
    "symmetric": symmetric,
}
WITHIN = {"uniform": False, "withReplacement": True}  # shards, and whether with replacement
SCHEMES = ", ".join(map(repr, SUBSAMPLING)) + ", preferential(), N positive weights or a function (N, n) -> Minibatch"
SOME, FEWEST = 0.01, 2  # until a size is found, a proportion, but so many
SHARE = (lambda x: 0 <= x <= 1, "a number from 0 to 1")


class Minibatches(NamedTuple):
    """What the two arguments ask for."""

    n: int  # observations; for an adaptive size, those of the pilot chain
    minibatch: Minibatch
    sizing: Sizing | None  # what an adaptive size adapts to
    settings: dict[str, Any]  # as the user knows them, and as JSON
    of_leaps: Callable[[int], Minibatch] | None = None  # for iterations of several, if that matters
    of_size: Callable[[int], Minibatch] | None = None  # if the size is to be found; `minibatch` then has some size

    @property
    def is_number(self) -> bool:
        """Whether the size is given as one number."""
        return self.sizing is None and self.of_size is None

    def for_leaps(self, leaps: int) -> Minibatch:
        """The minibatches of a sampler with so many in an iteration."""
        return self.minibatch if self.of_leaps is None else self.of_leaps(leaps)


def checked_minibatches(of: str, size: Any, subsampling: Any, n_data: int, dtype: tf.DType) -> Minibatches:
    """The minibatches that `size` and `subsampling` ask for, from N observations.

    Raises
    ------
    ValueError
        If one of the arguments is invalid.
    """
    if callable(subsampling) and not isinstance(subsampling, type):
        n = _number(of, "minibatchSize", size, n_data)
        own, identity = checked_scheme(of, subsampling, n_data, n, dtype)
        return Minibatches(n, own, None, {"minibatchSize": n, "subsampling": identity})
    made, drawn = _of_any_size(of, subsampling, n_data, dtype)
    if is_auto(size):
        n = max(round(SOME * n_data), min(FEWEST, n_data))
        return Minibatches(n, made(n), None, {"minibatchSize": AUTO, "subsampling": drawn}, of_size=made)
    if not isinstance(size, adaptive):
        n = _number(of, "minibatchSize", size, n_data)
        return Minibatches(n, made(n), None, {"minibatchSize": n, "subsampling": drawn})
    n = _number(of, "pilot of adaptive", size.pilot, n_data, least=1)
    pilot = made(n)
    if not pilot.independent:
        raise _refused(of, "subsampling", "draw each minibatch afresh, for an adaptive size", repr(subsampling))
    sizing = Sizing(pilot, *_bound(of, size, n_data))
    constants = None if sizing.lipschitz is None else checksum(sizing.lipschitz)
    adapts = {"pilot": n, "threshold": sizing.threshold, "lipschitz": constants}
    parts = in_parts(made(min(PART, max(n // 4, 1))), n_data)
    return Minibatches(n, parts, sizing, {"minibatchSize": adapts, "subsampling": drawn})


def minibatches_within(of: str, size: Any, subsampling: Any, shards: Shards) -> Minibatches:
    """Those of chains that stay on a shard for some iterations.

    Raises
    ------
    ValueError
        If one of the arguments is invalid.
    """
    if not isinstance(subsampling, str) or subsampling not in WITHIN:
        got = repr(subsampling) if isinstance(subsampling, str) else described(subsampling)
        raise _refused(of, "subsampling", f"be {' or '.join(map(repr, WITHIN))} for a dataset of shards", got)
    if isinstance(size, adaptive):
        raise _refused(of, "minibatchSize", "be a number for a dataset of shards", "adaptive")
    n, replace = _number(of, "minibatchSize", size, sum(shards.sizes)), WITHIN[subsampling]
    least = min(shards.sizes)
    if n > least and not replace:
        must = f"be at most the {least} observations of the smallest shard, or come with subsampling='withReplacement'"
        raise _refused(of, "minibatchSize", must, f"{n} observations")

    def of_leaps(leaps: int) -> Minibatch:
        return within_shards(shards.sizes, n, shards.hop * leaps, replace)

    settings = {"minibatchSize": n, "subsampling": subsampling, "shards": shards._asdict()}
    return Minibatches(n, of_leaps(1), None, settings, of_leaps)


def _refused(of: str, argument: str, must: str, got: Any) -> ValueError:
    return ValueError(f"{argument} of {of} must {must}; got {got}.")


def _number(of: str, argument: str, size: Any, n_data: int, least: int = 0) -> int:
    """The number of observations; a proportion gives at least `least`."""
    must = f"be an integer in [1, N] or a proportion in (0, 1) of N = {n_data} observations"
    number = float(size) if isinstance(size, Real | np.floating | np.integer) and not isinstance(size, bool) else np.nan
    if 0 < number < 1:
        n = max(round(number * n_data), least)
        if n == 0:
            raise _refused(of, argument, must, f"{size!r}, which rounds to 0 observations")
        return n
    if not 1 <= number <= n_data or not number.is_integer():
        raise _refused(of, argument, must, repr(size))
    if number == 1 < n_data and not isinstance(size, int | np.integer):  # a proportion of 1, or one observation?
        raise _refused(of, argument, must, f"{size!r}: give 1 for one observation, or N for all")
    return int(number)


def _of_any_size(of: str, subsampling: Any, n_data: int, dtype: tf.DType) -> tuple[Callable[[int], Minibatch], str]:
    """A function from a size to minibatches, and a name that identifies it."""
    if isinstance(subsampling, str):
        if subsampling not in SUBSAMPLING:
            raise _refused(of, "subsampling", f"be {SCHEMES}", repr(subsampling))
        return lambda n: SUBSAMPLING[subsampling](n_data, n), subsampling
    if subsampling is None or isinstance(subsampling, type):
        got = "the class preferential, without brackets" if subsampling is preferential else repr(subsampling)
        raise _refused(of, "subsampling", f"be {SCHEMES}", got)
    floor, given = 0.0, subsampling
    if isinstance(subsampling, preferential):
        floor, given = require_number("floor of preferential", of, subsampling.floor, SHARE), subsampling.weights
        if given is None:
            return lambda n: weighted(n_data, n, dtype, floor=floor), f"preferential, floor {floor}"
    weights = numeric("subsampling", of, given).astype(np.float64)
    if weights.shape != (n_data,):
        raise _refused(of, "subsampling", f"give one weight for each of {n_data} observations", weights.shape)
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise _refused(of, "subsampling", "give positive finite weights", f"a smallest weight of {weights.min()}")
    probabilities = (1 - floor) * weights / weights.sum() + floor / n_data
    text = f"weights {checksum(weights)}" + (f", floor {floor}" if floor else "")
    return lambda n: weighted(n_data, n, dtype, probabilities), text


def _bound(of: str, size: adaptive, n_data: int) -> tuple[float | None, np.ndarray | None]:
    constants = None if size.lipschitz is None else _checked_constants(of, size.lipschitz, n_data)
    if size.threshold is None:
        return None, None  # the pilot chain's bound has the same constants, which cancel
    if constants is None:
        raise _refused(of, "lipschitz of adaptive", "come with a threshold", "None")
    return require_number("threshold of adaptive", of, size.threshold, POSITIVE), constants


def _checked_constants(of: str, lipschitz: Any, n_data: int) -> np.ndarray:
    constants = numeric("lipschitz of adaptive", of, lipschitz).astype(np.float64)
    if constants.shape != (n_data,):
        raise _refused(
            of, "lipschitz of adaptive", f"give one number for each of {n_data} observations", constants.shape
        )
    if not (np.isfinite(constants).all() and (constants >= 0).all() and constants.any()):
        raise _refused(
            of, "lipschitz of adaptive", "give finite numbers that are not negative", f"a least of {constants.min()}"
        )
    return constants

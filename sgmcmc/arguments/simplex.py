"""The arguments of `scir` and `sgrld`, and a trial of `suffStats`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import is_list
from sgmcmc.arguments.common import CommonChoices
from sgmcmc.arguments.data import attempt_at_extremes, check_indices, require_number_before
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.trial import GATHERING, remedy, require_pure
from sgmcmc.core import compilation
from sgmcmc.core.chains import mapped
from sgmcmc.core.errors import IN_OPERATIONS, attempted, refused, require_flag, takes, warn_user
from sgmcmc.core.files import checksum
from sgmcmc.core.schedules import exploring
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.core.xla import operations
from sgmcmc.dataset import Data, extremes, may_be_index, spaced_rows
from sgmcmc.dataset.arrays import described, numeric
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import FetchedData
from sgmcmc.dataset.row_groups import RowGroups
from sgmcmc.dataset.shards import Joined
from sgmcmc.dataset.subset import random_subset
from sgmcmc.kernel.simplex import Counts
from sgmcmc.run.other_samplers import SimplexSampler
from sgmcmc.simplex import Rule
from sgmcmc.simplex.scale import Scale

LOOKED_AT = 64  # observations on which additivity is checked
ADDITIVE = 1e-4  # tolerance
MOST_COUNTS, COUNTS_OF_BLOCK = 10**8, 10**6  # up to the first, every observation in memory is checked by itself
ELSEWHERE = 1000  # observations checked by themselves if data are not in memory
FEW, SEEDS = 8, 4  # observations and seeds with which latent counts are checked to be sums
SEED = (1, 2)


@dataclass(frozen=True)
class SuffStats:
    """`suffStats` of one sampler."""

    sampler: str
    given: Callable
    start: Mapping[str, np.ndarray]
    data: Data
    n: int  # observations in a minibatch
    normalised: bool  # whether the parameters are probabilities

    def checked(self) -> Counts:
        """The function, with negative counts turned into NaN, since they would shift the distribution silently."""
        if not callable(self.given):
            raise self._refuse("be a function of (params, dataset) or of (params, dataset, seed)", repr(self.given))
        traced = self._traced()
        advice = "Take a third argument, seed, for tf.random.stateless_categorical and similar functions."
        require_pure(f"suffStats of {self.sampler}", traced.graph, advice)
        self._require_shapes(traced.structured_outputs)
        if any(map(GATHERING.fullmatch, operations(traced.graph))):
            self._require_indices()
        if self._takes_seed:
            self._try_latent(traced)
        else:
            self._require_masked(traced)
            self._try_on_some()
            self._try_on_each()

        def counts(params: Tree, data: Tree, *seed: tf.Tensor) -> Tree:
            found = self._of(params, data, *seed)
            return {name: tf.where(x < 0, tf.constant(np.nan, x.dtype), x) for name, x in found.items()}

        return Counts(counts, self._takes_seed)

    def _of(self, params: Tree, data: Tree, *seed: tf.Tensor) -> Tree:
        counts = self.given(dict(params), dict(data), *seed)
        if not isinstance(counts, Mapping) or set(counts) != set(self.start):
            raise TypeError(f"it must return a dict of counts with the names {sorted(self.start)}, not {counts!r}")
        dtype = self._dtype
        return {name: tf.cast(tf.convert_to_tensor(x, dtype_hint=dtype), dtype) for name, x in counts.items()}

    @cached_property
    def _dtype(self) -> tf.DType:
        return tf.as_dtype(next(iter(self.start.values())).dtype)

    @cached_property
    def _params(self) -> Tree:
        return {name: tf.constant(theta) for name, theta in self.start.items()}

    @cached_property
    def _takes_seed(self) -> bool:
        return takes(self.given, "seed", 2)

    @property
    def _seed(self) -> list[tf.Tensor]:
        return [tf.constant(SEED)] * self._takes_seed

    def _traced(self) -> Any:
        must = f"suffStats of {self.sampler} {IN_OPERATIONS} of {self._dtype.name} tensors"
        params = {name: tf.TensorSpec(theta.shape, self._dtype) for name, theta in self.start.items()}
        specs = [params, self.data.layout.specs([self.n]), *[tf.TensorSpec([2], tf.int32)] * self._takes_seed]
        return attempted(must, lambda: trace(self._of, *specs), lambda error: remedy(error, self._dtype, self.data))

    def _require_shapes(self, outputs: Mapping[str, tf.Tensor]) -> None:
        for name, counts in outputs.items():
            if counts.shape != (shape := self.start[name].shape):
                must = f"return counts of {name!r} in its shape, {shape}, summed over the observations"
                got = f"shape {counts.shape} for a minibatch of n = {self.n}"
                if not counts.shape.is_fully_defined():
                    got += "; use tf.reduce_sum of tf.one_hot, not tf.math.bincount"
                raise self._refuse(must, got)

    def _require_indices(self) -> None:
        if not self._takes_seed:
            check_indices(self.sampler, "suffStats", self._of, self.start, self.data)
            return
        tried = attempt_at_extremes(self.sampler, "suffStats", lambda *given: self._of(*given, *self._seed), self.start)

        def in_minibatches(observations: Mapping[str, np.ndarray]) -> None:
            n_rows = len(next(iter(observations.values())))
            for k in range(0, n_rows, self.n):
                at = np.resize(np.arange(k, n_rows), self.n)
                tried({name: entry[at] for name, entry in observations.items()})

        # Latent draws for all data take too long. If an index is out of range, so is one of the extremes.
        for part in self.data.parts if isinstance(self.data, Joined) else [self.data]:
            if isinstance(part, InMemory):
                arrays = part.arrays()
                rows = _rows_of_extremes(arrays, self.n)
                in_minibatches({name: entry[rows] for name, entry in arrays.items()})
            elif isinstance(part, FetchedData | RowGroups):
                part.watch(in_minibatches)

    def _require_masked(self, traced: Callable[..., Tree]) -> None:
        """Refuse counts of padding."""
        if not isinstance(self.data, RowGroups):
            return
        some, otherwise = self.data.shortest(self.n)
        counts = traced(self._params, some)
        others = (traced(self._params, rows) for rows in otherwise)
        if any((counts[name].numpy() != other[name].numpy()).any() for other in others for name in counts):
            raise self._refuse("not count padding; multiply by dataset['inside']", "other counts for other padding")

    def _try_latent(self, traced: Callable[..., Tree]) -> None:
        """Try one minibatch, and a few observations once and twice, since a sum differs between the two."""
        self._require_counts(traced(self._params, spaced_rows(self.data, self.n), *self._seed))
        few = spaced_rows(self.data, min(self.n, FEW))
        for k in range(SEEDS):  # by chance, a random number of counts may be the same
            totals = []
            for times in (1, 2):
                rows = {name: tf.concat([x] * times, 0) for name, x in few.items()}
                try:
                    counts = self._of(self._params, rows, tf.constant([k, 1]))
                except Exception:  # it may be a function of n observations only
                    return
                totals.append(sum(float(tf.reduce_sum(x)) for x in counts.values()))
            if totals[0] == 0 or not np.isclose(totals[0], totals[1], rtol=ADDITIVE):
                return
        got = "as many counts for some observations as for the same ones twice"
        raise self._refuse("be a sum over the observations", got)

    def _try_on_some(self) -> None:
        some = spaced_rows(self.data, LOOKED_AT)
        parts = (slice(None), slice(1), slice(1, None))
        any_number = f"take any number of observations, not only the n = {self.n} of a minibatch"

        def of(part: slice) -> Tree:
            return self._of(self._params, {name: x[part] for name, x in some.items()})

        whole, one, others = attempted(f"suffStats of {self.sampler} must {any_number}", lambda: list(map(of, parts)))
        self._require_counts(whole)
        for name, counts in whole.items():
            if not np.allclose(counts, one[name] + others[name], rtol=ADDITIVE, atol=ADDITIVE):
                raise self._refuse("be a sum over the observations", "one whose parts do not add up to the whole")

    def _try_on_each(self) -> None:
        """Try observations one by one: in a minibatch, others would hide a negative count."""
        size = sum(theta.size for theta in self.start.values())
        most = max(MOST_COUNTS // size, 1)
        data = random_subset(self.data, most if isinstance(self.data, InMemory) else min(most, ELSEWHERE), seed=0)

        def of_row(row: Tree) -> list[tf.Tensor]:
            counts = self._of(self._params, {name: x[None] for name, x in row.items()})
            greatest = tf.reduce_max(tf.stack([tf.reduce_max(x) for x in counts.values()]))
            return [greatest, *(tf.reduce_min(counts[name]) for name in sorted(counts))]

        def of_block(words: tf.Tensor) -> list[tf.Tensor]:
            greatest, *least = mapped(of_row, self.data.layout.unpack(words))
            return [tf.reduce_sum(tf.cast(greatest == 0, tf.int32)), *(tf.reduce_min(x) for x in least)]

        blocks = FullPass(data, of_block, max(1, COUNTS_OF_BLOCK // size))()
        empty, *least = np.array([[x.numpy() for x in block] for block in blocks]).T
        self._require_counts(dict(zip(sorted(self.start), map(np.min, least), strict=True)))
        if self.normalised and 0 < empty.sum() < data.size:
            warn_user(
                f"{int(empty.sum()):,} of {data.size:,} observations add nothing to the counts of suffStats. "
                f"Categories are numbered from 0, and tf.one_hot and similar functions leave out all others."
            )

    def _require_counts(self, counts: Tree) -> None:
        for name, x in counts.items():
            if not np.isfinite(x).all() or np.min(x) < 0:
                raise self._refuse(f"return counts of {name!r}, at least 0 and finite", float(np.min(x)))

    def _refuse(self, must: str, got: Any) -> ValueError:
        return refused(self.sampler, "suffStats", must, got)


def _rows_of_extremes(arrays: Mapping[str, np.ndarray], most: int) -> np.ndarray:
    """The observations with the extremes of each column, or of each entry if those are too many."""
    indices = [entry for entry in arrays.values() if may_be_index(entry)]
    at = [extremes(entry) for entry in indices]
    if sum(map(len, at)) > most:
        at = [np.unravel_index([entry.argmin(), entry.argmax()], entry.shape)[0] for entry in indices]
    return np.unique(np.concatenate([[0], *at]).astype(np.int64))


SUM_TO_ONE = 1e-3  # tolerance; probabilities are then divided by their sum


@dataclass(frozen=True)
class SimplexChoices(CommonChoices):
    suffStats: Callable
    alpha: Any
    normalise: bool
    logScale: bool

    def check(self) -> None:
        """Check the common choices, then those of the simplex, and last `suffStats`, by a trial."""
        super().check()
        require_number_before(self.sampler, self.data)
        _ = self.alphas
        for schedule in exploring(self.stepsizes).values():
            raise self.refuse("stepsize", "have explorationFraction=0, since there is no noise to leave out", schedule)
        if not self.minibatches.is_number:
            raise self.refuse("minibatchSize", "be a number", described(self.minibatchSize))
        if self.minibatches.minibatch.scale is None:
            raise self.refuse("subsampling", "be uniform, since suffStats takes no weights", "weights")
        _ = self.counts

    @cached_property
    def normalised(self) -> bool:
        return require_flag("normalise", self.sampler, self.normalise)

    @cached_property
    def log_scale(self) -> bool:
        return require_flag("logScale", self.sampler, self.logScale)

    def _start_of(self, label: str, value: Any) -> np.ndarray:
        """As logarithms if `logScale` is True."""
        given = super()._start_of(label, value)
        if not self.normalised:
            if not (given > 0).all():
                raise self.refuse(label, "be positive", f"a smallest element of {given.min()}")
            return np.log(given) if self.log_scale else given
        if given.ndim == 0 or given.shape[-1] < 2:
            raise self.refuse(label, "have at least 2 categories on its last axis", f"shape {given.shape}")
        totals = given.sum(axis=-1, keepdims=True)
        if (given < 0).any() or (np.abs(totals - 1) > SUM_TO_ONE).any():
            worst = float(totals.flat[np.abs(totals - 1).argmax()])
            got = f"a smallest element of {given.min()}" if (given < 0).any() else f"a sum of {worst:g}"
            raise self.refuse(label, "hold probabilities, at least 0, that sum to 1 over the last axis", got)
        if self.log_scale and (given == 0).any():
            raise self.refuse(label, "be positive if logScale=True", "a smallest element of 0")
        omega = given / totals
        return np.log(omega) if self.log_scale else omega

    @cached_property
    def chain_starts(self) -> dict[str, np.ndarray] | None:
        """Only positions are allowed."""
        if self.starts is not None and not isinstance(self.starts, Mapping) and not is_list(self.starts):
            must = "be None, a list of params, or a dict of arrays with nChains on the first axis"
            raise self.refuse("starts", must, described(self.starts))
        starts = super().chain_starts
        assert starts is None or isinstance(starts, dict)
        return starts

    @cached_property
    def alphas(self) -> dict[str, np.ndarray]:
        """`alpha` for each parameter, in its shape."""
        if isinstance(self.alpha, Mapping) and set(self.alpha) != set(self.start):
            must = f"have the keys of params, {sorted(self.start)}"
            raise self.refuse("alpha", must, f"keys {sorted(map(str, self.alpha))}")
        return {name: self._alpha_of(name, given) for name, given in self.given_alphas.items()}

    @property
    def given_alphas(self) -> dict[str, Any]:
        return dict(self.alpha) if isinstance(self.alpha, Mapping) else dict.fromkeys(self.start, self.alpha)

    def _alpha_of(self, name: str, value: Any) -> np.ndarray:
        label = f"alpha[{name!r}]" if isinstance(self.alpha, Mapping) else "alpha"
        array = numeric(label, self.sampler, value).astype(self.start[name].dtype)
        if not (np.isfinite(array).all() and (array > 0).all()):
            raise self.refuse(label, "be positive", described(value) if array.ndim else repr(value))
        shape = self.start[name].shape
        try:
            return np.ascontiguousarray(np.broadcast_to(array, shape))
        except ValueError:
            raise self.refuse(label, f"broadcast to the shape of params[{name!r}], {shape}", array.shape) from None

    @cached_property
    def counts(self) -> Counts:
        compilation.use()
        n = self.minibatches.n
        return SuffStats(self.sampler, self.suffStats, self.start, self.data, n, self.normalised).checked()

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {
            "alpha": {name: checksum(x) for name, x in self.alphas.items()},
            "normalise": self.normalised,
            "logScale": self.log_scale,
        }


def set_up(choices: SimplexChoices, rule: Rule) -> Sgmcmc:
    sampler = SimplexSampler(
        **choices.sampler_fields,
        settings=choices.settings,
        counts=choices.counts,
        rule=rule,
        alpha=choices.alphas,
        scale=Scale(choices.normalised, choices.log_scale),
    )
    return Sgmcmc(sampler, {"alpha": choices.given_alphas}, choices.dataset, seeded=choices.seed is not None)


COARSE = 10  # times the rounding of a logarithm, below which changes give a warning


def warn_of_rounding(choices: SimplexChoices) -> None:
    """Warn if the logarithm of theta, of the order of N, is too coarse for its changes in a step."""
    if choices.float_type == tf.float64:
        return
    for name, h in choices.stepsizes.items():
        if callable(h):
            continue
        change, resolution = np.sqrt(2 * h / choices.data.size), np.spacing(np.float32(np.log(choices.data.size / h)))
        if change < COARSE * resolution:
            warn_user(
                f"A step of {choices.sampler} with stepsize {h:g} changes the logarithm of params[{name!r}] by about "
                f"{change:.1g}, and float32 rounds it by {resolution:.1g}: use dtype='float64', or a larger stepsize."
            )

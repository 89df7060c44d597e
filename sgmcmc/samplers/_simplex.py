"""The arguments of `scir` and `sgrld`, checked, and the sampler made from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import process
from sgmcmc.core.chains import mapped
from sgmcmc.core.checksum import checksum
from sgmcmc.core.schedules import exploring
from sgmcmc.core.types import Tree
from sgmcmc.dataset.elsewhere import Elsewhere
from sgmcmc.dataset.entry import described, numeric
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.some import some_rows
from sgmcmc.run.simplex import SimplexSampler
from sgmcmc.samplers._checks import require_flag
from sgmcmc.samplers._common import CommonChoices
from sgmcmc.samplers._indices import attempt, gathers, require_in_range
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._trial import require_pure
from sgmcmc.simplex.rule import Rule
from sgmcmc.simplex.transition import Counts

SUM_TO_ONE = 1e-3  # tolerance; probabilities are then divided by their sum
LOOKED_AT = 64  # observations on which additivity is checked
ADDITIVE = 1e-4  # tolerance
MOST_COUNTS, COUNTS_OF_BLOCK = 10**8, 10**6  # up to so many, every observation is checked for negative counts


@dataclass
class SimplexChoices(CommonChoices):
    """The choices of a sampler on the simplex, each checked on first use."""

    suffStats: Callable
    alpha: Any
    normalise: bool
    logScale: bool

    @cached_property
    def normalised(self) -> bool:
        """`normalise`, checked."""
        return require_flag("normalise", self.sampler, self.normalise)

    @cached_property
    def log_scale(self) -> bool:
        """`logScale`, checked."""
        return require_flag("logScale", self.sampler, self.logScale)

    def _start_of(self, label: str, value: Any) -> np.ndarray:
        """As logarithms if `logScale` says so."""
        given = super()._start_of(label, value)
        if not self.normalised:
            if not (given > 0).all():
                raise self.refuse(label, "be positive", f"a least element of {given.min()}")
            return np.log(given) if self.log_scale else given
        if given.ndim == 0 or given.shape[-1] < 2:
            raise self.refuse(label, "have at least 2 categories on its last axis", f"shape {given.shape}")
        totals = given.sum(axis=-1, keepdims=True)
        if (given < 0).any() or (np.abs(totals - 1) > SUM_TO_ONE).any():
            worst = float(totals.flat[np.abs(totals - 1).argmax()])
            got = f"a least element of {given.min()}" if (given < 0).any() else f"a sum of {worst:g}"
            raise self.refuse(label, "hold probabilities, at least 0, that sum to 1 over the last axis", got)
        if self.log_scale and (given == 0).any():
            raise self.refuse(label, "be positive where logScale=True", "a least element of 0")
        omega = given / totals
        return np.log(omega) if self.log_scale else omega

    @cached_property
    def chain_starts(self) -> dict[str, np.ndarray] | None:
        """`starts`, checked: only positions are allowed."""
        if self.starts is not None and not isinstance(self.starts, Mapping):
            must = "be None or a dict of arrays with nChains on the first axis"
            raise self.refuse("starts", must, described(self.starts))
        starts = super().chain_starts
        assert starts is None or isinstance(starts, dict)
        return starts

    @cached_property
    def alphas(self) -> dict[str, np.ndarray]:
        """`alpha` for each parameter, in its shape."""
        if isinstance(self.alpha, Mapping) and set(self.alpha) != set(self.start):
            raise self.refuse(
                "alpha", f"have the keys of params, {sorted(self.start)}", f"keys {sorted(map(str, self.alpha))}"
            )
        return {name: self._alpha_of(name, given) for name, given in self.given_alphas.items()}

    @property
    def given_alphas(self) -> dict[str, Any]:
        """`alpha` for each parameter, as given."""
        return dict(self.alpha) if isinstance(self.alpha, Mapping) else dict.fromkeys(self.start, self.alpha)

    def _alpha_of(self, name: str, value: Any) -> np.ndarray:
        label = f"alpha[{name!r}]" if isinstance(self.alpha, Mapping) else "alpha"
        array = numeric(label, self.sampler, value).astype(self.start[name].dtype)
        if not (np.isfinite(array).all() and (array > 0).all()):
            raise self.refuse(label, "be positive", described(value) if array.ndim else repr(value))
        try:
            return np.ascontiguousarray(np.broadcast_to(array, self.start[name].shape))
        except ValueError:
            shape = self.start[name].shape
            raise self.refuse(label, f"broadcast to the shape of params[{name!r}], {shape}", array.shape) from None

    @cached_property
    def counts(self) -> Counts:
        """`suffStats`, tried on symbolic inputs and on some observations."""
        process.use()
        if not callable(self.suffStats):
            must = "be a function of (params, dataset) or of (params, dataset, seed)"
            raise self.refuse("suffStats", must, repr(self.suffStats))
        function, dtype, takes_seed = self.suffStats, self.float_type, _takes_seed(self.suffStats)
        shapes = {name: theta.shape for name, theta in self.start.items()}

        def of(params: Tree, data: Tree, *seed: tf.Tensor) -> Tree:
            counts = function(dict(params), dict(data), *seed)
            if not isinstance(counts, Mapping) or set(counts) != set(shapes):
                raise TypeError(f"it must return a dict of counts by the names {sorted(shapes)}, not {counts!r}")
            return {name: tf.cast(tf.convert_to_tensor(x, dtype_hint=dtype), dtype) for name, x in counts.items()}

        params = {name: tf.TensorSpec(shape, dtype) for name, shape in shapes.items()}
        rows, seed = self.data.layout.specs([self.minibatches.n]), [tf.TensorSpec([2], tf.int32)] * takes_seed
        try:
            traced = tf.function(of, autograph=False).get_concrete_function(params, rows, *seed)
        except Exception as error:
            raise ValueError(
                f"suffStats of {self.sampler} must be a function in TensorFlow operations of {dtype.name} tensors; "
                f"it raised {type(error).__name__}: {error}"
            ) from error
        require_pure(
            f"suffStats of {self.sampler}",
            traced.graph,
            "Take a third argument, seed, for tf.random.stateless_categorical and its like.",
        )
        for name, counts in traced.structured_outputs.items():
            if counts.shape != shapes[name]:
                must = f"return counts of {name!r} in its shape, {shapes[name]}, summed over the observations"
                raise self.refuse(
                    "suffStats", must, f"shape {counts.shape} for a minibatch of n = {self.minibatches.n}"
                )
        counts = Counts(lambda params, data, *seed: _refusing_negative(of(params, data, *seed)), takes_seed)
        if not takes_seed and gathers(of, params, rows):  # to draw latent categories for all data takes too long
            tried = attempt(self.sampler, "suffStats", of, self.start)
            if isinstance(self.data, InMemory):
                require_in_range(tried, self.data)
            elif isinstance(self.data, Elsewhere):
                self.data.watch(tried)
        if isinstance(self.data, InMemory):
            self._try_on_data(of, traced, takes_seed)
        return counts

    def _try_on_data(self, of: Callable[..., Tree], traced: Callable[..., Tree], takes_seed: bool) -> None:
        params = {name: tf.constant(theta) for name, theta in self.start.items()}
        if takes_seed:  # latent draws for the parts would differ from those for the whole
            self._require_counts(traced(params, some_rows(self.data, self.minibatches.n), tf.constant([1, 2])))
            return
        some = some_rows(self.data, LOOKED_AT)
        parts = (slice(None), slice(1), slice(1, None))
        try:
            whole, one, others = (of(params, {name: x[part] for name, x in some.items()}) for part in parts)
        except Exception as error:
            n = self.minibatches.n
            raise ValueError(
                f"suffStats of {self.sampler} must take any number of observations, not only the n = {n} of a "
                f"minibatch; it raised {type(error).__name__}: {error}"
            ) from error
        self._require_counts(whole)
        for name, counts in whole.items():
            if not np.allclose(counts, one[name] + others[name], rtol=ADDITIVE, atol=ADDITIVE):
                raise self.refuse(
                    "suffStats", "be a sum over the observations", "one whose parts do not add up to the whole"
                )
        if self.data.size * sum(theta.size for theta in self.start.values()) <= MOST_COUNTS:
            self._require_counts(self._least_of_each(of, params))

    def _require_counts(self, counts: Tree) -> None:
        for name, x in counts.items():
            if not np.isfinite(x).all() or np.min(x) < 0:
                least = float(np.min(x))
                raise self.refuse("suffStats", f"return counts of {name!r}, at least 0 and finite", least)

    def _least_of_each(self, of: Callable[..., Tree], params: Tree) -> Tree:
        """The least count that any single observation adds: in a minibatch, others would hide a negative one."""

        def of_row(row: Tree) -> Tree:
            counts = of(params, {name: x[None] for name, x in row.items()})
            return {name: tf.reduce_min(x) for name, x in counts.items()}

        def of_block(words: tf.Tensor) -> list[tf.Tensor]:
            least = mapped(of_row, self.data.layout.unpack(words))
            return [tf.reduce_min(least[name]) for name in sorted(least)]

        size = max(1, COUNTS_OF_BLOCK // sum(theta.size for theta in self.start.values()))
        blocks = [[x.numpy() for x in least] for least in FullPass(self.data, of_block, size)()]
        return dict(zip(sorted(params), np.min(blocks, axis=0), strict=True))

    @property
    def settings(self) -> dict[str, Any]:
        """The user's choices by R's names, for JSON."""
        return super().settings | {
            "alpha": {name: checksum(x) for name, x in self.alphas.items()},
            "normalise": self.normalised,
            "logScale": self.log_scale,
        }


def set_up(choices: SimplexChoices, rule: Rule) -> Sgmcmc:
    """The sampler with these choices."""
    start, alphas, stepsize = choices.start, choices.alphas, choices.stepsizes
    for schedule in exploring(stepsize).values():
        raise choices.refuse("stepsize", "have explorationFraction=0, since there is no noise to leave out", schedule)
    if choices.minibatches.minibatch.parts:
        raise choices.refuse("minibatchSize", "be a number", "adaptive")
    if choices.minibatches.minibatch.scale is None:
        raise choices.refuse("subsampling", "be uniform, since suffStats knows no weights", "weights")
    sampler = SimplexSampler(
        name=choices.sampler,
        data=choices.data,
        dtype=choices.float_type,
        minibatch=choices.minibatches.minibatch,
        stepsize=stepsize,
        start=start,
        seed=choices.random_seed,
        n_chains=choices.n_chains,
        starts=choices.chain_starts,
        shared_minibatch=choices.shared_minibatch,
        settings=choices.settings,
        counts=choices.counts,
        rule=rule,
        alpha=alphas,
        normalised=choices.normalised,
        log_scale=choices.log_scale,
    )
    own = {"alpha": choices.given_alphas}
    return Sgmcmc(sampler, own, choices.dataset, seeded=choices.seed is not None)


def _refusing_negative(counts: Tree) -> Tree:
    """Negative counts become NaN, since they would shift the distribution silently."""
    return {name: tf.where(x < 0, tf.constant(np.nan, x.dtype), x) for name, x in counts.items()}


def _takes_seed(function: Callable) -> bool:
    """Whether a third argument must be given, or is called seed; other defaults are the function's own."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable without a signature
        return False
    seed = signature.parameters.get("seed")
    if seed is not None and seed.kind is seed.POSITIONAL_OR_KEYWORD:
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return True
    return False

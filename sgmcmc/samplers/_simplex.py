"""The arguments of `scir` and `sgrld`, checked, and the sampler made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sgmcmc.core import process
from sgmcmc.core.checks import require_flag
from sgmcmc.core.checksum import checksum
from sgmcmc.dataset.entry import described, numeric
from sgmcmc.kernel.simplex import Counts
from sgmcmc.run.simplex import SimplexSampler
from sgmcmc.samplers._checks import is_list
from sgmcmc.samplers._common import CommonChoices
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._suff_stats import SuffStats
from sgmcmc.simplex.rule import Rule
from sgmcmc.simplex.scale import Scale

SUM_TO_ONE = 1e-3  # tolerance; probabilities are then divided by their sum


@dataclass(frozen=True)
class SimplexChoices(CommonChoices):
    """The choices of a sampler on the simplex."""

    suffStats: Callable
    alpha: Any
    normalise: bool
    logScale: bool

    def check(self) -> None:
        """Check those of all samplers, then those of the simplex; last `suffStats`, by a trial."""
        super().check()
        _ = self.alphas
        self.refuse_exploring(", since there is no noise to leave out")
        if not self.minibatches.is_number:
            raise self.refuse("minibatchSize", "be a number", described(self.minibatchSize))
        if self.minibatches.minibatch.scale is None:
            raise self.refuse("subsampling", "be uniform, since suffStats knows no weights", "weights")
        _ = self.counts

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
        """`suffStats`, checked."""
        process.use()
        given = SuffStats(self.sampler, self.suffStats, self.start, self.data, self.minibatches.n, self.normalised)
        return given.checked()

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
    sampler = SimplexSampler(
        **choices.of_sampler,
        settings=choices.settings,
        counts=choices.counts,
        rule=rule,
        alpha=choices.alphas,
        scale=Scale(choices.normalised, choices.log_scale),
    )
    own = {"alpha": choices.given_alphas}
    return Sgmcmc(sampler, own, choices.dataset, seeded=choices.seed is not None)

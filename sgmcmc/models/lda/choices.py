"""The arguments of `lda` that it shares with the samplers on the simplex, and what it knows besides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sgmcmc.kernel.simplex import Counts
from sgmcmc.samplers._simplex import SimplexChoices


@dataclass(frozen=True)
class LdaChoices(SimplexChoices):
    """The choices of `lda`."""

    n_tokens: int
    method: str
    docTopicPrior: float
    sweeps: int

    @cached_property
    def counts(self) -> Counts:
        """`suffStats`, which needs no trial here, and the counts of each topic if all had as many."""
        in_all = {name: np.full(x.shape[:-1], self.n_tokens / len(x), x.dtype) for name, x in self.start.items()}
        return Counts(self.suffStats, takes_seed=True, in_all=in_all)

    @property
    def settings(self) -> dict[str, Any]:
        """As for the samplers, with what `lda` has of its own."""
        own = {"method": self.method, "docTopicPrior": self.docTopicPrior, "sweeps": self.sweeps}
        return super().settings | own

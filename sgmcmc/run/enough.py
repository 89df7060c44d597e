"""When a run is long enough, and how long its parts are between which this is looked at.

The lengths are multiples of one that is fixed before the run. Which of them come depends on the draws alone. So the
same seed ends at the same length on every machine, also after an interruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from sgmcmc.core.types import Tree
from sgmcmc.output.convergence import RHAT, SHIFT, Found

PER_DRAW = 4  # stored draws for each independent one; in an autoregression this loses 2% of what all would tell
UNITS = 20  # of the expected length
AT_FIRST, UNIT = 10_000, 1000  # iterations, if nothing is expected
PATIENCE, MOST = 20, 10**6  # times what is expected, or iterations, after which a run ends
AGREED = 400  # independent draws that R-hat takes in any case, if there are thousands of elements several times as many
MARGIN, LARGEST = 1.1, 2.0  # beyond what the last look says; from one length to the next


@dataclass(frozen=True)
class Enough:
    """What makes a run long enough: `wanted` effective draws of every element, with R-hat below RHAT.

    Parameters
    ----------
    wanted : float
        Effective draws of all chains together.
    of_means : bool
        Whether these are draws for the mean, sd^2 / mcse^2; else those of the bulk and the tails, whichever are fewer.
    max_iterations : int or None
        By default PATIENCE times as many as are expected, or MOST.
    max_seconds : float or None
    thins : bool
        Whether `thin` follows from what is expected.
    """

    wanted: float
    of_means: bool = False
    max_iterations: int | None = None
    max_seconds: float | None = None
    thins: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """As users gave it."""
        return {"mcse": self.wanted**-0.5} if self.of_means else {"ess": self.wanted}

    def thin(self, tuning: Tree) -> int:
        """The iterations from one stored draw to the next, if they are not given."""
        return max(1, int(float(tuning["iterations"]) / PER_DRAW)) if tuning else 1

    def lengths(self, tuning: Tree, n_chains: int, thin: int, burn_in: int) -> Lengths:
        """The lengths that a run may have."""
        if tuning:
            needed = float(tuning["iterations"]) * self.wanted / n_chains
            patient = PATIENCE * max(1.0, AGREED / self.wanted) * needed
            unit, first, most = thin * ceil(needed / UNITS / thin), UNITS, burn_in + ceil(patient)
        else:
            unit, first, most = thin * ceil(UNIT / thin), ceil(AT_FIRST / UNIT), MOST
        return Lengths(burn_in, unit, first, self.max_iterations or max(most, burn_in + unit))

    def factor(self, found: Found) -> float:
        """How many times as many draws are needed as there are."""
        draws = self.wanted / found.ess if found.ess else np.inf
        between = (found.rhat**2 - 1) / (RHAT**2 - 1)  # falls as the number of draws grows, if chains mix
        return max(draws, between, found.shift / SHIFT)


@dataclass(frozen=True)
class Lengths:
    """Multiples of `unit` iterations after `burn_in`, and at last `most`."""

    burn_in: int
    unit: int
    first: int
    most: int

    def begin(self) -> int:
        """The first length."""
        return self._at(self.first)

    def after(self, length: int, factor: float) -> int:
        """The next, if so many times as many draws are needed."""
        kept = length - self.burn_in
        return self._at(max(kept // self.unit + 1, ceil(kept * min(factor * MARGIN, LARGEST) / self.unit)))

    def _at(self, units: int) -> int:
        return min(self.burn_in + units * self.unit, self.most)

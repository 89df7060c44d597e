"""The stage between the choices and the chain: the mode is known, and nothing has been run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgmcmc.core.types import Mode, State, Transition, Tree
from sgmcmc.dataset.data import Data

TUNING = "tuning"  # beside the constants, in what is found before a chain begins


@dataclass(frozen=True)
class Prepared:
    """A chain, or several, about to begin; whole runs and sessions start from it.

    Parameters
    ----------
    transition : Transition
    constants : Tree
        What the transition is given besides the state, such as what the gradient estimator worked out at the mode.
    state : State
        The state before the first iteration.
    data : Data
    n_chains : int or None
        None is a single chain whose draws have no chain axis.
    mode : Mode or None
        The mode, where it was sought.
    tuning : Tree
        What was worked out of the stepsize, where it was to be found.
    """

    transition: Transition
    constants: Tree
    state: State
    data: Data
    n_chains: int | None = None
    mode: Mode | None = None
    tuning: Tree = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """What was worked out of the stepsize, as users know it, and as JSON."""
        if not self.tuning:
            return {}
        told = {
            key: {name: np.asarray(x).tolist() for name, x in value.items()}
            if isinstance(value, dict)
            else np.asarray(value).tolist()
            for key, value in self.tuning.items()
        }
        return {"stepsize": dict.fromkeys(told["sd"], told["stepsize"]), "expected": told}

    @property
    def chains(self) -> int:
        """How many run side by side."""
        return self.n_chains or 1

"""The stage before the chain: the mode is known, and no iteration has run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgmcmc.core.types import Kernel, Mode, State, Tree
from sgmcmc.dataset.data import Data

TUNING = "tuning"  # the key of the tuning among the constants that are computed before a chain begins


@dataclass(frozen=True)
class Prepared:
    """A chain, or several, about to begin; whole runs and sessions start from it.

    Parameters
    ----------
    kernel : Kernel
    constants : Tree
        The constants of the kernel, such as what the gradient estimator computed at
        the mode.
    state : State
        The state before the first iteration.
    data : Data
    n_chains : int or None
        None for a single chain whose draws have no chain axis.
    mode : Mode or None
        The mode, if there was a search.
    tuning : Tree
        The result of stepsize="auto"; else empty.
    size : int or None
        The size of the minibatches, if it was found.
    """

    kernel: Kernel
    constants: Tree
    state: State
    data: Data
    n_chains: int | None = None
    mode: Mode | None = None
    tuning: Tree = field(default_factory=dict)
    size: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The result of stepsize="auto" by users' names, as JSON."""
        if not self.tuning:
            return {}
        expected = {
            key: {name: np.asarray(x).tolist() for name, x in value.items()}
            if isinstance(value, dict)
            else np.asarray(value).tolist()
            for key, value in self.tuning.items()
        }
        found = {} if self.size is None else {"minibatchSize": self.size}
        return {"stepsize": dict.fromkeys(expected["sd"], expected["stepsize"]), "expected": expected} | found

    @property
    def chains(self) -> int:
        """The number of chains."""
        return self.n_chains or 1

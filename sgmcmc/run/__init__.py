"""Chains before they run, and the plan of their iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.transforms import LOW_RANK
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data
from sgmcmc.kernel import Kernel, State
from sgmcmc.model import Mode

TUNING = "tuning"  # the key of the tuning among the constants that are computed before a chain begins


@dataclass(frozen=True)
class Prepared:
    """One or several chains about to begin; runs and sessions start from them."""

    kernel: Kernel
    constants: Tree  # of the kernel, such as what the estimator computed at the mode
    state: State
    data: Data
    n_chains: int | None = None  # None for a single chain whose draws have no chain axis
    mode: Mode | None = None
    tuning: Tree = field(default_factory=dict)  # the result of stepsize="auto"
    size: int | None = None  # of the minibatches, if it was found

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
        expected["minibatchSize"] = self.data.as_counted(int(self.tuning["minibatchSize"]))
        found = {} if self.size is None else {"minibatchSize": self.data.as_counted(self.size)}
        return {"stepsize": dict.fromkeys(expected["sd"], expected["stepsize"]), "expected": expected} | found

    @property
    def chains(self) -> int:
        return self.n_chains or 1


@dataclass(frozen=True)
class CurvatureUse:
    """What the curvature at the mode is used for."""

    preconditioner: str | np.ndarray | None = None  # a name, or a root A of the matrix, [D, D] or [D]
    tolerance: float | None = None  # of sds, for stepsize="auto"; else None
    weighs: bool = False  # whether minibatches need the importance of the observations
    targets_sandwich: bool = False  # whether the chain has the sandwich covariance, not the posterior's

    @property
    def needs_mode(self) -> bool:
        return isinstance(self.preconditioner, str) or self.tolerance is not None or self.weighs

    @property
    def is_low_rank(self) -> bool:
        """Whether there are too many elements for matrices of all of them."""
        return isinstance(self.preconditioner, str) and self.preconditioner == LOW_RANK


STRETCH_SECONDS = 0.1


class Stretch(NamedTuple):
    """The iterations of one call of the loop."""

    begin: int  # how many iterations there are before it
    end: int  # how many there are after it
    due: int  # the first count of iterations after which a row is recorded; beyond `end` if none is
    n_rows: int
    thin: int  # iterations from one recorded row to the next


@dataclass(frozen=True)
class Plan:
    """Which iterations are recorded: the last of every `thin` after the first `burn_in`; none if `thin` is None."""

    n_iterations: int
    thin: int | None = 1
    burn_in: int = 0

    @property
    def n_rows(self) -> int:
        return self.rows_by(self.n_iterations)

    def stretch(self, begin: int, end: int, capacity: int) -> Stretch:
        """The stretch from `begin` to at most `end`, with at most `capacity` rows."""
        end = min(end, self.n_iterations)
        if self.thin is None:
            return Stretch(begin, end, end + 1, 0, 1)
        before = self.rows_by(begin)
        due = self.burn_in + (before + 1) * self.thin
        end = min(end, due + (capacity - 1) * self.thin)
        return Stretch(begin, end, due, self.rows_by(end) - before, self.thin)

    def rows_by(self, iteration: int) -> int:
        """The number of rows recorded in the first `iteration` iterations."""
        return 0 if self.thin is None else max(iteration - self.burn_in, 0) // self.thin


class Pace:
    """The length of stretches: short ones keep Ctrl-C responsive, long ones cost less. It cannot change the draws."""

    def __init__(self, longest: int, shortest: int = 1) -> None:
        self.length, self._longest, self._shortest = shortest, longest, shortest

    def adapt(self, made: int, elapsed: float) -> None:
        """Adapt the length, given that `made` iterations took `elapsed` seconds."""
        if elapsed > 2 * STRETCH_SECONDS:
            self.length = max(made // 2, self._shortest)
        elif (
            elapsed < STRETCH_SECONDS / 2 and 2 * made > self.length
        ):  # stretches cut short by the end of a block are uninformative
            self.length = min(2 * self.length, self._longest)

"""Failures with a name of their own; everything else is a ValueError or TypeError raised before any computation."""

from __future__ import annotations

import numpy as np


class DivergenceError(FloatingPointError):
    """A chain left the finite numbers.

    Attributes
    ----------
    iteration : int
        The first iteration, counted from 1, after which the state was no longer finite.
    chain : int
        The first chain concerned, counted from 0.
    parameter : str or None
        The parameter concerned; None when the state is finite but the log posterior estimate is not.
    draws : dict of numpy.ndarray
        What had been stored before the failure, in the shape that the sampler would have returned.
    """

    stepsize_argument = "stepsize"

    def __init__(self, iteration: int, chain: int, parameter: str | None, draws: dict[str, np.ndarray]) -> None:
        self.iteration, self.chain, self.parameter, self.draws = iteration, chain, parameter, draws
        what = f"parameter {parameter!r}" if parameter is not None else "the log posterior estimate"
        super().__init__(
            f"{what} of chain {chain} was no longer finite after iteration {iteration}; "
            f"try decreasing {self.stepsize_argument}{self._kept()}."
        )

    def _kept(self) -> str:
        stored = max((array.shape[0] for array in self.draws.values()), default=0)
        return f" (the {stored} draws stored before are in the attribute draws)" if stored else ""


class ModeSearchError(DivergenceError):
    """The search for the posterior mode, which control variates start from, left the finite numbers."""

    stepsize_argument = "optStepsize (the mode search diverged)"

"""The errors of a run.

Everything else is a ValueError or TypeError, raised before any computation.
"""

from __future__ import annotations

import numpy as np


class DivergenceError(FloatingPointError):
    """A chain reached NaN or infinity.

    Attributes
    ----------
    iteration : int
        The first iteration, counted from 1, after which a number is NaN or infinite.
    chain : int
        The first chain with such a number, counted from 0.
    parameter : str
        The parameter that is NaN or infinite; if only the estimate of the log posterior
        is, the parameter with the largest absolute value.
    draws : dict of numpy.ndarray
        The draws stored before the failure, in the form that the sampler would have
        returned.
    """

    stepsize_argument = "stepsize"

    def __init__(
        self,
        iteration: int,
        chain: int,
        parameter: str,
        of_density: bool,
        draws: dict[str, np.ndarray] | None = None,
        stored: int = 0,
    ) -> None:
        self.iteration, self.chain, self.parameter, self.draws = iteration, chain, parameter, draws or {}
        kept = f" (the {stored} draws made before are in the attribute draws)" if stored and self.draws else ""
        what = (
            f"the log posterior estimate of chain {chain}"
            if of_density
            else f"parameter {parameter!r} of chain {chain}"
        )
        where = f" (the largest parameter is {parameter!r})" if of_density else ""
        # The arguments, not only the message, so that the error can be pickled.
        self._arguments = (iteration, chain, parameter, of_density, self.draws, stored)
        super().__init__(
            f"{what} was NaN or infinite after iteration {iteration}{where}; "
            f"try decreasing {self.stepsize_argument}{kept}."
        )

    def __reduce__(self) -> tuple:
        return type(self), self._arguments

    def with_draws(self, draws: dict[str, np.ndarray], stored: int) -> DivergenceError:
        """The same error, with the draws before it."""
        return type(self)(*self._arguments[:4], draws, stored)


class ModeSearchError(DivergenceError):
    """The search for the posterior mode reached NaN or infinity."""

    stepsize_argument = "optStepsize, or optimizer='adam': the search for the mode diverged"


def reason(error: BaseException) -> str:
    """The type and first line of another package's error, for one of our messages."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}".rstrip(".: ")

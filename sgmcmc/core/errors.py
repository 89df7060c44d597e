"""The errors of a run.

Everything else is a ValueError or TypeError, raised before any computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
        draws: Any = None,
        stored: int = 0,
    ) -> None:
        self.iteration, self.chain, self.parameter = iteration, chain, parameter
        self.draws: Any = draws or {}
        kept = f" (the {stored} draws made before are in the attribute draws)" if stored and self.draws else ""
        what = (
            f"the log posterior estimate of chain {chain}"
            if of_density
            else f"parameter {parameter!r} of chain {chain}"
        )
        where = f" (the largest parameter is {parameter!r})" if of_density else ""
        # The arguments, not only the message, so that the error can be pickled.
        self._arguments: tuple = (iteration, chain, parameter, of_density, self.draws, stored)
        super().__init__(
            f"{what} was NaN or infinite after iteration {iteration}{where}; "
            f"try decreasing {self.stepsize_argument}{kept}."
        )

    def __reduce__(self) -> tuple:
        return type(self), self._arguments

    def with_draws(self, draws: Any, stored: int) -> DivergenceError:
        """The same error, with the draws before it."""
        made: Callable[..., DivergenceError] = type(self)
        return made(*self._arguments[:-2], draws, stored)


class ModeSearchError(DivergenceError):
    """The search for the posterior mode reached NaN or infinity."""

    stepsize_argument = "optStepsize, or optimizer='adam': the search for the mode diverged"


class NoRoomError(DivergenceError):
    """A Dirichlet process mixture came to the last of the components that there is room for.

    Attributes
    ----------
    room : int
        `maxComponents`.
    iteration, chain, parameter, draws
        As those of `DivergenceError`; the parameter is "weights".
    """

    def __init__(self, room: int, iteration: int, chain: int, draws: Any = None, stored: int = 0) -> None:
        super().__init__(iteration, chain, "weights", False, draws, stored)
        self.room, self._arguments = room, (room, iteration, chain, self.draws, stored)
        kept = f" The {stored} draws made before are in the attribute draws." if stored else ""
        self.args = (
            f"maxComponents of dpMixture must be more than {room}, such as {2 * room}; got an observation in the "
            f"last of them, in chain {chain} after iteration {iteration}.{kept}",
        )


def reason(error: BaseException) -> str:
    """The type and first line of another package's error, for one of our messages."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}".rstrip(".: ")

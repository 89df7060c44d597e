"""The errors of a run, and warnings that point to the user's own line.

All other errors are of type ValueError or TypeError, raised before any computation.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
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
    partial : list of dict of numpy.ndarray
        With an `executor`, the draws of every job that has some; else empty.
    """

    partial: Sequence[Any] = ()

    def __init__(
        self,
        iteration: int,
        chain: int,
        parameter: str,
        of_density: bool,
        because: str = "",
        draws: Any = None,
        stored: int = 0,
    ) -> None:
        self.iteration, self.chain, self.parameter = iteration, chain, parameter
        self.draws: Any = draws or {}
        # The arguments, not only the message, so that the error can be pickled.
        self._arguments: tuple = (iteration, chain, parameter, of_density, because, self.draws, stored)
        super().__init__(self._message(of_density, because, stored))

    def _message(self, of_density: bool, because: str, stored: int) -> str:
        kept = ""
        if stored and self.draws:
            kept = f"the {stored} draws made before are" if stored > 1 else "the draw made before is"
            kept = f" ({kept} in the attribute draws)"
        what, where = self._named(of_density)
        happened = f"{what} of chain {self.chain} was NaN or infinite after iteration {self.iteration}{where}"
        return f"{happened}{kept}: {because}" if because else f"{happened}; try decreasing stepsize{kept}."

    def _named(self, of_density: bool) -> tuple[str, str]:
        if of_density:
            return "the log posterior estimate", f" (the largest parameter is {self.parameter!r})"
        return f"parameter {self.parameter!r}", ""

    def __reduce__(self) -> tuple:
        return type(self), self._arguments

    def with_draws(self, draws: Any, stored: int, partial: Sequence[Any] = ()) -> DivergenceError:
        """The same error, with the draws before it."""
        made: Callable[..., DivergenceError] = type(self)
        error = made(*self._arguments[:-2], draws, stored)
        error.partial = partial
        for note in getattr(self, "__notes__", ()):
            error.add_note(note)
        return error


class ModeSearchError(DivergenceError):
    """The search for the posterior mode reached NaN or infinity.

    Attributes
    ----------
    iteration : int
        The first minibatch of the search, counted from 1, after which a number is NaN or
        infinite.
    chain, parameter, draws
        As in `DivergenceError`; the search is one chain and has no draws.
    """

    def _message(self, of_density: bool, because: str, stored: int) -> str:
        what, where = self._named(of_density)
        happened = (
            f"the search for the mode diverged: {what} was NaN or infinite after minibatch {self.iteration}{where}"
        )
        advice = "Leave optStepsize out, for a search that needs no stepsize; or decrease it, or use optimizer='adam'."
        return f"{happened}: {because}" if because else f"{happened}. {advice}"


class NoRoomError(DivergenceError):
    """A Dirichlet process mixture used the last of its `maxComponents` components.

    Attributes
    ----------
    room : int
        `maxComponents`.
    iteration, chain, parameter, draws, partial
        As in `DivergenceError`; the parameter is "weights".
    """

    def __init__(self, room: int, iteration: int, chain: int, draws: Any = None, stored: int = 0) -> None:
        super().__init__(iteration, chain, "weights", False, "", draws, stored)
        self.room, self._arguments = room, (room, iteration, chain, self.draws, stored)
        kept = f" The {stored} draws made before are in the attribute draws." if stored else ""
        self.args = (
            f"maxComponents of dpMixture must be more than {room}, such as {2 * room}; got an observation in the "
            f"last component, in chain {chain} after iteration {iteration}.{kept}",
        )


def reason(error: BaseException) -> str:
    """The type and first line of another package's error, for one of our messages."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}".rstrip(".: ")


PASSED_OVER = (__name__.partition(".")[0], "functools")  # by name, since a dataclass's __init__ has no file


def warn_user(message: str) -> None:
    """Issue a UserWarning at the line that called the package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _module(frame) in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _module(frame: FrameType) -> str:
    """The package or top module that a frame's function was defined in."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]

"""The errors of a run, warnings at the user's own line, and checks of types and counts."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf


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
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


IN_OPERATIONS = "must be a function in TensorFlow operations"


def require_flag(argument: str, of: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} of {of} must be True or False; got {value!r}.")
    return bool(value)


def is_integer(value: Any) -> bool:
    return isinstance(value, Integral | np.integer) and not isinstance(value, bool)


def require_count(argument: str, of: str, value: Any, at_least: int, why: str = "") -> int:
    # Whole floats such as 1e4 are allowed.
    whole = is_integer(value) or (isinstance(value, float) and np.isfinite(value) and value == int(value))
    if not whole or value < at_least:
        raise ValueError(f"{argument} of {of} must be an integer of at least {at_least}{why}; got {value!r}.")
    return int(value)


def require_iterations(argument: str, of: str, value: Any) -> int:
    if not is_integer(value) or value < 0:
        raise ValueError(f"{argument} of {of} must be a number of iterations, an integer of at least 0; got {value!r}.")
    return int(value)


def attempted(must: str, function: Callable[[], Any], advice: Callable[[str], str] = lambda error: "") -> Any:
    """Call a user's function; its errors become a ValueError that begins with the sentence `must`.

    `advice` maps the text of an error to a text to append.
    """
    try:
        return function()
    except Exception as error:
        if str(error).startswith(must.partition(" must ")[0]):
            raise
        text = f"{type(error).__name__}: {error}"
        if more := advice(str(error)):
            text = text.rstrip(".") + more
        raise ValueError(f"{must}; it raised {text}") from error


def takes(function: Callable, name: str, before: int) -> bool:
    """Whether a function takes one more argument after the first `before`: one without a default, or of this name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable without a signature
        return False
    named = signature.parameters.get(name)
    if named is not None and named.kind is named.POSITIONAL_OR_KEYWORD:
        return True
    try:
        signature.bind(*[None] * before)
    except TypeError:
        return True
    return False


def types_and_shapes(tree: Any) -> Any:
    """The type and shape of each tensor of a nest, to compare the input of a user's function with its output."""
    return tf.nest.map_structure(lambda x: f"{x.dtype.name}{x.shape}", tree)


ROUNDED = 1e-4  # of the range of a column: larger rounding errors give a warning
SINGLE = np.dtype(np.float32)


def require_held(label: str, of: str, value: float, dtype: np.dtype) -> float:
    """The number, if it does not become 0, infinite or subnormal in `dtype`."""
    least, most = (float(x) for x in (np.finfo(dtype).tiny, np.finfo(dtype).max))
    if value and not least <= abs(value) <= most:
        remedy = " (or use dtype='float64')" if dtype == SINGLE else ""
        raise ValueError(
            f"{label} of {of} must be from {least:.3g} to {most:.3g}, the range of {dtype}{remedy}; got {value!r}."
        )
    return value


def warn_of_lost_noise(of: str, noise: Mapping[str, Any], position: Mapping[str, Any]) -> None:
    """Warn if rounding removes the noise of a step, of these sds for each parameter or element."""
    lost = []
    for name, sds in noise.items():
        at = np.abs(np.asarray(position[name]))
        resolution = np.spacing(at)
        worst = np.unravel_index(np.argmax(resolution / sds), at.shape)
        sd = float(np.broadcast_to(sds, at.shape)[worst])
        if sd < resolution[worst]:
            lost.append(
                f"params[{name!r}] is at {at[worst]:.6g}, where {at.dtype} has a resolution of "
                f"{resolution[worst]:.2g}, but the noise of a step has sd {sd:.2g}"
            )
            remedy = "use dtype='float64', or " if at.dtype == SINGLE else ""
    if lost:
        warn_user(
            f"{'; '.join(lost)}: {of} will hardly move it. To fix this, {remedy}shift the parameter to be near 0."
        )


def warn_of_rounded(label: str, of: str, array: np.ndarray, converted: np.ndarray) -> None:
    """Warn if rounding removes the differences between observations in a column."""
    if array.dtype.kind != "f" or array.dtype.itemsize <= converted.dtype.itemsize or not array.size:
        return
    least, most = array.min(axis=0), array.max(axis=0)
    spread = most - least
    half_steps = np.spacing(np.maximum(abs(least), abs(most)).astype(converted.dtype)) / 2
    for place in np.argwhere((spread > 0) & (half_steps > ROUNDED * spread)):
        where: tuple = (slice(None), *(int(i) for i in place))
        # 0 for numbers that are exact in the float type, such as whole numbers
        error = abs(array[where] - converted[where]).max()
        column = f"[:, {', '.join(map(str, place))}]" if len(place) else ""
        if lost := lost_differences(label + column, of, error, spread[tuple(place)], converted.dtype):
            warn_user(lost)
            return


def lost_differences(label: str, of: str, error: float, spread: float, dtype: np.dtype) -> str:
    """The warning for a column of range `spread` that `dtype` rounds by `error`; "" if no differences are lost."""
    if not error > ROUNDED * spread:
        return ""
    remedy = "subtract its mean first" + (", or use dtype='float64'" if dtype == SINGLE else "")
    return (
        f"{label} of {of} loses the differences between observations: {dtype} rounds it by up to {error:.2g}, and its "
        f"range is {spread:.2g}; {remedy}."
    )


def refused(of: str, argument: str, must: str, got: Any) -> ValueError:
    """The error for an argument of the function `of`."""
    return ValueError(f"{argument} of {of} must {must}; got {got}.")

"""The limits of the float type: numbers that become 0 or infinite, or are lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgmcmc.core.warn import warn_user

ROUNDED = 1e-4  # of the range of a column: larger rounding errors give a warning
SINGLE = np.dtype(np.float32)


def require_held(label: str, of: str, value: float, dtype: np.dtype) -> float:
    """The number, if `dtype` holds it: neither 0, nor infinite, nor subnormal."""
    least, most = (float(x) for x in (np.finfo(dtype).tiny, np.finfo(dtype).max))
    if value and not least <= abs(value) <= most:
        remedy = ", or come with dtype='float64'" if dtype == SINGLE else ""
        raise ValueError(
            f"{label} of {of} must be from {least:.3g} to {most:.3g}, the range of {dtype}{remedy}; got {value!r}."
        )
    return value


def warn_of_lost_noise(of: str, noise: Mapping[str, Any], position: Mapping[str, Any]) -> None:
    """Warn if rounding removes the noise of a step, so that the chain hardly moves.

    `noise` has its standard deviations, for each parameter or each element; `position`
    has arrays.
    """
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
        error = abs(
            array[where] - converted[where]
        ).max()  # 0 for numbers that are exact in the float type, such as whole numbers
        column = f"[:, {', '.join(map(str, place))}]" if len(place) else ""
        if lost := lost_differences(label + column, of, error, spread[tuple(place)], converted.dtype):
            warn_user(lost)
            return


def lost_differences(label: str, of: str, error: float, spread: float, dtype: np.dtype) -> str:
    """The warning for a column with this range that `dtype` rounds by so much; "" if no differences are lost."""
    if not error > ROUNDED * spread:
        return ""
    remedy = "subtract its mean before" + (", or use dtype='float64'" if dtype == SINGLE else "")
    return (
        f"{label} of {of} loses the differences between observations: {dtype} rounds it by up to {error:.2g}, and its "
        f"range is {spread:.2g}; {remedy}."
    )

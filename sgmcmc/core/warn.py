"""Warnings that point to the user's own line, from anywhere in the package."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

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

"""Warnings that point to the user's own line, from anywhere in the package."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from pathlib import Path

PASSED_OVER = (str(Path(__file__).parents[1]) + os.sep, functools.__file__)


def warn_user(message: str) -> None:
    """Issue a UserWarning at the line that called the package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PASSED_OVER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)

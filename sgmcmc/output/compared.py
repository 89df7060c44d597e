"""A posterior compared with two normal distributions at its mode: that of its curvature, and the sandwich."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Compared(NamedTuple):
    """What the comparison shows.

    Parameters
    ----------
    pareto_k : float
        The shape of the tail of the weights of draws from the normal distribution; NaN if it is not known.
    sd_sandwich : mapping
        The standard deviations of the sandwich, {name: [*shape]}; empty if there are too many elements for matrices.
    by_data : bool
        Whether the observations have most of the precision in all directions, so that the two should agree.
    """

    pareto_k: float = np.nan
    sd_sandwich: Any = MappingProxyType({})
    by_data: bool = False

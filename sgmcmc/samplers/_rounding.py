"""The rounding of logarithms by SCIR."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.warn import warn_user
from sgmcmc.samplers._simplex import SimplexChoices

COARSE = 10  # times the rounding of a logarithm, below which changes give a warning


def warn_of_rounding(choices: SimplexChoices) -> None:
    """Warn if the logarithm of theta, of the order of N, is too coarse for its changes in a step."""
    if choices.float_type == tf.float64:
        return
    for name, h in choices.stepsizes.items():
        if callable(h):
            continue
        change, resolution = np.sqrt(2 * h / choices.data.size), np.spacing(np.float32(np.log(choices.data.size / h)))
        if change < COARSE * resolution:
            warn_user(
                f"A step of {choices.sampler} with stepsize {h:g} changes the logarithm of params[{name!r}] by about "
                f"{change:.1g}, and float32 rounds it by {resolution:.1g}: use dtype='float64', or a larger stepsize."
            )

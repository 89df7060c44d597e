"""Control variates around a point near the mode (Baker, Fearnhead, Fox & Nemeth 2019, eq. 4).

    g_full(centre) + g_S(theta) - g_S(centre),   the same minibatch S in both

g_full is the exact gradient of the log posterior, g_S the plain estimate. The variance of the estimate shrinks with
the distance of theta from the centre, instead of staying that of the data.

A gathered row moves only when a minibatch touches it, and so receives its part of g_full too seldom: for such rows the
estimate is unbiased only if the centre is the mode, where g_full = 0.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sgmcmc.core.types import Batch, Estimate, Gradient, Mode, RowGradient, Tree
from sgmcmc.model import Model


def control_variates(model: Model) -> Gradient:
    def prepare(mode: Mode | None) -> Tree:
        assert mode is not None
        return {"centre": mode.params, "full": mode.gradient}

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: tuple) -> Estimate:
        value, here = model.value_and_gradient(params, batch)
        there = model.gradient(constants["centre"], batch)
        return Estimate(value, {name: _corrected(constants["full"][name], here[name], there[name]) for name in params})

    return Gradient(estimate, prepare, wants_mode=True)


def _corrected(full: tf.Tensor, here: Any, there: Any) -> tf.Tensor | RowGradient:
    if isinstance(here, RowGradient):
        values = tf.gather(full, here.rows) + (here.values - there.values)
        return here._replace(values=values)
    return full + (here - there)

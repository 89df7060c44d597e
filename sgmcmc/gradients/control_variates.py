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

from sgmcmc.core.types import Batch, Gradient, RowGradient, Tree
from sgmcmc.model import Model


def control_variates(model: Model) -> Gradient:
    def init(centre: Tree) -> dict[str, Tree]:
        _, full_gradient = model.full_log_density_and_gradient(centre)
        return {"centre": centre, "full": full_gradient}

    def estimate(params: Tree, batch: Batch, aux: dict[str, Tree]) -> tuple[tf.Tensor, Tree, dict[str, Tree]]:
        value, here = model.value_and_gradient(params, batch)
        there = model.gradient(aux["centre"], batch)
        return value, {name: _corrected(aux["full"][name], here[name], there[name]) for name in params}, aux

    return Gradient(init, estimate)


def _corrected(full: tf.Tensor, here: Any, there: Any) -> tf.Tensor | RowGradient:
    if isinstance(here, RowGradient):
        values = tf.gather(full, here.rows) + (here.values - there.values)
        return here._replace(values=values)
    return full + (here - there)

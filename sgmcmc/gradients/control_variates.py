"""Control variates around a point near the mode (Baker, Fearnhead, Fox & Nemeth 2019, eq. 4).

    g_full(centre) + g_S(theta) - g_S(centre),   the same minibatch S in both

g_full is the exact gradient of the log posterior, g_S the plain estimate. The variance of the estimate becomes smaller
as theta approaches the centre; that of the plain estimate does not.

A row that moves only if a minibatch gathers it gets g_full times its visits, which are 1 on average.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.model import Batch, Mode, Model, RowGradient


def control_variates(model: Model) -> Gradient:
    def prepare(mode: Mode, verbose: bool) -> Tree:
        return {"centre": mode.params, "full": mode.gradient}

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: tuple) -> Estimate:
        return around(constants, model, params, batch)

    return Gradient(estimate, prepare, wants_mode=True, terms=differences(model), centred=True)


def around(reference: Tree, model: Model, params: Tree, batch: Batch, memory: Any = ()) -> Estimate:
    """The estimate by the "full" gradient at the "centre" of the reference."""
    value, here = model.value_and_gradient(params, batch)
    there, full = model.gradient(reference["centre"], batch), reference["full"]
    return Estimate(value, {name: _corrected(full[name], here[name], there[name]) for name in params}, memory)


STALE = 2**0.5  # an earlier position is this many times as far from the chain as the mode, if independent of it


def differences(
    model: Model, of_chain: Callable[[Tree, Any], Tree] | None = None
) -> Callable[[Tree, Tree, Tree, Any], Tree]:
    """Each observation's gradient minus that at the centre, or ``of_chain(data, memory)``.

    Before there is a chain, and so a memory, that is the difference to the mode, STALE times as large.
    """

    def terms(params: Tree, data: Tree, constants: Tree, memory: Any) -> Tree:
        here, factor = model.term_gradients(params, data), 1.0
        if of_chain is not None and memory is not None:
            there = of_chain(data, memory)
        else:
            there, factor = model.term_gradients(constants["centre"], data), STALE if of_chain else 1.0
        return {name: factor * (here[name] - there[name]) for name in params}

    return terms


def _corrected(full: tf.Tensor, here: Any, there: Any) -> tf.Tensor | RowGradient:
    if isinstance(here, RowGradient):
        visits = tf.reshape(here.visits, [-1] + [1] * (full.shape.rank - 1))
        return here._replace(values=visits * tf.gather(full, here.rows) + (here.values - there.values))
    return full + (here - there)

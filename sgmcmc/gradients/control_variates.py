"""Control variates around a point near the mode (Baker, Fearnhead, Fox & Nemeth 2019, eq. 4).

    g_full(centre) + g_S(theta) - g_S(centre),   the same minibatch S in both

g_full is the exact gradient of the log posterior, g_S the plain estimate. The variance
of the estimate becomes smaller as theta approaches the centre; that of the plain
estimate does not.

A row that moves only if a minibatch gathers it gets g_full times its visits, which are
1 on average.
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
        value, here = model.value_and_gradient(params, batch)
        there = model.gradient(constants["centre"], batch)
        return Estimate(value, {name: corrected(constants["full"][name], here[name], there[name]) for name in params})

    return Gradient(estimate, prepare, wants_mode=True, terms=differences(model), centred=True)


STALE = 2**0.5  # an earlier position is this many times as far from the chain as the mode, if independent of it


def differences(
    model: Model, of_chain: Callable[[Tree, Any], Tree] | None = None
) -> Callable[[Tree, Tree, Tree, Any], Tree]:
    """Each observation's gradient minus that at the centre.

    If the chain's memory has the gradients to subtract, ``of_chain(data, memory)``
    returns them. Before there is a chain, the difference to the mode is used, STALE
    times as large.
    """

    def terms(params: Tree, data: Tree, constants: Tree, memory: Any) -> Tree:
        here, factor = model.term_gradients(params, data), 1.0 if of_chain is None or memory is not None else STALE
        if of_chain is None or memory is None:
            there = model.term_gradients(constants["centre"], data)
        else:
            there = of_chain(data, memory)
        return {name: factor * (here[name] - there[name]) for name in params}

    return terms


def corrected(full: tf.Tensor, here: Any, there: Any) -> tf.Tensor | RowGradient:
    """The estimate of one parameter's gradient."""
    if isinstance(here, RowGradient):
        visits = tf.reshape(here.visits, [-1] + [1] * (full.shape.rank - 1))
        values = visits * tf.gather(full, here.rows) + (here.values - there.values)
        return here._replace(values=values)
    return full + (here - there)

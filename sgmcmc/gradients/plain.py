"""The plain stochastic gradient of the log posterior (Welling & Teh 2011, eq. 4).

For a minibatch S with weights w_i, N/n or 1/(n p_i):

    grad log p(theta) + sum_{i in S} w_i grad log p(x_i | theta)
"""

from __future__ import annotations

from sgmcmc.core.trees import Tree
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.model import Batch, Model


def plain(model: Model) -> Gradient:
    def estimate(params: Tree, batch: Batch, constants: Tree, memory: tuple) -> Estimate:
        return Estimate(*model.value_and_gradient(params, batch))

    return Gradient(estimate, terms=lambda params, data, constants, memory: model.term_gradients(params, data))

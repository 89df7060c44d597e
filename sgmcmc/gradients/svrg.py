"""SVRG: control variates around an earlier position (Johnson & Zhang 2013; for sampling Dubey et al. 2016).

    g_full(centre) + g_S(theta) - g_S(centre),   the same minibatch S in both

as with control variates around the mode. But every m iterations the chain's position becomes the centre, and g_full is
computed there from all data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.compilation import Compiled
from sgmcmc.core.trees import Elements, Tree, joined, split
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.gradients.control_variates import around, differences
from sgmcmc.model import Batch, Mode, Model


def svrg(model: Model, elements: Mapping[str, Elements], every: int) -> Gradient:
    def prepare(begin: Mode, verbose: bool) -> Tree:
        return {"centre": begin.params}

    def init(params: Tree, constants: Tree) -> Tree:
        return {"centre": params, "full": {name: tf.zeros_like(theta) for name, theta in params.items()}}

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: Tree) -> Estimate:
        return around(memory, model, params, batch, memory)

    @cache
    def programs() -> tuple[FullPass, Compiled]:
        """The gradients of log likelihood and log prior at [C, D]."""

        def of_data(words: tf.Tensor, flat: tf.Tensor) -> list[Tree]:
            rows = model.data.layout.unpack(words)
            of_chain = over_chains(lambda theta: model.log_lik_gradient(split(theta, elements), rows), flat.shape[0])
            return [of_chain(flat)]

        def of_prior(flat: tf.Tensor) -> list[Tree]:
            return [over_chains(lambda theta: model.prior_gradient(split(theta, elements)), flat.shape[0])(flat)]

        def flattened(fn: Callable[..., list[Tree]]) -> Callable[..., list[tf.Tensor]]:
            return lambda *given: [tf.cast(joined(fn(*given)[0]), tf.float64)]

        return FullPass(model.data, flattened(of_data)), Compiled(flattened(of_prior), hides=True)

    def renew(params: Tree) -> Tree:
        of_data, of_prior = programs()
        flat = joined(params)
        (likelihood,), (prior,) = of_data.summed([flat]), of_prior(flat)
        return {"centre": params, "full": split(tf.cast(likelihood + prior, model.dtype), elements)}

    terms = differences(model, lambda data, memory: model.term_gradients(memory["centre"], data))
    return Gradient(estimate, prepare, init, terms=terms, centred=True, every=every, renew=renew)

"""The kernel of a simplex sampler: counts from a minibatch, then a rule for each parameter.

The state holds the probabilities that the user sees, which may be replaced between iterations, and the logarithm of the
sum of theta. Their product is theta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import finite_chains, one_by_one, over_chains
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Elements, Tree, joined, split
from sgmcmc.kernel import IterationInputs, Kernel
from sgmcmc.kernel.estimation import MINIBATCH
from sgmcmc.kernel.inputs import Observations, Seeds, data_of_chains, drawn_by
from sgmcmc.kernel.iterations import LOG_DENSITY, Iterations, of_schedules
from sgmcmc.minibatch import Minibatch
from sgmcmc.simplex import Numbers, Rule, expected_counts
from sgmcmc.simplex.scale import Scale


class Counts(NamedTuple):
    """``of(params, data[, seed]) -> {name: counts}`` of one chain, in the shape of each parameter."""

    of: Callable[..., Tree]
    takes_seed: bool
    in_all: Mapping[str, np.ndarray] | None = None  # about how many each row has in all observations, if known


class SimplexState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    params: Tree  # as the user sees them
    log_total: Tree  # {name: [C, ...]}: of the sum of theta over its last axis
    log_density: tf.Tensor  # [C]


class Simplex(NamedTuple):
    counts: Counts
    rule: Rule
    minibatch: Minibatch
    alpha: Mapping[str, tf.Tensor]  # in the shape of each parameter
    n_counts: Mapping[str, tf.Tensor]  # about how many each row of each parameter has in all observations
    iterations: Iterations
    scale: Scale


def build_simplex(choices: Simplex) -> Kernel:
    minibatch, rule, iterations = choices.minibatch, choices.rule, choices.iterations
    n_chains, elements = iterations.n_chains, iterations.elements
    n_elements = max(e.stop for e in elements.values())
    observations = Observations(iterations, minibatch, MINIBATCH, Purpose.MINIBATCH)
    random_seeds = Seeds("seed", Purpose.LATENT)  # of latent variables
    weight, scale = minibatch.scale, choices.scale
    assert weight is not None
    if choices.counts.takes_seed:
        specs = {name: tf.TensorSpec(alpha.shape, alpha.dtype) for name, alpha in choices.alpha.items()}
        mapped, draw_inputs = one_by_one(choices.counts.of, n_chains, specs), drawn_by(observations, random_seeds)
    else:
        mapped, draw_inputs = over_chains(choices.counts.of, n_chains), observations.draw_inputs

    def init(constants: Tree, params: Tree) -> SimplexState:
        totals = {}
        for name, alpha in constants["alpha"].items() if scale.normalised else ():
            log_total = tf.math.log(rule.total(alpha, choices.n_counts[name]))
            totals[name] = tf.tile(log_total[None], [n_chains] + [1] * (alpha.shape.rank - 1))
        return SimplexState(params, totals, iterations.unknown)

    def step(constants: Tree, state: SimplexState, inputs: IterationInputs) -> SimplexState:
        h = iterations.stepsizes(constants, inputs.iteration)
        data = data_of_chains(inputs, MINIBATCH, n_chains)
        counts = mapped(state.params, data, *([random_seeds.of(inputs)] if choices.counts.takes_seed else []))
        theta = {name: scale.theta(state.params[name], state.log_total.get(name)) for name in elements}
        scaled = {name: weight * counts[name] for name in elements}
        expected = {name: tf.zeros_like(x) for name, x in theta.items()}
        if scale.normalised:
            expected = {name: expected_counts(scale.natural(state.params[name]), scaled[name]) for name in elements}
        alpha = {name: constants["alpha"][name][None] for name in elements}
        numbers = Numbers(iterations.stream(constants, Purpose.NOISE), inputs.iteration, tf.range(n_elements))
        eps = tf.concat([tf.repeat(h[name][:, None], e.size, axis=1) for name, e in elements.items()], axis=1)
        # The rule works on elements, so one program draws for all parameters.
        flat = rule.step(numbers, joined(theta), joined(alpha), joined(scaled), joined(expected), eps)
        return _reached(scale, flat, elements, alpha, scaled, state)

    def stats(constants: Tree, state: SimplexState, iteration: tf.Tensor) -> Tree:
        last = iteration - tf.constant(1, tf.uint32)
        return {LOG_DENSITY: state.log_density} | of_schedules(iterations, constants, last)

    def finite(state: SimplexState) -> Tree:
        return {name: finite_chains((theta, state.log_total.get(name, theta))) for name, theta in state.params.items()}

    return Kernel(init, draw_inputs, step, finite, stats)


def _reached(
    scale: Scale, flat: tf.Tensor, elements: Mapping[str, Elements], alpha: Tree, counts: Tree, state: SimplexState
) -> SimplexState:
    """The next state, from the logarithms of theta side by side, and the log density at `state`."""
    params, totals, log_density = {}, {}, tf.zeros_like(state.log_density)
    for name, log_theta in split(flat, elements).items():
        log_density += scale.log_density(alpha[name] + counts[name], state.params[name])
        if scale.normalised:
            totals[name] = tf.reduce_logsumexp(log_theta, axis=-1)
            log_theta -= totals[name][..., None]
        params[name] = scale.of_log(log_theta)
    return SimplexState(params, totals, log_density)

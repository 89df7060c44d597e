"""One iteration of the stochastic slice sampler of a Dirichlet process mixture (Baker 2018, B.4).

    x_i | theta, z ~ Multi(n_i, theta_{z_i}),   z_i | w ~ w,   theta_j ~ Dir(a, ..., a)

with the weights w of `conditionals.py`. The state has the assignments z of all N observations, and
the counts that follow from them: how many observations each component has, and how often
these have each category. Only the assignments of a minibatch S move in an iteration, so the counts
are kept up to date at the cost of a minibatch. An iteration draws

1. the sticks v_j and the components, theta_j ~ Dir(a + counts of j), given z and alpha;
2. alpha, and the sticks beyond the last component that has observations (`conditionals.py`);
3. for i in S a slice u_i ~ U(0, w_{z_i}), and then z_i from {j: w_j > u_i} with
   probabilities proportional to p(x_i | theta_j).

Each is a draw from its full conditional, and S does not depend on the state. So every
iteration leaves the posterior invariant, however small S is. A slice needs only the
components with w_j > u_i. All of these are among the K in the arrays if the rest of the
stick is less than u_i. Otherwise z_i stays as it is in this iteration. Whether it does
depends on u_i and the sticks, not on z_i, so the posterior is still invariant. If the last
of the K components has an observation, the log density is NaN: there is no room.

In place of the exact draws in 1, a rule for the simplex may move sticks and components, with
estimated counts: N/n times those of the minibatch. That is the method of the appendix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import finite_chains
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.kernel import IterationInputs, Kernel
from sgmcmc.kernel.estimation import MINIBATCH
from sgmcmc.kernel.inputs import Observations
from sgmcmc.kernel.iterations import Iterations
from sgmcmc.kernel.rows import of_table, put
from sgmcmc.minibatch import Minibatch
from sgmcmc.models.dp.conditionals import (
    Both,
    added,
    chosen,
    concentration,
    counts_of_sticks,
    drawn,
    last_occupied,
    log_likelihoods,
    log_weights,
    moved_by,
    prior_of_sticks,
    scaled,
    upto,
)
from sgmcmc.simplex import Numbers, Rule

PARAMETERS = ("weights", "theta")  # those with a stepsize, in the order of `Both`
PARAMS = ("alpha", "assignments", "components", "log_theta", "sticks")


class MixtureState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    alpha: tf.Tensor  # [C]
    assignments: tf.Tensor  # z, int32 [C, N]
    components: tf.Tensor  # how many have observations, int32 [C]
    log_theta: tf.Tensor  # logarithms of Gamma draws, whose shares are theta_j: [C, K, d]
    sticks: tf.Tensor  # [C, K, 2]
    sizes: tf.Tensor  # m, int32 [C, K]
    counts: tf.Tensor  # how often a component has each category, int32 [C, K, d]
    kept: tf.Tensor  # [C]: the share of the minibatch that kept its components, since there might be no room
    log_lik: tf.Tensor  # [C]: of all observations given w and theta, estimated from the minibatch


class MixtureModel(NamedTuple):
    minibatch: Minibatch  # without replacement
    a: float
    alpha_prior: tuple[float, float] | None  # shape and rate; None if alpha is fixed
    rule: Rule | None  # moves sticks and components; None draws them exactly


def build(mixture: MixtureModel, iterations: Iterations) -> Kernel:
    conditionals, dtype = Conditionals(mixture, iterations), iterations.dtype
    observations = Observations(iterations, mixture.minibatch, MINIBATCH, Purpose.MINIBATCH)

    def init(constants: Tree, start: Tree) -> MixtureState:
        sticks, log_theta = conditionals.first(constants, start["alpha"], start["sizes"], start["counts"])
        given_start = {"components": occupied(start["sizes"]), "log_theta": log_theta, "sticks": sticks}
        zeros = tf.zeros_like(start["alpha"])
        return MixtureState(**start, **given_start, kept=zeros, log_lik=zeros)

    def step(constants: Tree, state: MixtureState, inputs: IterationInputs) -> MixtureState:
        rows, data = inputs.indices(MINIBATCH), inputs.data(MINIBATCH)  # [C, n], {name: [C, n, longest]}
        number, before, last = inputs.iteration, of_table(state.assignments, rows), last_occupied(state.sizes)
        sticks, theta = conditionals.sticks_and_components(constants, state, number, before, data, last)
        alpha, sticks = conditionals.concentration(constants, state.alpha, number, sticks, last)
        after, is_certain, log_lik = conditionals.assignments(constants, number, sticks, theta, before, data)
        sizes, counts = added(state.sizes, state.counts, before, data, -1)
        sizes, counts = added(sizes, counts, after, data, 1)
        is_room = tf.equal(sizes[:, -1], 0)
        return MixtureState(
            alpha=alpha,
            assignments=put(state.assignments, rows, after),
            components=occupied(sizes),
            log_theta=theta,
            sticks=sticks,
            sizes=sizes,
            counts=counts,
            kept=1 - tf.reduce_mean(tf.cast(is_certain, dtype), axis=1),
            log_lik=tf.where(is_room, log_lik, tf.constant(np.nan, dtype)),
        )

    def finite(state: MixtureState) -> Tree:
        floats = {"alpha": state.alpha, "log_theta": state.log_theta, "sticks": state.sticks}
        return {name: finite_chains(x) for name, x in floats.items()}

    return Kernel(
        init=init,
        draw_inputs=observations.draw_inputs,
        step=step,
        params=lambda state: {name: getattr(state, name) for name in PARAMS},
        with_params=lambda state, params: state._replace(**params),
        log_density=lambda state: state.log_lik,
        finite=finite,
        stats=lambda constants, state, iteration: {"log_lik": state.log_lik, "kept": state.kept},
    )


class Conditionals:
    def __init__(self, mixture: MixtureModel, iterations: Iterations) -> None:
        self._mixture, self._iterations = mixture, iterations
        self._scale = tf.constant(mixture.minibatch.scale, iterations.dtype)

    def first(self, constants: Tree, alpha: tf.Tensor, sizes: tf.Tensor, counts: tf.Tensor) -> Both:
        prior, observed = self._prior(alpha, counts.shape), self._observed(sizes, counts)
        stream = self._iterations.stream(constants, Purpose.INITIAL)
        exactly = drawn(stream, tf.constant(0, tf.uint32), posterior(prior, observed))
        return exactly if self._mixture.rule is None else scaled(self._mixture.rule, exactly, prior, observed)

    def sticks_and_components(
        self, constants: Tree, state: MixtureState, iteration: tf.Tensor, before: tf.Tensor, data: Tree, last: tf.Tensor
    ) -> Both:
        """Step 1: exactly, or by the rule from the counts of the minibatch, whose components are `before`."""
        numbers = self._iterations.stream(constants, Purpose.NOISE)
        prior, rule = self._prior(state.alpha, state.counts.shape), self._mixture.rule
        if rule is None:
            return drawn(numbers, iteration, posterior(prior, self._observed(state.sizes, state.counts)))
        of_batch = added(tf.zeros_like(state.sizes), tf.zeros_like(state.counts), before, data, 1)
        estimated = Both(*(self._scale * x for x in self._observed(*of_batch)))
        eps = self._iterations.stepsizes(constants, iteration)
        h = Both(*(eps[name][:, None, None] for name in PARAMETERS))
        return moved_by(rule, numbers, iteration, Both(state.sticks, state.log_theta), prior, estimated, h, last)

    def concentration(
        self, constants: Tree, alpha: tf.Tensor, iteration: tf.Tensor, sticks: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Step 2: alpha, and with it the sticks beyond the last component that has observations."""
        if self._mixture.alpha_prior is None:
            return alpha, sticks
        stream, n_components = self._iterations.stream(constants, Purpose.LATENT), sticks.shape[1]
        shape, rate = concentration(sticks, last, self._mixture.alpha_prior)
        alpha = tf.exp(Numbers(stream, iteration, tf.constant([2 * n_components])).log_gamma(shape)) / rate
        behind = Numbers(stream, iteration, tf.range(2 * n_components))
        anew = behind.log_gamma(prior_of_sticks(alpha, n_components))
        return alpha, tf.where(upto(last, sticks), sticks, anew)

    def assignments(
        self, constants: Tree, iteration: tf.Tensor, sticks: tf.Tensor, theta: tf.Tensor, before: tf.Tensor, data: Tree
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Step 3: components [C, n]; which were certain to have room; and the log likelihood of all N, [C]."""
        dtype, n = self._iterations.dtype, before.shape[1]
        log_w, log_rest = log_weights(sticks)
        stream = self._iterations.stream(constants, Purpose.LATENT)
        uniforms = tf.cast(stream.uniform(iteration[None], tf.range(2 * n))[0], dtype)  # [C, 2 n], in (0, 1]
        log_u = tf.gather(log_w, before, batch_dims=1) + tf.math.log(uniforms[:, :n])
        log_lik = log_likelihoods(tf.nn.log_softmax(theta), data)  # [C, n, K]
        among = chosen(log_lik, log_w[:, None] >= log_u[:, :, None], uniforms[:, n:])
        is_certain = log_u > log_rest[:, None]
        of_rows = tf.reduce_logsumexp(log_w[:, None] + log_lik, axis=2)
        return tf.where(is_certain, among, before), is_certain, self._scale * tf.reduce_sum(of_rows, axis=1)

    def _prior(self, alpha: tf.Tensor, shape: tf.TensorShape) -> Both:
        """The prior shapes of the Gammas, for components [C, K, d]."""
        of_components = tf.fill(shape, tf.constant(self._mixture.a, self._iterations.dtype))
        return Both(prior_of_sticks(alpha, shape[1]), of_components)

    def _observed(self, sizes: tf.Tensor, counts: tf.Tensor) -> Both:
        dtype = self._iterations.dtype
        return Both(tf.cast(counts_of_sticks(sizes), dtype), tf.cast(counts, dtype))


def occupied(sizes: tf.Tensor) -> tf.Tensor:
    """How many components have observations, [C]."""
    return tf.reduce_sum(tf.cast(sizes > 0, tf.int32), axis=1)


def posterior(prior: Both, counts: Both) -> Both:
    return Both(prior.sticks + counts.sticks, prior.theta + counts.theta)

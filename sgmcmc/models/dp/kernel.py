"""One iteration of the stochastic slice sampler of a Dirichlet process mixture (Baker 2018, B.4).

    x_i | theta, z ~ Multi(n_i, theta_{z_i}),   z_i | w ~ w,   theta_j ~ Dir(a, ..., a)

with the weights w of `sticks.py`. The state has the assignments z of all N observations, and
the counts that follow from them: how many observations each component has, and how often
these have each category. Only the assignments of a minibatch S move in an iteration, so the
counts of all are kept up to date at the cost of a minibatch. An iteration draws

1. the sticks v_j and the components, theta_j ~ Dir(a + counts of j), given z and alpha;
2. alpha, and the sticks behind the last component that has observations (`sticks.py`);
3. for i in S a slice u_i ~ U(0, w_{z_i}), and then z_i from {j: w_j > u_i} with
   probabilities proportional to p(x_i | theta_j).

Each is a draw from its distribution given the rest of the state, and S does not depend on
the state. So every iteration leaves the posterior invariant, however small S is. A slice
needs only the components with w_j > u_i. All of these are among the K in the arrays if the
rest of the stick is less than u_i. Otherwise z_i stays as it is in this iteration. Whether
it does depends on u_i and the sticks, not on z_i, so the posterior is still invariant. If
the last of the K components has an observation, the log density is NaN: there is no room.

In place of the exact draws in 1, a rule for the simplex may move sticks and components, with
estimated counts: N/n times those of the minibatch. That is the method of the appendix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import finite_chains
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.core.rows import of_table, put
from sgmcmc.core.streams import key_of
from sgmcmc.core.types import Kernel, Minibatch, Supplied, Supply, Tree
from sgmcmc.models.dp.allocation import added, chosen, log_likelihoods
from sgmcmc.models.dp.moves import Both, drawn, moved_by, scaled, upto
from sgmcmc.models.dp.sticks import concentration, counts_of_sticks, last_occupied, log_weights, prior_of_sticks
from sgmcmc.simplex.rule import Numbers, Rule

MINIBATCH = "minibatch"  # what observations are fetched for
PARAMS = ("alpha", "assignments", "components", "log_theta", "sticks")


class MixtureState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    alpha: tf.Tensor  # [C]
    assignments: tf.Tensor  # z, int32 [C, N]
    components: tf.Tensor  # how many have observations, int32 [C]
    log_theta: tf.Tensor  # logarithms of Gamma draws, of which theta_j has the shares: [C, K, d]
    sticks: tf.Tensor  # [C, K, 2]
    sizes: tf.Tensor  # m, int32 [C, K]
    counts: tf.Tensor  # how often a component has each category, int32 [C, K, d]
    kept: tf.Tensor  # [C]: which part of the minibatch kept its components, since there might be no room
    log_lik: tf.Tensor  # [C]: of all observations given w and theta, estimated from the minibatch


class MixtureModel(NamedTuple):
    """The parts of a kernel.

    Parameters
    ----------
    minibatch : Minibatch
        Without replacement.
    a : float
        The parameter of the prior of the components.
    alpha_prior : (float, float) or None
        Shape and rate; None if alpha is fixed.
    rule : Rule or None
        It moves sticks and components; None draws them exactly.
    """

    minibatch: Minibatch
    a: float
    alpha_prior: tuple[float, float] | None
    rule: Rule | None = None


def build(mixture: MixtureModel, dtype: tf.DType) -> Kernel:
    """The kernel of this mixture."""
    minibatch, rule = mixture.minibatch, mixture.rule
    scale = tf.constant(minibatch.scale, dtype)

    def stream(constants: Tree, purpose: Purpose) -> Stream:
        return Stream(key_of(constants, purpose))

    def prior(alpha: tf.Tensor, shape: tf.TensorShape) -> Both:
        """The shapes of the Gammas before there are data, for components [C, K, d]."""
        return Both(prior_of_sticks(alpha, shape[1]), tf.fill(shape, tf.constant(mixture.a, dtype)))

    def of(sizes: tf.Tensor, counts: tf.Tensor) -> Both:
        """What counts add to these shapes."""
        return Both(tf.cast(counts_of_sticks(sizes), dtype), tf.cast(counts, dtype))

    def supply(constants: Tree, iterations: tf.Tensor) -> Supply:
        indices, _ = minibatch.draw(stream(constants, Purpose.MINIBATCH), iterations, {})
        return Supply({MINIBATCH: indices[:, None]}, {})

    def init(constants: Tree, start: Tree) -> MixtureState:
        """From alpha, the assignments, and the counts that go with them; sticks and components given these."""
        alpha, sizes, counts = start["alpha"], start["sizes"], start["counts"]
        shapes = posterior(prior(alpha, counts.shape), of(sizes, counts))
        begun = drawn(stream(constants, Purpose.INITIAL), tf.constant(0, tf.uint32), shapes)
        if rule is not None:
            begun = scaled(rule, begun, prior(alpha, counts.shape), of(sizes, counts))
        return MixtureState(
            alpha=alpha,
            assignments=start["assignments"],
            components=occupied(sizes),
            log_theta=begun.theta,
            sticks=begun.sticks,
            sizes=sizes,
            counts=counts,
            kept=tf.zeros_like(alpha),
            log_lik=tf.zeros_like(alpha),
        )

    def step(constants: Tree, state: MixtureState, supplied: Supplied) -> MixtureState:
        rows, data = supplied.indices(MINIBATCH), supplied.data(MINIBATCH)  # [C, n], {name: [C, n, longest]}
        before = of_table(state.assignments, rows)
        last = last_occupied(state.sizes)
        latent = stream(constants, Purpose.LATENT)
        n, n_components = before.shape[1], state.sizes.shape[1]

        # 1. sticks and components
        numbers, shapes = stream(constants, Purpose.NOISE), prior(state.alpha, state.counts.shape)
        if rule is None:
            exactly = posterior(shapes, of(state.sizes, state.counts))
            sticks, theta = drawn(numbers, supplied.iteration, exactly)
        else:
            own = of(*added(tf.zeros_like(state.sizes), tf.zeros_like(state.counts), before, data, 1))
            estimated = Both(*(scale * x for x in own))
            at, h = Both(state.sticks, state.log_theta), Both(*tf.unstack(constants["stepsize"]))
            sticks, theta = moved_by(rule, numbers, supplied.iteration, at, shapes, estimated, h, last)

        # 2. the concentration, and the sticks behind Z* with it
        alpha = state.alpha
        if mixture.alpha_prior is not None:
            shape, rate = concentration(sticks, last, mixture.alpha_prior)
            of_alpha = Numbers(latent, supplied.iteration, tf.constant([2 * n_components]))
            alpha = tf.exp(of_alpha.log_gamma(shape)) / rate
            behind = Numbers(latent, supplied.iteration, tf.range(2 * n_components))
            anew = behind.log_gamma(prior_of_sticks(alpha, n_components))
            sticks = tf.where(upto(last, sticks), sticks, anew)

        # 3. slices and assignments
        log_w, log_rest = log_weights(sticks)
        uniforms = latent.uniform(supplied.iteration[None], tf.range(2 * n))[0]
        uniforms = tf.cast(uniforms, dtype)  # [C, 2 n], in (0, 1]
        log_u = tf.gather(log_w, before, batch_dims=1) + tf.math.log(uniforms[:, :n])
        log_lik = log_likelihoods(tf.nn.log_softmax(theta), data)  # [C, n, K]
        among = chosen(log_lik, log_w[:, None] >= log_u[:, :, None], uniforms[:, n:])
        is_certain = log_u > log_rest[:, None]
        after = tf.where(is_certain, among, before)

        sizes, counts = added(state.sizes, state.counts, before, data, -1)
        sizes, counts = added(sizes, counts, after, data, 1)
        of_rows = tf.reduce_logsumexp(log_w[:, None] + log_lik, axis=2)
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
            log_lik=tf.where(is_room, scale * tf.reduce_sum(of_rows, axis=1), tf.constant(np.nan, dtype)),
        )

    def params(state: MixtureState) -> Tree:
        return {name: getattr(state, name) for name in PARAMS}

    def finite(state: MixtureState) -> Tree:
        floats = {"alpha": state.alpha, "log_theta": state.log_theta, "sticks": state.sticks}
        return {name: finite_chains(x) for name, x in floats.items()}

    return Kernel(
        init=init,
        supply=supply,
        step=step,
        params=params,
        with_params=lambda state, params: state._replace(**params),
        log_density=lambda state: state.log_lik,
        finite=finite,
        stats=lambda constants, state, iteration: {"log_lik": state.log_lik, "kept": state.kept},
    )


def occupied(sizes: tf.Tensor) -> tf.Tensor:
    """How many components have observations, [C]."""
    return tf.reduce_sum(tf.cast(sizes > 0, tf.int32), axis=1)


def posterior(prior: Both, counts: Both) -> Both:
    """The shapes given counts."""
    return Both(prior.sticks + counts.sticks, prior.theta + counts.theta)

"""Exact laws of stochastic gradient samplers on conjugate Gaussians, and the function that accepts or rejects a run.

**The laws.** On a Gaussian posterior every sampler here is a linear recursion driven by noise whose mean and covariance
are known: Gaussian noise of the dynamics, and the noise of the minibatch, whose covariance is that of survey sampling.
So the mean and the covariance of the chain obey exact recursions at every stepsize, with no small-stepsize
approximation, although the minibatch noise is not Gaussian: second moments of a linear recursion depend on second
moments only. Chains that start with the stationary mean and covariance keep them for ever.

**The acceptance.** C independent chains give C independent values of a statistic with known expectation (a time
average over the chain of theta - m, of (theta - m)^2, ...). The z-score is their mean less the expectation,
over the *empirical* standard error, which needs no assumption on the fourth moment. A test accepts if every |z| is
below QUANTILE = 6.1.

*False-alarm rate.* QUANTILE leaves SUITE_RATE / MAX_COMPARISONS / 2 in both tails of the normal law together, so by
Bonferroni the folder, with at most MAX_COMPARISONS comparisons (counted in this process), rejects a correct program
with probability at most SUITE_RATE / 2 = 5e-7 over the choice of seeds if z is normal, and at most SUITE_RATE = 1e-6
if the normal tail is wrong by a factor of at most 2. By Edgeworth's expansion of the studentised mean the tail
probability is wrong by the factor 1 + skewness / (6 sqrt(C)) (2 q^2 + 1) q at most; `z_score` refuses to judge (an
error, not a rejection) where that exceeds 2.

*Error bound.* What a test can see is its standard error: a bias above 2 QUANTILE standard errors is rejected with
probability above 1 - 1e-9. Negative controls measure this power: each is a wrong sampler, or a wrong law, that the same
function must reject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm, skew

from sgmcmc.core.types import Dynamics, Minibatch, State, Transition
from sgmcmc.dataset import Dataset
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import build
from sgmcmc.model import Model, Returns
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Recorder

SUITE_RATE = 1e-6
MAX_COMPARISONS = 500
QUANTILE = float(norm.isf(SUITE_RATE / MAX_COMPARISONS / 4))  # 6.1

_comparisons = 0


# --- acceptance -------------------------------------------------------------------------------------------------------


def z_score(per_chain: np.ndarray, expected: float) -> float:
    """How many standard errors the mean over independent chains, [C], is from its expectation."""
    global _comparisons
    _comparisons += 1
    assert _comparisons <= MAX_COMPARISONS, "more comparisons than the false-alarm rate was divided by"
    per_chain = np.asarray(per_chain, np.float64)
    assert per_chain.ndim == 1
    if not np.isfinite(per_chain).all():
        return np.inf
    error = (per_chain.mean() - expected) / (per_chain.std(ddof=1) / np.sqrt(len(per_chain)))
    if abs(error) < QUANTILE:  # an acceptance must be sound; a z of 30 is a rejection however the tails are
        tail_factor = abs(skew(per_chain)) / (6 * np.sqrt(len(per_chain))) * (2 * QUANTILE**2 + 1) * QUANTILE
        assert tail_factor < 1, f"too few chains for so skew a statistic: {tail_factor:.2f}"
    return float(error)


def accepts(z: Mapping[str, float]) -> bool:
    return all(abs(value) < QUANTILE for value in z.values())


def accept(title: str, z: Mapping[str, float]) -> None:
    """Print a line of the table and require acceptance."""
    _print(title, z, "")
    assert accepts(z), f"{title}: {z}"


def reject(title: str, z: Mapping[str, float]) -> None:
    """Print a line of the table and require rejection."""
    _print(f"  control: {title}", z, "  rejected")
    assert not accepts(z), f"the control {title!r} was accepted: {z}"


def _print(title: str, z: Mapping[str, float], verdict: str) -> None:
    scores = "  ".join(f"{name} {value:+.1f}" for name, value in z.items())
    print(f"\n{title:<58} z: {scores}{verdict}", end="")


def moments_z(
    draws: Mapping[str, np.ndarray], mean: np.ndarray, covariance: np.ndarray, centre: np.ndarray | None = None
) -> dict[str, float]:
    """z-scores of all first and second moments about the mean of the law, time averaged within each chain.

    `draws` are d series [T, C], in the order of `mean` [d] and `covariance` [d, d].
    """
    names = list(draws)
    deviation = {name: np.asarray(draws[name], np.float64) - m for name, m in zip(names, mean, strict=True)}
    z = {f"mean {name}": z_score(deviation[name].mean(axis=0), 0.0) for name in names}
    for i, a in enumerate(names):
        for j, b in enumerate(names[: i + 1]):
            label = f"var {a}" if i == j else f"cov {b},{a}"
            z[label] = z_score((deviation[a] * deviation[b]).mean(axis=0), covariance[i, j])
    return z


# --- the model --------------------------------------------------------------------------------------------------------


class GaussianMean:
    """x_i ~ N(theta, 1), i = 1..N, and theta ~ N(0, 1/p0): the posterior is N(mean, 1/a) with a = N + p0."""

    def __init__(self, n_data: int, p0: float, dtype: tf.DType = tf.float32, seed: int = 0) -> None:
        x = np.random.default_rng(seed).normal(1.0, 1.0, n_data).astype(dtype.as_numpy_dtype)
        self.x, self.N, self.p0, self.dtype = x.astype(np.float64), n_data, p0, dtype
        self.a = n_data + p0
        self.mean = self.x.sum() / self.a
        self.model = Model(
            _log_lik, lambda p: -0.5 * p0 * tf.reduce_sum(p["theta"] ** 2), Dataset({"x": x}), Returns.SUM, dtype
        )

    def noise_without_replacement(self, n: int) -> float:
        """Variance of (N/n) sum_{i in S} (x_i - theta) over subsets S: with s^2 of divisor N - 1."""
        return self.N**2 / n * self.x.var(ddof=1) * (1 - n / self.N)

    def noise_with_replacement(self, n: int) -> float:
        return self.N**2 / n * self.x.var()

    def noise_weighted(self, n: int, p: np.ndarray, theta: float) -> float:
        """Variance of (1/n) sum_{i in S} (x_i - theta)/p_i; it depends on theta: the weights do not add up to N."""
        terms = self.x - theta
        return (np.sum(terms**2 / p) - np.sum(terms) ** 2) / n

    def noise_of_weights(self, n: int, p: np.ndarray) -> float:
        """Variance of (1/n) sum_{i in S} 1/p_i: the coefficient of theta^2 in `noise_weighted`."""
        return (np.sum(1 / p) - self.N**2) / n


def _log_lik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


# --- laws -------------------------------------------------------------------------------------------------------------


def sgld_variance(eps: float, a: float, V: float, v2: float = 0.0) -> float:
    """Stationary variance of SGLD: gradient -a (theta - m), of variance V + v2 (theta - m)^2.

    sigma^2 = (1 - eps a/2)^2 sigma^2 + eps + eps^2/4 (V + v2 sigma^2)
    """
    return (eps + eps**2 * V / 4) / (1 - (1 - eps * a / 2) ** 2 - eps**2 * v2 / 4)


class Linear(NamedTuple):
    """A step s' = A s + noise of covariance Q; s = (theta - mean, momentum)."""

    A: np.ndarray
    Q: np.ndarray

    def then(self, later: Linear) -> Linear:
        return Linear(later.A @ self.A, later.A @ self.Q @ later.A.T + later.Q)

    def repeated(self, times: int) -> Linear:
        result = Linear(np.eye(len(self.A)), np.zeros_like(self.A))
        for _ in range(times):
            result = result.then(self)
        return result

    def covariance_after(self, covariance: np.ndarray) -> np.ndarray:
        return self.A @ covariance @ self.A.T + self.Q

    def stationary_covariance(self) -> np.ndarray:
        assert np.abs(np.linalg.eigvals(self.A)).max() < 1
        return solve_discrete_lyapunov(self.A, self.Q)


def sghmc_leap(eps: float, a: float, V: float, alpha: float) -> Linear:
    """theta' = theta + nu;  nu' = (1 - alpha) nu - eps a theta' + N(0, 2 alpha eps + eps^2 V)."""
    return Linear(np.array([[1, 1], [-eps * a, 1 - alpha - eps * a]]), np.diag([0, 2 * alpha * eps + eps**2 * V]))


def momentum_refresh(eps: float) -> Linear:
    return Linear(np.diag([1.0, 0.0]), np.diag([0.0, eps]))


def sghmc_iteration(eps: float, a: float, V: float, alpha: float, L: int) -> Linear:
    return momentum_refresh(eps).then(sghmc_leap(eps, a, V, alpha).repeated(L))


# --- runs -------------------------------------------------------------------------------------------------------------


def chains(
    problem: GaussianMean,
    dynamics: Dynamics,
    minibatch: Minibatch,
    eps: float | Callable,
    n_chains: int,
    centre: float | None = None,
    seed: int = 1,
) -> Transition:
    """The sampler as the package builds it; control variates around `centre` if one is given."""
    gradient = plain(problem.model) if centre is None else control_variates(problem.model)
    return build(problem.model, minibatch, gradient, {"theta": dynamics}, {"theta": eps}, seed, n_chains)


def start_in_law(
    transition: Transition,
    mean: float,
    covariance: np.ndarray,
    n_chains: int,
    dtype: tf.DType = tf.float32,
    centre: float = 0.0,
    seed: int = 2,
) -> State:
    """A state whose theta, and momentum if the covariance is 2 x 2, are Gaussian with the given moments.

    The draws are corrected to have these moments *not* exactly but as a sample: correcting them would make the chains
    dependent.
    """
    covariance = np.atleast_2d(covariance)
    draws = np.random.default_rng(seed).multivariate_normal(
        [0] * len(covariance), covariance, n_chains, method="cholesky"
    )
    theta = tf.constant(mean + draws[:, 0], dtype)
    state = transition.init({"theta": theta}, {"theta": tf.constant(centre, dtype)})
    if len(covariance) == 2:
        memory = state.dynamics["theta"] | {"momentum": tf.constant(draws[:, 1], dtype)}
        state = state._replace(dynamics={"theta": memory})
    return state


def theta_and_momentum(state: State) -> dict[str, tf.Tensor]:
    memory = state.dynamics["theta"]
    return {"theta": state.params["theta"]} | ({"nu": memory["momentum"]} if "momentum" in memory else {})


def simulate(
    transition: Transition,
    state: State,
    n_iterations: int,
    thin: int = 1,
    record: Callable[[State], dict[str, tf.Tensor]] = theta_and_momentum,
) -> dict[str, np.ndarray]:
    """Every thin-th state: {name: [n_iterations // thin, C, ...]} in float64."""
    loop = Loop(transition, Recorder(record), state)
    leaves, blocks, left = loop.flatten(state), [], n_iterations // thin
    while left:
        rows = min(left, loop.capacity)
        block = loop.advance_and_record(leaves, rows, thin)
        leaves, left = block.leaves, left - rows
        blocks.append({name: draws.numpy()[:rows].astype(np.float64) for name, draws in block.rows.items()})
    made = int(loop.unflatten(leaves)[0].step) - int(state.step)
    assert made == n_iterations // thin * thin * transition.inner_steps, f"the loop made {made} steps"
    return {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}


# --- defects, for the negative controls -------------------------------------------------------------------------------


def scaled_noise(dynamics: Dynamics, factor: float) -> Dynamics:
    """The same with the injected noise scaled."""

    def step(eps, theta, aux, grad, noise, mean):
        return dynamics.step(eps, theta, aux, grad, factor * noise, mean)

    return dynamics._replace(step=step)


def forgotten_weight(minibatch: Minibatch) -> Minibatch:
    """The same observations, each weighing 1 rather than N/n."""

    return minibatch._replace(scale=1.0)


def same_every_time(minibatch: Minibatch) -> Minibatch:
    """The minibatch of step 0 at every step."""

    def draw(stream, step, state):
        return minibatch.draw(stream, tf.zeros_like(step), state)

    return minibatch._replace(draw=draw)

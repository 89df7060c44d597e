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
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import norm, skew

from sgmcmc import controlVariates, initSess
from sgmcmc.core.random import Stream
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics import Dynamics, Given, Memory
from sgmcmc.gradients import Gradient
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import IterationInputs
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, ProductState, build
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Mode, Model, Returns
from sgmcmc.run import Pace, Plan, Prepared, advance
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import full_gradient
from sgmcmc.run.recorder import Recorder

SUITE_RATE = 1e-6
MAX_COMPARISONS = 600
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
            _log_lik, lambda p: -0.5 * p0 * tf.reduce_sum(p["theta"] ** 2), InMemory({"x": x}), Returns.SUM, dtype
        )

    def noise_without_replacement(self, n: int) -> float:
        """Variance of (N/n) sum_{i in S} (x_i - theta) over subsets S: with s^2 of divisor N - 1."""
        return self.N**2 / n * self.x.var(ddof=1) * (1 - n / self.N)

    def noise_of_an_epoch(self, n: int) -> np.ndarray:
        """Covariance [R, R] of (N/n) sum_{i in S_r} (x_i - theta), r < R = N // n, the S_r parts of one permutation.

        Two observations of it have covariance -s^2/N, so two disjoint sums of n have -n^2 s^2/N, and so

            Cov(r, q) = -N s^2 = -V n/(N - n)    for r != q, with V = `noise_without_replacement`.
        """
        R, V = self.N // n, self.noise_without_replacement(n)
        return V * np.eye(R) - V * n / (self.N - n) * (1 - np.eye(R))

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


def sgld_variances_over_an_epoch(eps: float, a: float, noise: np.ndarray) -> np.ndarray:
    """Variances [R] of SGLD after r = 0 .. R - 1 steps of an epoch whose minibatches have covariance `noise`, [R, R].

    With c = 1 - eps a/2 and d = theta - m, a step is d_{r+1} = c d_r + eps/2 b_r + sqrt(eps) z_r, so that

        d_r = c^r d_0 + sum_{k<r} c^(r-1-k) (eps/2 b_k + sqrt(eps) z_k)

    and Var d_r = c^(2r) Var d_0 + Q_r, because epochs are independent: d_0 knows nothing of the new permutation.
    A chain is stationary from epoch to epoch if Var d_R = Var d_0, so Var d_0 = Q_R / (1 - c^(2R)).
    """
    R, c = len(noise), 1 - eps * a / 2
    weights = np.array([[c ** (r - 1 - k) if k < r else 0.0 for k in range(R)] for r in range(R + 1)])
    Q = np.einsum("rk,kq,rq->r", weights, eps * np.eye(R) + eps**2 / 4 * noise, weights)
    return c ** (2 * np.arange(R)) * Q[R] / (1 - c ** (2 * R)) + Q[:R]


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


def half_of_ubu(eps: float, alpha: float) -> Linear:
    """The motion U of UBU over half a step in closed form."""
    G, eta = -np.log(1 - alpha), np.sqrt(1 - alpha)
    of_theta = 2 / G * (0.5 - 2 * (1 - eta) / G + (1 - eta**2) / (2 * G))
    both = (1 - eta) ** 2 / G
    return Linear(np.array([[1, (1 - eta) / G], [0, eta]]), eps * np.array([[of_theta, both], [both, 1 - eta**2]]))


def settled(kernel: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, float, float, float]:
    """The stationary density of a chain on a grid, and the mean, variance and integrated autocorrelation time of theta.

    `kernel` has the probabilities from a place, in rows, to a place, in columns.
    """
    size = len(theta)
    uniform = np.full(size, 1 / size)
    density = np.linalg.solve((np.eye(size) - kernel + uniform).T, uniform)
    mean = density @ theta
    centred = theta - mean
    sums = np.linalg.solve(np.eye(size) - kernel + density, centred)  # of the expectations at all lags
    variance = density @ centred**2
    return density, mean, variance, 2 * (density * centred) @ sums / variance - 1


def found_for(setup: Callable, precisions: np.ndarray) -> tuple[float, list[Callable]]:
    """The stepsize "auto" for observations of these precisions and a mode at 0, and the noises of the gradient there.

    Control variates, and minibatches of one observation: each noise is as likely as the others, and grows with theta.
    """
    size, total = len(precisions), precisions.sum()

    def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(dataset["precision"] * params["theta"] ** 2)

    sampler = setup(
        log_lik, {"precision": precisions}, {"theta": 0.1}, minibatchSize=1, subsampling="withReplacement",
        gradient=controlVariates(), preconditioner=None, dtype="float64", seed=1,
    )  # fmt: skip
    initSess(sampler, verbose=False)
    return sampler.stepsize["theta"], [lambda x, h=h: -(size * h - total) * x for h in precisions]


# --- runs -------------------------------------------------------------------------------------------------------------


def begun(
    model: Model,
    dynamics: Mapping[str, Dynamics],
    minibatch: Minibatch,
    eps: Mapping[str, float | Schedule],
    params: Tree,
    centre: Tree | None = None,
    seed: int = 1,
    gradient: Gradient | None = None,
) -> Prepared:
    """Chains at `params`, [C, ...], as the package makes them; control variates around `centre` if one is given."""
    if gradient is None:
        gradient = plain(model) if centre is None else control_variates(model)
    at = {name: theta[0] for name, theta in params.items()} if centre is None else centre
    begin = Mode(at, full_gradient(model, at, verbose=False)[1])
    schedules = {name: h for name, h in eps.items() if callable(h)}
    shapes = {name: tuple(theta.shape[1:]) for name, theta in params.items()}
    n_chains = next(iter(params.values())).shape[0]
    iterations = Iterations(shapes, model.dtype, schedules, n_chains)
    kernel = build(Product(model, minibatch, gradient, dynamics, iterations))
    given = constants(
        seed,
        eps,
        {"estimator": gradient.prepare(begin, verbose=False), "minibatch": minibatch.prepare(None)},
        model.dtype,
        range(n_chains),
    )
    return Prepared(kernel, given, kernel.init(given, params), model.data, n_chains)


def chains(
    problem: GaussianMean,
    dynamics: Dynamics,
    minibatch: Minibatch,
    eps: float | Schedule,
    n_chains: int,
    mean: float,
    covariance: np.ndarray | float,
    centre: float | None = None,
    seed: int = 1,
    gradient: Gradient | None = None,
) -> Prepared:
    """Chains whose theta, and momentum if the covariance is 2 x 2, are at first Gaussian with these moments.

    The draws are corrected to have these moments *not* exactly but as a sample: correcting them would make the chains
    dependent.
    """
    covariance = np.atleast_2d(covariance)
    draws = np.random.default_rng(2).multivariate_normal([0] * len(covariance), covariance, n_chains, method="cholesky")
    params = {"theta": tf.constant(mean + draws[:, 0], problem.dtype)}
    at = None if centre is None else {"theta": tf.constant(centre, problem.dtype)}
    prepared = begun(problem.model, {"theta": dynamics}, minibatch, {"theta": eps}, params, at, seed, gradient)
    if len(covariance) == 1:
        return prepared
    if "unit_momentum" in prepared.state.memory["theta"]:
        return remembering(prepared, unit_momentum=draws[:, 1] / np.sqrt(eps))
    return remembering(prepared, momentum=draws[:, 1])


def remembering(prepared: Prepared, **memory: np.ndarray) -> Prepared:
    """The same with other values, [C, ...], in the memory of theta."""
    state = prepared.state
    changed = {key: tf.constant(value, state.memory["theta"][key].dtype) for key, value in memory.items()}
    return replace(prepared, state=state._replace(memory={"theta": state.memory["theta"] | changed}))


def theta_and_momentum(state: ProductState) -> dict[str, tf.Tensor]:
    """The momentum as it is remembered: over sqrt(eps) where it is not renewed in each iteration."""
    momenta = {key: value for key, value in state.memory["theta"].items() if key.endswith("momentum")}
    return {"theta": state.params["theta"], **momenta}


def simulate(
    prepared: Prepared,
    n_iterations: int,
    thin: int = 1,
    record: Callable[[ProductState], dict[str, tf.Tensor]] = theta_and_momentum,
) -> dict[str, np.ndarray]:
    """Every thin-th state: {name: [n_iterations // thin, C, ...]} in float64."""

    def numbered(constants: Tree, state: ProductState, inputs: IterationInputs) -> dict[str, tf.Tensor]:
        return record(state) | {"iteration": tf.fill([prepared.chains], tf.bitcast(inputs.iteration, tf.int32))}

    loop = Loop(prepared, Recorder(numbered))
    rows, plan = [], Plan(n_iterations, thin)
    for stretch, outcome in advance.stretches(
        loop, loop.flatten(prepared.state), plan, Pace(loop.feed.length, loop.shortest)
    ):
        rows.append([row.numpy()[: stretch.n_rows].astype(np.float64) for row in outcome.rows])
    loop.feed.close()
    draws = tf.nest.pack_sequence_as(loop.row_specs, [np.concatenate(series) for series in zip(*rows, strict=True)])
    made = draws.pop("iteration")[:, 0] + 1
    np.testing.assert_array_equal(made, np.arange(thin, n_iterations + 1, thin), "the loop recorded other iterations")
    return draws


# --- defects, for the negative controls -------------------------------------------------------------------------------


def scaled_noise(dynamics: Dynamics, factor: float) -> Dynamics:
    """The same with the injected noise scaled."""

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        scaled = tf.nest.map_structure(lambda z: factor * z, given.noise)  # of one noise or of several
        return dynamics.step(theta, memory, given._replace(noise=scaled))

    return dynamics._replace(step=step)


def forgotten_weight(minibatch: Minibatch) -> Minibatch:
    """The same observations, each weighing 1 rather than N/n."""

    return minibatch._replace(scale=1.0)


def same_every_epoch(minibatch: Minibatch, n_data: int) -> Minibatch:
    """The permutation of the first epoch in every epoch."""

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree) -> tuple[tf.Tensor, tf.Tensor | None]:
        return minibatch.draw(stream, counters % tf.constant(n_data // minibatch.size, tf.uint32), constants)

    return minibatch._replace(draw=draw)


def same_every_time(minibatch: Minibatch) -> Minibatch:
    """The minibatch of step 0 at every step."""

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree) -> tuple[tf.Tensor, tf.Tensor | None]:
        return minibatch.draw(stream, tf.zeros_like(counters), constants)

    return minibatch._replace(draw=draw)

"""BAOAB, UBU, BADODAB, SGHMC with estimated noise, pSGLD, CCAdL and Gibbs steps: where their chains settle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.linalg import block_diag
from scipy.optimize import brentq

from sgmcmc.core.covariance import Covariance
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics import Given
from sgmcmc.dynamics.badodab import badodab
from sgmcmc.dynamics.baoab import baoab
from sgmcmc.dynamics.ccadl import ccadl
from sgmcmc.dynamics.psgld import psgld
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgnht import sgnht
from sgmcmc.dynamics.ubu import ubu
from sgmcmc.kernel.user_steps import GibbsStep, not_moved, with_gibbs
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.symmetric import symmetric
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.model import Model, Returns
from tests.statistical.laws import (
    GaussianMean,
    Linear,
    accept,
    begun,
    chains,
    half_of_ubu,
    moments_z,
    momentum_refresh,
    reject,
    scaled_noise,
    sghmc_iteration,
    sgld_variance,
    simulate,
    z_score,
)

N, n, P0, C = 90, 9, 10.0, 4000
NORMAL = GaussianMean(N, P0)
WITH = with_replacement(N, n)
V = NORMAL.noise_with_replacement(n)


# --- BAOAB ------------------------------------------------------------------------------------------------------------


def splitting(eps: float, precision: float, noise: float, c: float, heat: float) -> tuple[Linear, Linear]:
    """Of (theta - mean, momentum): the kick, and what follows it; c and `heat` are those of O."""
    B = Linear(np.array([[1, 0], [-eps * precision, 1]]), np.diag([0, eps**2 * noise]))
    A = Linear(np.array([[1, 0.5], [0, 1]]), np.zeros((2, 2)))
    O = Linear(np.diag([1, c]), np.diag([0, (1 - c**2) * heat]))  # noqa: E741
    return B, A.then(O).then(A)


def baoab_law(eps: float, noise: float, alpha: float, precision: float = NORMAL.a) -> Linear:
    """Of (theta - mean, momentum), from one iteration to the next, part by part."""
    kick, rest = splitting(eps, precision, noise, 1 - alpha, eps)
    return kick.then(rest)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_baoab(alpha):
    eps, mean = 0.5 / NORMAL.a, np.array([NORMAL.mean, 0.0])
    covariance = baoab_law(eps, V, alpha).stationary_covariance()

    def run(dynamics):
        draws = simulate(chains(NORMAL, dynamics, WITH, eps, C, NORMAL.mean, covariance), 300, 5)
        return draws | {"unit_momentum": np.sqrt(eps) * draws["unit_momentum"]}

    draws = run(baoab(alpha))
    accept(f"baoab, alpha = {alpha}", moments_z(draws, mean, covariance))
    reject(
        "law without noise of the gradients", moments_z(draws, mean, baoab_law(eps, 0, alpha).stationary_covariance())
    )
    reject("noise * sqrt(2)", moments_z(run(scaled_noise(baoab(alpha), np.sqrt(2))), mean, covariance))
    told = baoab(alpha).stationary(eps, np.array([NORMAL.a]), np.array([V]))
    np.testing.assert_allclose(told.variance, covariance[0, 0], rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_baoab_tells_the_variance_that_it_settles_with(alpha):
    """Its temperature is that after the kick: one step from points that have the moments of the law exactly."""
    eps = 0.5 / NORMAL.a
    covariance = baoab_law(eps, V, alpha).stationary_covariance()
    root = block_diag(np.linalg.cholesky(covariance), np.sqrt(V), 1.0)
    theta, u, error, z = (tf.constant(x) for x in 2 * np.hstack([root, -root]))
    begun = {"unit_momentum": u / np.sqrt(eps), "kinetic_temperature": tf.constant(1.0, tf.float64)}
    given = Given(tf.constant(eps, tf.float64), z, -NORMAL.a * theta + error)
    moved, memory = baoab(alpha).step(theta, begun, given)
    np.testing.assert_allclose(np.mean(moved**2), covariance[0, 0], rtol=1e-9)  # the points are from the law
    told = baoab(alpha).stats(memory, given)
    kicked = 1 + eps * V / ((1 - eps * NORMAL.a / 4) * alpha * (2 - alpha))
    np.testing.assert_allclose(told["kinetic_temperature"], kicked, rtol=1e-9)
    np.testing.assert_allclose(told["variance_ratio"], covariance[0, 0] * NORMAL.a, rtol=1e-9)


def test_baoab_is_exact_on_a_gaussian_whatever_the_stepsize():
    """Control variates make the gradient exact; with eps a = 2 SGLD's variance would be twice the posterior's."""
    eps = 2 / NORMAL.a
    covariance = baoab_law(eps, 0, 0.2).stationary_covariance()
    np.testing.assert_allclose(covariance[0, 0], 1 / NORMAL.a, rtol=1e-12)
    draws = simulate(chains(NORMAL, baoab(0.2), WITH, eps, C, NORMAL.mean, covariance, centre=NORMAL.mean), 200, 5)
    draws["unit_momentum"] *= np.sqrt(eps)
    accept("baoab, eps a = 2", moments_z(draws, np.array([NORMAL.mean, 0.0]), covariance))


# --- UBU --------------------------------------------------------------------------------------------------------------


def kick(eps: float, noise: float) -> Linear:
    return Linear(np.array([[1, 0], [-eps * NORMAL.a, 1]]), np.diag([0, eps**2 * noise]))


def ubu_law(eps: float, noise: float, alpha: float) -> Linear:
    U = half_of_ubu(eps, alpha)
    return U.then(kick(eps, noise)).then(U)


def theta_of_ubu(dynamics, minibatch, eps, variance, iterations=400, thin=5, centre=None):
    """theta, without the first quarter, in which the momentum settles."""
    prepared = chains(NORMAL, dynamics, minibatch, eps, C, NORMAL.mean, variance, centre)
    theta = simulate(prepared, iterations, thin)["theta"]
    return {"theta": theta[len(theta) // 4 :]}


@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_ubu(alpha):
    """The variance without noise of the gradients is 8% too small here; with it, up to 4 times as large."""
    eps, mean = 0.5 / NORMAL.a, np.array([NORMAL.mean])
    covariance, without = (ubu_law(eps, v, alpha).stationary_covariance()[:1, :1] for v in (V, 0))
    draws = theta_of_ubu(ubu(alpha), WITH, eps, covariance)
    accept(f"ubu, alpha = {alpha}", moments_z(draws, mean, covariance))
    reject("law without noise of the gradients", moments_z(draws, mean, without))
    wrong = theta_of_ubu(scaled_noise(ubu(alpha), np.sqrt(2)), WITH, eps, covariance)
    reject("noise * sqrt(2)", moments_z(wrong, mean, covariance))
    draws = theta_of_ubu(ubu(alpha), WITH, eps, without, centre=NORMAL.mean)
    accept("ubu, exact gradients", moments_z(draws, mean, without))
    reject("the posterior", moments_z(draws, mean, np.array([[1 / NORMAL.a]])))


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.6, 0.99])
@pytest.mark.parametrize(("w", "noise"), [(1e-3, 0.0), (0.5, 0.3), (3.9, 1.0)])
def test_ubu_tells_where_it_settles(alpha, w, noise):
    eps, v = w / NORMAL.a, noise * NORMAL.a
    law = ubu_law(eps, v, alpha)
    told = ubu(alpha).stationary(eps, np.array([NORMAL.a, 2 * NORMAL.a]), np.array([v, v]))
    covariance = law.stationary_covariance()
    np.testing.assert_allclose(told.variance[0], covariance[0, 0], rtol=1e-6)
    later = np.linalg.solve(np.eye(2) - law.A, law.A @ covariance)[0, 0]
    np.testing.assert_allclose(told.iterations[0], max(1 + 2 * later / covariance[0, 0], 1), rtol=1e-5)
    twice = half_of_ubu(eps, alpha).A @ np.array([[1, 0], [-2 * w, 1]]) @ half_of_ubu(eps, alpha).A
    assert np.isfinite(told.variance[1]) == (np.abs(np.linalg.eigvals(twice)).max() < 1)


def temperature_of_ubu(eps, noise, alpha):
    """Of the momentum in the middle of the kick."""
    before = half_of_ubu(eps, alpha).covariance_after(ubu_law(eps, noise, alpha).stationary_covariance())
    half = np.array([[1, 0], [-eps * NORMAL.a / 2, 1]])  # and half of the noise of the kick
    return ((half @ before @ half.T)[1, 1] + eps**2 * noise / 4) / eps


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9])
def test_the_variance_of_ubu_follows_from_its_temperature(alpha):
    """Exactly for a small stepsize, with noise that makes the variance 1.5 times as large."""
    eps = 1e-4 / NORMAL.a
    v = -np.log(1 - alpha) / eps
    (shift, slope), variance = ubu(alpha).variance, ubu_law(eps, v, alpha).stationary_covariance()[0, 0] * NORMAL.a
    np.testing.assert_allclose(variance, 1.5, rtol=1e-3)
    np.testing.assert_allclose(variance, shift + slope * temperature_of_ubu(eps, v, alpha), rtol=1e-3)


@pytest.mark.parametrize(("alpha", "w", "noise"), [(0.01, 1.0, 0.0), (0.1, 0.6, 0.1), (0.5, 0.5, 0.0)])
def test_the_variance_of_ubu_nearly_follows_for_large_stepsizes(alpha, w, noise):
    eps, v = w / NORMAL.a, noise * NORMAL.a
    (shift, slope), variance = ubu(alpha).variance, ubu_law(eps, v, alpha).stationary_covariance()[0, 0] * NORMAL.a
    assert abs(variance - 1) > 0.05
    np.testing.assert_allclose(variance, shift + slope * temperature_of_ubu(eps, v, alpha), rtol=0.02)


def test_ubu_with_symmetric_minibatches():
    """After each cycle of 2R gradients, whose minibatches' covariance is that of the parts of one permutation."""
    eps, alpha, size = 0.05 / NORMAL.a, 0.1, 15
    R = N // size
    places = [*range(R), *reversed(range(R))]
    noise = NORMAL.noise_of_an_epoch(size)[np.ix_(places, places)]
    U = half_of_ubu(eps, alpha)
    one = ubu_law(eps, 0, alpha)
    cycle = one.repeated(2 * R)
    after = [np.linalg.matrix_power(one.A, 2 * R - 1 - k) @ U.A @ np.array([0, eps]) for k in range(2 * R)]
    of_cycle = np.einsum("ki,kq,qj->ij", after, noise, after)
    covariance = Linear(cycle.A, cycle.Q + of_cycle).stationary_covariance()[:1, :1]
    fresh = ubu_law(eps, NORMAL.noise_without_replacement(size), alpha).stationary_covariance()[:1, :1]
    assert fresh > 1.1 * covariance

    def scores(minibatch, law):
        draws = theta_of_ubu(ubu(alpha), minibatch, eps, covariance, 100 * R, 2 * R)
        return moments_z(draws, np.array([NORMAL.mean]), law)

    accept("ubu, symmetric", scores(symmetric(N, size), covariance))
    reject("law of fresh minibatches", scores(symmetric(N, size), fresh))
    reject("fresh minibatches", scores(without_replacement(N, size), covariance))
    reject("reshuffled minibatches", scores(reshuffled(N, size), covariance))


# --- thermostats ------------------------------------------------------------------------------------------------------


def test_badodab_is_right_where_sgnht_is_not():
    """With a = 0.3 SGNHT's variance is 18% too small however small the stepsize; exact gradients, eps a = 0.02."""
    eps, a = 0.02 / NORMAL.a, 0.3

    def squares(dynamics):
        prepared = chains(NORMAL, dynamics, WITH, eps, C, NORMAL.mean, 1 / NORMAL.a, centre=NORMAL.mean)
        theta = simulate(prepared, 800, 5)["theta"][40:] - NORMAL.mean
        return (theta**2).mean(axis=0) * NORMAL.a

    accept("badodab, a = 0.3", {"var": z_score(squares(badodab(a)), 1.0)})
    reject("sgnht, a = 0.3", {"var": z_score(squares(sgnht(a)), 1.0)})
    reject("badodab, noise * sqrt(2)", {"var": z_score(squares(scaled_noise(badodab(a), np.sqrt(2))), 1.0)})


# --- SGHMC with estimated noise ---------------------------------------------------------------------------------------


def test_estimated_noise_is_taken_off():
    """The law is that without noise of the gradients: its estimate is unbiased, and below the friction."""
    eps, alpha, leaps, size, mean = 1e-3, 0.5, 3, 30, np.array([NORMAL.mean, 0.0])
    noise = NORMAL.noise_with_replacement(size)
    covariance, noisy = (sghmc_iteration(eps, NORMAL.a, v, alpha, leaps).stationary_covariance() for v in (0.0, noise))

    def scores(dynamics):
        draws = simulate(chains(NORMAL, dynamics, with_replacement(N, size), eps, C, NORMAL.mean, covariance), 300, 10)
        return [moments_z(draws, mean, law) for law in (covariance, noisy)]

    of_law, of_noisy = scores(sghmc(alpha, leaps, fisher=True))
    accept("sghmc, estimated noise", of_law)
    reject("law of sghmc with the noise", of_noisy)
    reject("noise not taken off", scores(sghmc(alpha, leaps))[0])
    reject("noise * sqrt(2)", scores(scaled_noise(sghmc(alpha, leaps, fisher=True), np.sqrt(2)))[0])


# --- pSGLD ------------------------------------------------------------------------------------------------------------


def test_psgld_with_a_preconditioner_that_stays_is_sgld():
    """Each chain has the G of its first gradient, and settles where SGLD with the stepsize eps G does."""
    eps, delta = 0.3 / NORMAL.a, 0.5

    def scores(dynamics):
        prepared = chains(NORMAL, dynamics, WITH, eps, C, NORMAL.mean, 1 / NORMAL.a)

        def record(state):
            return {"theta": state.params["theta"], "square": state.memory["theta"]["square"]}

        draws = {name: series[20:] for name, series in simulate(prepared, 400, 5, record).items()}
        G = 1 / (delta + np.sqrt(draws["square"]))
        law = sgld_variance(eps * G, NORMAL.a, V)
        theta = draws["theta"] - NORMAL.mean
        return {"mean": z_score(theta.mean(axis=0), 0.0), "var": z_score((theta**2 / law).mean(axis=0), 1.0)}

    fixed = psgld(N, 0.9, delta, adapt=1)
    accept("psgld, adapt=1", scores(fixed))
    reject("adapting on", scores(psgld(N, 0.0, delta, adapt=None)))
    reject("noise * sqrt(2)", scores(scaled_noise(fixed, np.sqrt(2))))


# --- CCAdL ------------------------------------------------------------------------------------------------------------


class MeanAndPrecision:
    """x_i ~ N(mu, 1/gamma), a Normal-Gamma prior, N = 100: the problem of Shang et al. (2015), section 4.1."""

    def __init__(self) -> None:
        x = np.random.default_rng(1).normal(size=100)
        size = len(x)
        shape, rate = 1 + size / 2, 1 + ((x - x.mean()) ** 2).sum() / 2 + size * x.mean() ** 2 / 2 / (1 + size)
        self.mean = np.array([x.sum() / (size + 1), shape / rate])
        self.variance = np.array([rate / ((shape - 1) * (size + 1)), shape / rate**2])

        def log_lik(params, dataset):
            mu, gamma = tf.unstack(params["theta"])
            return tf.reduce_sum(0.5 * tf.math.log(gamma) - 0.5 * gamma * (dataset["x"] - mu) ** 2)

        def log_prior(params):
            mu, gamma = tf.unstack(params["theta"])
            return 0.5 * tf.math.log(gamma) - 0.5 * gamma * mu**2 - gamma

        self.model = Model(log_lik, log_prior, InMemory({"x": x.astype(np.float32)}), Returns.SUM, tf.float32)

    def variances(self, dynamics, eps):
        """Of theta, relative to the posterior's, [2, C]."""
        start = self.mean + np.sqrt(self.variance) * np.random.default_rng(2).normal(size=(400, 2))
        params = {"theta": tf.constant(start, tf.float32)}
        prepared = begun(self.model, {"theta": dynamics}, with_replacement(100, 10), {"theta": eps}, params)
        draws = simulate(prepared, 8000, 10, lambda state: state.params)["theta"][200:]
        return (((draws - self.mean) ** 2).mean(axis=0) / self.variance).T


def test_ccadl_is_right_where_noise_differs_between_directions_and_with_theta():
    """h = 0.01, A = 1, where SGNHT's only thermostat cannot hold mu and gamma both: +43% and -49% of the variances.

    CCAdL's steps themselves make a few per cent; by a simulation in NumPy of 400 chains of 20,000 iterations -3.6% and
    -5.2%, which is asked for to 3%: the standard error here is 0.4%.
    """
    problem, eps, a = MeanAndPrecision(), 1e-4, 0.01
    for how in Covariance:
        of_mu, of_gamma = problem.variances(ccadl(a, how), eps)
        assert abs(of_mu.mean() - 0.964) < 0.03 and abs(of_gamma.mean() - 0.948) < 0.03
    of_mu, of_gamma = problem.variances(sgnht(a), eps)
    assert of_mu.mean() > 1.3 and of_gamma.mean() < 0.7


# --- what dynamics tell of where they settle --------------------------------------------------------------------------

EPS, HEAT, FRICTION, LEAPS = 0.02, 0.05, 0.3, 5
PRECISION, NOISE = np.array([1.0, 20.0, 50.0]), np.array([5.0, 0.0, 10.0])
LOUD = np.array([5.0, 0.0, 100.0])  # the noise of one direction is more than the friction


def of_badodab() -> list[Linear]:
    def parts(xi: float) -> list[tuple[Linear, Linear]]:
        return [splitting(EPS, h, v, np.exp(-xi), EPS * HEAT / xi) for h, v in zip(PRECISION, NOISE, strict=True)]

    def excess(xi: float) -> float:
        squares = []
        for kick, rest in parts(xi):
            settled = kick.then(rest).stationary_covariance()
            squares += [settled[1, 1], kick.covariance_after(settled)[1, 1]]
        return np.mean(squares) - EPS

    return [kick.then(rest) for kick, rest in parts(brentq(excess, 1e-4, 2.5, xtol=1e-15))]


def of_thermostat(own: float) -> list[Linear]:
    """SGNHT's, or with own = 1 CCAdL's."""

    def laws(xi: float) -> list[Linear]:
        left = 1 - xi - own * EPS * NOISE / 2
        return [
            Linear(np.array([[1 - EPS * h, c], [-EPS * h, c]]), np.full((2, 2), 2 * HEAT * EPS + EPS**2 * v))
            for h, v, c in zip(PRECISION, NOISE, left, strict=True)
        ]

    def excess(xi: float) -> float:
        return np.mean([law.stationary_covariance()[1, 1] for law in laws(xi)]) - EPS

    return laws(brentq(excess, 1e-4, 0.6, xtol=1e-15))


def of_sghmc_with_estimated_noise() -> list[Linear]:
    laws = []
    for h, v in zip(PRECISION, LOUD, strict=True):
        added = 2 * max(FRICTION - EPS * v / 2, 0) * EPS + EPS**2 * v
        leap = Linear(np.array([[1, 1], [-EPS * h, 1 - FRICTION - EPS * h]]), np.diag([0, added]))
        A, Q = momentum_refresh(EPS).then(leap.repeated(LEAPS))
        laws.append(Linear(A[:1, :1], Q[:1, :1]))
    return laws


@pytest.mark.parametrize(
    ("dynamics", "noise", "laws"),
    [
        (baoab(0.3), NOISE, [baoab_law(EPS, v, 0.3, h) for h, v in zip(PRECISION, NOISE, strict=True)]),
        (baoab(1.0), NOISE, [baoab_law(EPS, v, 1.0, h) for h, v in zip(PRECISION, NOISE, strict=True)]),
        (badodab(HEAT), NOISE, of_badodab()),
        (sgnht(HEAT), NOISE, of_thermostat(own=0.0)),
        (ccadl(HEAT, Covariance.DIAGONAL), NOISE, of_thermostat(own=1.0)),
        (sghmc(FRICTION, LEAPS, fisher=True), LOUD, of_sghmc_with_estimated_noise()),
    ],
    ids=["baoab", "baoab-1", "badodab", "sgnht", "ccadl", "sghmc"],
)
def test_dynamics_tell_the_variances_and_the_times_of_linear_laws(dynamics, noise, laws):
    """The thermostats' at the friction with E u^2 = eps on average."""
    told = dynamics.stationary(EPS, PRECISION, noise)
    settled = [law.stationary_covariance() for law in laws]
    later = [np.linalg.solve(np.eye(len(s)) - law.A, law.A @ s) for law, s in zip(laws, settled, strict=True)]
    times = [max(1 + 2 * sums[0, 0] / s[0, 0], 1) for sums, s in zip(later, settled, strict=True)]
    np.testing.assert_allclose(told.variance, [s[0, 0] for s in settled], rtol=1e-9)
    np.testing.assert_allclose(told.iterations, times, rtol=1e-9)


# --- Gibbs steps ------------------------------------------------------------------------------------------------------


def test_gibbs_steps_of_a_hierarchical_model():
    """y_ij ~ N(theta_j, 1), theta_j ~ N(0, 1/lam), lam ~ Gamma(2, 1): lam | theta is Gamma, and lam | y by quadrature.

    theta moves by BAOAB with all data, whose steps of eps (M + lam) = 0.04 make no error that 300 chains would show.
    """
    J, M, shape, rate = 8, 20, 2.0, 1.0
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(J), M)
    y = 1.5 * rng.normal(size=J)[group] + rng.normal(size=J * M)
    mean = np.array([y[group == j].mean() for j in range(J)])
    lam = np.linspace(1e-4, 15, 20_001)
    of_mean = 1 / M + 1 / lam[:, None]
    log_p = (shape - 1) * np.log(lam) - rate * lam - 0.5 * (np.log(of_mean) + mean**2 / of_mean).sum(axis=1)
    p = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    of_log, below = p @ np.log(lam), p @ (lam < 1)
    of_first = p @ (1 / (M + lam) + (mean[0] * M / (M + lam)) ** 2)  # E theta_0^2

    def log_lik(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["group"], params["theta"])) ** 2)

    def log_prior(params):
        theta, lam = params["theta"], params["lam"]
        of_theta = J / 2 * tf.math.log(lam) - lam / 2 * tf.reduce_sum(theta**2)
        return of_theta + (shape - 1) * tf.math.log(lam) - rate * lam

    data = InMemory({"y": y.astype(np.float32), "group": np.eye(J, dtype=np.float32)[group]})
    model = Model(log_lik, log_prior, data, Returns.SUM, tf.float32)
    size, n_chains, eps = J * M, 300, 0.002

    def squares(prior_shape):
        def update(params, data, seed):
            beta = rate + 0.5 * tf.reduce_sum(params["theta"] ** 2)
            return {
                "lam": tfp.distributions.Gamma(tf.constant(prior_shape + J / 2, tf.float32), beta).sample(seed=seed)
            }

        params = {"theta": tf.tile(tf.constant(mean[None], tf.float32), [n_chains, 1]), "lam": tf.ones([n_chains])}
        dynamics = {"theta": baoab(0.2), "lam": not_moved()}
        prepared = begun(model, dynamics, without_replacement(size, size), dict.fromkeys(params, eps), params)
        step = GibbsStep(update, frozenset({"lam"}))
        prepared = replace(prepared, kernel=with_gibbs(prepared.kernel, step, n_chains))
        draws = simulate(prepared, 1500, 10, lambda state: state.params)
        late = {name: x[30:] for name, x in draws.items()}
        return {
            "log lam": z_score(np.log(late["lam"]).mean(axis=0), of_log),
            "lam < 1": z_score((late["lam"] < 1).mean(axis=0), below),
            "theta_0^2": z_score((late["theta"][:, :, 0] ** 2).mean(axis=0), of_first),
        }

    accept("baoab and Gibbs", squares(shape))
    reject("Gibbs with the shape of another prior", squares(shape + 1))

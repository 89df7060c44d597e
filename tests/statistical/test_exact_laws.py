"""The samplers against their exact laws; see `laws` for the theory, the acceptance and its false-alarm rate.

``pytest -s tests/statistical`` prints the z-scores of every comparison and of every negative control.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.core.errors import DivergenceError
from sgmcmc.core.schedules import polynomial
from sgmcmc.core.trees import numbered
from sgmcmc.dataset.memory import InMemory
from sgmcmc.draws import temperature as tuning
from sgmcmc.dynamics import Dynamics, Given
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.saga import saga
from sgmcmc.gradients.svrg import svrg
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import weighted
from sgmcmc.model import Batch, Mode, Model, Returns
from sgmcmc.run.mode import full_gradient
from tests.statistical.laws import (
    QUANTILE,
    GaussianMean,
    Linear,
    accept,
    begun,
    chains,
    forgotten_weight,
    moments_z,
    momentum_refresh,
    reject,
    remembering,
    same_every_epoch,
    same_every_time,
    scaled_noise,
    sghmc_iteration,
    sghmc_leap,
    sgld_variance,
    sgld_variances_over_an_epoch,
    simulate,
    z_score,
)

N, n, P0 = 90, 9, 10.0  # the grid of the sampler of subsets has 100 points, so images outside do occur
C = 4000
NORMAL = GaussianMean(N, P0)
P = np.random.default_rng(5).uniform(0.5, 1.5, N)
P /= P.sum()
WITHOUT, WITH, WEIGHTED = without_replacement(N, n), with_replacement(N, n), weighted(N, n, tf.float32, P)
V, V_WITH = NORMAL.noise_without_replacement(n), NORMAL.noise_with_replacement(n)


def theta_run(dynamics, minibatch, eps, variance, centre=None, problem=NORMAL, iterations=300, thin=5, seed=1):
    """theta, [T, C], of chains that start with the posterior mean and the given variance."""
    prepared = chains(problem, dynamics, minibatch, eps, C, problem.mean, variance, centre, seed)
    return simulate(prepared, iterations, thin)


def law(variance, problem=NORMAL):
    return np.array([problem.mean]), np.array([[variance]])


# --- SGLD -------------------------------------------------------------------------------------------------------------

EPS = 0.4 / NORMAL.a


def every_draw(centre, noise):
    """theta and what is recorded with it, [300, C] each."""
    variance = sgld_variance(EPS, NORMAL.a, noise)
    prepared = chains(NORMAL, sgld(), WITHOUT, EPS, C, NORMAL.mean, variance, centre)
    return simulate(prepared, 300, record=lambda state: {"theta": state.params["theta"]} | state.memory["theta"])


@pytest.fixture(scope="module")
def plain_draws():
    return every_draw(None, V)


@pytest.fixture(scope="module")
def control_variates_draws():
    return every_draw(NORMAL.mean + 0.2, 0.0)


def every_fifth(draws):
    return {"theta": draws["theta"][4::5]}


def test_sgld_float64():
    problem = GaussianMean(N, P0, tf.float64)
    variance = sgld_variance(EPS, problem.a, problem.noise_without_replacement(n))
    draws = theta_run(sgld(), WITHOUT, EPS, variance, problem=problem)
    accept("sgld, without replacement, float64", moments_z(draws, *law(variance, problem)))


def test_sgld(plain_draws):
    variance, draws = sgld_variance(EPS, NORMAL.a, V), every_fifth(plain_draws)
    accept("sgld, without replacement, float32", moments_z(draws, *law(variance)))
    reject("true posterior in place of the law", moments_z(draws, *law(1 / NORMAL.a)))
    reject("law of minibatches with replacement", moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, V_WITH))))
    reject("law without the prior", moments_z(draws, np.array([NORMAL.x.mean()]), np.array([[variance]])))


@pytest.mark.parametrize(
    ("title", "dynamics", "minibatch"),
    [
        ("noise * sqrt(2)", scaled_noise(sgld(), np.sqrt(2)), WITH),
        ("noise * 1.05", scaled_noise(sgld(), 1.05), WITH),
        ("forgotten N/n", sgld(), forgotten_weight(WITH)),
        ("the same minibatch at every step", sgld(), same_every_time(WITH)),
    ],
)
def test_defects_of_sgld_are_seen(title, dynamics, minibatch):
    variance = sgld_variance(EPS, NORMAL.a, V_WITH)
    reject(f"sgld, {title}", moments_z(theta_run(dynamics, minibatch, EPS, variance), *law(variance)))


def test_sgld_with_replacement():
    variance = sgld_variance(EPS, NORMAL.a, V_WITH)
    draws = theta_run(sgld(), WITH, EPS, variance)
    accept("sgld, with replacement", moments_z(draws, *law(variance)))
    reject("law of minibatches without", moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, V))))


def test_sgld_weighted():
    """The noise of the estimate depends on theta: V(theta) = V(m) + v1 (theta - m) + v2 (theta - m)^2."""
    V_at_mean, v2 = NORMAL.noise_weighted(n, P, NORMAL.mean), NORMAL.noise_of_weights(n, P)
    slope = NORMAL.noise_weighted(n, P, NORMAL.mean + 1) - V_at_mean - v2
    assert abs(slope) > 1  # a linear term there is, and it drops out of the stationary variance
    variance = sgld_variance(EPS, NORMAL.a, V_at_mean, v2)
    draws = theta_run(sgld(), WEIGHTED, EPS, variance)
    accept("sgld, weighted", moments_z(draws, *law(variance)))
    reject(
        "law of uniform minibatches",
        moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, NORMAL.noise_with_replacement(n)))),
    )
    uniform_weights = WEIGHTED._replace(
        draw=lambda stream, counters, constants: (WEIGHTED.draw(stream, counters, constants)[0], None), scale=N / n
    )
    reject(
        "sgld, weights N/n in place of 1/(n p_i)",
        moments_z(theta_run(sgld(), uniform_weights, EPS, variance), *law(variance)),
    )


def test_parts_of_a_minibatch_are_one():
    """Three parts of three observations have the law of nine, drawn without replacement."""
    three = without_replacement(N, n // 3)._replace(parts=lambda params, constants: tf.constant(3))
    variance = sgld_variance(EPS, NORMAL.a, V)
    draws = theta_run(sgld(), three, EPS, variance)
    accept("sgld, three parts of a minibatch", moments_z(draws, *law(variance)))
    reject(
        "law of one part",
        moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, NORMAL.noise_without_replacement(n // 3)))),
    )


def test_svrg_has_no_noise_on_a_gaussian():
    """Wherever the centre is: the gradients of all observations differ by the same."""
    elements = numbered({"theta": ()})
    variance = sgld_variance(EPS, NORMAL.a, 0.0)
    prepared = chains(
        NORMAL, sgld(), WITHOUT, EPS, C, NORMAL.mean, variance, gradient=svrg(NORMAL.model, elements, every=7)
    )
    draws = simulate(prepared, 300, 5)
    accept("sgld with svrg", moments_z(draws, *law(variance)))
    reject("law of plain gradients", moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, V))))


@pytest.mark.parametrize("how", ["without replacement", "with replacement"])
def test_saga_is_what_a_simulation_of_its_definition_is(how):
    """The table's entries are of different ages, and so is the noise. The simulation, in NumPy, is as long again."""
    few, eps = 3, 1 / NORMAL.a  # so that the noise is seen
    repeats = how == "with replacement"
    minibatch = with_replacement(N, few) if repeats else without_replacement(N, few)
    gradient = saga(NORMAL.model, numbered({"theta": ()}), repeats=repeats)
    prepared = chains(NORMAL, sgld(), minibatch, eps, C, NORMAL.mean, 1 / NORMAL.a, gradient=gradient)
    draws = simulate(prepared, 300, 5)["theta"][20:]
    rng = np.random.default_rng(8)
    theta = NORMAL.mean + rng.normal(size=(C, 1)) / np.sqrt(NORMAL.a)
    table = np.broadcast_to(NORMAL.x - theta[0], (C, N)).copy()
    squares = []
    for iteration in range(300):
        without = rng.random((C, N)).argsort(axis=1)[:, :few]
        chosen = rng.integers(0, N, (C, few)) if repeats else without
        terms = NORMAL.x[chosen] - theta
        change = terms - np.take_along_axis(table, chosen, axis=1)
        estimate = -P0 * theta + N / few * change.sum(axis=1, keepdims=True) + table.sum(axis=1, keepdims=True)
        np.put_along_axis(table, chosen, terms, axis=1)
        theta = theta + eps / 2 * estimate + np.sqrt(eps) * rng.normal(size=(C, 1))
        if iteration % 5 == 4 and iteration >= 100:
            squares.append((theta[:, 0] - NORMAL.mean) ** 2)
    expected = np.mean(squares, axis=0)
    found = ((draws - NORMAL.mean) ** 2).mean(axis=0)
    accept(f"sgld with saga, {how}", {"var": z_score(found - expected, 0.0)})
    plain_variance = sgld_variance(eps, NORMAL.a, NORMAL.noise_with_replacement(few))
    reject("law of plain gradients", {"var": z_score(found, plain_variance)})
    reject("law without noise", {"var": z_score(found, sgld_variance(eps, NORMAL.a, 0.0))})


def test_control_variates_are_exact_on_a_gaussian():
    """Every minibatch gives the same estimate, the exact gradient, wherever the centre is."""
    problem = GaussianMean(N, P0, tf.float64)
    gradient = control_variates(problem.model)
    at = {"theta": tf.constant(0.3, tf.float64)}
    given = gradient.prepare(Mode(at, full_gradient(problem.model, at, verbose=False)[1]), verbose=False)
    theta = {"theta": tf.constant(2.0, tf.float64)}
    rng = np.random.default_rng(0)
    for _ in range(20):
        data = {"x": tf.constant(problem.x[rng.choice(N, n, replace=False)])}
        estimate = gradient.estimate(theta, Batch(data, N / n), given, ()).gradient["theta"].numpy()
        np.testing.assert_allclose(estimate, -problem.a * (2.0 - problem.mean), rtol=1e-12)


def test_sgldcv(control_variates_draws):
    variance, draws = sgld_variance(EPS, NORMAL.a, 0.0), every_fifth(control_variates_draws)
    accept("sgldcv, without replacement", moments_z(draws, *law(variance)))
    reject("true posterior in place of the law", moments_z(draws, *law(1 / NORMAL.a)))
    reject("law of sgld", moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, V))))
    wrong = theta_run(scaled_noise(sgld(), np.sqrt(2)), WITH, EPS, variance, centre=NORMAL.mean + 0.2)
    reject("sgldcv, noise * sqrt(2)", moments_z(wrong, *law(variance)))
    wrong = theta_run(sgld(), forgotten_weight(WITH), EPS, variance, centre=NORMAL.mean + 0.2)
    reject("sgldcv, forgotten N/n", moments_z(wrong, *law(variance)))


def test_sgldcv_weighted():
    """Not without noise: the weights of a minibatch do not add up to N, so V = v2 (theta - centre)^2."""
    centre, v2 = NORMAL.mean + 1.0, NORMAL.noise_of_weights(n, P)
    variance = sgld_variance(EPS, NORMAL.a, v2 * 1.0**2, v2)
    draws = theta_run(sgld(), WEIGHTED, EPS, variance, centre=centre)
    accept("sgldcv, weighted, centre off the mode", moments_z(draws, *law(variance)))
    reject("law of uniform minibatches", moments_z(draws, *law(sgld_variance(EPS, NORMAL.a, 0.0))))


@pytest.mark.parametrize(("name", "centre", "noise"), [("sgld", None, V_WITH), ("sgldcv", 1.0, 0.0)])
def test_halving_the_stepsize_halves_the_bias_of_sgld(name, centre, noise):
    """In the formula as eps -> 0; in the simulation to within its standard error at eps a = 0.4 and 0.2."""

    def bias(eps):
        return sgld_variance(eps, NORMAL.a, noise) - 1 / NORMAL.a

    for eps, tolerance in ((1e-2, 1.0), (1e-4, 0.01), (1e-6, 1e-4)):
        assert abs(bias(eps) / bias(eps / 2) - 2) < tolerance
    squares = []
    for eps, seed in ((EPS, 3), (EPS / 2, 4)):  # independent runs
        start = 1 / NORMAL.a + bias(eps)
        draws = theta_run(sgld(), WITH, eps, start, centre, iterations=900, thin=5, seed=seed)["theta"]
        squares.append(((draws - NORMAL.mean) ** 2).mean(axis=0))
    difference = (squares[0] - 1 / NORMAL.a) - 2 * (squares[1] - 1 / NORMAL.a)
    z = {"bias(eps) - 2 bias(eps/2)": z_score(difference, bias(EPS) - 2 * bias(EPS / 2))}
    accept(f"{name}, half the stepsize", z)
    reject("bias does not depend on the stepsize", {"z": z_score(difference, -bias(EPS))})
    reject("bias is quadratic", {"z": z_score(difference, bias(EPS) - 2 * bias(EPS) / 4)})


def test_innovations_of_sgld(plain_draws):
    """theta' less its conditional mean: right scale given the past, uncorrelated in time and with the position."""
    variance, theta = sgld_variance(EPS, NORMAL.a, V), plain_draws["theta"][:200] - NORMAL.mean
    r = theta[1:] - (1 - EPS * NORMAL.a / 2) * theta[:-1]
    accept(
        "sgld, innovations",
        {
            "mean": z_score(r.mean(axis=0), 0),
            "var": z_score((r**2).mean(axis=0), EPS + EPS**2 * V / 4),
            "lag 1": z_score((r[1:] * r[:-1]).mean(axis=0), 0),
            "lag 2": z_score((r[2:] * r[:-2]).mean(axis=0), 0),
            "with theta": z_score((r * theta[:-1]).mean(axis=0), 0),
            "squares, lag 1": z_score(((r**2)[1:] * (r**2)[:-1]).mean(axis=0), (EPS + EPS**2 * V / 4) ** 2),
            "next chain": z_score((r[:, ::2] * r[:, 1::2]).mean(axis=0), 0),
        },
    )
    theta = theta_run(sgld(), same_every_time(WITHOUT), EPS, variance, iterations=60, thin=1)["theta"] - NORMAL.mean
    r = theta[1:] - (1 - EPS * NORMAL.a / 2) * theta[:-1]
    reject("the same minibatch at every step", {"lag 1": z_score((r[1:] * r[:-1]).mean(axis=0), 0)})


@pytest.mark.parametrize(("name", "noise"), [("plain", V), ("control_variates", 0.0)])
def test_sgld_tells_its_variance(name, noise, request):
    """1 + eps/4 grad^2 is on average the variance over the posterior's, at every stepsize; and far more precise."""
    ratio = sgld_variance(EPS, NORMAL.a, noise) * NORMAL.a
    draws = {key: series[1::2] for key, series in request.getfixturevalue(f"{name}_draws").items()}
    told = draws["variance_ratio"].mean(axis=0)
    squares = (NORMAL.a * (draws["theta"] - NORMAL.mean) ** 2).mean(axis=0)
    accept(f"sgld, {name}, told variance", {"told": z_score(told, ratio), "of theta": z_score(squares, ratio)})
    reject("that of the posterior", {"told": z_score(told, 1.0)})
    reject("that without the size of the steps", {"told": z_score(told, 1 + EPS * noise / 4)})
    assert told.std() < 0.35 * squares.std()


# --- SGLD under reshuffling: the minibatches of an epoch know of each other -------------------------------------------


def by_epoch(series, R):
    """[T, C] from the start of an epoch on, as [epochs, R, C]."""
    return series[: len(series) // R * R].reshape(-1, R, series.shape[1])


def epoch_scores(theta, variances):
    """The mean over all, and the variance at each position of an epoch, R in all; theta [epochs R, C] after each step.

    The last of an epoch is at position 0 of the next.
    """
    R = len(variances)
    deviation = by_epoch(theta - NORMAL.mean, R)
    z = {"mean": z_score(deviation.mean(axis=(0, 1)), 0)}
    for k in range(R):
        r = (k + 1) % R
        z[f"var@{r}"] = z_score((deviation[:, k] ** 2).mean(axis=0), variances[r])
    return z


@pytest.mark.parametrize("size", [9, 7], ids=["nothing left over", "6 of 90 left over"])
def test_sgld_reshuffled(size):
    """The variance at each position of an epoch; the largest is 22% above the smallest.

    With R n = N the parts of an epoch add up to the exact gradient, and otherwise nearly so. 120 000 values at each
    position give the variance to 0.4%, and that of independent minibatches is 16% to 43% larger.
    """
    R, dependent = N // size, reshuffled(N, size)
    variances = sgld_variances_over_an_epoch(EPS, NORMAL.a, NORMAL.noise_of_an_epoch(size))
    independent = sgld_variance(EPS, NORMAL.a, NORMAL.noise_without_replacement(size))
    np.testing.assert_allclose(  # the same formula, of minibatches without covariance
        sgld_variances_over_an_epoch(EPS, NORMAL.a, np.diag(np.diag(NORMAL.noise_of_an_epoch(size)))), independent
    )
    theta = theta_run(sgld(), dependent, EPS, variances[0], iterations=30 * R, thin=1)["theta"]
    accept(f"sgld, reshuffled, n = {size}", epoch_scores(theta, variances))
    of_independent = epoch_scores(theta, np.full(R, independent))
    reject("law of independent minibatches", of_independent)
    for name, z in of_independent.items():
        assert name == "mean" or z < -QUANTILE  # at every single position
    reject("law of the position before", epoch_scores(theta, np.roll(variances, 1)))
    reject("law of the posterior", epoch_scores(theta, np.full(R, 1 / NORMAL.a)))
    theta = theta_run(sgld(), without_replacement(N, size), EPS, variances[0], iterations=30 * R, thin=1)["theta"]
    reject("sgld, independent minibatches", epoch_scores(theta, variances))


def test_innovations_of_sgld_reshuffled():
    """theta' less c theta: correlated within an epoch as the minibatches are, and not from one epoch to the next."""
    size, k = 7, 5
    R, c, noise = N // size, 1 - EPS * NORMAL.a / 2, NORMAL.noise_of_an_epoch(size)
    variances = sgld_variances_over_an_epoch(EPS, NORMAL.a, noise)
    of_pair = EPS**2 / 4 * noise[0, 1]
    with_theta = of_pair * np.sum(c ** np.arange(k))  # at position k, theta has k innovations of this epoch

    def innovations(minibatch):
        """They and the positions that they start from, each [epochs, R, C]."""
        theta = theta_run(sgld(), minibatch, EPS, variances[0], iterations=40 * R, thin=1)["theta"]
        deviation = (theta - NORMAL.mean)[R - 1 :]  # from the start of the second epoch on
        return by_epoch(deviation[1:] - c * deviation[:-1], R), by_epoch(deviation[:-1], R)

    def scores(r, at, of_pair=of_pair, with_theta=with_theta):
        return {
            "mean": z_score(r.mean(axis=(0, 1)), 0),
            "var": z_score((r**2).mean(axis=(0, 1)), EPS + EPS**2 / 4 * noise[0, 0]),
            "next": z_score((r[:, 1:] * r[:, :-1]).mean(axis=(0, 1)), of_pair),
            "first and last": z_score((r[:, 0] * r[:, -1]).mean(axis=0), of_pair),
            "next epoch": z_score((r[:-1, -1] * r[1:, 0]).mean(axis=0), 0),
            "same place": z_score((r[:-1] * r[1:]).mean(axis=(0, 1)), 0),
            f"with theta@{k}": z_score((r[:, k] * at[:, k]).mean(axis=0), with_theta),
            "with theta@0": z_score((r[:, 0] * at[:, 0]).mean(axis=0), 0),
        }

    dependent = innovations(reshuffled(N, size))
    accept("sgld, reshuffled, innovations", scores(*dependent))
    reject("law of independent minibatches", scores(*dependent, of_pair=0, with_theta=0))
    reject("sgld, independent minibatches", scores(*innovations(without_replacement(N, size))))
    r, _ = innovations(same_every_epoch(reshuffled(N, size), N))
    again = {"same place": z_score((r[:-1] * r[1:]).mean(axis=(0, 1)), 0)}
    reject("sgld, the same permutation in every epoch", again)


# --- SGLD, several parameters of several dimensions -------------------------------------------------------------------


def test_sgld_of_two_coupled_parameters_with_stepsizes_of_their_own():
    """x_i ~ N((u, w), Lambda^-1) with u in R^2, w in R: one linear system in R^3 with E = diag(eps_u, eps_u, eps_w).

    s' = (I - E H / 2) s + noise of covariance E + E V E / 4,    V = (N^2/n) (1 - n/N) Lambda S Lambda
    """
    precision = np.array([[1.0, 0.5, -0.3], [0.5, 1.5, 0.4], [-0.3, 0.4, 0.8]])
    rng = np.random.default_rng(1)
    x = rng.multivariate_normal([1.0, -1.0, 0.5], np.linalg.inv(precision), N).astype(np.float32)

    def log_lik(params, dataset):
        error = dataset["x"] - tf.concat([params["u"], params["w"][None]], 0)
        return -0.5 * tf.reduce_sum(error * (error @ tf.constant(precision, tf.float32)))

    def log_prior(params):
        return -0.5 * P0 * (tf.reduce_sum(params["u"] ** 2) + params["w"] ** 2)

    model = Model(log_lik, log_prior, InMemory({"x": x}), Returns.SUM, tf.float32)
    hessian = N * precision + P0 * np.eye(3)
    mean = np.linalg.solve(hessian, precision @ x.astype(np.float64).sum(axis=0))
    eps = {"u": 0.3 / hessian[0, 0], "w": 0.6 / hessian[2, 2]}

    def linear(eps_u, eps_w, noise):
        E = np.diag([eps_u, eps_u, eps_w])
        return Linear(np.eye(3) - E @ hessian / 2, E + E @ noise @ E / 4)

    noise = N**2 / n * (1 - n / N) * precision @ np.cov(x.astype(np.float64).T) @ precision
    covariance = linear(eps["u"], eps["w"], noise).stationary_covariance()

    def run(dynamics, minibatch=WITHOUT):
        start = mean + np.random.default_rng(2).multivariate_normal(np.zeros(3), covariance, C, method="cholesky")
        params = {"u": tf.constant(start[:, :2], tf.float32), "w": tf.constant(start[:, 2], tf.float32)}
        draws = simulate(begun(model, dynamics, minibatch, eps, params), 400, 5, lambda state: state.params)
        return {"u0": draws["u"][:, :, 0], "u1": draws["u"][:, :, 1], "w": draws["w"]}

    draws = run({"u": sgld(), "w": sgld()})
    accept("sgld, R^2 and R coupled, two stepsizes", moments_z(draws, mean, covariance))
    reject("true posterior in place of the law", moments_z(draws, mean, np.linalg.inv(hessian)))
    exchanged = linear(eps["w"], eps["u"], noise).stationary_covariance()
    reject("law of the stepsizes exchanged", moments_z(draws, mean, exchanged))
    white = linear(eps["u"], eps["w"], np.diag(np.diag(noise))).stationary_covariance()
    reject("law of uncorrelated gradient noise", moments_z(draws, mean, white))
    reject(
        "noise of w alone * sqrt(2)",
        moments_z(run({"u": sgld(), "w": scaled_noise(sgld(), np.sqrt(2))}), mean, covariance),
    )


# --- schedules: the law at each time ----------------------------------------------------------------------------------


def test_sgld_with_polynomial_stepsizes():
    """From a fixed start 0.5 from the mode: mean and variance after k iterations."""
    h, a, b, many = 1.2 / NORMAL.a, 4.0, 0.7, 60_000
    theta = simulate(chains(NORMAL, sgld(), WITHOUT, polynomial(h, a, b), many, NORMAL.mean + 0.5, 1e-30), 32)["theta"]

    def law_at(k, eps_of):
        mean, variance = 0.5, 0.0
        for i in range(k):
            eps = eps_of(i)
            mean, variance = (
                (1 - eps * NORMAL.a / 2) * mean,
                (1 - eps * NORMAL.a / 2) ** 2 * variance + eps + eps**2 * V / 4,
            )
        return NORMAL.mean + mean, variance

    def scores(eps_of, ks):
        z = {}
        for k in ks:
            mean, variance = law_at(k, eps_of)
            z[f"mean@{k}"] = z_score(theta[k - 1], mean)
            z[f"var@{k}"] = z_score((theta[k - 1] - mean) ** 2, variance)
        return z

    accept("sgld, polynomial", scores(lambda i: h * (1 + i / a) ** -b, (1, 2, 3, 8, 32)))
    reject("law of a constant stepsize", scores(lambda i: h, (2,)))
    reject("law of a schedule one iteration late", scores(lambda i: h * (1 + max(i - 1, 0) / a) ** -b, (2,)))
    reject("law of a schedule that begins at 1", scores(lambda i: h * (1 + (i + 1) / a) ** -b, (1,)))


def test_sghmc_with_polynomial_stepsizes():
    """The stepsize changes between iterations, not between the leaps of one."""
    h, a, b, alpha, L, many = 0.1 / NORMAL.a, 1.5, 0.9, 0.2, 3, 60_000
    moving = sghmc(alpha, L)
    prepared = chains(NORMAL, moving, WITHOUT, polynomial(h, a, b), many, NORMAL.mean + 0.5, np.eye(2) * 1e-30)
    draws = simulate(prepared, 12)

    def scores(eps_of_leap, ks):
        mean, covariance, z = np.array([0.5, 0.0]), np.zeros((2, 2)), {}
        for k in range(max(ks)):
            leaps = momentum_refresh(eps_of_leap(k, 0))
            for leap in range(L):
                leaps = leaps.then(sghmc_leap(eps_of_leap(k, leap), NORMAL.a, V, alpha))
            mean, covariance = leaps.A @ mean, leaps.covariance_after(covariance)
            if k + 1 in ks:
                at = {name: series[k : k + 1] for name, series in draws.items()}
                scores = moments_z(at, mean + np.array([NORMAL.mean, 0]), covariance)
                z |= {f"{name}@{k + 1}": value for name, value in scores.items()}
        return z

    accept("sghmc, polynomial", scores(lambda k, leap: h * (1 + k / a) ** -b, (1, 4, 12)))
    reject("law of a constant stepsize", scores(lambda k, leap: h, (4,)))
    reject(
        "law of a stepsize that changes at every leap", scores(lambda k, leap: h * (1 + (k * L + leap) / a) ** -b, (4,))
    )


# --- SGHMC ------------------------------------------------------------------------------------------------------------

ALPHA, LEAPS, EPS_HMC = 0.2, 5, 0.05 / NORMAL.a


def momentum_run(dynamics, minibatch, covariance, centre=None, iterations=150, thin=3, eps=EPS_HMC):
    return simulate(chains(NORMAL, dynamics, minibatch, eps, C, NORMAL.mean, covariance, centre), iterations, thin)


def scores(draws, covariance):
    return moments_z(draws, np.array([NORMAL.mean, 0.0]), covariance)


def without_refresh(dynamics: Dynamics) -> Dynamics:
    return dynamics._replace(refresh=None)


def late_gradient(dynamics: Dynamics) -> Dynamics:
    """The gradient before the drift rather than after it."""

    def step(theta, memory, given):
        return dynamics.step(dynamics.drift(theta, memory), memory, given)

    return dynamics._replace(step=step, drift=None)


@pytest.mark.parametrize(("name", "centre", "noise"), [("sghmc", None, V), ("sghmccv", NORMAL.mean + 0.2, 0.0)])
def test_sghmc(name, centre, noise):
    covariance = sghmc_iteration(EPS_HMC, NORMAL.a, noise, ALPHA, LEAPS).stationary_covariance()
    draws = momentum_run(sghmc(ALPHA, LEAPS), WITHOUT, covariance, centre)
    accept(name, scores(draws, covariance))

    posterior = covariance.copy()
    posterior[0, 0] = 1 / NORMAL.a
    reject("true posterior in place of the law", scores(draws, posterior))
    other = sghmc_iteration(EPS_HMC, NORMAL.a, noise, ALPHA, LEAPS + 1).stationary_covariance()
    reject("law of one leap more", scores(draws, other))
    half = Linear(np.diag([1.0, 0.0]), np.diag([0.0, EPS_HMC / 2]))
    other = half.then(sghmc_leap(EPS_HMC, NORMAL.a, noise, ALPHA).repeated(LEAPS)).stationary_covariance()
    reject("law of R's refresh of variance eps/2", scores(draws, other))
    if noise:
        for size in (n - 1, n + 1):
            of_size = NORMAL.noise_without_replacement(size)
            other = sghmc_iteration(EPS_HMC, NORMAL.a, of_size, ALPHA, LEAPS).stationary_covariance()
            reject(f"law of minibatches of {size}", scores(draws, other))
        leap = sghmc_leap(EPS_HMC, NORMAL.a, 0, ALPHA)
        shared = momentum_refresh(EPS_HMC).then(leap.repeated(LEAPS))
        push = sum(np.linalg.matrix_power(leap.A, k) for k in range(LEAPS)) @ np.array([0, EPS_HMC])
        other = Linear(shared.A, shared.Q + noise * np.outer(push, push)).stationary_covariance()
        reject("law of one minibatch for all leaps", scores(draws, other))


@pytest.mark.parametrize(
    ("title", "dynamics", "minibatch"),
    [
        ("noise * sqrt(2)", scaled_noise(sghmc(ALPHA, LEAPS), np.sqrt(2)), WITH),
        ("forgotten N/n", sghmc(ALPHA, LEAPS), forgotten_weight(WITH)),
        ("momentum never refreshed", without_refresh(sghmc(ALPHA, LEAPS)), WITHOUT),
        ("gradient before the drift", late_gradient(sghmc(ALPHA, LEAPS)), WITH),
        ("alpha / 2", sghmc(ALPHA / 2, LEAPS), WITH),
        ("one observation more", sghmc(ALPHA, LEAPS), with_replacement(N, n + 1)),
        ("one observation less", sghmc(ALPHA, LEAPS), with_replacement(N, n - 1)),
    ],
)
def test_defects_of_sghmc_are_seen(title, dynamics, minibatch):
    covariance = sghmc_iteration(EPS_HMC, NORMAL.a, V_WITH, ALPHA, LEAPS).stationary_covariance()
    reject(f"sghmc, {title}", scores(momentum_run(dynamics, minibatch, covariance), covariance))


@pytest.mark.parametrize(("name", "centre", "noise"), [("plain", None, V_WITH), ("cv", NORMAL.mean + 0.2, 0.0)])
def test_friction_alone(name, centre, noise):
    """SGHMC whose momentum is never refreshed, at every leap."""
    dynamics = without_refresh(sghmc(ALPHA, 1))
    covariance = sghmc_leap(EPS_HMC, NORMAL.a, noise, ALPHA).stationary_covariance()
    draws = momentum_run(dynamics, WITH, covariance, centre, iterations=500, thin=10)
    accept(f"friction alone, {name}", scores(draws, covariance))
    posterior = np.diag([1 / NORMAL.a, EPS_HMC])
    reject("true posterior in place of the law", scores(draws, posterior))


def test_the_public_sghmc_has_the_law_of_its_minibatch_size():
    """From a known start, with all that lies between the arguments and the draws; one iteration of every ten.

    At friction 0.1 and eps V = 0.5 the temperature is 2.7 with n = 6, and 2.5 with n = 7. 4000 chains of 28 draws
    tell the variance of theta to 0.6%.
    """
    size, alpha, n_iterations, thin = 6, 0.1, 300, 10
    eps = 0.5 / NORMAL.noise_without_replacement(size)

    def run(minibatch_size):
        out = sgmcmc.sghmc(
            lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
            {"x": NORMAL.x}, {"theta": NORMAL.mean}, eps, lambda params: -0.5 * P0 * params["theta"] ** 2,
            minibatchSize=minibatch_size, alpha=alpha, L=LEAPS, nIters=n_iterations, burnIn=20, thin=thin,
            nChains=4000, verbose=False, seed=1,
        )  # fmt: skip
        return out["theta"].T.astype(np.float64)  # [T, C]

    def squares_z(theta, law_of):
        one = sghmc_iteration(eps, NORMAL.a, NORMAL.noise_without_replacement(law_of), alpha, LEAPS)
        after, variances = np.zeros((2, 2)), []
        for k in range(n_iterations):
            after = one.covariance_after(after)
            if k >= 20 and (k + 1 - 20) % thin == 0:
                variances.append(after[0, 0])
        deviation = theta - NORMAL.mean
        return {
            "mean": z_score(deviation.mean(axis=0), 0.0),
            "var": z_score((deviation**2).mean(axis=0), np.mean(variances)),
        }

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is hot
        right, wrong = run(size), run(size + 1)
    accept("sghmc, n = 6", squares_z(right, size))
    reject("law of n = 7", squares_z(right, size + 1))
    reject("sghmc, n = 7", squares_z(wrong, size))


def test_the_temperature_of_sghmc_where_the_positions_are_right():
    """1/(1 - alpha/2) without a refresh, and what the dynamics says with it, as the stepsize falls.

    At every stepsize, E theta'^2 = E theta^2 gives E[theta' nu] = eps T/2, and then the equation of nu times theta'
    gives a Var = T (1 - alpha/2): positions are right at T = 1/(1 - alpha/2), whatever brought the temperature there.
    """
    for alpha in (0.5, 0.1, 0.01):
        for h, noise in ((0.3, 5.0), (1e-3, 0.0), (1e-6, 1e3)):
            (position, _), (_, momentum) = sghmc_leap(h, 1.0, noise, alpha).stationary_covariance()
            np.testing.assert_allclose(position, momentum / h * (1 - alpha / 2), rtol=1e-8)
        cold = sghmc_leap(1e-6, 1.0, 0.0, alpha).stationary_covariance()
        np.testing.assert_allclose(cold[1, 1] / 1e-6, 1 / (1 - alpha / 2), rtol=1e-5)
        np.testing.assert_allclose(cold[0, 0], 1.0, rtol=1e-5)  # and not at the temperature 1
        for L in (1, 2, 5, 400):
            right = sghmc(alpha, L).temperature
            if L == 1:  # moves before it sees a gradient: its positions have no law, but its momentum has
                momentum = (1 - alpha) ** 2 + 2 * alpha
            else:
                momentum = sghmc_iteration(1e-8, 1.0, 0.0, alpha, L).stationary_covariance()[1, 1] / 1e-8
            np.testing.assert_allclose(right, momentum, rtol=1e-4)
        np.testing.assert_allclose(right, 1 / (1 - alpha / 2), rtol=1e-3)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("L", [2, 5, 30])
def test_the_variance_of_sghmc_follows_from_its_temperature(alpha, L):
    """With noisy gradients too, as the stepsize falls: from what a run records, to what it cannot see."""
    h = 1e-7
    for noise in (0.0, 0.1 / h, 1.0 / h):
        covariance = sghmc_iteration(h, 1.0, noise, alpha, L).stationary_covariance()
        averages = {"kinetic_temperature": np.full((20, 1), covariance[1, 1] / h)}
        settings = {tuning.VARIANCE: {"theta": sghmc(alpha, L).variance}, "parameters": ["theta"]}
        band = tuning.variance_ratios(averages, settings)["theta"]
        np.testing.assert_allclose(band.mean, covariance[0, 0], rtol=1e-3)
    assert sghmc(alpha, 1).variance is None


# --- SGNHT: its thermostat is not linear, but its conditional moments and its stationary identities are exact ---------

A, EPS_NHT, EPS_LONG = 0.1, 0.05 / NORMAL.a, 0.1 / NORMAL.a


def nht_record(state):
    """With u over sqrt(eps)."""
    memory = state.memory["theta"]
    return {"theta": state.params["theta"], "p": memory["unit_momentum"], "alpha": memory["thermostat"]}


def nht_draws(prepared, eps, *plan):
    draws = simulate(prepared, *plan, record=nht_record)
    return draws | {"u": np.sqrt(eps) * draws.pop("p")}


def nht_one_step(dynamics, minibatch, centre, theta, u, thermostat, size):
    """{name: [size, ...]} after one step from one given state, in many chains."""
    model = VECTOR if np.ndim(theta) else NORMAL.model
    full = lambda x: tf.constant(np.broadcast_to(x, (size, *np.shape(x))), tf.float32)  # noqa: E731
    at = None if centre is None else {"theta": tf.constant(centre, tf.float32) + tf.zeros(np.shape(theta))}
    prepared = begun(model, {"theta": dynamics}, minibatch, {"theta": EPS_NHT}, {"theta": full(theta)}, at)
    prepared = remembering(prepared, unit_momentum=full(u / np.sqrt(EPS_NHT)), thermostat=full(thermostat))
    return {name: values[0] for name, values in nht_draws(prepared, EPS_NHT, 1).items()}


VECTOR = Model(  # three independent copies: x_i1 ~ N(theta_j, 1) for j = 1, 2, 3
    lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"][:, None] - params["theta"]) ** 2),
    lambda params: -0.5 * P0 * tf.reduce_sum(params["theta"] ** 2),
    NORMAL.model.data,
    Returns.SUM,
    tf.float32,
)


@pytest.mark.parametrize(("name", "centre", "noise"), [("sgnht", None, V), ("sgnhtcv", NORMAL.mean + 0.2, 0.0)])
def test_one_step_of_sgnht(name, centre, noise):
    """From one state of three elements: moments of u' and theta', the exact alpha' on each path, and E alpha'."""
    many = 60_000 if noise else 300_000
    theta, u, thermostat = NORMAL.mean + np.array([0.1, -0.05, 0.0]), np.sqrt(EPS_NHT) * np.array([1.0, -0.5, 2.0]), 0.3
    mean = (1 - thermostat) * u - EPS_NHT * NORMAL.a * (theta - NORMAL.mean)
    variance = 2 * A * EPS_NHT + EPS_NHT**2 * noise

    def one(after, diffusion=A, noise=noise):
        variance = 2 * diffusion * EPS_NHT + EPS_NHT**2 * noise
        z = {}
        for j in range(3):
            z[f"E u{j}"] = z_score(after["u"][:, j], mean[j])
            z[f"var u{j}"] = z_score((after["u"][:, j] - mean[j]) ** 2, variance)
            z[f"E th{j}"] = z_score(after["theta"][:, j], theta[j] + mean[j])
            z[f"var th{j}"] = z_score((after["theta"][:, j] - theta[j] - mean[j]) ** 2, variance)
        shared = noise * EPS_NHT**2  # the three copies see the same minibatch but noises of their own
        z["cov u0,u2"] = z_score((after["u"][:, 0] - mean[0]) * (after["u"][:, 2] - mean[2]), shared)
        z["E alpha"] = z_score(after["alpha"], thermostat + np.mean(mean**2) + variance - EPS_NHT)
        return z

    after = nht_one_step(sgnht(A), WITHOUT, centre, theta, u, thermostat, many)
    accept(f"{name}, one step", one(after))
    np.testing.assert_allclose(after["alpha"], thermostat + np.mean(after["u"] ** 2, axis=1) - EPS_NHT, atol=1e-7)
    np.testing.assert_allclose(after["theta"], theta + after["u"], atol=1e-6)
    if noise == 0:  # then u' is Gaussian, and so Var alpha' = sum_j (2 v^2 + 4 v m_j^2) / 9 is exact too
        spread = np.sum(2 * variance**2 + 4 * variance * mean**2) / 9
        expected = thermostat + np.mean(mean**2) + variance - EPS_NHT
        accept(f"{name}, one step, var alpha", {"var alpha": z_score((after["alpha"] - expected) ** 2, spread)})
        return
    reject("law of a in place of 2 a", one(after, diffusion=A / 2))
    wrong = nht_one_step(scaled_noise(sgnht(A), np.sqrt(2)), WITHOUT, centre, theta, u, thermostat, many)
    reject(f"{name}, noise * sqrt(2)", one(wrong))
    wrong = nht_one_step(sgnht(A), forgotten_weight(WITHOUT), centre, theta, u, thermostat, many)
    reject(f"{name}, forgotten N/n", one(wrong))


def nht_run(dynamics, minibatch, centre, a=A, noise=0.0, size=1500, burn_in=2000, steps=400, eps=EPS_LONG):
    """theta - m, u and alpha before and after each of `steps` steps: each [steps + 1, size].

    The thermostat forgets where it began in E[alpha]/eps steps, here about 200. It begins near its mean.
    """
    prepared = chains(NORMAL, dynamics, minibatch, eps, size, NORMAL.mean, np.diag([1 / NORMAL.a, eps]), centre)
    prepared = remembering(prepared, thermostat=np.full(size, a + eps * noise / 2))
    draws = nht_draws(prepared, eps, burn_in + steps + 1)
    draws = {name: series[burn_in:] for name, series in draws.items()}
    return draws["theta"] - NORMAL.mean, draws["u"], draws["alpha"]


def nht_identities(delta, u, alpha, noise, eps=EPS_LONG):
    """Identities that hold in expectation for SGNHT with *any* thermostat law and minibatch noise V, at any stepsize.

    With d = theta - m, u' = (1 - alpha) u - eps a d + xi:  E xi = 0,  E xi^2 = 2 A eps + eps^2 V, uncorrelated in time
    and with the past, at each step; and in stationarity, from E[alpha' - alpha] = 0, E[d'^2 - d^2] = 0, E[d xi] = 0,

        E u^2 = eps,    E[d u] = eps/2,    a E d^2 = 1 - E[alpha u d]/eps.
    """
    xi = u[1:] - (1 - alpha[:-1]) * u[:-1] + eps * NORMAL.a * delta[:-1]
    return {
        "E xi": z_score(xi.mean(axis=0), 0),
        "E xi^2": z_score((xi**2).mean(axis=0), 2 * A * eps + eps**2 * noise),
        "xi xi'": z_score((xi[1:] * xi[:-1]).mean(axis=0), 0),
        "xi u": z_score((xi * u[:-1]).mean(axis=0), 0),
        "E u^2": z_score((u**2).mean(axis=0), eps),
        "E d u": z_score((delta * u).mean(axis=0), eps / 2),
        "a E d^2": z_score((NORMAL.a * delta**2 + alpha * u * delta / eps).mean(axis=0), 1),
    }


LONG = [("sgnht", None, NORMAL.noise_with_replacement(30)), ("sgnhtcv", NORMAL.mean + 0.2, 0.0)]
WITH_30 = with_replacement(N, 30)


@pytest.mark.parametrize(("name", "centre", "noise"), LONG)
def test_stationary_identities_of_sgnht(name, centre, noise):
    delta, u, alpha = nht_run(sgnht(A), WITH_30, centre, noise=noise)
    accept(f"{name}, stationary identities", nht_identities(delta, u, alpha, noise))
    # On every path the mean temperature is 1 up to (alpha_T - alpha_0)/(T eps): the thermostat has counted it.
    temperature = (u[1:] ** 2).mean(axis=0) / EPS_LONG
    np.testing.assert_allclose(temperature, 1 + (alpha[-1] - alpha[0]) / (len(u) - 1) / EPS_LONG, atol=2e-3)
    # The thermostat settles where friction balances both noises, a + eps V/2, up to the order of the stepsize.
    friction = A + EPS_LONG * noise / 2
    assert abs(alpha.mean() - friction) < 0.25 * friction
    reject("law of a in place of 2 a", nht_identities(delta, u, alpha, noise - A / EPS_LONG))


@pytest.mark.parametrize(
    ("title", "dynamics", "minibatch"),
    [
        ("noise * sqrt(2)", lambda: scaled_noise(sgnht(A), np.sqrt(2)), WITH_30),
        ("forgotten N/n", lambda: sgnht(A), forgotten_weight(WITH_30)),
        ("thermostat that never moves", lambda: frozen_thermostat(A), WITH_30),
    ],
)
def test_defects_of_sgnht_are_seen(title, dynamics, minibatch):
    noise = LONG[0][2]
    reject(f"sgnht, {title}", nht_identities(*nht_run(dynamics(), minibatch, None, noise=noise), noise))


def frozen_thermostat(a: float) -> Dynamics:
    def step(theta, memory, given):
        theta, after = sgnht(a).step(theta, memory, given)
        return theta, after | {"thermostat": memory["thermostat"]}

    return sgnht(a)._replace(step=step)


def nht_at(h: float, a: float, heat: float) -> tuple[float, Linear]:
    """The thermostat that keeps the temperature at 1, and (theta, u) -> (theta', u') with it, for precision 1.

    u' = (1 - xi) u - h theta + noise of variance (2 a + heat) h, heat = eps V, theta' = theta + u'. In stationarity
    E u^2 = h gives E[theta u] = h/2; the equation of u times theta gives Var = 1 - xi/2, and that of u^2

        1 = (1 - xi)^2 + h xi/2 + 2 a + heat,    so xi = 1 - h/4 - sqrt((1 - h/4)^2 - 2 a - heat).
    """
    xi = 1 - h / 4 - np.sqrt((1 - h / 4) ** 2 - 2 * a - heat)
    move = np.array([[1 - h, 1 - xi], [-h, 1 - xi]])
    return xi, Linear(move, (2 * a + heat) * h * np.ones((2, 2)))


@pytest.mark.parametrize("a", [0.01, 0.1, 0.3, 0.49])
def test_the_diffusion_of_sgnht_is_a_bias_however_small_the_stepsize(a):
    for h, heat in ((0.01, 0.0), (1e-3, 0.01), (1e-5, 0.0)):
        xi, linear = nht_at(h, a, heat)
        covariance = linear.stationary_covariance()
        np.testing.assert_allclose(covariance[1, 1], h, rtol=1e-6)  # the temperature sees nothing
        np.testing.assert_allclose(covariance[0, 0], 1 - xi / 2, rtol=1e-6)
    np.testing.assert_allclose(1 - xi / 2, (1 + np.sqrt(1 - 2 * a)) / 2, rtol=1e-3)
    memory = {"unit_momentum": tf.ones([3], tf.float64), "thermostat": tf.constant(xi, tf.float64)}
    told = sgnht(a).stats(memory, Given(tf.constant(h, tf.float64)))["variance_ratio"]
    np.testing.assert_allclose(told, covariance[0, 0], rtol=1e-6)


@pytest.mark.parametrize("a", [0.05, 0.3])
def test_the_thermostat_of_sgnht_tells_the_variance(a):
    """By its mean, in a simulation: 0.97 and 0.81 of the posterior's, at a temperature of 1.

    The thermostat is not constant, which changes the variance by the order of eps, here 0.001. The bound is 0.005
    and QUANTILE standard errors.
    """
    eps = 0.02 / NORMAL.a
    xi, _ = nht_at(eps * NORMAL.a, a, 0.0)
    prepared = chains(NORMAL, sgnht(a), WITH, eps, C, NORMAL.mean, np.diag([(1 - xi / 2) / NORMAL.a, eps]), NORMAL.mean)
    prepared = remembering(prepared, thermostat=np.full(C, xi))
    draws = nht_draws(prepared, eps, 1500, 15)
    half = {key: series[50:] for key, series in draws.items()}
    squares = (NORMAL.a * (half["theta"] - NORMAL.mean) ** 2).mean(axis=0)
    told = 1 - half["alpha"].mean() / 2
    error = squares.std(ddof=1) / np.sqrt(C)
    print(f"\nsgnht, a = {a}: variance ratio {squares.mean():.4f} +- {error:.4f}, told {told:.4f}", end="")
    assert error < 0.006 and abs(told - (1 - xi / 2)) < 0.003
    assert abs(squares.mean() - told) < 0.005 + QUANTILE * error
    np.testing.assert_allclose((half["u"] ** 2).mean() / eps, 1, atol=0.01)
    if a == 0.3:  # what the temperature says, and what the diffusion alone would
        for wrong in (1.0, 1 - a / 2):
            assert abs(squares.mean() - wrong) > 0.005 + QUANTILE * error


def test_sgnht_has_no_equilibrium_from_a_half_on():
    """No friction balances the noises: the thermostat grows until the chain leaves the finite numbers."""

    def thermostats(a):
        prepared = chains(NORMAL, sgnht(a), WITH, 0.1 / NORMAL.a, 200, NORMAL.mean, 1e-30, NORMAL.mean)
        return simulate(prepared, 8000, 8000, nht_record)["alpha"][-1]

    assert thermostats(0.45).max() < 1.2
    with pytest.raises(DivergenceError):
        thermostats(0.55)


@pytest.mark.parametrize(("name", "centre", "noise"), LONG)
def test_variance_of_sgnht_approaches_that_of_the_posterior(name, centre, noise):
    """a Var theta = 1 - E[alpha u d]/eps exactly. As eps -> 0, alpha is independent of (u, d) to first order, so the
    last term is near E[alpha]/2, because E[d u] = eps/2; and E alpha -> f = a + eps V/2, the friction that balances
    both noises.

    So a Var theta - 1 is about -f/2; the test allows f in absolute value, twice that, plus QUANTILE standard
    errors. The bias shrinks with the friction and the stepsize, whatever the noise of the minibatch. That this
    bound can be broken is shown by a thermostat that stays at a, whose bias with gradient noise is near eps V/(2 a)
    in place of -f/2.
    """
    for eps, a in ((0.02 / NORMAL.a, 0.04), (0.005 / NORMAL.a, 0.02)):
        friction = a + eps * noise / 2

        def bias_and_error(dynamics, noise, eps=eps, a=a):
            delta, _, _ = nht_run(dynamics, WITH_30, centre, a, noise, size=1000, burn_in=700, steps=1000, eps=eps)
            squares = NORMAL.a * (delta**2).mean(axis=0)
            return squares.mean() - 1, squares.std(ddof=1) / np.sqrt(len(squares))

        bias, error = bias_and_error(sgnht(a), noise)
        print(
            f"\n{name}, eps a = {eps * NORMAL.a:.3f}: a Var - 1 = {bias:+.4f} +- {error:.4f}, bound {friction:.4f}",
            end="",
        )
        assert error < 0.01
        assert abs(bias) < friction + QUANTILE * error
    if noise:
        bias, error = bias_and_error(frozen_thermostat(a), 0.0)  # it begins, and stays, at a
        print(f"\n  control: thermostat that stays at a: {bias:+.4f} +- {error:.4f}  rejected", end="")
        assert abs(bias) > friction + QUANTILE * error

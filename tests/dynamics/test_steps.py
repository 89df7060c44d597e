"""One step of each dynamics against its equations in NumPy, for given noise and for arrays of every rank.

The dynamics are pure functions, so these tests are exact up to rounding in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit
from scipy.stats import norm

from sgmcmc.core.covariance import Covariance
from sgmcmc.dynamics import Given, descent
from sgmcmc.dynamics.badodab import badodab
from sgmcmc.dynamics.baoab import baoab
from sgmcmc.dynamics.barker import barker
from sgmcmc.dynamics.ccadl import ccadl
from sgmcmc.dynamics.psgld import psgld
from sgmcmc.dynamics.samadams import samadams
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht
from sgmcmc.dynamics.sgzigzag import sgzigzag
from sgmcmc.dynamics.ubu import ubu
from tests.statistical.laws import half_of_ubu

SHAPES = [(), (3,), (2, 3), (1, 2, 2)]
EPS, ALPHA, A, NORM = 0.03, 0.2, 0.15, 2.5
DIAGONAL, FULL = Covariance.DIAGONAL, Covariance.FULL
ALL = {
    "sgld": sgld(),
    "sghmc": sghmc(ALPHA, 5),
    "sghmc, fisher": sghmc(ALPHA, 5, fisher=True),
    "sgnht": sgnht(A),
    "ccadl": ccadl(A, DIAGONAL),
    "baoab": baoab(ALPHA),
    "badodab": badodab(A),
    "ubu": ubu(ALPHA),
    "barker": barker(),
    "barker, corrected": barker(corrected=True),
    "sgzigzag": sgzigzag(),
    "sgzigzag, sticky": sgzigzag(np.array(0.7)),
    "samadams": samadams(ALPHA, 0.9, 0.1, 10.0, 0.25, 2.0, None),
    "psgld": psgld(50, 0.9, 1e-3, None),
    "sgd": descent.sgd(),
    "adam": descent.adam(),
}


@pytest.fixture(params=SHAPES, ids=str)
def arrays(request):
    """theta, momentum, gradient, noise."""
    rng = np.random.default_rng(len(request.param))
    return [np.asarray(rng.normal(size=request.param)) for _ in range(4)]


def tensor(x):
    return tf.constant(x, tf.float64)


def make_step(dynamics, theta, memory, grad, noise, eps=EPS, covariance=None):
    """One step as the kernel makes it, with NumPy in and out; without a covariance given the gradient has no noise."""
    theta, memory = tensor(theta), {name: tensor(value) for name, value in memory.items()}
    given = Given(tensor(eps), of_step(dynamics, tf.nest.map_structure(tensor, noise)), tensor(grad), norm=tensor(NORM))
    if dynamics.covariance:
        none = tf.zeros(Covariance(dynamics.covariance).shape(theta.shape), tf.float64)
        given = given._replace(covariance=none if covariance is None else tensor(covariance))
    theta, memory = dynamics.step(theta, memory, given)
    return theta.numpy(), {name: value.numpy() for name, value in memory.items()}


def of_step(dynamics, noise):
    """The noise as `step` is given it, with equal ones if there are several and not all are given."""
    if isinstance(noise, tuple):
        return noise
    return (noise,) * dynamics.noises if dynamics.noises > 1 else noise if dynamics.noises else None


def begin(dynamics, theta, noise):
    """The memory before the first step, as NumPy arrays."""
    memory = dynamics.init(tensor(theta), Given(tensor(EPS), tensor(noise)))
    return {name: value.numpy() for name, value in memory.items()}


def close(actual, expected):
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-15)


def test_sgld(arrays):
    theta, _, grad, noise = arrays
    moved, memory = make_step(sgld(), theta, {}, grad, noise)
    close(moved, theta + EPS / 2 * grad + np.sqrt(EPS) * noise)
    close(memory.pop("variance_ratio"), 1 + EPS / 4 * np.mean(grad**2))


def test_sghmc(arrays):
    theta, nu, grad, noise = arrays
    dynamics = sghmc(ALPHA, 5)
    assert dynamics.leaps == 5
    moved, memory = make_step(dynamics, theta, {"momentum": nu}, grad, noise)
    close(moved, theta)  # the position has drifted before the gradient was taken ...
    close(dynamics.drift(tensor(theta), {"momentum": tensor(nu)}).numpy(), theta + nu)  # ... so
    close(memory["momentum"], (1 - ALPHA) * nu + EPS * grad + np.sqrt(2 * ALPHA * EPS) * noise)


def test_sghmc_begins_and_refreshes_with_momentum_of_variance_eps(arrays):
    theta, nu, _, noise = arrays
    dynamics = sghmc(ALPHA, 5)
    given = Given(tensor(EPS), tensor(noise))
    for memory in (
        dynamics.init(tensor(theta), given),
        dynamics.refresh(tensor(theta), {"momentum": tensor(nu)}, given),
    ):
        assert set(memory) == {"momentum"}
        close(memory["momentum"].numpy(), np.sqrt(EPS) * noise)  # not eps/2, as R has it, and nothing of the old nu


def test_sgnht(arrays):
    theta, u, grad, noise = arrays
    thermostat = 0.37
    memory = {"unit_momentum": u / np.sqrt(EPS), "thermostat": thermostat}
    moved, memory = make_step(sgnht(A), theta, memory, grad, noise)
    u = u + EPS * grad - thermostat * u + np.sqrt(2 * A * EPS) * noise
    close(memory["unit_momentum"], u / np.sqrt(EPS))
    close(moved, theta + u)  # by the new momentum
    close(memory["thermostat"], thermostat + np.vdot(u, u) / u.size - EPS)  # one number, whatever the rank


def test_sgnht_begins_with_momentum_of_variance_eps_and_thermostat_a(arrays):
    theta, _, _, noise = arrays
    memory = begin(sgnht(A), theta, noise)
    close(memory["unit_momentum"], noise)  # over sqrt(eps)
    close(memory["thermostat"], A)
    assert sgnht(A).refresh is None and sgnht(A).drift is None and sgnht(A).leaps == 1


def test_what_is_recorded_of_a_momentum_is_its_temperature(arrays):
    """The mean of momentum^2 over eps, over all elements whatever the rank; and the thermostat as it is."""
    _, u, _, _ = arrays
    for dynamics, memory in (
        (sghmc(ALPHA, 5), {"momentum": tensor(u)}),
        (sgnht(A), {"unit_momentum": tensor(u / np.sqrt(EPS)), "thermostat": tensor(0.37)}),
    ):
        told = {name: value.numpy() for name, value in dynamics.stats(memory, Given(tensor(EPS))).items()}
        close(told.pop("kinetic_temperature"), np.vdot(u, u) / u.size / EPS)
        assert told == ({"thermostat": 0.37, "variance_ratio": 1 - 0.37 / 2} if "thermostat" in memory else {})
    assert sgld().stats({"variance_ratio": 1.5}, Given(tensor(EPS))) == {"variance_ratio": 1.5}
    assert descent.sgd().stats is None and descent.adam().stats is None


def test_sghmc_takes_the_estimated_noise_off_its_own(arrays):
    theta, nu, grad, noise = arrays
    variance = 20 * np.abs(theta)  # of some elements more than the friction has noise for
    dynamics = sghmc(ALPHA, 5, fisher=True)
    assert dynamics.covariance == "diag" and sghmc(ALPHA, 5).covariance is None
    _, memory = make_step(dynamics, theta, {"momentum": nu}, grad, noise, covariance=variance)
    left = np.maximum(ALPHA - EPS * variance / 2, 0)
    close(memory["momentum"], (1 - ALPHA) * nu + EPS * grad + np.sqrt(2 * left * EPS) * noise)


@pytest.mark.parametrize("how", [DIAGONAL, FULL])
def test_ccadl_over_several_steps(how, arrays):
    """Algorithm 1 of the paper, in u = h p, with running means of the covariances written as means."""
    theta, _, _, noise = arrays
    dynamics, size, rng = ccadl(A, how), theta.size, np.random.default_rng(5)
    state = theta, begin(dynamics, theta, noise)
    u, xi, seen = np.sqrt(EPS) * noise, A, []
    for _ in range(4):
        grad, z = rng.normal(size=(2, *theta.shape))
        if how is FULL:
            root = rng.normal(size=(size, size))
            seen.append(root @ root.T)
            drag = (np.mean(seen, axis=0) @ u.ravel()).reshape(u.shape)
        else:
            seen.append(rng.chisquare(3, size=theta.shape))
            drag = np.mean(seen, axis=0) * u
        state = make_step(dynamics, *state, grad, z, covariance=seen[-1])
        u = u + EPS * grad - EPS / 2 * drag - xi * u + np.sqrt(2 * A * EPS) * z
        theta, xi = theta + u, xi + np.mean(u**2) - EPS
        np.testing.assert_allclose(state[0], theta, rtol=1e-12)
        np.testing.assert_allclose(state[1]["unit_momentum"], u / np.sqrt(EPS), rtol=1e-11)
        np.testing.assert_allclose(state[1]["thermostat"], xi, rtol=1e-12)
    told = dynamics.stats({name: tensor(x) for name, x in state[1].items()}, Given(tensor(EPS)))
    variances = np.mean(seen, axis=0) if how is DIAGONAL else np.diag(np.mean(seen, axis=0))
    np.testing.assert_allclose(told["variance_ratio"], 1 - (xi + EPS * np.mean(variances) / 2) / 2, rtol=1e-12)


def test_baoab_is_its_five_parts(arrays):
    """In the paper's variables, h and p = u/h, over two iterations: B A O A B, B A O A B, from halfway through a B."""
    theta, p, _, _ = arrays
    h, gamma = np.sqrt(EPS), -np.log(1 - ALPHA) / np.sqrt(EPS)
    rng = np.random.default_rng(6)
    gradients, noises = rng.normal(size=(2, 3, *theta.shape))
    q = theta
    p_half = p - h / 2 * gradients[0]  # so that the first kick of the iteration is this much and the paper's half
    state = theta, {"unit_momentum": p_half, "kinetic_temperature": 1.0}
    for k in range(2):
        state = make_step(baoab(ALPHA), *state, gradients[k], noises[k])
        p = p + h / 2 * gradients[k]  # B
        q = q + h / 2 * p  # A
        p = np.exp(-gamma * h) * p + np.sqrt(1 - np.exp(-2 * gamma * h)) * noises[k]  # O
        q = q + h / 2 * p  # A
        np.testing.assert_allclose(state[0], q, rtol=1e-12)
        np.testing.assert_allclose(state[1]["unit_momentum"], p, rtol=1e-12)
        p = p + h / 2 * gradients[k + 1]  # B
    with_all_friction = make_step(
        baoab(1.0), theta, {"unit_momentum": noises[2], "kinetic_temperature": 1.0}, *gradients[:2]
    )
    close(with_all_friction[0], theta + EPS / 2 * gradients[0] + h * (noises[2] + gradients[1]) / 2)


def test_ubu_is_its_three_parts(arrays):
    """Without noise, over two iterations, in the paper's variables: U B U, U B U. The first begins at its B."""
    theta, v, _, _ = arrays
    h, U = np.sqrt(EPS), half_of_ubu(EPS, ALPHA).A
    gradients = np.random.default_rng(6).normal(size=(2, *theta.shape))
    memory = {"unit_momentum": v, "ahead": np.zeros(theta.shape), "kinetic_temperature": 1.0}
    state, x, zero = (theta, memory), theta, 0 * theta
    for g in gradients:
        at = ubu(ALPHA).drift(tensor(state[0]), {"ahead": tensor(state[1]["ahead"])})
        np.testing.assert_allclose(at, x, rtol=1e-12)
        state = make_step(ubu(ALPHA), at, state[1], g, zero)
        np.testing.assert_allclose(state[1]["kinetic_temperature"], np.mean((v + h / 2 * g) ** 2), rtol=1e-12)
        v = v + h * g  # B
        x, v = x + h * U[0, 1] * v, U[1, 1] * v  # U, to the draw
        np.testing.assert_allclose(state[0], x, rtol=1e-12)
        x, v = x + h * U[0, 1] * v, U[1, 1] * v  # U, to the next gradient
        np.testing.assert_allclose(state[1]["unit_momentum"], v, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1e-3, ALPHA, 0.99])
def test_the_noise_of_ubu_is_that_of_two_half_steps(alpha):
    """Of the draw, and of position and momentum at the next gradient, with correlations; for h = 1."""
    memory = {"unit_momentum": tensor(0.0), "ahead": tensor(0.0), "kinetic_temperature": tensor(1.0)}
    response = []
    for unit in np.eye(3):
        given = Given(tensor(1.0), tuple(tensor(x) for x in unit), tensor(0.0))
        draw, after = ubu(alpha).step(tensor(0.0), memory, given)
        response.append([draw, draw + after["ahead"], after["unit_momentum"]])
    U, noise = half_of_ubu(1.0, alpha)
    first = np.array([[1, 0], U[0], U[1]])  # what the noise of the first half step does to the three
    second = np.array([[0, 0], [1, 0], [0, 1]])
    expected = first @ noise @ first.T + second @ noise @ second.T
    np.testing.assert_allclose(np.transpose(response) @ np.array(response), expected, rtol=1e-6)


@pytest.mark.parametrize("thermostat", [0.37, -0.2, 1e-7, 0.0])
def test_badodab_is_its_parts(thermostat, arrays):
    theta, u, grad, noise = arrays
    u = np.sqrt(EPS) * u / np.sqrt(np.mean(u**2))
    half = u + EPS * grad
    xi = thermostat + (np.mean(half**2) - EPS) / 2
    heat = (1 - np.exp(-2 * xi)) / xi if abs(xi) > 1e-9 else 2.0
    new = np.exp(-xi) * half + np.sqrt(EPS * A * heat) * noise
    memory = {"unit_momentum": u / np.sqrt(EPS), "thermostat": thermostat, "kinetic_temperature": 1.0}
    moved, memory = make_step(badodab(A), theta, memory, grad, noise)
    close(moved, theta + half / 2 + new / 2)
    close(memory["unit_momentum"], new / np.sqrt(EPS))
    close(memory["kinetic_temperature"], (np.mean(half**2) + np.mean(new**2)) / 2 / EPS)
    close(memory["thermostat"], xi + (np.mean(new**2) - EPS) / 2)


def test_badodab_is_smooth_where_the_thermostat_is_at_zero():
    """There the noise is the limit of (1 - exp(-2 xi))/xi; momenta of the right temperature keep the thermostat."""
    one, at = np.ones(4), np.array([-1.1e-4, -0.9e-4, 0.0, 0.9e-4, 1.1e-4])
    begun = {"unit_momentum": one, "kinetic_temperature": 1.0}
    reached = [
        make_step(badodab(A), 0 * one, begun | {"thermostat": xi}, 0 * one, one)[1]["unit_momentum"][0] for xi in at
    ]
    np.testing.assert_allclose(np.diff(reached), -np.diff(at) * (1 + np.sqrt(2 * A) / 2), rtol=2e-2)


def test_barker(arrays):
    """Whatever the gradient is, by z or by -z; a uniform number, of the second noise, decides by the odds of z."""
    theta, other, grad, noise = arrays
    z, uniform = np.sqrt(EPS) * noise, norm.cdf(other)
    move = np.where(uniform < expit(z * grad), z, -z)
    moved, memory = make_step(barker(), theta, {}, grad, (noise, other))
    close(moved, theta + move)
    close(memory["variance_ratio"], 1 + np.mean(noise**2 * np.tanh(z * grad / 2) ** 2))
    assert barker().covariance is None and barker(corrected=True).covariance == "diag"


@pytest.mark.parametrize("beyond", [False, True])
def test_barker_corrects_its_odds_for_the_noise(beyond, arrays):
    """Where the noise is more than it can correct, the gradient alone decides."""
    theta, other, grad, noise = arrays
    z = np.sqrt(EPS) * noise
    variance = (1.2 if beyond else 0.8) * (1.702 / z) ** 2
    odds = np.inf * np.sign(z * grad) if beyond else z * grad / np.sqrt(0.2)
    moved, memory = make_step(barker(corrected=True), theta, {}, grad, (noise, other), covariance=variance)
    close(moved, theta + np.where(norm.cdf(other) < expit(odds), z, -z))
    alpha = 10 if beyond else 0.2**-0.5
    slope = alpha / np.cosh(alpha * z * grad / 2) ** 2
    np.testing.assert_allclose(memory["variance_ratio"], 1 + np.mean(noise**2 * (1 - slope)), rtol=1e-12)


def exponential(z):
    return -norm.logcdf(-z)


def test_sgzigzag(arrays):
    """From the place of the gradient, half a step ahead; a turn if the time of the noise is within the step."""
    theta, other, grad, noise = arrays
    v, h = np.sign(other), np.sqrt(EPS)
    dynamics = sgzigzag()
    close(begin(dynamics, theta, other)["velocity"], v)
    at = dynamics.drift(tensor(theta), dynamics.init(tensor(theta), Given(tensor(EPS), tensor(other)))).numpy()
    close(at, theta + v * h / 2)
    large = 20 * grad  # so that some turn
    moved, memory = make_step(dynamics, at, {"velocity": v, "ahead": v * h / 2}, large, noise)
    tau = exponential(noise) / np.maximum(-v * large, 1e-300)
    np.testing.assert_allclose(moved, theta + v * np.where(tau < h, 2 * tau - h, h), rtol=1e-9)
    close(memory["velocity"], np.where(tau < h, -v, v))


def way_of_sticky(theta, v, rate, kappa, h, clock, stays):
    """Event after event: one turn, after moving for so long, and stays at 0 before and after it."""
    left, to_turn, turned = h, clock / rate if rate > 0 else np.inf, 0
    arrived = theta == 0
    while True:
        if arrived:
            stay = stays[turned] / kappa
            if stay >= left:
                return 0.0, v
            left -= stay
        to_zero = abs(theta) if theta * v < 0 else np.inf
        move = min(left, to_turn, to_zero)
        theta, left, to_turn = theta + v * move, left - move, to_turn - move
        if left <= 0:
            return theta, v
        arrived = move == to_zero
        if arrived:
            theta = 0.0
        elif to_turn <= 0:
            v, to_turn, turned = -v, np.inf, 1


def test_sgzigzag_with_an_atom_at_zero():
    """All ways there are: with a stay or two, that end or do not, before and after a turn."""
    rng, size, h = np.random.default_rng(3), 20_000, np.sqrt(EPS)
    theta = rng.normal(size=size) * 0.7 * h * rng.choice([0.0, 1.0], size, p=[0.2, 0.8])
    v, grad, noise = rng.choice([-1.0, 1.0], size), rng.normal(size=size) * 3 / h, rng.normal(size=(3, size))
    kappa = rng.uniform(0.5, 4.0, size) / h
    first, stay, again = exponential(noise)
    ahead = v * np.where(theta * v <= 0, np.minimum(h / 2, np.abs(theta)), h / 2)
    moved, memory = make_step(sgzigzag(kappa), theta + ahead, {"velocity": v, "ahead": ahead}, grad, tuple(noise))
    ways = [
        way_of_sticky(*given, h, clock, stays)
        for *given, clock, stays in zip(theta, v, -v * grad, kappa, first, zip(stay, again, strict=True), strict=True)
    ]
    expected = np.array(ways)
    np.testing.assert_allclose(moved, expected[:, 0], atol=1e-12)
    np.testing.assert_array_equal(moved == 0, expected[:, 0] == 0)
    np.testing.assert_array_equal(memory["velocity"], expected[:, 1])


@pytest.mark.parametrize("adapt", [None, 2])
def test_psgld(adapt, arrays):
    theta, _, _, _ = arrays
    n_data, beta, delta, rng = 50, 0.9, 1e-3, np.random.default_rng(7)
    dynamics = psgld(n_data, beta, delta, adapt)
    state, V = (theta, begin(dynamics, theta, theta)), None
    for t in range(5):
        grad, z = rng.normal(size=(2, *theta.shape))
        if adapt is None or t < adapt:
            V = (grad / n_data) ** 2 if V is None else beta * V + (1 - beta) * (grad / n_data) ** 2
        G = 1 / (delta + np.sqrt(V))
        theta = theta + EPS / 2 * G * grad + np.sqrt(EPS * G) * z
        state = make_step(dynamics, *state, grad, z)
        np.testing.assert_allclose(state[0], theta, rtol=1e-12)


def test_covariance_of_a_sum_of_terms(arrays):
    """n times the empirical covariance; the mean over all samples with replacement is what the sum's own is."""
    theta = arrays[0]
    terms = np.random.default_rng(8).normal(size=(6, *theta.shape))
    flat = terms.reshape(6, -1)
    full = FULL.of_sum(tensor(terms)).numpy()
    np.testing.assert_allclose(full, 6 * np.atleast_2d(np.cov(flat.T)), rtol=1e-12)
    np.testing.assert_allclose(DIAGONAL.of_sum(tensor(terms)).numpy().ravel(), np.diag(full), rtol=1e-12)
    np.testing.assert_allclose(
        FULL.times(tensor(full), tensor(theta)).numpy().ravel(), full @ theta.ravel(), rtol=1e-12
    )


def test_sgd(arrays):
    theta, _, grad, noise = arrays
    moved, memory = make_step(descent.sgd(), theta, {}, grad, noise)
    close(moved, theta + EPS * grad)  # uphill, and without noise
    assert descent.sgd().noises == descent.adam().noises == 0 and sgld().noises == 1
    assert memory == {}


def test_adam_over_many_steps(arrays):
    """Kingma & Ba (2015), algorithm 1, with gradients negated because it ascends."""
    theta, _, _, _ = arrays
    b1, b2, delta = 0.8, 0.95, 1e-3
    dynamics = descent.adam(b1, b2, delta)
    rng = np.random.default_rng(3)
    state = theta, begin(dynamics, theta, theta)
    expected, m, v = theta, 0.0, 0.0
    for t in range(1, 21):
        grad = rng.normal(size=theta.shape)
        state = make_step(dynamics, *state, grad, rng.normal(size=theta.shape))
        m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
        expected = expected + EPS * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + delta)
        np.testing.assert_allclose(state[0], expected, rtol=1e-11)


def test_adam_defaults_are_those_of_the_paper(arrays):
    theta, _, grad, noise = arrays
    moved, memory = make_step(descent.adam(), theta, begin(descent.adam(), theta, noise), grad, noise)
    close(moved, theta + EPS * grad / (np.abs(grad) + 1e-8))  # the first step has length eps in every coordinate
    np.testing.assert_allclose(memory["m"], 0.1 * grad, rtol=1e-12)
    np.testing.assert_allclose(memory["v"], 0.001 * grad**2, rtol=1e-12)


# --- without noise, without gradient ----------------------------------------------------------------------------------


def started(dynamics, theta, momentum):
    memory = begin(dynamics, theta, 0 * theta)
    of_momentum = {"momentum": momentum, "unit_momentum": momentum / np.sqrt(EPS)}
    return memory | {key: value for key, value in of_momentum.items() if key in memory}


@pytest.mark.parametrize("name", ["sgld", "psgld", "sgd", "adam"])
def test_nothing_moves_without_noise_and_gradient(name, arrays):
    theta, momentum, zero = arrays[0], arrays[1], 0 * arrays[0]
    moved, _ = make_step(ALL[name], theta, started(ALL[name], theta, momentum), zero, zero)
    close(moved, theta)


@pytest.mark.parametrize("dynamics", ALL.values(), ids=ALL)
def test_a_gradient_that_is_nan_is_not_hidden(dynamics):
    """After two steps, since some move by the last momentum."""
    theta, momentum, grad, noise = np.random.default_rng(0).normal(size=(4, 2))
    grad[0], memory = np.nan, started(dynamics, theta, momentum)
    for _ in range(2):
        if dynamics.drift:
            theta = dynamics.drift(tensor(theta), {key: tensor(x) for key, x in memory.items()}).numpy()
        theta, memory = make_step(dynamics, theta, memory, grad, noise)
    assert np.isnan(theta[0])


def test_friction_alone_slows_sghmc_geometrically(arrays):
    theta, nu, zero = arrays[0], arrays[1], 0 * arrays[0]
    dynamics, memory = sghmc(ALPHA, 5), {"momentum": nu}
    moved = theta
    for _ in range(5):
        moved = dynamics.drift(tensor(moved), {"momentum": tensor(memory["momentum"])}).numpy()
        moved, memory = make_step(dynamics, moved, memory, zero, zero)
    close(memory["momentum"], (1 - ALPHA) ** 5 * nu)
    close(moved, theta + nu * (1 - (1 - ALPHA) ** 5) / ALPHA)


def test_thermostat_cools_what_is_hot_and_heats_what_is_cold(arrays):
    theta, zero = arrays[0], 0 * arrays[0]
    for speed, direction in ((2.0, 1), (0.5, -1)):
        p = np.full(theta.shape, speed)
        memory = make_step(sgnht(A), theta, {"unit_momentum": p, "thermostat": 0.0}, zero, zero)[1]
        assert np.sign(memory["thermostat"]) == direction
        np.testing.assert_allclose(memory["thermostat"], EPS * (speed**2 - 1), rtol=1e-12)
    unmoved = make_step(sgnht(A), theta, {"unit_momentum": np.ones(theta.shape), "thermostat": 0.0}, zero, zero)
    np.testing.assert_allclose(unmoved[1]["thermostat"], 0, atol=1e-16)  # the right temperature is a fixed point


@pytest.mark.parametrize("name", [name for name in ALL if name != "badodab"])
def test_elements_do_not_mix(name):
    """Each element moves as it would alone; thermostats see them all, but BADODAB's only after the move."""
    rng = np.random.default_rng(0)
    theta, momentum, grad, noise = rng.normal(size=(4, 5))
    together, _ = make_step(ALL[name], theta, started(ALL[name], theta, momentum), grad, noise)
    for i in range(5):
        memory = started(ALL[name], theta[i], momentum[i])
        close(together[i], make_step(ALL[name], theta[i], memory, grad[i], noise[i])[0])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("name", ALL)
def test_types_are_kept(name, dtype):
    x = tf.ones([2, 3], dtype)
    eps, noise = tf.constant(EPS, dtype), of_step(ALL[name], x)
    memory = ALL[name].init(x, Given(eps, x))
    given = Given(eps, noise, x, x if ALL[name].covariance else None, tf.constant(NORM, dtype))
    theta, after = ALL[name].step(x, memory, given)
    assert theta.dtype == dtype and theta.shape == x.shape and set(after) == set(memory)
    for key in memory:
        assert after[key].dtype == memory[key].dtype == dtype and after[key].shape == memory[key].shape
    for value in ALL[name].stats(after, Given(eps)).values() if ALL[name].stats else ():
        assert value.dtype == dtype and value.shape == ()

"""One step of each dynamics against its equations in NumPy, for given noise and for arrays of every rank.

The dynamics are pure functions, so these tests are exact up to rounding in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.dynamics import descent
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht

SHAPES = [(), (3,), (2, 3), (1, 2, 2)]
EPS, ALPHA, A = 0.03, 0.2, 0.15
ALL = {"sgld": sgld(), "sghmc": sghmc(ALPHA, 5), "sgnht": sgnht(A), "sgd": descent.sgd(), "adam": descent.adam()}


@pytest.fixture(params=SHAPES, ids=str)
def arrays(request):
    """theta, momentum, gradient, noise."""
    rng = np.random.default_rng(len(request.param))
    return [np.asarray(rng.normal(size=request.param)) for _ in range(4)]


def tensor(x):
    return tf.constant(x, tf.float64)


def make_step(dynamics, theta, aux, grad, noise, eps=EPS):
    """One step as the kernel makes it, with NumPy in and out."""
    theta, aux = tensor(theta), {name: tensor(value) for name, value in aux.items()}
    theta, aux = dynamics.step(tensor(eps), theta, aux, tensor(grad), tensor(noise), tf.reduce_mean)
    return theta.numpy(), {name: value.numpy() for name, value in aux.items()}


def close(actual, expected):
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-15)


def test_sgld(arrays):
    theta, _, grad, noise = arrays
    moved, aux = make_step(sgld(), theta, {}, grad, noise)
    close(moved, theta + EPS / 2 * grad + np.sqrt(EPS) * noise)
    assert aux == {}


def test_sghmc(arrays):
    theta, nu, grad, noise = arrays
    dynamics = sghmc(ALPHA, 5)
    assert dynamics.inner_steps == 5
    moved, aux = make_step(dynamics, theta, {"momentum": nu}, grad, noise)
    close(moved, theta)  # the position has drifted before the gradient was taken ...
    close(dynamics.drift(tensor(theta), {"momentum": tensor(nu)}).numpy(), theta + nu)  # ... so
    close(aux["momentum"], (1 - ALPHA) * nu + EPS * grad + np.sqrt(2 * ALPHA * EPS) * noise)


def test_sghmc_begins_and_refreshes_with_momentum_of_variance_eps(arrays):
    theta, nu, _, noise = arrays
    dynamics = sghmc(ALPHA, 5)
    for aux in (
        dynamics.init(tensor(EPS), tensor(theta), tensor(noise)),
        dynamics.refresh(tensor(EPS), tensor(theta), {"momentum": tensor(nu)}, tensor(noise)),
    ):
        assert set(aux) == {"momentum"}
        close(aux["momentum"].numpy(), np.sqrt(EPS) * noise)  # not eps/2, as R has it, and nothing of the old nu


def test_sgnht(arrays):
    theta, u, grad, noise = arrays
    thermostat = 0.37
    moved, aux = make_step(sgnht(A), theta, {"momentum": u, "thermostat": thermostat}, grad, noise)
    u = u + EPS * grad - thermostat * u + np.sqrt(2 * A * EPS) * noise
    close(aux["momentum"], u)
    close(moved, theta + u)  # by the new momentum
    close(aux["thermostat"], thermostat + np.vdot(u, u) / u.size - EPS)  # one number, whatever the rank


def test_sgnht_begins_with_momentum_of_variance_eps_and_thermostat_a(arrays):
    theta, _, _, noise = arrays
    aux = sgnht(A).init(tensor(EPS), tensor(theta), tensor(noise))
    close(aux["momentum"].numpy(), np.sqrt(EPS) * noise)
    close(aux["thermostat"].numpy(), A)
    assert sgnht(A).refresh is None and sgnht(A).drift is None and sgnht(A).inner_steps == 1


def test_sgnht_averages_by_the_mean_it_is_given(arrays):
    """So that of a sparse parameter only the rows that move count, each once."""
    theta, u, grad, noise = map(tensor, arrays)
    aux = {"momentum": u, "thermostat": tensor(0.0)}
    aux = sgnht(A).step(tensor(EPS), theta, aux, grad, noise, lambda x: tensor(7.0))[1]
    close(aux["thermostat"].numpy(), 7 - EPS)


def test_sgd(arrays):
    theta, _, grad, noise = arrays
    moved, aux = make_step(descent.sgd(), theta, {}, grad, noise)
    close(moved, theta + EPS * grad)  # uphill; the noise is ignored
    assert aux == {}


def test_adam_over_many_steps(arrays):
    """Kingma & Ba (2015), algorithm 1, with gradients negated because it ascends."""
    theta, _, _, _ = arrays
    b1, b2, delta = 0.8, 0.95, 1e-3
    dynamics = descent.adam(b1, b2, delta)
    rng = np.random.default_rng(3)
    state = theta, {k: v.numpy() for k, v in dynamics.init(tensor(EPS), tensor(theta), tensor(theta)).items()}
    expected, m, v = theta, 0.0, 0.0
    for t in range(1, 21):
        grad = rng.normal(size=theta.shape)
        state = make_step(dynamics, *state, grad, rng.normal(size=theta.shape))
        m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
        expected = expected + EPS * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + delta)
        np.testing.assert_allclose(state[0], expected, rtol=1e-11)


def test_adam_defaults_are_those_of_the_paper(arrays):
    theta, _, grad, noise = arrays
    aux = {k: v.numpy() for k, v in descent.adam().init(tensor(EPS), tensor(theta), tensor(noise)).items()}
    moved, aux = make_step(descent.adam(), theta, aux, grad, noise)
    close(moved, theta + EPS * grad / (np.abs(grad) + 1e-8))  # the first step has length eps in every coordinate
    np.testing.assert_allclose(aux["m"], 0.1 * grad, rtol=1e-12)
    np.testing.assert_allclose(aux["v"], 0.001 * grad**2, rtol=1e-12)


# --- without noise, without gradient ----------------------------------------------------------------------------------


def started(dynamics, theta, momentum):
    aux = {k: v.numpy() for k, v in dynamics.init(tensor(EPS), tensor(theta), tensor(0 * theta)).items()}
    return aux | ({"momentum": momentum} if "momentum" in aux else {})


@pytest.mark.parametrize("name", ["sgld", "sgd", "adam"])
def test_nothing_moves_without_noise_and_gradient(name, arrays):
    theta, momentum, zero = arrays[0], arrays[1], 0 * arrays[0]
    moved, _ = make_step(ALL[name], theta, started(ALL[name], theta, momentum), zero, zero)
    close(moved, theta)


def test_friction_alone_slows_sghmc_geometrically(arrays):
    theta, nu, zero = arrays[0], arrays[1], 0 * arrays[0]
    dynamics, aux = sghmc(ALPHA, 5), {"momentum": nu}
    moved = theta
    for _ in range(5):
        moved = dynamics.drift(tensor(moved), {"momentum": tensor(aux["momentum"])}).numpy()
        moved, aux = make_step(dynamics, moved, aux, zero, zero)
    close(aux["momentum"], (1 - ALPHA) ** 5 * nu)
    close(moved, theta + nu * (1 - (1 - ALPHA) ** 5) / ALPHA)


def test_thermostat_cools_what_is_hot_and_heats_what_is_cold(arrays):
    theta, zero = arrays[0], 0 * arrays[0]
    for speed, direction in ((2.0, 1), (0.5, -1)):
        u = np.full(theta.shape, speed * np.sqrt(EPS))
        aux = make_step(sgnht(A), theta, {"momentum": u, "thermostat": 0.0}, zero, zero)[1]
        assert np.sign(aux["thermostat"]) == direction
        np.testing.assert_allclose(aux["thermostat"], EPS * (speed**2 - 1), rtol=1e-12)
    at_rest = make_step(
        sgnht(A), theta, {"momentum": np.full(theta.shape, np.sqrt(EPS)), "thermostat": 0.0}, zero, zero
    )
    np.testing.assert_allclose(at_rest[1]["thermostat"], 0, atol=1e-16)  # the right temperature is a fixed point


@pytest.mark.parametrize("name", ALL)
def test_elements_do_not_mix(name):
    """Each element moves as it would alone; only SGNHT's thermostat sees them all, and only after the move."""
    rng = np.random.default_rng(0)
    theta, momentum, grad, noise = rng.normal(size=(4, 5))
    together, _ = make_step(ALL[name], theta, started(ALL[name], theta, momentum), grad, noise)
    for i in range(5):
        aux = started(ALL[name], theta[i], momentum[i])
        close(together[i], make_step(ALL[name], theta[i], aux, grad[i], noise[i])[0])


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("name", ALL)
def test_types_are_kept(name, dtype):
    x = tf.ones([2, 3], dtype)
    aux = ALL[name].init(tf.constant(EPS, dtype), x, x)
    theta, after = ALL[name].step(tf.constant(EPS, dtype), x, aux, x, x, tf.reduce_mean)
    assert theta.dtype == dtype and set(after) == set(aux)
    for key in aux:
        assert after[key].dtype == aux[key].dtype == dtype and after[key].shape == aux[key].shape

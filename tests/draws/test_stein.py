"""The kernel Stein discrepancy, against its definition, against an integral, and by what it tells apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import quad
from scipy.stats import norm

from sgmcmc import sgld
from sgmcmc.draws import stein
from sgmcmc.draws.stein import discrepancy

SD = 1000**-0.5


def by_definition(x: np.ndarray, s: np.ndarray) -> float:
    """Term by term as in the papers, with the derivatives of the kernel by automatic differentiation."""
    total = np.zeros(x.shape[1])
    for k, m in product(range(len(x)), repeat=2):
        a, b = tf.constant(x[k]), tf.constant(x[m])
        with tf.GradientTape() as outer:
            outer.watch(b)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([a, b])
                kernel = (1 + tf.reduce_sum((a - b) ** 2)) ** -0.5
            da, db = tape.gradient(kernel, a), tape.gradient(kernel, b)
        mixed = np.diag(outer.jacobian(da, b).numpy())
        total += mixed + s[k] * db.numpy() + s[m] * da.numpy() + s[k] * s[m] * kernel.numpy()
    return np.sqrt(total / len(x) ** 2).sum()


def test_it_is_the_mean_of_the_stein_kernel_over_all_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    x = 3 + rng.normal(size=(7, 3))
    s = -x + rng.normal(size=(7, 3))
    exact = by_definition(x, s)
    assert discrepancy(x, s) == pytest.approx(exact, rel=1e-12)
    monkeypatch.setattr(stein, "BLOCK_NUMBERS", 20)  # blocks of two draws, and one of one
    assert discrepancy(x, s) == pytest.approx(exact, rel=1e-12)


def test_a_single_draw_is_known_in_closed_form():
    s = np.array([[3.0, 0.0]])
    assert discrepancy(np.array([[5.0, -1.0]]), s) == pytest.approx(np.sqrt(1 + 9) + 1)


def squared_in_the_limit(variance: float) -> float:
    """KSD^2 of N(0, variance) from N(0, 1), by an integral over the difference d of two draws.

    For s(x) = -x the terms with one gradient are -d^2 (1 + d^2)^(-3/2), and E[x y | d] = (2 variance - d^2) / 4.
    """

    def integrand(d: float) -> float:
        b = 1 + d**2
        kernel = b**-1.5 - 3 * d**2 * b**-2.5 - d**2 * b**-1.5 + (2 * variance - d**2) / 4 * b**-0.5
        return kernel * np.exp(-(d**2) / (4 * variance)) / np.sqrt(4 * np.pi * variance)

    return quad(integrand, -np.inf, np.inf, epsabs=1e-12)[0]


def test_in_the_limit_it_is_that_of_two_normal_distributions():
    """Of draws at the quantiles of a normal, which are it up to a part of 1e-3; sd wrong by sqrt(2) is told."""
    z = norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    right, wide, narrow = (discrepancy(a * z, -a * z) for a in (1, 2**0.5, 0.5**0.5))
    assert squared_in_the_limit(1.0) == pytest.approx(0, abs=1e-10)
    assert right < 0.01
    assert wide == pytest.approx(squared_in_the_limit(2.0) ** 0.5, rel=0.02)
    assert narrow == pytest.approx(squared_in_the_limit(0.5) ** 0.5, rel=0.02)
    assert min(wide, narrow) > 10 * right


def test_noise_of_the_gradients_adds_what_is_on_the_diagonal():
    """With noise of variance V, V / T is added to the square; noise of pairs averages out.

    The mean of 400 repetitions is within 6 of its standard errors: a false alarm has a probability below 1e-8. The
    standard error is about 0.001, and V / T = 0.02.
    """
    rng, x = np.random.default_rng(1), norm.ppf((np.arange(200) + 0.5) / 200)[:, None]
    added = np.array([discrepancy(x, -x + 2 * rng.normal(size=x.shape)) ** 2 for _ in range(400)])
    added -= discrepancy(x, -x) ** 2
    error = added.std() / 400**0.5
    assert error < 0.002
    assert abs(added.mean() - 4 / 200) < 6 * error


def test_what_is_not_finite_is_infinitely_far():
    x = np.zeros((3, 2))
    bad = x.copy()
    bad[1, 1] = np.nan
    assert discrepancy(bad, x) == discrepancy(x, bad) == np.inf


def normal_mean(stepsize: float, **options):
    dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}

    def log_lik(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    given = {"minibatchSize": 1000, "nIters": 1000, "gradients": True, "verbose": False, "seed": 1}
    return sgld(log_lik, dataset, {"theta": 3.0}, stepsize, **given | options)


def test_of_draws_it_is_that_of_their_arrays():
    out = normal_mean(2e-4, nChains=2)
    x, s = out["theta"].reshape(-1, 1), out.gradients["theta"].reshape(-1, 1)
    assert out.ksd() == pytest.approx(discrepancy(x, s))
    assert out.ksd(SD) == pytest.approx(discrepancy(x / SD, s * SD))
    assert out.ksd({"theta": SD}) == out.ksd(SD)
    later = out["theta"][:, 500:].reshape(-1, 1), out.gradients["theta"][:, 500:].reshape(-1, 1)
    assert out[500:].ksd() == pytest.approx(discrepancy(*later))


@pytest.mark.filterwarnings("ignore:the variance of 'theta':UserWarning")
def test_a_run_whose_sd_is_wrong_by_a_factor_of_root_two_is_farther():
    """SGLD with full gradients on a normal posterior of variance v has v / (1 - eps / 4v): here v, nearly, and 2 v."""
    assert normal_mean(2e-4).ksd(SD) < normal_mean(2e-3).ksd(SD)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (0.0, r"^scale of ksd must be positive and finite; got 0\.0\.$"),
        ("a", r"^scale of ksd must be positive and finite; got 'a'\.$"),
        ({"b": 1.0}, r"^scale of ksd must be a number, or a dict with the keys \['theta'\]; got keys \['b'\]\.$"),
        ({"theta": [1.0, 2.0]}, r"^scale\['theta'\] of ksd must be numbers of the shape \(\); got \(2,\)\.$"),
    ],
)
def test_a_bad_scale_is_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        normal_mean(2e-4, nIters=10).ksd(scale)


def test_without_gradients_or_draws_of_the_parameters_it_says_so():
    with pytest.raises(ValueError, match=r"^ksd needs the gradients at the draws, .* gradients=True"):
        normal_mean(2e-4, nIters=10, gradients=False).ksd()
    with pytest.raises(ValueError, match=r"^ksd needs the draws of the parameters themselves; got those of collect"):
        normal_mean(2e-4, nIters=10, collect=lambda params: {"square": params["theta"] ** 2}).ksd()

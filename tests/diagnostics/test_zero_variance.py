"""Zero-variance control variates: exact where theory says so, and as good as it says where gradients are noisy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import sgld
from sgmcmc.diagnostics import fullGradients, zvControlVariates

MEAN = np.array([1.0, -2.0, 30.0])
ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-3.0, 1.0, 2.0]])
COVARIANCE = ROOT @ ROOT.T
RNG = np.random.default_rng(0)


def gaussian(n: int, rng: np.random.Generator = RNG) -> tuple[np.ndarray, np.ndarray]:
    """Draws that are correlated, with a bias of their own, and the gradients there without noise."""
    x = MEAN + 0.3 + (1.2 * rng.normal(size=(n, 3))) @ ROOT.T
    return x, -(x - MEAN) @ np.linalg.inv(COVARIANCE)


def products(x: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...j->...ij", x, x)


def test_of_a_normal_posterior_the_mean_is_exact_whatever_the_draws():
    x, s = gaussian(200)
    found = zvControlVariates(x, s)
    np.testing.assert_allclose(found.values, np.broadcast_to(MEAN, x.shape), atol=1e-11)
    np.testing.assert_allclose(found.mean, MEAN, atol=1e-11)
    np.testing.assert_allclose(found.meanBefore, x.mean(axis=0), rtol=1e-14)
    assert np.abs(found.meanBefore - MEAN).min() > 0.1
    assert (found.varianceFactor < 1e-20).all()
    assert (found.mcse < 1e-12).all() and (found.mcseBefore > 0.02).all()


def test_of_a_normal_posterior_second_moments_are_exact_with_degree_2_and_not_with_1():
    x, s = gaussian(200)
    exact = COVARIANCE + np.outer(MEAN, MEAN)
    second = zvControlVariates(x, s, products, degree=2)
    assert second.values.shape == (200, 3, 3) and second.mean.shape == (3, 3)
    np.testing.assert_allclose(second.mean, exact, rtol=1e-10)
    assert (second.varianceFactor < 1e-18).all()
    first = zvControlVariates(x - MEAN, s, products, degree=1)
    assert (np.diag(first.varianceFactor) > 0.1).all()
    np.testing.assert_allclose(zvControlVariates(x, s, degree=2).mean, MEAN, atol=1e-10)


def test_it_is_stable_far_from_the_origin_and_on_scales_that_differ():
    mean, sd = np.array([1e4, -1.0]), np.array([1e-8, 1e8])
    x = mean + sd * np.random.default_rng(1).normal(size=(400, 2))
    s = -(x - mean) / sd**2
    second = zvControlVariates(x, s, lambda x: (x - mean) ** 2, degree=2)
    np.testing.assert_allclose(second.mean, sd**2, rtol=1e-9)
    # By rounding of a mean of 1e4, not of the quantity: 1e-12 is a part of 1e-4 of its standard deviation.
    assert np.abs((zvControlVariates(x, s, degree=2).mean - mean) / sd).max() < 1e-3


@pytest.mark.parametrize("noise", [0.25, 1.0, 4.0])
def test_noise_of_the_gradients_leaves_what_theory_says(noise):
    """For a standard normal and noise of variance v it is v / (1 + v); the standard error of the factor is 0.003."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=40_000)
    s = -x + noise**0.5 * rng.normal(size=x.shape)
    found = zvControlVariates(x, s)
    assert found.varianceFactor == pytest.approx(noise / (1 + noise), abs=0.02)
    assert found.mcse / found.mcseBefore == pytest.approx((noise / (1 + noise)) ** 0.5, rel=0.1)


def test_the_sign_is_minus():
    """The coefficients are the regression's with a minus; with the plus of the printed algorithm the variance grows."""
    rng = np.random.default_rng(3)
    x, s = gaussian(500, rng)
    s = s + rng.normal(size=s.shape)
    joint = np.cov(np.column_stack([s, x]), rowvar=False)
    a = -np.linalg.solve(joint[:3, :3], joint[:3, 3:])
    found = zvControlVariates(x, s)
    np.testing.assert_allclose(found.values, x + s @ a, rtol=1e-10)
    np.testing.assert_allclose(found.varianceFactor, (x + s @ a).var(axis=0) / x.var(axis=0), rtol=1e-10)
    assert (found.varianceFactor < 1).all()
    assert ((x - s @ a).var(axis=0) > x.var(axis=0)).all()


def test_the_controls_of_degree_2_are_those_of_the_papers():
    """Without centring: the same values, as it only mixes controls with each other."""
    rng = np.random.default_rng(4)
    x = 0.5 + rng.gamma(2.0, size=(300, 2))
    s = -x + 0.5 * rng.normal(size=x.shape)
    c = np.column_stack([s, 1 + x * s, x[:, 0] * s[:, 1] + x[:, 1] * s[:, 0]])
    g = np.exp(-x[:, 0])
    joint = np.cov(np.column_stack([c, g]), rowvar=False)
    expected = g - c @ np.linalg.solve(joint[:5, :5], joint[:5, 5])
    np.testing.assert_allclose(zvControlVariates(x, s, g, degree=2).values, expected, rtol=1e-9)


def test_estimates_of_many_chains_vary_less_around_the_same_mean():
    """300 estimates from 100 draws each; the expected ratio of their variances is 0.2, with a standard error of 8%."""
    rng, before, after = np.random.default_rng(5), [], []
    for _ in range(300):
        x = 2.0 + rng.normal(size=100)
        found = zvControlVariates(x, 2.0 - x + 0.5 * rng.normal(size=100))
        before.append(found.meanBefore)
        after.append(found.mean)
    assert 0.12 < np.var(after) / np.var(before) < 0.32
    assert abs(np.mean(after) - 2.0) < 5 * np.std(after) / 300**0.5


def test_standard_errors_know_of_autocorrelation():
    """An autoregression with coefficient 0.9 has (1 + 0.9) / (1 - 0.9) = 19 times the variance of its mean."""
    rng, x = np.random.default_rng(6), np.zeros((2, 20_000))
    for t in range(1, x.shape[1]):
        x[:, t] = 0.9 * x[:, t - 1] + (1 - 0.9**2) ** 0.5 * rng.normal(size=2)
    noise = rng.normal(size=x.shape)
    found = zvControlVariates(x, -x + noise, nChains=2)
    assert found.values.shape == x.shape
    assert found.mcseBefore == pytest.approx((19 / x.size) ** 0.5, rel=0.2)
    # What is left is x / 2 - noise / 2, whose parts have 19 and 1 times the variance of independent draws.
    assert found.mcse == pytest.approx((20 / 4 / x.size) ** 0.5, rel=0.2)


def test_forms_of_draws_and_quantities():
    x, s = gaussian(60)
    plain = zvControlVariates(x, s)
    names = {"b": x[:, :1], "a": x[:, 1:]}, {"b": s[:, :1], "a": s[:, 1:]}
    named = zvControlVariates(*names)
    np.testing.assert_allclose(named.values["b"][:, 0], plain.values[:, 0], atol=1e-10)
    np.testing.assert_allclose(named.mean["a"], plain.mean[1:], atol=1e-10)
    chains = zvControlVariates(x.reshape(2, 30, 3), s.reshape(2, 30, 3), nChains=2)
    np.testing.assert_allclose(chains.values.reshape(60, 3), plain.values, atol=1e-10)
    one = zvControlVariates(x.reshape(2, 30, 3), s.reshape(2, 30, 3), x[:, 1].reshape(2, 30), nChains=2)
    assert one.mcseBefore == pytest.approx(chains.mcseBefore[1], rel=1e-12)
    assert one.mcseBefore != pytest.approx(plain.mcseBefore[1], rel=1e-3)
    assert zvControlVariates(*names, lambda draws: draws["b"][:, 0]).mean == pytest.approx(1.0)
    several = zvControlVariates(*names, lambda draws: {"sum": draws["b"][:, 0] + draws["a"][:, 1]})
    assert several.mean["sum"] == pytest.approx(31.0) and several.values["sum"].shape == (60,)
    some = zvControlVariates(names[0], {"b": names[1]["b"]})
    assert list(some.mean) == ["b"] and 0 < some.varianceFactor["b"][0] < 1


def test_a_quantity_that_does_not_vary_stays():
    x, s = gaussian(60)
    found = zvControlVariates(x, s, np.full(60, 7.0))
    assert (found.mean, found.varianceFactor, found.mcse) == (7.0, 1.0, 0.0)
    assert (found.values == 7.0).all()


def test_a_parameter_without_gradient_adds_nothing():
    x, s = gaussian(60)
    wider = zvControlVariates(np.column_stack([x, x[:, 0] ** 3]), np.column_stack([s, np.zeros(60)]), x)
    np.testing.assert_allclose(wider.values, zvControlVariates(x, s).values, atol=1e-10)


@pytest.mark.parametrize("n_chains", [None, 2])
def test_of_a_run(n_chains):
    """With all data in each minibatch the gradients have no noise, and the mean is exact at any stepsize."""
    dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}

    def log_lik(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    given = {"nIters": 400, "gradients": True, "verbose": False, "seed": 1, "nChains": n_chains}
    out = sgld(log_lik, dataset, {"theta": 3.0}, 1e-4, minibatchSize=1000, **given)
    found = zvControlVariates(out)
    assert found.values["theta"].shape == out["theta"].shape
    assert found.mean["theta"] == pytest.approx(dataset["x"].mean(), abs=1e-5)
    assert found.varianceFactor["theta"] < 1e-6
    square = zvControlVariates(out, g=lambda out: out["theta"] ** 2, degree=2)
    assert square.mean == pytest.approx(dataset["x"].mean() ** 2 + 1e-3, abs=1e-4)
    noisy = sgld(log_lik, dataset, {"theta": 3.0}, 1e-4, minibatchSize=100, **given)
    factors = [zvControlVariates(noisy, s).varianceFactor["theta"] for s in (None, full(noisy, log_lik, dataset))]
    assert factors[1] < 1e-6 < 0.2 < factors[0] < 1


def full(out, log_lik, dataset):
    return fullGradients(out, log_lik, dataset, verbose=False)


X, S = gaussian(60)
BAD = X.copy()
BAD[3, 1] = np.nan


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, S), {"degree": 3}, r"^degree of zvControlVariates must be 1 or 2; got 3\.$"),
        ((X, S), {"degree": True}, r"^degree of zvControlVariates must be 1 or 2; got True\.$"),
        (
            (X,),
            {},
            r"^gradients of zvControlVariates must be those of the log posterior .* gradients=True .* got None\.$",
        ),
        (({"a": X},), {}, r"^gradients of zvControlVariates must be those .* got None\.$"),
        ((X, S[:, :2]), {}, r"^gradients of .* must have the shape of the draws, \(60, 3\); got \(60, 2\)\.$"),
        ((X, S[1:]), {}, r"^gradients of .* must have the shape of the draws, \(60, 3\); got \(59, 3\)\.$"),
        ((X, {"a": S}), {}, r"^gradients of .* must be one array, as draws are; got a dict of arrays\.$"),
        (({"a": X}, {"b": S}), {}, r"^draws of .* must have arrays for \['b'\]; got \['a'\]\.$"),
        (({"a": X}, {"a": S[:, 0]}), {}, r"^gradients\['a'\] of .* must have the shape of the draws, \(60, 3\)"),
        ((BAD, S), {}, r"^draws of zvControlVariates must be finite; got nan at index \(3, 1\)\.$"),
        ((X, BAD), {}, r"^gradients of zvControlVariates must be finite; got nan at index \(3, 1\)\.$"),
        ((X, S, BAD), {}, r"^g of zvControlVariates must be finite; got nan at index \(3, 1\)\.$"),
        ((X, S, X[1:]), {}, r"^g of .* must have the shape \(60, \.\.\.\), a value for each draw; got \(59, 3\)\.$"),
        ((X, S, lambda x: 1.0), {}, r"^g of .* must have the shape \(T, \.\.\.\) for T draws; got shape \(\)\.$"),
        ((X, S, "a"), {}, r"^g of zvControlVariates must be an array of real numbers; got strings such as .a.;"),
        (
            (X[:7], S[:7]),
            {},
            r"^draws of .* must be at least 8, 2 for each .* 3 control variates of degree 1 .* got 7\.$",
        ),
        ((X[:19], S[:19]), {"degree": 2}, r"^draws of .* must be at least 20, .* 9 control variates .* got 19\.$"),
        ((X[:0], S[:0]), {}, r"^draws of .* must hold at least one draw; got shape \(0, 3\)\.$"),
        (
            (X, S),
            {"nChains": 2},
            r"^draws of .* must have the shape \(2, T, \.\.\.\) for T draws; got shape \(60, 3\)\.$",
        ),
        ((X, S), {"nChains": 0}, r"^nChains of zvControlVariates must be an integer of at least 1; got 0\.$"),
    ],
)
def test_bad_arguments_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        zvControlVariates(*arguments, **options)


def test_just_enough_draws_are():
    assert zvControlVariates(X[:8], S[:8]).mean == pytest.approx(MEAN)
    assert zvControlVariates(X[:20], S[:20], degree=2).mean == pytest.approx(MEAN)


def test_a_chain_that_has_not_settled_is_warned_of() -> None:
    """A slow drift at -2.5 on a standard normal: the mean would be said to be 0."""
    rng = np.random.default_rng(0)
    draws = np.stack([np.linspace(-3, -2, 500) + 0.01 * rng.normal(size=500), rng.normal(size=500)], axis=1)
    with pytest.warns(
        UserWarning, match="the mean of the gradients of zvControlVariates is .* standard errors from zero"
    ):
        zvControlVariates(draws, -draws)
    settled = rng.normal(size=(500, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvControlVariates(settled, -settled)

"""Preconditioned samplers: the paths of the plain ones in other coordinates, and exact laws with what they reject."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.linalg import sqrtm
from scipy.optimize import brentq

import sgmcmc
from sgmcmc.core.transforms import Coordinates
from sgmcmc.core.trees import numbered, split
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht
from tests.catalogue import CATALOGUE, Entry
from tests.statistical.laws import Linear, accept, moments_z, reject, sghmc_iteration

N, n, D = 90, 9, 3
RNG = np.random.default_rng(5)
MIX = np.array([[2.0, 0.0, 0.0], [1.5, 0.7, 0.0], [-30.0, 10.0, 20.0]])  # sds that differ by a factor of 30
Y = RNG.normal(size=(N, D)) @ MIX.T + [1.0, -2.0, 40.0]
W = np.linalg.inv(MIX @ MIX.T)  # the precision of an observation
NEAR = MIX + np.diag([1.0, 0.5, 5.0])
M = NEAR @ NEAR.T / N  # near the covariance of the posterior
DIAGONAL = {"a": np.array(0.03), "b": np.array([0.02, 5.0])}
SHAPES = {"a": (), "b": (2,)}
START = {"a": 0.9, "b": np.array([-1.5, 35.0])}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    theta = tf.concat([params["a"][None], params["b"]], axis=0)
    residual = dataset["y"] - theta
    return -0.5 * tf.reduce_sum(tf.matmul(residual, tf.constant(W, residual.dtype)) * residual)


def root(preconditioner: Any) -> np.ndarray:
    """A, as the package takes it."""
    sampler = sgmcmc.sgldSetup(log_lik, {"y": Y}, START, 1.0, preconditioner=preconditioner, dtype="float64", seed=1)
    found = sampler._sampler.curvature.preconditioner
    return found if found.ndim == 2 else np.diag(found)


@pytest.mark.parametrize(
    ("entry", "preconditioner"),
    [(entry, M) for entry in CATALOGUE if entry.name in ("sgld", "sghmc", "sgnhtcv")]
    + [(entry, DIAGONAL) for entry in CATALOGUE if entry.name == "sghmccv"],
    ids=lambda value: getattr(value, "name", "diagonal" if isinstance(value, dict) else "dense"),
)
def test_paths_are_those_of_the_plain_sampler_in_other_coordinates(entry: Entry, preconditioner: Any) -> None:
    A = root(preconditioner)
    M_given = M
    if preconditioner is DIAGONAL:
        M_given = np.diag(np.concatenate([np.ravel(part) for part in DIAGONAL.values()]))
    np.testing.assert_allclose(A @ A.T, M_given, rtol=1e-10)
    elements = numbered(SHAPES)

    def transformed(phi: dict, dataset: dict) -> tf.Tensor:
        flat = tf.concat([phi["a"][None], phi["b"]], axis=0)
        return log_lik(split(tf.linalg.matvec(tf.constant(A, flat.dtype), flat), elements), dataset)

    phi = np.linalg.solve(A, np.concatenate([[START["a"]], START["b"]]))
    settings = entry.settings | ({"nItersOpt": 0} if "nItersOpt" in entry.settings else {})
    common: dict[str, Any] = {
        "stepsize": 0.005, "minibatchSize": n, "nIters": 40, "dtype": "float64", "seed": 3,
        "verbose": False,
    }  # fmt: skip
    if preconditioner is DIAGONAL:
        common["nChains"] = 3
    plain = entry.one_call(transformed, {"y": Y}, {"a": phi[0], "b": phi[1:]}, **common, **settings)
    out = entry.one_call(log_lik, {"y": Y}, START, **common, **settings, preconditioner=preconditioner)
    path = np.concatenate([plain["a"][..., None], plain["b"]], axis=-1) @ A.T
    np.testing.assert_allclose(out["a"], path[..., 0], rtol=1e-7)
    np.testing.assert_allclose(out["b"], path[..., 1:], rtol=1e-7)


EPS, ALPHA, LEAPS, CHAINS = 0.3, 0.2, 3, 12_000
LAMBDA = N * W
NOISE = N**2 / n * (1 - n / N) * W @ np.cov(Y.T) @ W  # of the gradient, without replacement
MEAN = Y.mean(axis=0)


def sgld_law(drift: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """theta' = theta + eps/2 drift g + sqrt(eps) N(0, noise)."""
    return Linear(
        np.eye(D) - EPS / 2 * drift @ LAMBDA, EPS * noise + EPS**2 / 4 * drift @ NOISE @ drift.T
    ).stationary_covariance()


def draws(name: str, covariance: np.ndarray, **settings: Any) -> dict[str, np.ndarray]:
    """Of chains that begin with the law's covariance, [T, C] for each element."""
    starts = np.random.default_rng(2).multivariate_normal(MEAN, covariance, CHAINS)
    out = getattr(sgmcmc, name)(
        log_lik, {"y": Y}, START, EPS, minibatchSize=n, nIters=100, thin=5, nChains=CHAINS, verbose=False, seed=4,
        starts={"a": starts[:, 0], "b": starts[:, 1:]}, preconditioner=M, **settings,
    )  # fmt: skip
    theta = np.concatenate([out["a"][..., None], out["b"]], axis=-1)
    return {f"theta{k}": theta[..., k].T for k in range(D)}


def test_the_law_of_preconditioned_sgld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each control breaks the preconditioner in the sampler, or in the law."""
    covariance = sgld_law(M, M)
    made = draws("sgld", covariance)
    accept("sgld, preconditioned", moments_z(made, MEAN, covariance))
    reject("law that forgets M in the noise", moments_z(made, MEAN, sgld_law(M, np.eye(D))))
    half = np.real(sqrtm(M))
    reject("law whose noise has M^(1/2) for M", moments_z(made, MEAN, sgld_law(M, half)))
    reject("law of a noise of 2 M", moments_z(made, MEAN, sgld_law(M, 2 * M)))

    moved = Coordinates.moved

    def wider(self: Coordinates, theta: dict, reached: dict) -> dict:
        return moved(self._replace(root={"dense": 1.02 * self.root["dense"]}), theta, reached)

    monkeypatch.setattr(Coordinates, "moved", wider)
    reject("sampler whose A is 2% too large", moments_z(draws("sgld", covariance), MEAN, covariance))


def test_the_law_of_preconditioned_sghmc() -> None:
    """By the recursion of theta and the momentum in the coordinates of A."""
    A, eye, zero = root(M), np.eye(D), np.zeros((D, D))
    curvature, noise = A.T @ LAMBDA @ A, A.T @ NOISE @ A
    leap = Linear(
        np.block([[eye, eye], [-EPS * curvature, (1 - ALPHA) * eye - EPS * curvature]]),
        np.block([[zero, zero], [zero, 2 * ALPHA * EPS * eye + EPS**2 * noise]]),
    )
    renewal = Linear(np.block([[eye, zero], [zero, zero]]), np.block([[zero, zero], [zero, EPS * eye]]))
    covariance = A @ renewal.then(leap.repeated(LEAPS)).stationary_covariance()[:D, :D] @ A.T
    made = draws("sghmc", covariance, alpha=ALPHA, L=LEAPS)
    accept("sghmc, preconditioned", moments_z(made, MEAN, covariance))
    reject("the posterior in place of the law", moments_z(made, MEAN, np.linalg.inv(LAMBDA)))


def test_what_dynamics_say_of_where_they_settle() -> None:
    """SGLD and SGHMC as Lyapunov's equation has it."""
    precision, noise = np.array([0.3, 1.0, 2.5]), np.array([0.0, 7.0, 0.4])
    told = sgld().stationary(EPS, precision, noise).variance  # type: ignore[misc]
    by_lyapunov = [
        Linear(np.array([[1 - EPS * a / 2]]), np.array([[EPS + EPS**2 * v / 4]])).stationary_covariance()[0, 0]
        for a, v in zip(precision, noise, strict=True)
    ]
    np.testing.assert_allclose(told, by_lyapunov, rtol=1e-10)
    told = sghmc(ALPHA, LEAPS).stationary(EPS, precision, noise).variance  # type: ignore[misc]
    by_lyapunov = [
        sghmc_iteration(EPS, a, v, ALPHA, LEAPS).stationary_covariance()[0, 0]
        for a, v in zip(precision, noise, strict=True)
    ]
    np.testing.assert_allclose(told, by_lyapunov, rtol=1e-10)
    assert np.isinf(sgld().stationary(EPS, np.array([4.0 / EPS]), np.zeros(1)).variance).all()  # type: ignore[misc]


def test_sgnht_settles_where_its_thermostat_is_at_rest() -> None:
    """At up to 1 over the precision: by Lyapunov's equation, at the friction with E u^2 = eps on average."""
    eps, a, precision, noise = 0.02, 0.05, np.array([1.0, 20.0, 50.0]), np.array([5.0, 0.0, 10.0])

    def covariances(xi: float) -> np.ndarray:
        return np.stack(
            [
                Linear(
                    np.array([[1 - eps * h, 1 - xi], [-eps * h, 1 - xi]]),
                    np.full((2, 2), 2 * a * eps + eps**2 * v),
                ).stationary_covariance()
                for h, v in zip(precision, noise, strict=True)
            ]
        )

    unmoved = brentq(lambda xi: covariances(xi)[:, 1, 1].mean() - eps, 0.01, 0.7, xtol=1e-14)
    told = sgnht(a).stationary(eps, precision, noise).variance  # type: ignore[misc]
    np.testing.assert_allclose(told, covariances(unmoved)[:, 0, 0], rtol=1e-10)

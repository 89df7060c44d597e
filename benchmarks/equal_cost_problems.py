"""The problems of equal_cost.py and their references."""

from __future__ import annotations

import numpy as np
import scipy.integrate
import tensorflow as tf
import tensorflow_probability as tfp
from accuracy_problems import COVERTYPE_DRAWS, Case, cached, mixture, of_covertype, of_mixture
from automatic import Problem, Reference, flattened, normal_prior, problems, reference
from harness import HERE

from sgmcmc.draws.convergence import diagnostics

REFERENCES = HERE / "reference"


def heavy_tails() -> Problem:
    """A hundred means with a t prior of three degrees of freedom, and ten observations of each."""
    rng = np.random.default_rng(7)
    mean = rng.standard_t(3, size=100)
    group = np.repeat(np.arange(100), 10)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        residual = dataset["y"] - tf.linalg.matvec(dataset["indicator"], params["mean"])
        return -0.5 * tf.reduce_sum(residual**2) / 25

    def log_prior(params: dict) -> tf.Tensor:
        return -2.0 * tf.reduce_sum(tf.math.log1p(params["mean"] ** 2 / 3))

    data = {"y": mean[group] + 5 * rng.normal(size=1000), "indicator": np.eye(100)[group]}
    return Problem("heavy tails: 100 means with a t prior", log_lik, data, {"mean": np.zeros(100)}, log_prior)


def of_heavy_tails(problem: Problem) -> Reference:
    """Quadrature of each mean."""
    grid, sums = np.linspace(-60, 60, 48_001), problem.dataset["indicator"].T @ problem.dataset["y"]
    log_p = sums[:, None] * grid / 25 - 10 * grid**2 / 50 - 2 * np.log1p(grid**2 / 3)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    p /= scipy.integrate.trapezoid(p, grid)[:, None]
    mean = scipy.integrate.trapezoid(p * grid, grid)
    sd = np.sqrt(scipy.integrate.trapezoid(p * (grid - mean[:, None]) ** 2, grid))
    return Reference(mean, sd, 0 * mean, 0 * sd, np.inf)


HIDDEN, NOISE, SCALE = 8, 0.25, 3.0
AT = np.linspace(-1.25, 1.25, 21)  # where the function is compared; the data are in [-1, 1]


def function(params: dict, x: tf.Tensor) -> tf.Tensor:
    """A network with a hidden layer, [..., N]; the parameters may have leading dimensions."""
    slopes, offsets = SCALE * params["w1"][..., None, :], SCALE * params["b1"][..., None, :]
    hidden = tf.tanh(x[:, None] * slopes + offsets)
    return tf.linalg.matvec(hidden, params["w2"]) + params["b2"][..., None]


def network() -> Problem:
    """A network of 25 weights, compared by its function, which does not change if hidden units are permuted."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 500)
    y = np.sin(4 * x) * np.exp(-x) / 2 + NOISE * rng.normal(size=500)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["y"] - function(params, dataset["x"])) ** 2) / NOISE**2

    def outputs(theta: np.ndarray) -> np.ndarray:
        b1, b2, w1, w2 = np.split(theta, np.cumsum([HIDDEN, 1, HIDDEN]), axis=-1)
        return function({"b1": b1, "b2": b2[..., 0], "w1": w1, "w2": w2}, tf.constant(AT)).numpy()

    params = {"w1": rng.normal(size=HIDDEN), "b1": rng.normal(size=HIDDEN), "w2": np.zeros(HIDDEN), "b2": 0.0}
    return Problem(
        f"network with {HIDDEN} hidden units, its function at {len(AT)} points", log_lik, {"x": x, "y": y}, params,
        normal_prior(1), minibatchSize=50, outputs=outputs,
    )  # fmt: skip


def of_network(problem: Problem, chains: int = 32, iterations: int = 2000) -> Reference:
    """NUTS on all data, with chains from draws of the prior."""
    flat = flattened(problem)
    start = tf.constant(np.random.default_rng(0).normal(size=(chains, len(flat.mode))))
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(lambda theta: tf.vectorized_map(flat.log_density, theta), 0.01), iterations // 4
    )

    @tf.function(jit_compile=True)
    def run() -> tf.Tensor:
        return tfp.mcmc.sample_chain(
            iterations, start, num_burnin_steps=iterations // 2, kernel=kernel, trace_fn=None, seed=[0, 0]
        )

    assert problem.outputs is not None
    found = problem.outputs(np.moveaxis(run().numpy(), 0, 1))  # [chains, iterations, K]
    told, sd = diagnostics(np.moveaxis(found, 2, 0)), found.std(axis=(0, 1))
    assert told["r_hat"].max() < 1.02, told["r_hat"]
    return Reference(found.mean(axis=(0, 1)), sd, told["mcse_mean"] / sd, told["mcse_sd"] / sd, told["ess_bulk"].min())


def cases(covertype: str | None) -> dict[str, Case]:
    """The problems and how their references are computed."""
    bundled = problems()
    sampled = "importance sampling from a t distribution around the mode, on all data"
    found = {
        name: Case(bundled[name], lambda name=name: reference(bundled[name]), sampled)
        for name in ("poisson", "rare", "scale", "hierarchical", "large")
    }
    two, tails, weights = mixture(), heavy_tails(), network()
    found["mixture"] = Case(two, lambda: of_mixture(two), "adaptive importance sampling, of both modes")
    found["tails"] = Case(tails, lambda: of_heavy_tails(tails), "quadrature of each element")
    found["network"] = Case(weights, lambda: of_network(weights), "NUTS on all data, 32 chains from draws of the prior")
    if covertype:
        forest = of_covertype(covertype)
        found["covertype"] = Case(forest, lambda: cached(forest, None), sampled + f", {COVERTYPE_DRAWS} draws")
    return found


def published(name: str, case: Case) -> Reference:
    """The reference from its file, which is made if it does not exist."""
    file = REFERENCES / f"{name}.npz"
    if not file.exists():
        REFERENCES.mkdir(exist_ok=True)
        problem, found = case.problem, case.reference()
        elements = [f"{key}[{i}]" for key in sorted(problem.params) for i in range(np.size(problem.params[key]))]
        if problem.outputs is not None:
            elements = [f"output[{i}]" for i in range(len(found.mean))]
        np.savez(file, **found._asdict(), elements=elements, title=problem.title, found_by=case.told)
    with np.load(file) as stored:
        return Reference(**{field: stored[field] for field in Reference._fields})

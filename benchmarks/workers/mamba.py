"""SGMCMCJax on the simulated logistic regression of Coullon, South and Nemeth (2023), and their data.

    python mamba.py data.npz                           # only simulate the data
    python mamba.py data.npz draws.npy '{"sampler": "sgldCV", "dt": 1e-5, "n": 800, "iterations": 10000, "seed": 1}'

The data follow the recipe and the key of the authors' code: JAX draws the same numbers from the same key. Chains begin,
and control variates are centred, at the coefficients that made the data. The time includes compilation. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import sgmcmcjax.samplers
from protocol import timed, versions

KEY, N, TRAINING, D = 42, 1_000_000, 800_000, 10
PRIOR_VARIANCE = 10.0
CORRELATION = 0.4  # the largest
LEAPS = 10  # of SGHMC


def log_lik(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    z = jnp.dot(x, theta)
    return y * z - jax.nn.softplus(z)


def log_prior(theta: jax.Array) -> jax.Array:
    return -0.5 / PRIOR_VARIANCE * jnp.dot(theta, theta)


def simulate(path: str) -> None:
    key, of_theta, of_correlation, of_x = jax.random.split(jax.random.PRNGKey(KEY), 4)
    theta = jnp.sqrt(PRIOR_VARIANCE) * jax.random.normal(of_theta, (D,))
    correlation = CORRELATION * (2 * float(jax.random.uniform(of_correlation)) - 1)
    distance = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
    root = jnp.linalg.cholesky(jnp.array(correlation**distance, jnp.float32))
    x = jax.random.normal(of_x, (N, D)) @ root
    y = jax.vmap(jax.random.bernoulli)(jax.random.split(key, N), jax.nn.sigmoid(x @ theta))
    rows = {"X": x[:TRAINING], "y": y[:TRAINING], "X_test": x[TRAINING:], "y_test": y[TRAINING:], "theta": theta}
    np.savez(path, **{name: np.asarray(value, np.float32) for name, value in rows.items()})
    print(json.dumps(versions("sgmcmcjax", "jax")))


def run(path: str, output: str, settings: dict) -> None:
    file = np.load(path)
    data, theta = (jnp.asarray(file["X"]), jnp.asarray(file["y"])), jnp.asarray(file["theta"])
    name, iterations = settings["sampler"], settings["iterations"]
    leaps = (LEAPS,) if "sghmc" in name else ()
    centre = (theta,) if name.endswith("CV") else ()
    build = getattr(sgmcmcjax.samplers, f"build_{name}_sampler")
    with timed() as spent:
        sampler = build(settings["dt"], *leaps, log_lik, log_prior, data, settings["n"], *centre, pbar=False)
        draws = np.asarray(sampler(jax.random.PRNGKey(settings["seed"]), iterations, theta))
    np.save(output, draws)
    print(json.dumps(spent))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        simulate(sys.argv[1])
    else:
        run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

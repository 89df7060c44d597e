"""sgldCV of SGMCMCJax on a logistic regression: chains from the mode, which it is given, with one stepsize.

    python sgldcv.py input.npz draws.npy '{"stepsize": 1e-6, "n": 500, "iterations": 10000, "chains": 4, "thin": 1}'

The input is that of nuts.py. Compilation and the gradient at the mode are not timed. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from protocol import timed
from sgmcmcjax.samplers import build_sgldCV_sampler


def log_lik(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    z = jnp.dot(x, theta)
    return y * z - jax.nn.softplus(z)


def log_prior(theta: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(theta**2)


def main(path: str, output: str, settings: dict) -> None:
    file = np.load(path)
    data = (jnp.asarray(file["X"]), jnp.asarray(file["y"]))
    mode = jnp.asarray(file["mode"], jnp.float32)
    n, iterations = settings["n"], settings["iterations"]
    sampler = build_sgldCV_sampler(settings["stepsize"] / 2, log_lik, log_prior, data, n, mode, pbar=False)
    keys = jax.random.split(jax.random.PRNGKey(1), settings["chains"])
    chains = jax.jit(jax.vmap(lambda key: sampler(key, iterations, mode))).lower(keys).compile()
    with timed() as spent:
        draws = np.asarray(chains(keys))
    np.save(output, draws[:, settings["thin"] - 1 :: settings["thin"]])
    gradients = 2 * n * iterations * settings["chains"]
    print(json.dumps(spent | {"draws": draws.shape[1], "gradients": gradients}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

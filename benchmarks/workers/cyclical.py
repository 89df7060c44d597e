"""SGLD of blackjax on the mixture of 25 normal distributions of Zhang et al. (2020), many chains side by side.

    python cyclical.py input.npz draws.npy SEED

The input has the `starts` of the chains, [C, 2], the `steps` of all iterations, [T], the `centres` of the mixture,
[25, 2], and the `variance` of its parts. The gradients have standard normal noise, whose variance is taken off the
injected noise, as in the authors' code. The time includes compilation. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from protocol import timed, versions


def main(path: str, output: str, seed: int) -> None:
    file = np.load(path)
    starts, steps = jnp.asarray(file["starts"], jnp.float32), jnp.asarray(file["steps"], jnp.float32)
    centres, variance = jnp.asarray(file["centres"], jnp.float32), float(file["variance"])

    def log_density(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(-0.5 / variance * jnp.sum((x - centres) ** 2, axis=1))

    sgld = blackjax.sgld(lambda x, noise: jax.grad(log_density)(x) + noise)

    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        def step(x: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            eta, key = at
            of_gradient, injected = jax.random.split(key)
            x = sgld.step(injected, x, jax.random.normal(of_gradient, (2,)), eta, 1 - eta / 2)
            return x, x

        return jax.lax.scan(step, sgld.init(start), (steps, jax.random.split(key, len(steps))))[1]

    with timed() as spent:
        draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(seed), len(starts)), starts))
    np.save(output, draws)
    print(json.dumps(spent | versions("blackjax")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

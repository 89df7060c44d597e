"""NUTS of NumPyro on all data: four chains, with its usual warm-up, until an effective sample size is reached.

    python numpyro_nuts.py dataset.npz draws.npz '{"problem": "ill", "ess": 1000, "seconds": 300}'

The log densities are those of automatic.py. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_softmax, softplus
from numpyro.infer import MCMC, NUTS

WARM_UP, BLOCK, CHAINS = 500, 250, 4


def logistic(p: dict, d: dict) -> jax.Array:
    eta = d["X"] @ p["beta"]
    return jnp.sum(d["y"] * eta - softplus(eta))


def normal_prior(p: dict, variance: float) -> jax.Array:
    return -0.5 / variance * sum(jnp.sum(x**2) for x in p.values())


def linear(p: dict, d: dict) -> jax.Array:
    return -0.5 * jnp.sum((d["y"] - d["X"] @ p["beta"]) ** 2)


def poisson(p: dict, d: dict) -> jax.Array:
    eta = d["X"] @ p["beta"] + p["intercept"]
    return jnp.sum(d["y"] * eta - jnp.exp(eta)) + normal_prior(p, 100)


def scale(p: dict, d: dict) -> jax.Array:
    """With the logarithm of sigma as the parameter."""
    residual = (d["y"] - d["X"] @ p["beta"]) * jnp.exp(-p["sigma"])
    return jnp.sum(-0.5 * residual**2 - p["sigma"]) - (jnp.sum(p["beta"] ** 2) + p["sigma"] ** 2) / 200


def softmax(p: dict, d: dict) -> jax.Array:
    logits = d["X"] @ p["W"]
    logits = jnp.concatenate([jnp.zeros_like(logits[:, :1]), logits], axis=1)
    return jnp.sum(d["Y"] * log_softmax(logits)) + normal_prior(p, 1)


def hierarchical(p: dict, d: dict) -> jax.Array:
    within = -0.5 * jnp.sum(((p["mu"] - p["mean"]) * jnp.exp(-p["tau"])) ** 2) - 20 * p["tau"]
    prior = within - 0.5 * (p["mean"] / 10) ** 2 - 0.5 * p["tau"] ** 2
    return -0.5 * jnp.sum((d["y"] - p["mu"][d["group"]]) ** 2) + prior


DENSITIES = {
    "gaussian": lambda p, d: linear(p, d) + normal_prior(p, 100),
    "ill": linear,
    "small": lambda p, d: logistic(p, d) + normal_prior(p, 1),
    "large": logistic,
    "poisson": poisson,
    "scale": scale,
    "softmax": softmax,
    "hierarchical": hierarchical,
    "tight": lambda p, d: logistic(p, d) + normal_prior(p, 0.01),
    "rare": lambda p, d: logistic(p, d) + normal_prior(p, 1),
    "covertype": lambda p, d: logistic(p, d) + normal_prior(p, 1),
}


def smallest_ess(draws: dict[str, np.ndarray]) -> float:
    """Of all elements, [C, T, ...], of the bulk and of the tails."""
    found = np.inf
    for x in draws.values():
        for element in x.reshape(*x.shape[:2], -1).transpose(2, 0, 1):
            for how in ({"method": "bulk"}, {"method": "tail", "prob": (0.05, 0.95)}):
                found = min(found, float(arviz_stats.ess(element.astype(float), **how)))
    return found


def until(kernel: NUTS, settings: dict, *data: Any, begin: dict | None = None) -> tuple[dict[str, np.ndarray], dict]:
    """Draws [C, T, ...] of four chains until `settings["ess"]` are effective or the time is over, and what was seen."""
    started, worked, divergences = time.perf_counter(), time.process_time(), 0
    mcmc = MCMC(
        kernel,
        num_warmup=WARM_UP,
        num_samples=BLOCK,
        num_chains=CHAINS,
        chain_method="parallel",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(1), *data, init_params=begin, extra_fields=("diverging",))
    blocks: list[dict[str, np.ndarray]] = []
    while True:
        blocks.append({name: np.asarray(x) for name, x in mcmc.get_samples(group_by_chain=True).items()})
        divergences += int(mcmc.get_extra_fields()["diverging"].sum())
        draws = {name: np.concatenate([block[name] for block in blocks], axis=1) for name in blocks[0]}
        ess = smallest_ess(draws)
        seconds = time.perf_counter() - started
        if ess >= settings["ess"] or seconds > settings["seconds"]:
            work = time.process_time() - worked
            return draws, {"seconds": seconds, "work": work, "ess": ess, "divergences": divergences}
        mcmc.post_warmup_state = mcmc.last_state
        mcmc.run(mcmc.post_warmup_state.rng_key, *data, extra_fields=("diverging",))


def main(path: str, output: str, settings: dict) -> None:
    file, density = np.load(path), DENSITIES[settings["problem"]]
    data = {name[5:]: jnp.asarray(x) for name, x in file.items() if name.startswith("data ")}
    data = {name: x if x.dtype.kind == "i" else x.astype(jnp.float32) for name, x in data.items()}
    start = {name[6:]: np.asarray(x, np.float32) for name, x in file.items() if name.startswith("start ")}
    begin = {name: jnp.asarray(np.broadcast_to(x, (CHAINS, *x.shape))) for name, x in start.items()}
    draws, seen = until(NUTS(potential_fn=lambda p: -density(p, data)), settings, begin=begin)
    np.savez(output, **draws)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

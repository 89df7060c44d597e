"""The worker that runs blackjax: blackjax.sgld with its gradient estimator, in a compiled scan over random keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from cases import SHORT, Case
from jax_arms import arm
from jax_models import LOG_LIKS, LOG_PRIORS, Params, simulated_entries, start_of, to_numpy
from protocol import seconds, serve, versions

Data = tuple[jax.Array, ...]
arms: dict[str, Callable[[], float]] = {}


def build(case: Case) -> Callable[[jax.Array, Params, Data, int], Params]:
    """A function (key, position, data, iterations) -> draws."""
    log_lik = LOG_LIKS[case.model]
    gradient = blackjax.sgmcmc.gradients.grad_estimator(
        LOG_PRIORS[case.model], lambda params, row: log_lik(params, *row), case.n_data
    )
    sgld = blackjax.sgld(gradient)

    @partial(jax.jit, static_argnums=3)
    def run(key: jax.Array, position: Params, data: Data, iterations: int) -> Params:
        def step(position: Params, key: jax.Array) -> tuple[Params, Params]:
            key_of_rows, key_of_noise = jax.random.split(key)
            rows = jax.random.randint(key_of_rows, (case.n,), 0, case.n_data)
            position = sgld.step(key_of_noise, position, tuple(x[rows] for x in data), case.stepsize / 2)
            return position, position

        return jax.lax.scan(step, sgld.init(position), jax.random.split(key, iterations))[1]

    return run


def prepare(name: str, case: dict[str, Any], separately: bool = False) -> None:
    """Set up an arm and compile it."""
    this = Case(**case)
    run = build(this)
    data = tuple(jnp.asarray(x) for x in simulated_entries(this.model, this.n_data))

    def chain(key: jax.Array, position: Params, data: Data) -> Params:
        return run(key, position, data, this.iterations)

    arms[name] = arm(this, chain, (start_of(this.model), data), jax.random.key, separately)


def time_arm(name: str) -> float:
    """Microseconds per iteration and chain of one repetition."""
    return arms[name]()


def first_call(case: dict[str, Any]) -> dict[str, float]:
    """Seconds to hand over the data, and from there to the end of the first iterations."""
    this = Case(**case)
    entries = simulated_entries(this.model, this.n_data)
    data: list[jax.Array] = []
    data_seconds = seconds(lambda: data.extend(jax.block_until_ready([jnp.asarray(x) for x in entries])))
    key, position = jax.random.key(0), start_of(this.model)
    return {"data": data_seconds, "first": seconds(lambda: to_numpy(build(this)(key, position, tuple(data), SHORT)))}


if __name__ == "__main__":
    serve(
        {
            "versions": lambda: versions("blackjax", "jax", "numpy"),
            "prepare": prepare,
            "time": time_arm,
            "first_call": first_call,
        }
    )

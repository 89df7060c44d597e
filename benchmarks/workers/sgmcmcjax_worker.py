"""The worker that runs SGMCMCJax: its compiled SGLD sampler, as its documentation has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from cases import SHORT, Case
from jax_arms import arm
from jax_models import LOG_LIKS, LOG_PRIORS, Params, simulated_entries, start_of, to_numpy
from protocol import seconds, serve, versions
from sgmcmcjax.samplers import build_sgld_sampler

arms: dict[str, Callable[[], float]] = {}


def build(case: Case, data: tuple[jax.Array, ...]) -> Callable:
    return build_sgld_sampler(case.stepsize / 2, LOG_LIKS[case.model], LOG_PRIORS[case.model], data, case.n, pbar=False)


def prepare(name: str, case: dict[str, Any], separately: bool = False) -> None:
    """Set up an arm and compile it."""
    this = Case(**case)
    sampler = build(this, tuple(jnp.asarray(x) for x in simulated_entries(this.model, this.n_data)))

    def chain(key: jax.Array, position: Params) -> Params:
        return sampler(key, this.iterations, position)

    arms[name] = arm(this, chain, (start_of(this.model),), jax.random.PRNGKey, separately)


def time_arm(name: str) -> float:
    """Microseconds per iteration and chain of one repetition."""
    return arms[name]()


def first_call(case: dict[str, Any]) -> dict[str, float]:
    """Seconds to hand over the data, and from there to the end of the first iterations."""
    this = Case(**case)
    entries = simulated_entries(this.model, this.n_data)
    samplers: list[Callable] = []
    data_seconds = seconds(lambda: samplers.append(build(this, tuple(jnp.asarray(x) for x in entries))))
    key, position = jax.random.PRNGKey(0), start_of(this.model)
    return {"data": data_seconds, "first": seconds(lambda: to_numpy(samplers[0](key, SHORT, position)))}


if __name__ == "__main__":
    serve(
        {
            "versions": lambda: versions("sgmcmcjax", "jax", "numpy"),
            "prepare": prepare,
            "time": time_arm,
            "first_call": first_call,
        }
    )

"""How both JAX packages are timed: one chain, chains side by side by jax.vmap, or chains one after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
from cases import Case
from jax_models import Params, to_numpy
from protocol import seconds


def arm(
    case: Case,
    chain: Callable[..., Params],
    shared: tuple[Any, ...],
    key_of_seed: Callable[[int], jax.Array],
    separately: bool,
) -> Callable[[], float]:
    """A repetition in microseconds per iteration and chain, compiled; `chain(key, *shared)` gives the draws of one.

    Mapped is the whole chain, scan included; mapping the kernel within a scan is no faster in either package.
    """
    mapped = case.n_chains is not None and not separately
    run = jax.jit(jax.vmap(chain, in_axes=(0, *[None] * len(shared)))) if mapped else chain
    seeds = itertools.count()

    def keys_of_repetition() -> Iterable[jax.Array]:
        key = key_of_seed(next(seeds))
        if case.n_chains is None:
            return [key]
        keys = jax.random.split(key, case.n_chains)
        return [keys] if mapped else list(keys)

    def repetition() -> float:
        all_keys = jax.block_until_ready(keys_of_repetition())
        return seconds(lambda: [to_numpy(run(keys, *shared)) for keys in all_keys]) / case.updates * 1e6

    repetition()
    return repetition

"""The samplers as arguments of other functions."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from sgmcmc.dataset.entry import described
from sgmcmc.samplers._options import PUBLIC


def setup_of(of: str, sampler: Any) -> Callable:
    """The Setup function of one of the samplers that go by gradients and run in one call."""
    setups = {name: PUBLIC.get(f"{name}Setup") for name, one in PUBLIC.items() if "logLik" in signature(one).parameters}
    name = getattr(sampler, "__name__", "")
    setup = setups.get(name)
    if setup is None or PUBLIC[name] is not sampler:
        names = ", ".join(sorted(name for name, setup in setups.items() if setup))
        raise ValueError(f"sampler of {of} must be one of the functions {names}; got {described(sampler)}.")
    return setup

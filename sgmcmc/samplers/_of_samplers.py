"""The samplers as arguments of other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgmcmc.samplers._checks import described
from sgmcmc.samplers.badodab import badodab, badodabSetup
from sgmcmc.samplers.baoab import baoab, baoabSetup
from sgmcmc.samplers.ccadl import ccadl, ccadlSetup
from sgmcmc.samplers.psgld import psgld, psgldSetup
from sgmcmc.samplers.sample import sample, sampleSetup
from sgmcmc.samplers.sghmc import sghmc, sghmccv, sghmccvSetup, sghmcSetup
from sgmcmc.samplers.sgld import sgld, sgldcv, sgldcvSetup, sgldSetup
from sgmcmc.samplers.sgnht import sgnht, sgnhtcv, sgnhtcvSetup, sgnhtSetup

SETUPS: dict[Callable, Callable] = {
    sgld: sgldSetup,
    sghmc: sghmcSetup,
    sgnht: sgnhtSetup,
    sgldcv: sgldcvSetup,
    sghmccv: sghmccvSetup,
    sgnhtcv: sgnhtcvSetup,
    ccadl: ccadlSetup,
    baoab: baoabSetup,
    badodab: badodabSetup,
    psgld: psgldSetup,
    sample: sampleSetup,
}


def require_sampler(of: str, sampler: Any) -> str:
    """The name of one of the samplers that run in one call."""
    try:
        known = sampler in SETUPS
    except TypeError:  # not hashable
        known = False
    if not known:
        names = ", ".join(function.__name__ for function in SETUPS)
        raise ValueError(f"sampler of {of} must be one of the functions {names}; got {described(sampler)}.")
    return sampler.__name__

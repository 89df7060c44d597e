"""The arguments that say how long a run is, and which of its draws are stored, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sgmcmc.core.checks import require_count
from sgmcmc.run.enough import AT_FIRST, Enough
from sgmcmc.run.sampler import Sampler
from sgmcmc.samplers._checks import POSITIVE, Rule, is_auto, require_counter, require_number

N_CHAINS = 4  # of a run that looks whether its chains agree, if nobody says how many
ESS = 1000.0

DRAWS: Rule = (lambda x: x >= 10, "a number of effective draws, at least 10")
ERROR: Rule = (lambda x: 0 < x <= 0.3, "a number of posterior standard deviations, in (0, 0.3]")


class Length(NamedTuple):
    """How long a run is, at least at first, and which draws it stores."""

    n_iterations: int
    burn_in: int
    thin: int
    enough: Enough | None


def checked_length(sampler: Sampler, nIters: Any, options: Mapping[str, Any]) -> Length:
    """These arguments, or ValueError if one of them is invalid."""
    name = sampler.name
    burn_in = require_count("burnIn", name, options["burnIn"], 0)
    thin = 1 if is_auto(options["thin"]) else require_count("thin", name, options["thin"], 1)
    if is_auto(nIters):
        return Length(burn_in + AT_FIRST, burn_in, thin, _checked_enough(sampler, burn_in, thin, options))
    if isinstance(nIters, str):
        raise ValueError(f"nIters of {name} must be an integer of at least 1, or 'auto'; got {nIters!r}.")
    n_iterations = require_count("nIters", name, nIters, 1)
    require_counter("nIters", name, n_iterations, sampler.leaps)
    for argument in ("ess", "mcse", "maxIters", "maxSeconds"):
        if options[argument] is not None:
            raise ValueError(f"{argument} of {name} must come with nIters='auto'; got nIters={nIters!r}.")
    if burn_in >= n_iterations:
        raise ValueError(f"burnIn of {name} must be less than nIters = {n_iterations}; got {burn_in}.")
    if thin > (left := n_iterations - burn_in):
        raise ValueError(f"thin of {name} must be at most the {left} iterations after burnIn; got {thin}.")
    return Length(n_iterations, burn_in, thin, None)


def _checked_enough(sampler: Sampler, burn_in: int, thin: int, options: Mapping[str, Any]) -> Enough:
    name, ess, mcse = sampler.name, options["ess"], options["mcse"]
    if len(sampler.chains) < 2:
        raise ValueError(
            f"nChains of {name} must be at least 2 with nIters='auto', which compares chains; got "
            f"{'a single one' if sampler.n_chains is None else sampler.n_chains}."
        )
    if options["reduce"] is not None and options["collect"] is None and not options["gradients"]:
        raise ValueError(
            f"reduce of {name} must come with collect if nIters='auto', which looks at stored draws; got reduce alone."
        )
    if ess is not None and mcse is not None:
        raise ValueError(f"ess of {name} must be None if mcse is given; got {ess!r}.")
    if mcse is not None:
        wanted = require_number("mcse", name, mcse, ERROR) ** -2.0
    else:
        wanted = ESS if ess is None else require_number("ess", name, ess, DRAWS)
    most, seconds = options["maxIters"], options["maxSeconds"]
    if most is not None:
        most = require_count("maxIters", name, most, burn_in + thin, " (burnIn + thin)" if burn_in else "")
        require_counter("maxIters", name, most, sampler.leaps)
    if seconds is not None:
        seconds = require_number("maxSeconds", name, seconds, POSITIVE)
    return Enough(wanted, mcse is not None, most, seconds, is_auto(options["thin"]))

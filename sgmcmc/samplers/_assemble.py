"""From checked arguments to samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sgmcmc.core.types import Dynamics
from sgmcmc.dynamics import descent
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.run.mode import ModeSearch
from sgmcmc.run.sampler import Sampler
from sgmcmc.samplers._arguments import Arguments, require_count, require_flag
from sgmcmc.samplers._object import Sgmcmc

OPTIMIZERS = {"sgd": descent.sgd, "adam": descent.adam}


class Mode(NamedTuple):
    """The arguments that only the functions with control variates have."""

    optStepsize: float
    nItersOpt: int
    optimizer: str
    verbose: bool


Rule = tuple[Callable[[float], bool], str]

FRICTION: Rule = (lambda alpha: 0 < alpha <= 1, "a number in (0, 1]")
DIFFUSION: Rule = (lambda a: a > 0, "a positive number")
STEPSIZE: Rule = (lambda eps: eps > 0, "a positive number or a schedule such as polynomial(h, a, b)")


def assemble(
    arguments: Arguments,
    stepsize: Any,
    dynamics: Callable[..., Dynamics],
    per_parameter: Mapping[str, tuple[Any, Callable[[float], bool], str]] | None = None,
    shared: Mapping[str, int] | None = None,
    mode: Mode | None = None,
) -> Sgmcmc:
    """A sampler of these dynamics, with the plain gradient or, given a `Mode`, with control variates.

    `per_parameter` holds settings of the dynamics that users may give for each parameter, with what is allowed;
    `shared` those that are one count for all.
    """
    start = arguments.start
    eps = arguments.per_parameter("stepsize", stepsize, *STEPSIZE)
    each = {key: arguments.per_parameter(key, *rule) for key, rule in (per_parameter or {}).items()}
    common = {key: require_count(key, arguments.sampler, value, at_least=1) for key, value in (shared or {}).items()}
    search = _mode_search(arguments, mode) if mode else None
    seed, minibatch, model = arguments.random_seed, arguments.minibatch, arguments.model
    sampler = Sampler(
        name=arguments.sampler,
        model=model,
        minibatch=minibatch,
        gradient=control_variates(model) if search else plain(model),
        dynamics={name: dynamics(**{key: each[key][name] for key in each}, **common) for name in start},
        stepsize=eps,
        start=start,
        seed=seed,
        search=search,
        n_chains=arguments.n_chains,
        starts=arguments.chain_starts,
    )
    return Sgmcmc(sampler, each | common)


def _mode_search(arguments: Arguments, mode: Mode) -> ModeSearch:
    if not isinstance(mode.optimizer, str) or mode.optimizer not in OPTIMIZERS:
        raise arguments.refuse("optimizer", f"be one of {sorted(OPTIMIZERS)}", repr(mode.optimizer))
    return ModeSearch(
        OPTIMIZERS[mode.optimizer](),
        arguments.number("optStepsize", mode.optStepsize, lambda x: x > 0, "a positive number"),
        require_count("nItersOpt", arguments.sampler, mode.nItersOpt, at_least=0),
        require_flag("verbose", arguments.sampler, mode.verbose),
    )

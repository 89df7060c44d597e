"""From the arguments of a public function to its sampler, and to a whole run of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from sgmcmc.core.types import Dynamics
from sgmcmc.dynamics import descent
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.output.draws import Draws
from sgmcmc.run.mode import ModeSearch
from sgmcmc.run.sampler import Sampler
from sgmcmc.samplers._arguments import Arguments, require_count, require_flag
from sgmcmc.samplers._object import Sgmcmc

OPTIMIZERS = {"sgd": descent.sgd, "adam": descent.adam}

Rule = tuple[Callable[[float], bool], str]

FRICTION: Rule = (lambda alpha: 0 < alpha <= 1, "a number in (0, 1]")
DIFFUSION: Rule = (lambda a: a > 0, "a positive number")
STEPSIZE: Rule = (lambda eps: eps > 0, "a positive number or a schedule such as polynomial(h, a, b)")


def set_up(
    name: str,
    dynamics: Callable[..., Dynamics],
    given: Mapping[str, Any],
    per_parameter: Mapping[str, Rule] | None = None,
    counts: Mapping[str, int] | None = None,
) -> Sgmcmc:
    """The sampler `name` of these dynamics: what a Setup function does with its arguments, `given`.

    `per_parameter` names the settings of the dynamics that may differ between parameters, with what is allowed;
    `counts` those that are one integer for all, with the least. Where `given` has an `optStepsize`, the gradient is
    estimated with control variates.
    """
    arguments = Arguments(name, **{f.name: given[f.name] for f in fields(Arguments) if f.name != "sampler"})
    start = arguments.start
    eps = arguments.per_parameter("stepsize", given["stepsize"], *STEPSIZE)
    each = {key: arguments.per_parameter(key, given[key], *rule) for key, rule in (per_parameter or {}).items()}
    common = {key: require_count(key, name, given[key], at_least) for key, at_least in (counts or {}).items()}
    search = _mode_search(arguments, given) if "optStepsize" in given else None
    seed, minibatch, model = arguments.random_seed, arguments.minibatch, arguments.model
    searching: dict[str, Any] = {}
    if search:
        searching = {"optStepsize": search.stepsize, "nItersOpt": search.n_iterations, "optimizer": given["optimizer"]}
    sampler = Sampler(
        name=name,
        model=model,
        minibatch=minibatch,
        gradient=control_variates(model) if search else plain(model),
        dynamics={parameter: dynamics(**{key: each[key][parameter] for key in each}, **common) for parameter in start},
        stepsize=eps,
        start=start,
        seed=seed,
        search=search,
        n_chains=arguments.n_chains,
        starts=arguments.chain_starts,
        shared_minibatch=arguments.shared_minibatch,
        settings=arguments.settings(eps) | each | common | searching,
    )
    return Sgmcmc(sampler, each | common, seeded=given["seed"] is not None)


def run_whole(setup: Callable[..., Sgmcmc], given: Mapping[str, Any]) -> Draws:
    """What a one-call function does with its arguments: those that `setup` knows set up, the others run."""
    known = inspect.signature(setup).parameters
    rest = {key: value for key, value in given.items() if key not in known or key == "verbose"}
    return setup(**{key: given[key] for key in known}).run(**rest)


def _mode_search(arguments: Arguments, given: Mapping[str, Any]) -> ModeSearch:
    optimizer = given["optimizer"]
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise arguments.refuse("optimizer", f"be one of {sorted(OPTIMIZERS)}", repr(optimizer))
    return ModeSearch(
        OPTIMIZERS[optimizer](),
        arguments.number("optStepsize", given["optStepsize"], lambda x: x > 0, "a positive number"),
        require_count("nItersOpt", arguments.sampler, given["nItersOpt"], at_least=0),
        require_flag("verbose", arguments.sampler, given["verbose"]),
    )

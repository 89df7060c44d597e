"""Candidates of a search: their settings, and chains of one program with different stepsizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import Each
from sgmcmc.arguments.gradient import saga, svrg
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.signatures import PUBLIC, RUN_DEFAULTS
from sgmcmc.core.errors import refused
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import described
from sgmcmc.kernel import State
from sgmcmc.run import Pace, Plan, Prepared
from sgmcmc.run.advance import stretches
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.run.loop import Loop
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import Recorder


def setup_of(of: str, sampler: Any) -> Callable:
    """The Setup function of a gradient-based sampler that runs in one call."""
    setups = {name: PUBLIC.get(f"{name}Setup") for name, one in PUBLIC.items() if "logLik" in signature(one).parameters}
    name = getattr(sampler, "__name__", "")
    setup = setups.get(name)
    if setup is None or PUBLIC[name] is not sampler:
        names = ", ".join(sorted(name for name, setup in setups.items() if setup))
        raise refused(of, "sampler", f"be one of the functions {names}", described(sampler))
    return setup


UNKNOWN = 1e-6  # for the set-up, if the candidates' stepsizes depend on its result
AROUND = 10.0 ** np.arange(-2, 2.01, 0.5)
SHORT = "its noise depends on the history of the chain, which short chains do not represent"
OF_CHAINS = ("nChains", "starts", "sharedMinibatch")
OF_RUNS = ("nIters", *RUN_DEFAULTS)


def require_known(of: str, setup: Callable, sampler: str, arguments: Mapping[str, Any], length: str) -> None:
    """Reject arguments that do not set up a sampler; `length` names the argument that sets the run length."""
    for argument, value in arguments.items():
        if argument in OF_CHAINS:
            raise refused(of, argument, "be left out, since each candidate is a chain", described(value))
        if argument in OF_RUNS:
            why = f"since {length} sets how long candidates run"
            raise refused(of, argument, f"be left out, {why}", described(value))
        if isinstance(value, saga | svrg | adaptive):
            raise refused(of, argument, f"not be {type(value).__name__}, since {SHORT}", repr(value))
        if argument == "transition":
            raise refused(of, argument, "be None, since candidates are judged by gradients", "one")
        if argument not in signature(setup).parameters:
            raise unknown(of, argument, sampler)


def unknown(of: str, argument: str, sampler: str) -> TypeError:
    return TypeError(f"{of}() got an unexpected keyword argument {argument!r}, which {sampler} does not have")


def set_up(
    of: str, setup: Callable, given: Sequence[Any], stepsizes: list[Any] | None, arguments: Mapping[str, Any]
) -> ProductSampler:
    """The sampler of candidates with these stepsizes; they are known later if they depend on the sampler."""
    made = setup(*given, UNKNOWN if stepsizes is None else stepsizes[0], **arguments)._sampler
    if made.gradient.has_history:
        raise refused(of, "gradient", f"have no memory, since {SHORT}", "a custom estimator with a memory")
    return made


def listed(of: str, argument: str, value: Any) -> list[Any]:
    """The values of an argument that may be a single value or a list."""
    if not isinstance(value, list | tuple | range) and not (isinstance(value, np.ndarray) and value.ndim == 1):
        return [value]
    values = [x.item() if isinstance(x, np.generic) else x for x in value]
    if not values:
        raise refused(of, argument, "have at least one value to try", repr(value))
    return values


def listed_stepsizes(of: str, stepsize: Any) -> list[Any]:
    values = listed(of, "stepsize", stepsize)
    for eps in values:
        if any(callable(x) or isinstance(x, str) for x in (eps.values() if isinstance(eps, Mapping) else [eps])):
            raise refused(
                of, "stepsize", "be a list of numbers, or of dicts with a number for each parameter", repr(eps)
            )
    return values


def of_each(of: str, sampler: ProductSampler, stepsize: Any) -> dict[str, Any]:
    by_gibbs = frozenset() if sampler.gibbs is None else sampler.gibbs.moves
    return Each(of, tuple(sampler.start), sampler.dtype, by_gibbs).stepsizes(stepsize)


def around_rule(sampler: ProductSampler) -> list[float]:
    """Stepsizes around the guide's, for a variance of 1/N in the narrowest direction, or of 1 with a preconditioner."""
    n_data, n = sampler.data.size, sampler.minibatch.size
    momentum = any(one.momentum for one in sampler.dynamics.values())
    if sampler.wants_mode:
        part = 1 / 100 if momentum else 1 / 10
    elif momentum:
        part = n / n_data / (10 * sampler.leaps)
    else:
        part = min(n / n_data, 1 / 10)
    narrowest = 1 / n_data if sampler.curvature.preconditioner is None else 1.0
    return [float(f"{part * narrowest * factor:.2g}") for factor in AROUND]


def with_stepsizes(
    sampler: ProductSampler,
    stepsizes: Sequence[Mapping[str, float]],
    beginning: Beginning,
    state: State | None = None,
    monitored: bool = False,
) -> tuple[ProductSampler, Prepared]:
    """Chains with these stepsizes, from `state` or from the sampler's starts, and their sampler."""
    first = sampler.first_chain
    common = replace(sampler, starts=None, shared_minibatch=True)  # which is faster and favours no candidate
    chains = common.of_chains(range(first, first + len(stepsizes)))
    prepared = chains.prepared(beginning.found, beginning.mode, monitored)
    of_each = tf.constant([[eps[name] for eps in stepsizes] for name in sorted(chains.start)], chains.dtype)  # [P, C]
    constants = prepared.constants | {"stepsize": of_each}
    if state is None:
        state = prepared.kernel.init(constants, prepared.kernel.params(prepared.state))
    return chains, replace(prepared, constants=constants, state=state)


class CandidateRun(NamedTuple):
    state: State
    accumulated: Any
    rows: Tree  # [K, C, ...]
    finite: np.ndarray  # [C]: whether a chain was finite throughout


def run_candidates(
    prepared: Prepared, recorder: Recorder, plan: Plan, progress: Callable[[int], None] = lambda done: None
) -> CandidateRun:
    """Run a plan. Unlike a normal run, it continues if a chain diverges, since the others do not depend on it."""
    loop = Loop(prepared, recorder)
    leaves, rows = loop.flatten(prepared.state), []
    finite = np.ones(prepared.chains, bool)
    try:
        for stretch, outcome in stretches(loop, leaves, plan, Pace(loop.feed.length, loop.shortest), failure=None):
            finite &= np.isfinite(outcome.log_density)
            rows.append([row.numpy()[: stretch.n_rows] for row in outcome.rows])
            leaves = outcome.leaves
            progress(stretch.end)
    finally:
        loop.feed.close()
    joined = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    return CandidateRun(*loop.unflatten(leaves), tf.nest.pack_sequence_as(loop.row_specs, joined), finite)

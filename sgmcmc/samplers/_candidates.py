"""The stepsizes that are tried, and the arguments that set up a sampler to try them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from sgmcmc.dataset.entry import described
from sgmcmc.run.product import ProductSampler
from sgmcmc.samplers._each import Each
from sgmcmc.samplers._options import RUN_DEFAULTS
from sgmcmc.samplers.estimators import saga, svrg
from sgmcmc.samplers.subsampling import adaptive

UNKNOWN = 1e-6  # the stepsize of the set-up, if the candidates depend on it
AROUND = 10.0 ** np.arange(-2, 2.01, 0.5)
SHORT = "its noise depends on the history of the chain, so short chains say little about it"
OF_CHAINS = ("nChains", "starts", "sharedMinibatch")
OF_RUNS = ("nIters", *RUN_DEFAULTS)


def require_known(of: str, setup: Callable, sampler: str, arguments: Mapping[str, Any], length: str) -> None:
    """Refuse arguments that do not set up a sampler; `length` is the argument of `of` for how long candidates run."""
    known = [p for p in signature(setup).parameters if p not in ("logLik", "dataset", "params", "stepsize")]
    for argument, value in arguments.items():
        if argument in OF_RUNS or argument in OF_CHAINS:
            why = "each candidate is a chain" if argument in OF_CHAINS else f"{length} says how long candidates run"
            raise ValueError(f"{argument} of {of} must be left out, since {why}; got {described(value)}.")
        if isinstance(value, saga | svrg | adaptive):
            raise ValueError(f"{argument} of {of} must not be {type(value).__name__}, since {SHORT}; got {value!r}.")
        if argument == "transition":
            raise ValueError(f"transition of {of} must be None, since candidates are judged by gradients; got one.")
        if argument not in known:
            raise TypeError(f"{of}() got an unexpected keyword argument {argument!r}, which {sampler} does not have")


def require_no_memory(of: str, made: ProductSampler) -> None:
    """Refuse an estimator whose noise depends on the history of the chain."""
    if made.gradient.has_history:
        raise ValueError(f"gradient of {of} must have no memory, since {SHORT}; got one of your own with a memory.")


def listed(of: str, argument: str, value: Any) -> list[Any]:
    """The values of an argument that may be a list of them."""
    if not isinstance(value, list | tuple | range) and not (isinstance(value, np.ndarray) and value.ndim == 1):
        return [value]
    values = [x.item() if isinstance(x, np.generic) else x for x in value]
    if not values:
        raise ValueError(f"{argument} of {of} must have at least one value to try; got {value!r}.")
    return values


def listed_stepsizes(of: str, stepsize: Any) -> list[Any]:
    """The stepsizes to try, as they were given."""
    values = listed(of, "stepsize", stepsize)
    for eps in values:
        if any(callable(x) or isinstance(x, str) for x in (eps.values() if isinstance(eps, Mapping) else [eps])):
            raise ValueError(
                f"stepsize of {of} must be a list of numbers, or of dicts with a number for each parameter; "
                f"got {eps!r}."
            )
    return values


def of_each(of: str, sampler: ProductSampler, stepsize: Any) -> dict[str, Any]:
    """The stepsize for each parameter, checked."""
    by_gibbs = frozenset() if sampler.gibbs is None else sampler.gibbs.moves
    return Each(of, tuple(sampler.start), sampler.dtype, by_gibbs).stepsizes(stepsize)


def around_rule(sampler: ProductSampler) -> list[float]:
    """Stepsizes around the one that the guide advises to begin with.

    It assumes a posterior variance of 1/N in the narrowest direction, or of 1 with a preconditioner.
    """
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

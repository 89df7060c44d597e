"""The options that the samplers share, with their defaults, for signatures and help.

A public function names R's arguments itself and takes the rest as ``**options: Unpack[...]``. `public` then gives it
the full signature, checks calls against it, and fills in the defaults. A one-call function passes all of them to
`one_call`, with the Setup function that makes its sampler.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, get_type_hints

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import is_auto, is_list
from sgmcmc.arguments.texts import completed
from sgmcmc.core import random
from sgmcmc.core.chains import mapped
from sgmcmc.core.random import Purpose
from sgmcmc.draws.check import Compared
from sgmcmc.laplace.sandwich import compared
from sgmcmc.parallel.executors import Executor
from sgmcmc.storage import Reducer

if TYPE_CHECKING:
    from sgmcmc.arguments.sampler import Sgmcmc


N_CHAINS = 4  # by default, of a run that checks whether its chains agree


@dataclass(frozen=True)
class Comparison:
    """The arguments of a run, to rebuild its model: draws hold the user's data without a copy."""

    setup: Callable[..., Sgmcmc]
    arguments: Mapping[str, Any]

    def __call__(self, mode: Mapping[str, Any], seed: int, verbose: bool) -> Compared:
        posterior = self.setup(**self.arguments).posterior
        at = posterior.flat({name: mode[name] for name in posterior.elements})
        return compared(posterior, at, random.child_seed(seed, Purpose.CURVATURE), verbose)

    def log_lik_terms(self, draws: Mapping[str, np.ndarray]) -> np.ndarray:
        """The log likelihood of each observation at draws {name: [S, *shape]}, [S, N]."""
        sampler = self.setup(**self.arguments)
        posterior, transforms = sampler.posterior, sampler.transforms
        given = {name: tf.constant(draws[name], posterior.model.dtype) for name in posterior.elements}
        at = mapped(transforms.inverse, given) if transforms else given
        thetas = np.concatenate([np.reshape(at[name], (len(at[name]), -1)) for name in posterior.elements], axis=1)
        return posterior.log_lik_terms(thetas) * self.arguments["temperature"]


F = TypeVar("F", bound=Callable)
PUBLIC: dict[str, Callable] = {}  # the samplers, and their Setup functions


class CommonOptions(TypedDict, total=False):  # of all functions that make a sampler
    subsampling: Any
    integers: Sequence[str]
    dtype: str
    nChains: int | range | None
    starts: float | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    sharedMinibatch: bool


class SetupOptions(CommonOptions, total=False):  # of those that make a sampler with gradients
    preconditioner: Any
    tolerance: float
    temperature: float
    gibbs: Callable | None
    transforms: Mapping[str, Any] | None


class TrainOptions(CommonOptions, total=False):
    temperature: float
    transforms: Mapping[str, Any] | None


class KeepOptions(TypedDict, total=False):  # of a whole run
    ess: float | None
    mcse: float | None
    maxIters: int | None
    maxSeconds: float | None
    thin: int | str
    burnIn: int
    collect: Callable | None
    reduce: Reducer | Mapping[str, Reducer] | None
    storage: str | Path | None
    resume: bool
    executor: Executor | None
    chainsPerJob: int | None


class RunOptions(KeepOptions, total=False):  # of a whole run of a sampler with gradients
    gradients: bool


class SimplexOptions(CommonOptions, KeepOptions, total=False): ...


class Options(SetupOptions, RunOptions, total=False): ...


COMMON = ("nChains", "transforms", "integers", "ess", "thin", "burnIn", "storage", "resume")  # first in signatures
SETUP_DEFAULTS: SetupOptions = {
    "subsampling": "uniform",
    "integers": (),
    "dtype": "float32",
    "nChains": None,
    "starts": None,
    "sharedMinibatch": False,
    "preconditioner": "auto",
    "tolerance": 0.05,
    "temperature": 1.0,
    "gibbs": None,
    "transforms": None,
}
RUN_DEFAULTS: RunOptions = {
    "ess": None,
    "mcse": None,
    "maxIters": None,
    "maxSeconds": None,
    "thin": "auto",
    "burnIn": 0,
    "collect": None,
    "reduce": None,
    "gradients": False,
    "storage": None,
    "resume": False,
    "executor": None,
    "chainsPerJob": None,
}


def of_run(options: Mapping[str, Any]) -> RunOptions:
    """The options of the run, with defaults for those that the sampler lacks."""
    return {name: options.get(name, default) for name, default in RUN_DEFAULTS.items()}  # type: ignore[return-value]


def one_call(setup: Callable, options: Mapping[str, Any], **arguments: Any) -> Any:
    """A whole run of the sampler that a Setup function makes, from the arguments of the one-call function."""
    given = {**arguments, **options}
    if is_auto(given["nIters"]) and given["nChains"] is None and not is_list(given["starts"]):
        given["nChains"] = N_CHAINS
    chosen = {name: given[name] for name in inspect.signature(setup).parameters}
    draws = setup(**chosen).run(given["nIters"], given["verbose"], **of_run(given))
    draws.comparison = Comparison(setup, chosen)
    return draws


def public(function: F) -> F:
    """Spell out the options of a public function in its signature, and complete its docstring."""
    signature = _spelled_out(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        given.apply_defaults()
        return function(**given.arguments)

    called.__signature__ = signature  # type: ignore[attr-defined]
    called.__doc__ = completed(function.__doc__ or "", function.__name__, signature)
    PUBLIC[function.__name__] = called
    return called  # type: ignore[return-value]


class _AsWritten(str):
    """A type in a signature, as written in the source."""

    def __repr__(self) -> str:
        return str(self)


def _spelled_out(function: Callable) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=_AsWritten(p.annotation)) for p in signature.parameters.values()]
    last = parameters[-1]
    if last.kind is last.VAR_KEYWORD:
        (options,) = get_type_hints(function)[last.name].__args__  # of Unpack[...]
        types = {name: one.__forward_arg__ for name, one in options.__annotations__.items()}
        defaults = {name: value for name, value in {**SETUP_DEFAULTS, **RUN_DEFAULTS}.items() if name in types}
        parameters[-1:] = [
            inspect.Parameter(name, last.KEYWORD_ONLY, default=default, annotation=_AsWritten(types[name]))
            for name, default in defaults.items()
        ]
    order = {name: k for k, name in enumerate(COMMON)}
    parameters.sort(key=lambda p: (p.kind, order.get(p.name, len(order)) if p.kind is p.KEYWORD_ONLY else 0))
    return signature.replace(parameters=parameters, return_annotation=_AsWritten(signature.return_annotation))

"""The argument `gradient`: the estimator, and the search that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import psutil

from sgmcmc.core.checks import require_count, require_flag
from sgmcmc.core.parameters import Elements
from sgmcmc.core.types import Gradient
from sgmcmc.dataset.entry import described
from sgmcmc.dynamics import descent
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.gradients.saga import saga as saga_estimator
from sgmcmc.gradients.svrg import svrg as svrg_estimator
from sgmcmc.model import Model
from sgmcmc.run.mode import AutomaticSearch, ModeSearch
from sgmcmc.samplers._checks import AUTO, POSITIVE, is_auto
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._estimator import checked_estimator
from sgmcmc.samplers.estimators import controlVariates, saga, svrg
from sgmcmc.samplers.subsampling import adaptive

OPTIMIZERS = {"sgd": descent.sgd, "adam": descent.adam}
ESTIMATORS = "None, the plain estimate, controlVariates(), saga(), svrg() or a function from a model to a Gradient"
PASSES = 10  # of minibatches through the data, between the full gradients of svrg
GB = 1e9


class Chosen(NamedTuple):
    """What is known of an estimator before the model is known."""

    search: ModeSearch | AutomaticSearch | None
    settings: dict[str, Any]  # as the user knows them
    made: Callable[[Model, Mapping[str, Elements]], Gradient]
    by_rows: bool = True  # whether only the rows that a minibatch gathers may move
    by_terms: bool = False  # whether it needs the terms of single observations
    own: bool = False  # whether it is the user's


def chosen_gradient(choices: Choices, asked: Any, leaps: int) -> Chosen:
    """The estimator that `gradient` asks for, with `leaps` gradients in each iteration.

    Raises
    ------
    ValueError
        If `gradient` is not an estimator, or cannot be combined with the other
        arguments.
    MemoryError
        If SAGA's table does not fit.
    """
    n_chains = choices.n_chains or 1
    if isinstance(choices.minibatchSize, adaptive) and not isinstance(asked, controlVariates):
        raise choices.refuse(
            "minibatchSize",
            "be a number without control variates around the mode, since an adaptive size depends on the distance "
            "from their centre",
            "adaptive",
        )
    match asked:
        case None:
            return Chosen(None, {}, lambda model, elements: plain(model))
        case controlVariates():
            return Chosen(*_mode_search(choices, asked), lambda model, elements: control_variates(model))
        case saga():
            _require_room(choices, n_chains)
            if not choices.minibatches.minibatch.independent:
                # Within an epoch, only observations with old gradients would be left: the estimate would be biased.
                raise choices.refuse(
                    "subsampling", "draw each minibatch afresh, for saga()", described(choices.subsampling)
                )
            repeats = not choices.minibatches.minibatch.without_replacement
            return Chosen(
                None,
                {"gradient": "saga"},
                lambda model, elements: saga_estimator(model, elements, repeats),
                by_rows=False,
                by_terms=True,
            )
        case svrg():
            every = _every(choices, asked.every, leaps)
            return Chosen(
                None,
                {"gradient": "svrg", "every": every},
                lambda model, elements: svrg_estimator(model, elements, every),
                by_rows=False,
            )
    if callable(asked) and not isinstance(asked, type):
        return Chosen(
            None, {}, lambda model, elements: checked_estimator(choices, asked, model), by_rows=False, own=True
        )
    raise choices.refuse("gradient", f"be {ESTIMATORS}", repr(asked))


def _mode_search(choices: Choices, asked: controlVariates) -> tuple[ModeSearch | AutomaticSearch, dict[str, Any]]:
    name = choices.sampler
    optimizer = asked.optimizer
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer of {name} must be one of {sorted(OPTIMIZERS)}; got {optimizer!r}.")
    n_iterations = require_count("nItersOpt", name, asked.nItersOpt, at_least=0)
    automatic = is_auto(asked.optStepsize)
    if automatic and optimizer != "sgd":
        raise choices.refuse("optStepsize", f"be a number for optimizer={optimizer!r}", "'auto'")
    if automatic and n_iterations > 0:
        return AutomaticSearch(require_flag("verbose", name, asked.verbose)), {"optStepsize": AUTO}
    if isinstance(asked.optStepsize, str) and not automatic:
        raise choices.refuse("optStepsize", "be 'auto' or a positive number", repr(asked.optStepsize))
    stepsize = choices.each.number("optStepsize", 1.0 if automatic else asked.optStepsize, POSITIVE)
    search = ModeSearch(OPTIMIZERS[optimizer](), stepsize, n_iterations, require_flag("verbose", name, asked.verbose))
    return search, {"optStepsize": stepsize, "nItersOpt": n_iterations, "optimizer": optimizer}


def _every(choices: Choices, every: int | None, leaps: int) -> int:
    if every is None:
        return max(PASSES * choices.data.size // (choices.minibatches.n * leaps), 1)
    return require_count("every of svrg", choices.sampler, every, at_least=1)


def _require_room(choices: Choices, n_chains: int) -> None:
    """Refuse tables of SAGA that do not fit into memory.

    There are three for each chain (start, before and after a call), and the first one.
    """
    size = sum(theta.size for theta in choices.start.values())
    one = choices.data.size * size * np.dtype(choices.float_type.as_numpy_dtype).itemsize
    needed, free = (3 * n_chains + 1) * one, psutil.virtual_memory().available
    if needed > free:
        raise MemoryError(
            f"gradient of {choices.sampler} must fit into memory; got saga(), whose tables of {choices.data.size} "
            f"gradients of {size} elements need {needed / GB:.1f} GB for {n_chains} chains, while {free / GB:.1f} GB "
            "are free. svrg() and controlVariates() need no table."
        )

"""The argument `gradient`: the estimator, and the search for the mode that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc.arguments import AUTO, POSITIVE, is_auto
from sgmcmc.arguments.trial import require_pure
from sgmcmc.core.errors import IN_OPERATIONS, attempted, require_count, require_flag, types_and_shapes
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Elements, Tree, nothing
from sgmcmc.dynamics import descent
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.gradients.saga import saga as saga_estimator
from sgmcmc.gradients.svrg import svrg as svrg_estimator
from sgmcmc.model import Batch, Mode, Model
from sgmcmc.run.mode import AutomaticSearch, ModeSearch
from sgmcmc.run.product import first_estimate

if TYPE_CHECKING:
    from sgmcmc.arguments.choices import Choices


@dataclass(frozen=True)
class controlVariates:  # noqa: N801 - reads as a function where it is used
    """Control variates around the mode, for the argument `gradient` of a sampler.

    A search finds the mode, and one pass over all data gives the exact gradient there.
    Minibatches then estimate only the difference between the gradients at the current
    position and at the mode (Baker et al. 2019, eq. 4). The chain starts at the mode,
    unless `starts` says otherwise. `sgldcv` is `sgld` with this argument.

    Parameters
    ----------
    optStepsize : float or "auto", default "auto"
        The stepsize of the search for the mode: the factor of the gradient of the log
        posterior, summed over all N, in ``theta + optStepsize * gradient``; with
        ``optimizer="adam"``, Adam's learning rate on the scale of `params`. "auto"
        searches without a stepsize, by SciPy's trust-region method on more and more
        observations.
    nItersOpt : int, default 10**4
        Number of minibatches in the search for the mode, unless it is automatic. With 0,
        `params` is taken as the mode.
    optimizer : {"sgd", "adam"}, default "sgd"
        The method of a search with a stepsize: gradient ascent with constant stepsize,
        as in R, or Adam.
    verbose : bool, default True
        Show the progress of the search, unless the sampler has ``verbose=False``.

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import controlVariates, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 0.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=controlVariates(1e-4, nItersOpt=1000),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    optStepsize: float | str = "auto"
    nItersOpt: int = 10**4
    optimizer: str = "sgd"
    verbose: bool = True


@dataclass(frozen=True)
class saga:  # noqa: N801
    """SAGA, for the argument `gradient` of a sampler.

    A table stores the last computed gradient of each observation, and minibatches
    estimate only the difference from the sum of the table [1]_. The table begins with
    the gradients at `params`, or at the mode if the run searches for it. For each chain
    it holds N times as many numbers as `params`. The run needs three times that memory,
    and six times while a checkpoint is written. Each call of `sgmcmcStep` copies the
    table, so single steps are slow. The noise is reduced as with control variates, but
    at every position of the chain. However, each iteration needs the gradients of single
    observations. SAGA is best if N is small or if the posterior has several modes.

    References
    ----------
    .. [1] Dubey, K. A., Reddi, S. J., Williamson, S. A., Poczos, B., Smola, A. J. and Xing, E. P. (2016). Variance
       reduction in stochastic gradient Langevin dynamics. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import saga, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=saga(),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """


@dataclass(frozen=True)
class svrg:  # noqa: N801
    """SVRG, for the argument `gradient` of a sampler.

    Control variates around an earlier position of the chain instead of the mode: every
    `every` iterations the exact gradient is computed from all data at the current
    position, and minibatches estimate the difference from it [1]_.

    Parameters
    ----------
    every : int, optional
        Number of iterations from one full gradient to the next. By default the
        minibatches between two of them have 10 N observations in all.

    References
    ----------
    .. [1] Dubey, K. A., Reddi, S. J., Williamson, S. A., Poczos, B., Smola, A. J. and Xing, E. P. (2016). Variance
       reduction in stochastic gradient Langevin dynamics. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgld, svrg
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=svrg(every=50),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    every: int | None = None


Estimator = controlVariates | saga | svrg | Callable[[Model], Gradient]


def checked_estimator(choices: Choices, estimator: Callable[[Model], Any], model: Model) -> Gradient:
    """The user's estimator; its results are checked when it is traced, and now if it needs no preparation."""
    label = f"gradient of {choices.sampler}"
    own = attempted(f"{label} {IN_OPERATIONS}", lambda: estimator(model))
    if not isinstance(own, Gradient):
        raise ValueError(f"{label} must return a Gradient; got {own!r}.")
    if bool(own.every) != bool(own.renew):
        raise ValueError(f"{label} must have both `every` and `renew`, or neither; got every={own.every}.")

    def prepare(begin: Mode, verbose: bool) -> Tree:
        made = own.prepare(begin, verbose)
        if not isinstance(made, dict):
            raise ValueError(f"{label} must prepare a dict of tensors; got {made!r}.")
        other = {k: x for k, x in made.items() if not all(isinstance(y, tf.Tensor) for y in tf.nest.flatten(x))}
        if other:
            raise ValueError(f"{label} must prepare tensors, such as tf.constant(2.0) for 2.0; got {other}.")
        return made

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: Any) -> Estimate:
        made = own.estimate(params, batch, constants, memory)
        if not isinstance(made, Estimate):
            raise ValueError(f"{label} must return an Estimate; got {type(made).__name__}.")
        scalar = tf.zeros([], model.dtype)
        for before, after in ((scalar, made.value), (params, made.gradient), (memory, made.memory)):
            if (wanted := types_and_shapes(before)) != (got := types_and_shapes(after)):
                must = f"return a scalar, gradients like params, and a memory like the previous one, here {wanted}"
                raise ValueError(f"{label} must {must}; got {got}.")
        return made

    checked = own._replace(estimate=estimate, prepare=prepare)
    if own.prepare is nothing and not own.wants_mode:
        params = {name: tf.constant(theta) for name, theta in choices.start.items()}
        trial = first_estimate(model, choices.minibatches.minibatch, checked, {})
        traced = attempted(f"{label} {IN_OPERATIONS}", lambda: trace(trial, params))
        require_pure(label, traced.graph, "The noise of an estimate must come from its minibatch.")
    return checked


OPTIMIZERS = {"sgd": descent.sgd, "adam": descent.adam}
ESTIMATORS = "None (the plain estimate), controlVariates(), saga(), svrg() or a function from a model to a Gradient"
PASSES = 10  # over the data, between the full gradients of svrg


class ChosenGradient(NamedTuple):
    """The choice of an estimator, before the model is known."""

    made: Callable[[Model, Mapping[str, Elements]], Gradient]
    settings: dict[str, Any]  # as the user knows them
    search: ModeSearch | AutomaticSearch | None = None
    by_rows: bool = False  # whether only the rows that a minibatch gathers may move
    needs_row_gradients: bool = False  # whether it needs the terms of single observations
    is_users: bool = False


def chosen_gradient(choices: Choices, asked: Any, leaps: int) -> ChosenGradient:
    match asked:
        case None:
            return ChosenGradient(lambda model, elements: plain(model), {}, by_rows=True)
        case controlVariates():
            search, settings = _mode_search(choices, asked)
            return ChosenGradient(lambda model, elements: control_variates(model), settings, search, by_rows=True)
        case saga():
            _require_room(choices)
            repeats = not choices.minibatches.minibatch.without_replacement
            settings = {"gradient": "saga"}
            return ChosenGradient(
                lambda model, elements: saga_estimator(model, elements, repeats), settings, needs_row_gradients=True
            )
        case svrg():
            every = _every(choices, asked.every, leaps)
            settings = {"gradient": "svrg", "every": every}
            return ChosenGradient(lambda model, elements: svrg_estimator(model, elements, every), settings)
    if callable(asked) and not isinstance(asked, type):
        return ChosenGradient(lambda model, elements: checked_estimator(choices, asked, model), {}, is_users=True)
    raise choices.refuse("gradient", f"be {ESTIMATORS}", repr(asked))


def _mode_search(choices: Choices, asked: controlVariates) -> tuple[ModeSearch | AutomaticSearch, dict[str, Any]]:
    name, optimizer = choices.sampler, asked.optimizer
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise choices.refuse("optimizer", f"be one of {sorted(OPTIMIZERS)}", repr(optimizer))
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


def _require_room(choices: Choices) -> None:
    """Refuse tables of SAGA that do not fit into memory."""
    n_chains, size = choices.n_chains or 1, sum(theta.size for theta in choices.start.values())
    of_table = choices.data.size * size * np.dtype(choices.float_type.as_numpy_dtype).itemsize
    # Three tables for each chain (start, before and after a call), and the first one.
    needed, free = (3 * n_chains + 1) * of_table, psutil.virtual_memory().available
    if needed > free:
        raise MemoryError(
            f"gradient of {choices.sampler} must fit into memory; got saga(), whose tables of {choices.data.size} "
            f"gradients of {size} elements need {needed / 1e9:.1f} GB for {n_chains} chains, while {free / 1e9:.1f} GB "
            "are free. svrg() and controlVariates() need no table."
        )

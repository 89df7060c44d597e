"""tune: choose the settings of a sampler by trying many."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sgmcmc.arguments.common import PerParameter
from sgmcmc.arguments.destination import checked_executor, require_portable
from sgmcmc.core.errors import refused, require_count, require_flag
from sgmcmc.dataset.arrays import described
from sgmcmc.model import LogLik
from sgmcmc.parallel.executors import Executor, workers_of
from sgmcmc.tuning.candidates import around_rule, listed, listed_stepsizes, of_each, require_known, set_up, setup_of
from sgmcmc.tuning.halving import Group, fewest_gradients, search
from sgmcmc.tuning.tuned import Tuned, best

PASSES = 1000  # over the data, for all candidates together, by default
TRIED = ("minibatchSize", "alpha", "L", "a")


def tune(
    sampler: Callable,
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Sequence[PerParameter] | None = None,
    *,
    nGradients: int | None = None,
    eta: int = 3,
    verbose: bool = True,
    seed: int | None = None,
    executor: Executor | None = None,
    chainsPerJob: int | None = None,
    **arguments: Any,
) -> Tuned:
    """Choose the stepsize of a sampler, and its other settings, by trying many.

    All candidates run for a short time, a rung. The best third continue for three times
    as long, and so on until one is left: this is successive halving, as in MAMBA [1]_.
    The best candidates are those whose draws have the smallest kernel Stein discrepancy
    from the posterior (see ``Draws.ksd``). A stepsize that is too large or too small
    increases it, and a candidate that diverges is dropped. The chosen settings are best
    for runs about as long as the last rung. Longer runs can use a smaller stepsize;
    `checkStepsize` shows whether they should.

    Parameters
    ----------
    sampler : callable
        A sampler of the package that runs in one call, such as `sgld`.
    logLik : callable
        As for the sampler.
    dataset : dict of str to array_like, a table, or an object
        As for the sampler.
    params : dict of str to array_like
        As for the sampler; all candidates start here, or at the mode.
    stepsize : sequence of float or dict of str to float, optional
        The stepsizes to try. By default nine, from a hundredth to a hundred times the
        first guess for an unknown posterior: n / N^2 for `sgld`, 1 / (10 N) for
        `sgldcv`, and similarly for the others. Schedules are not possible, since they
        differ between short and long runs.
    nGradients : int, optional
        Total number of gradients of single observations for all candidates. Half of
        them move the chains, and half judge them. By default 1000 N, ten times as many
        as a run of `sgld` with its defaults, so that the last rung is about as long as
        such a run.
    eta : int, default 3
        The best ``1/eta`` of the candidates continue, with `eta` times as many
        gradients.
    verbose : bool, default True
        Show a progress bar.
    seed : int, optional
        The same seed gives the same choice; without one, a fresh seed is drawn.
    executor : concurrent.futures.Executor or an object like it, optional
        Its workers run the candidates, as for a sampler.
    chainsPerJob : int, optional
        Number of candidates in each job of `executor`. By default at least 2, and
        otherwise such that there is a job for each worker.
    arguments : any
        Further arguments of the sampler, such as `logPrior` or `optStepsize`. Each of
        `minibatchSize`, `L`, `alpha` and `a` may be a list; all combinations are tried.
        Arguments for the number of chains, the length of the run and its storage are
        not allowed.

    Returns
    -------
    Tuned
        Pass its `settings` to the sampler; they include the `preconditioner` if one was
        given. It also has a `table` and a `plot()` of all candidates.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would
        work. Also if all candidates diverge.
    ModeSearchError
        If the search for the mode diverges, with control variates. It runs once and
        does not count in `nGradients`.

    See Also
    --------
    checkStepsize : Whether half the stepsize gives a different result.

    Notes
    -----
    Candidates that differ in the stepsize alone are chains of one program and use the
    same minibatches. The kernel divides each element by its posterior standard
    deviation, as estimated from the gradients and positions of all candidates, and by
    the root of the number of elements. A candidate is judged at 200 positions from the
    second half of a rung: fewer if it makes few iterations, up to 1000 if there are
    gradients for more. With many parameters the discrepancy is less informative: it
    then mostly shows the error of the mean.

    References
    ----------
    .. [1] Coullon, J., South, L. and Nemeth, C. (2023). Efficient and generalizable tuning strategies for stochastic
       gradient MCMC. Statistics and Computing 33.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgld, tune
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 3.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> tuned = tune(sgld, logLik, dataset, params, [1e-6, 1e-4, 1e-2], minibatchSize=100, verbose=False, seed=1)
    >>> tuned.settings
    {'stepsize': 0.0001, 'minibatchSize': 100}
    >>> out = sgld(logLik, dataset, params, **tuned.settings, verbose=False, seed=1)
    """
    setup = setup_of("tune", sampler)
    require_known("tune", setup, sampler.__name__, arguments, "nGradients")
    eta, show = require_count("eta", "tune", eta, at_least=2), require_flag("verbose", "tune", verbose)
    combinations, steps = _combinations(arguments), None if stepsize is None else listed_stepsizes("tune", stepsize)
    groups, candidates = list[Group](), list[dict[str, Any]]()
    data: Any = dataset
    for combination in combinations:
        given = {**arguments, **combination, "seed": seed}
        group = set_up("tune", setup, (logLik, data, params), steps, given)
        seed, data = group.seed, group.data  # one copy of the data for all groups
        tried = around_rule(group) if steps is None else steps
        groups.append(Group(group, [of_each("tune", group, eps) for eps in tried]))
        candidates += [{"stepsize": eps, **combination} for eps in tried]
    assert seed is not None
    per_job = _per_job(executor, chainsPerJob, groups)
    with workers_of(executor) as workers:
        judged = search(groups, _budget(nGradients, groups, eta), eta, seed, show, workers, per_job)
    if best(judged) is None:
        because = groups[0].sampler.explained([dict(groups[0].sampler.start)])
        raise ValueError(
            "stepsize of tune must have a value at which the chain does not diverge; got "
            f"{described([candidate['stepsize'] for candidate in candidates])}, at all of which it diverges"
            f"{f': {because}' if because else '.'}"
        )
    scale = {"preconditioner": arguments["preconditioner"]} if "preconditioner" in arguments else {}
    return Tuned(sampler.__name__, candidates, judged, seed, scale)


def _combinations(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = {argument: listed("tune", argument, arguments[argument]) for argument in TRIED if argument in arguments}
    return [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]


def _per_job(executor: Executor | None, per_job: int | None, groups: list[Group]) -> int | None:
    if executor is None:
        if per_job is not None:
            raise refused("tune", "chainsPerJob", "come with executor", f"{per_job!r} without one")
        return None
    checked = checked_executor("tune", executor, per_job, max(len(group.stepsizes) for group in groups))
    require_portable("tune", groups)
    return checked


def _budget(n_gradients: Any, groups: list[Group], eta: int) -> int:
    fewest = fewest_gradients(groups, eta)
    if n_gradients is None:
        return max(PASSES * groups[0].sampler.data.size, fewest)
    why = ", so that there are enough iterations to judge every candidate"
    return require_count("nGradients", "tune", n_gradients, fewest, why)

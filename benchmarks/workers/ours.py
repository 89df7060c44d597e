"""The worker that runs sgmcmc."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from cases import PRIOR_SD_MIXTURE, SHORT, Case, simulate, start
from protocol import seconds, serve, versions

from sgmcmc import initSess, sghmcSetup, sgldcvSetup, sgldSetup, sgmcmcStep, sgnhtSetup
from sgmcmc.arguments.data import checked_dataset
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.signatures import RUN_DEFAULTS
from sgmcmc.run import Prepared, one_call
from sgmcmc.run.loop import Loop
from sgmcmc.run.sampler import Sampler

MOMENTUM_STEPSIZE = 1e-7
MODE_SEARCH = {"optStepsize": 1e-7, "nItersOpt": 1000, "verbose": False}

Params = dict[str, tf.Tensor]
Functions = tuple[Callable[[Params, Params], tf.Tensor], Callable[[Params], tf.Tensor]]


def logistic() -> Functions:
    def log_lik(params: Params, dataset: Params) -> tf.Tensor:
        z = tf.linalg.matvec(dataset["x"], params["beta"]) + params["bias"]
        return tf.reduce_sum(dataset["y"] * z - tf.math.softplus(z))

    return log_lik, standard_normal_prior


def mixture() -> Functions:
    import tensorflow_probability as tfp

    tfd = tfp.distributions

    def log_lik(params: Params, dataset: Params) -> tf.Tensor:
        components = [tfd.MultivariateNormalDiag(params[name], [1.0, 1.0]) for name in ("theta1", "theta2")]
        return tf.reduce_sum(tfd.Mixture(tfd.Categorical(probs=[0.5, 0.5]), components).log_prob(dataset["x"]))

    def log_prior(params: Params) -> tf.Tensor:
        prior = tfd.MultivariateNormalDiag([0.0, 0.0], [PRIOR_SD_MIXTURE, PRIOR_SD_MIXTURE])
        return prior.log_prob(params["theta1"]) + prior.log_prob(params["theta2"])

    return log_lik, log_prior


def network() -> Functions:
    def log_lik(params: Params, dataset: Params) -> tf.Tensor:
        hidden = tf.nn.softmax(dataset["x"] @ params["B"] + params["b"])
        return tf.reduce_sum(dataset["y"] * tf.nn.log_softmax(hidden @ params["A"] + params["a"]))

    return log_lik, standard_normal_prior


def wide() -> Functions:
    def log_lik(params: Params, dataset: Params) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    return log_lik, standard_normal_prior


def standard_normal_prior(params: Params) -> tf.Tensor:
    return -0.5 * tf.add_n([tf.reduce_sum(theta**2) for theta in params.values()])


MODELS = {"logistic": logistic, "mixture": mixture, "network": network, "wide": wide}
arms: dict[str, Callable[[], float]] = {}


def prepare(
    name: str,
    case: dict[str, Any],
    method: str = "sgld",
    subsampling: str = "uniform",
    steps_per_call: int = 0,
    bar: bool = False,
    store: bool = False,
    estimates: bool = True,
    separately: bool = False,
    **arguments: Any,
) -> None:
    """Set up an arm: all chains in one call or, `separately`, a call for each; with `steps_per_call`, sgmcmcStep.

    `store` draws in a folder; the loop may go without `estimates` of the log posterior; `arguments` are of the sampler.
    """
    this = Case(**case)
    sampler = _setup(replace(this, n_chains=None) if separately else this, method, subsampling, **arguments)
    if not estimates:
        _without_estimates(sampler._sampler)
    calls = this.n_chains if separately else 1
    arms[name] = (
        _stepping(sampler, this, steps_per_call) if steps_per_call else _chain(sampler, this, calls, bar, store)
    )


def time_arm(name: str) -> float:
    """Microseconds per iteration and chain of one repetition."""
    return arms[name]()


def first_call(case: dict[str, Any]) -> dict[str, float]:
    """Seconds to pack the data, and from there to the end of the first iterations.

    A Setup function packs the data, too; what that takes the second time is known and subtracted.
    """
    this = Case(**case)
    dataset = simulate(this.model, this.n_data)
    float_type = np.dtype("float32")
    data_seconds, packed_again = (seconds(lambda: checked_dataset("sgld", dataset, (), float_type)) for _ in range(2))
    whole = seconds(lambda: _run(_setup(this, subsampling="withReplacement", dataset=dataset), SHORT))
    return {"data": data_seconds, "first": whole - packed_again}


def memory(case: dict[str, Any]) -> dict[str, int]:
    """Bytes in memory before the data, of the user's data and the draws, and at the peak of a chain in one call."""
    this = Case(**case)
    small = Case(this.model, 1000, 10, SHORT, this.stepsize)
    _run(_setup(small), SHORT)  # loads the compiler
    before = _resident_bytes()
    dataset = simulate(this.model, this.n_data)
    draws = _run(_setup(this, dataset=dataset), this.iterations)
    return {
        "before": before,
        "dataset": sum(entry.nbytes for entry in dataset.values()),
        "draws": sum(theta.nbytes for theta in draws.values()),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _setup(
    case: Case,
    method: str = "sgld",
    subsampling: str = "uniform",
    dataset: dict[str, np.ndarray] | None = None,
    **arguments: Any,
) -> Sgmcmc:
    log_lik, log_prior = MODELS[case.model]()
    functions: dict[str, Callable[..., Sgmcmc]] = {
        "sgld": sgldSetup,
        "sgldcv": sgldcvSetup,
        "sghmc": sghmcSetup,
        "sgnht": sgnhtSetup,
    }
    return functions[method](
        log_lik,
        dataset or simulate(case.model, case.n_data),
        start(case.model),
        case.stepsize if method.startswith("sgld") else MOMENTUM_STEPSIZE,
        logPrior=log_prior,
        minibatchSize=case.n,
        seed=1,
        subsampling=subsampling,
        nChains=case.n_chains,
        **arguments,
        **(MODE_SEARCH if method == "sgldcv" else {}),
    )


def _run(setup: Sgmcmc, iterations: int, verbose: bool = False, **arguments: Any) -> Mapping[str, np.ndarray]:
    """A one-call function after its setup; arguments not given are its defaults."""
    return setup.run(iterations, verbose, **{**RUN_DEFAULTS, **arguments})


def _without_estimates(sampler: Sampler) -> None:
    """No user can ask for this: what the estimates cost is seen only by taking them out of the iteration."""
    nothing, prepare = tf.zeros([sampler.n_chains or 1], sampler.model.dtype), sampler.prepare

    def prepared(*arguments: Any) -> Prepared:
        with_estimates = prepare(*arguments)
        step = with_estimates.kernel.step
        kernel = with_estimates.kernel._replace(
            step=lambda *given: step(*given)._replace(log_density=nothing), log_density=lambda state: nothing
        )
        return replace(with_estimates, kernel=kernel)

    sampler.__dict__["prepare"] = prepared


@contextlib.contextmanager
def _one_loop(loops: list[Loop]) -> Iterator[None]:
    """Let all calls share one compiled loop, where users pay for the tracing in each."""

    def loop(*arguments: Any) -> Loop:
        if not loops:
            loops.append(Loop(*arguments))
        return loops[0]

    with mock.patch.object(one_call, "Loop", loop):
        yield


def _chain(setup: Sgmcmc, case: Case, calls: int, bar: bool, store: bool) -> Callable[[], float]:
    """What the one-call functions do once compiled; each repetition begins where they begin."""
    loops: list[Loop] = []
    setup._sampler.__dict__["prepare"] = functools.cache(setup._sampler.prepare)

    def repetition() -> float:
        # The bar is drawn on stderr; each repetition gets a folder of its own, and its removal is not timed.
        with (
            _one_loop(loops),
            contextlib.redirect_stderr(io.StringIO()),
            tempfile.TemporaryDirectory() as folder,
        ):
            options = {"storage": str(Path(folder) / "draws.zarr")} if store else {}

            def run() -> None:
                for _ in range(calls):
                    _run(setup, case.iterations, verbose=bar, **options)

            return seconds(run) / case.updates * 1e6

    return repetition


def _stepping(sampler: Sgmcmc, case: Case, steps_per_call: int) -> Callable[[], float]:
    sess = initSess(sampler, verbose=False)
    calls = case.iterations // steps_per_call

    def run() -> None:
        for _ in range(calls):
            sgmcmcStep(sampler, sess, nSteps=steps_per_call)

    return lambda: seconds(run) / (calls * steps_per_call) * 1e6


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    serve(
        {
            "versions": lambda: versions("sgmcmc", "tensorflow", "tensorflow-probability", "numpy"),
            "prepare": prepare,
            "time": time_arm,
            "first_call": first_call,
            "memory": memory,
        }
    )

"""The worker that runs sgmcmc."""

from __future__ import annotations

import contextlib
import io
import os
import resource
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from cases import PRIOR_SD_MIXTURE, SHORT, Case, simulate, start
from protocol import seconds, serve, versions

from sgmcmc import initSess, sghmcSetup, sgldcvSetup, sgldSetup, sgmcmcStep, sgnhtSetup
from sgmcmc.dynamics.sgld import sgld as sgld_dynamics
from sgmcmc.run import chain
from sgmcmc.samplers._arguments import Arguments
from sgmcmc.samplers._assemble import assemble
from sgmcmc.samplers._object import Sgmcmc
from sgmcmc.storage.memory import Memory

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


def standard_normal_prior(params: Params) -> tf.Tensor:
    return -0.5 * tf.add_n([tf.reduce_sum(theta**2) for theta in params.values()])


MODELS = {"logistic": logistic, "mixture": mixture, "network": network}
arms: dict[str, Callable[[], float]] = {}


def prepare(
    name: str,
    case: dict[str, Any],
    method: str = "sgld",
    subsampling: str = "uniform",
    steps_per_call: int = 0,
    bar: bool = False,
) -> None:
    """Set up an arm: a chain in one call, or, with `steps_per_call`, calls of sgmcmcStep."""
    this = Case(**case)
    sampler = _setup(this, method, subsampling)
    arms[name] = _stepping(sampler, this, steps_per_call) if steps_per_call else _chain(sampler, this, bar)


def time_arm(name: str) -> float:
    """Microseconds per iteration of one repetition."""
    return arms[name]()


def first_call(case: dict[str, Any]) -> dict[str, float]:
    """Seconds to pack the data, and from there to the end of the first iterations: sgldSetup in its two parts."""
    this = Case(**case)
    arguments = _arguments(this)
    data_seconds = seconds(lambda: arguments.data)

    def set_up_and_run() -> None:
        sampler = assemble(arguments, this.stepsize, sgld_dynamics)._sampler
        state = sampler.initial_state(verbose=False)
        loop = sampler.loop(state)
        block = loop.advance(loop.flatten(state), SHORT)
        [draws.numpy() for draws in block.draws.values()]

    return {"data": data_seconds, "first": seconds(set_up_and_run)}


def memory(case: dict[str, Any]) -> dict[str, int]:
    """Bytes in memory before the data, of the user's data and the draws, and at the peak of a chain in one call."""
    this = Case(**case)
    small = Case(this.model, 1000, 10, SHORT, this.stepsize)
    _setup(small, "sgld", "uniform").run(SHORT, verbose=False)  # loads the compiler
    before = _resident_bytes()
    dataset = simulate(this.model, this.n_data)
    log_lik, log_prior = MODELS[this.model]()
    sampler = sgldSetup(log_lik, dataset, start(this.model), this.stepsize, log_prior, this.n, seed=1)
    draws = sampler.run(this.iterations, verbose=False)
    return {
        "before": before,
        "dataset": sum(entry.nbytes for entry in dataset.values()),
        "draws": sum(theta.nbytes for theta in draws.values()),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _setup(case: Case, method: str, subsampling: str) -> Sgmcmc:
    log_lik, log_prior = MODELS[case.model]()
    functions: dict[str, Callable[..., Sgmcmc]] = {
        "sgld": sgldSetup,
        "sgldcv": sgldcvSetup,
        "sghmc": sghmcSetup,
        "sgnht": sgnhtSetup,
    }
    return functions[method](
        log_lik,
        simulate(case.model, case.n_data),
        start(case.model),
        case.stepsize if method.startswith("sgld") else MOMENTUM_STEPSIZE,
        logPrior=log_prior,
        minibatchSize=case.n,
        seed=1,
        subsampling=subsampling,
        **(MODE_SEARCH if method == "sgldcv" else {}),
    )


def _arguments(case: Case) -> Arguments:
    log_lik, log_prior = MODELS[case.model]()
    return Arguments(
        sampler="sgld",
        logLik=log_lik,
        dataset=simulate(case.model, case.n_data),
        params=start(case.model),
        logPrior=log_prior,
        minibatchSize=case.n,
        seed=1,
        subsampling="withReplacement",
        integers=(),
        dtype="float32",
    )


def _chain(setup: Sgmcmc, case: Case, bar: bool) -> Callable[[], float]:
    """What the one-call functions do once compiled; each repetition goes on where the last one ended."""
    sampler = setup._sampler
    state = sampler.initial_state(verbose=False)
    loop = sampler.loop(state)
    leaves = loop.flatten(state)

    def run() -> None:
        nonlocal leaves
        storage = Memory(case.iterations, loop.record_specs)
        leaves = chain.run(loop, leaves, case.iterations, storage, sampler.name, verbose=bar)
        storage.result()

    def repetition() -> float:
        with contextlib.redirect_stderr(io.StringIO()):  # where the bar is drawn
            return seconds(run) / case.iterations * 1e6

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

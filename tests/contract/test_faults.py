"""What goes wrong midway: divergence, interruption, models that XLA cannot compile.

It uses the inside of the package: it replaces compiled programs and storage by faulty ones.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.core.compilation import Compiled
from sgmcmc.core.progress import Progress
from sgmcmc.run import Plan, advance
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Keep
from sgmcmc.storage.memory import Memory
from tests.catalogue import CATALOGUE, Entry

DATA = {"x": np.linspace(-1, 1, 100)}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    """Steep enough that a large step overshoots, each time further."""
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2 + 0.01 * params["phi"] ** 2)


def first_bad(draws: np.ndarray) -> int:
    return int(np.argmin(np.isfinite(draws)))


KINDS = [entry for entry in CATALOGUE if entry.name in ("sgld", "sghmccv", "ccadl", "badodab")]


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: entry.name)
def test_divergence_names_the_iteration_and_keeps_the_draws(entry: Entry) -> None:
    """Without a memory, in leaps, with memories of two kinds; of all samplers see test_samplers.py."""
    settings = entry.settings | ({"nItersOpt": 0} if "paramsOpt" in entry.fields else {})
    arguments = {"params": {"theta": 0.5, "phi": 0.0}, "stepsize": {"theta": 1.0, "phi": 1e-6}}
    quiet = {"verbose": False, "seed": 1, "minibatchSize": 10}
    with pytest.raises(sgmcmc.DivergenceError) as caught:
        entry.one_call(log_lik, DATA, **arguments, **settings, **quiet, nIters=5000)
    error = caught.value
    assert (error.parameter, error.chain) == ("theta", 0)
    at, kept_count = error.iteration, error.iteration - 1
    end = f"; try decreasing stepsize (the {kept_count} draws made before are in the attribute draws)."
    assert str(error) in (
        f"parameter 'theta' of chain 0 was NaN or infinite after iteration {at}{end}",
        f"the log posterior estimate of chain 0 was NaN or infinite after iteration {at} (the largest parameter is "
        f"'theta'){end}",
    )
    sent = pickle.loads(pickle.dumps(error))
    assert str(sent) == str(error) and sent.iteration == error.iteration
    kept = error.draws["theta"]
    assert kept.shape == (error.iteration - 1,) and np.isfinite(kept).all()
    # Fewer iterations than the divergence takes are untroubled, and give what was kept.
    before = entry.one_call(log_lik, DATA, **arguments, **settings, **quiet, nIters=error.iteration - 1)
    np.testing.assert_array_equal(before["theta"], kept)


def test_divergence_step_by_step() -> None:
    arguments = ({"theta": 0.5, "phi": 0.0}, {"theta": 1.0, "phi": 1e-6})
    with pytest.raises(sgmcmc.DivergenceError) as whole:
        sgmcmc.sgld(log_lik, DATA, *arguments, minibatchSize=10, seed=1, verbose=False)
    for size in (1, 4, 100):
        sampler = sgmcmc.sgldSetup(log_lik, DATA, *arguments, minibatchSize=10, seed=1)
        sess = sgmcmc.initSess(sampler)
        with pytest.raises(sgmcmc.DivergenceError) as caught:
            for _ in range(5000):
                sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
        assert (caught.value.iteration, caught.value.parameter) == (whole.value.iteration, "theta")
        assert np.isfinite(sgmcmc.getParams(sampler, sess)["theta"])


def test_a_gradient_that_is_not_finite_is_a_divergence() -> None:
    def root(params: dict, dataset: dict) -> tf.Tensor:
        return -tf.reduce_sum(tf.sqrt(params["theta"]) * (1.0 + 0.0 * dataset["x"]))

    with pytest.raises(sgmcmc.DivergenceError, match="was NaN or infinite after iteration"):
        sgmcmc.sgld(root, DATA, {"theta": 0.1}, 1e-3, minibatchSize=10, seed=1, verbose=False)


def test_a_density_that_is_not_finite_is_a_divergence() -> None:
    def bounded(params: dict, dataset: dict) -> tf.Tensor:
        inside = tf.where(params["theta"] < 0.05, 0.0, -np.inf)
        return tf.reduce_sum(0.0 * dataset["x"] + 10.0 * params["theta"]) + inside

    with pytest.raises(sgmcmc.DivergenceError, match="the log posterior estimate of chain 0") as caught:
        sgmcmc.sgld(bounded, DATA, {"theta": 0.0}, 1e-6, minibatchSize=10, seed=1, verbose=False)
    assert caught.value.parameter == "theta"
    assert (caught.value.draws["theta"][:-1] < 0.05).all()  # the estimate that fails is made at the last of them


def test_a_diverging_mode_search_is_its_own_error() -> None:
    start = {"theta": 0.5, "phi": 0.0}
    with pytest.raises(
        sgmcmc.ModeSearchError, match=r"the search for the mode diverged: .* Leave optStepsize out"
    ) as caught:
        sgmcmc.sgldcv(log_lik, DATA, start, 1e-4, optStepsize=10.0, minibatchSize=10, verbose=False, seed=1)
    assert caught.value.parameter == "theta"
    assert isinstance(caught.value, sgmcmc.DivergenceError)


@pytest.mark.parametrize("thin", [1, 7])
def test_divergence_with_thinned_storage(thin: int) -> None:
    arguments = ({"theta": 0.5, "phi": 0.0}, {"theta": 1.0, "phi": 1e-6})
    sampler = sgmcmc.sgldSetup(log_lik, DATA, *arguments, minibatchSize=10, seed=1)._sampler
    prepared = sampler.prepare(verbose=False)
    keep = Keep({name: tf.TensorSpec([], tf.float32) for name in ("theta", "phi")})
    loop = Loop(prepared, keep.recorder(prepared.kernel, 1))
    storage = Memory(5000 // thin, loop.row_specs, [])
    with pytest.raises(sgmcmc.DivergenceError) as caught:
        advance.run(loop, loop.flatten(prepared.state), Plan(5000, thin), storage, Progress(5000, "", "", False))
    assert storage.stored == (caught.value.iteration - 1) // thin
    assert np.isfinite(storage.result()["posterior"]["theta"]).all()


def test_interruption_returns_the_draws_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (log_lik, DATA, {"theta": 0.5, "phi": 0.0}, 1e-4, None, 10)
    whole = sgmcmc.sgld(*arguments, nIters=5000, verbose=False, seed=1)
    original, calls = Loop.advance, []

    def interrupted(self: Loop, *args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Loop, "advance", interrupted)
    with pytest.warns(UserWarning, match=r"interrupted: returning the first \d+ of 5000 draws"):
        out = sgmcmc.sgld(*arguments, nIters=5000, verbose=False, seed=1)
    kept = len(out["theta"])
    assert 0 < kept < 5000
    np.testing.assert_array_equal(out["theta"], whole["theta"][:kept])


def test_a_model_that_xla_cannot_compile_runs_as_a_plain_graph() -> None:
    def with_strings(params: dict, dataset: dict) -> tf.Tensor:
        x = tf.strings.to_number(tf.strings.as_string(dataset["x"], precision=9, scientific=True))
        return -0.5 * tf.reduce_sum((x - params["theta"]) ** 2)

    def compiled(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    for subsampling in ("uniform", "withReplacement"):
        settings = {"minibatchSize": 10, "nIters": 200, "verbose": False, "seed": 1, "subsampling": subsampling}
        with pytest.warns(UserWarning, match="XLA cannot compile a function of yours, such as logLik") as record:
            plain = sgmcmc.sgld(with_strings, DATA, {"theta": 0.0}, 1e-3, **settings)
        assert len(record) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same = sgmcmc.sgld(compiled, DATA, {"theta": 0.0}, 1e-3, **settings)
        # One stream of random numbers in both modes: only rounding differs.
        np.testing.assert_allclose(plain["theta"], same["theta"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("filtered", [False, True], ids=["with its cause", "whose cause TensorFlow drops"])
def test_an_interrupt_that_came_to_tensorflow_while_it_traced_is_one(depth: int, filtered: bool) -> None:
    def fail(times: int) -> None:
        try:
            raise KeyboardInterrupt if times == 1 else fail(times - 1)
        except (KeyboardInterrupt, SystemError) as error:
            raise SystemError("returned a result with an exception set") from error

    def interrupted(x: tf.Tensor) -> list[tf.Tensor]:
        def branch() -> tf.Tensor:
            fail(depth)
            return x

        return [tf.cond(x > 0, branch, lambda: x) if filtered else branch()]

    def broken(x: tf.Tensor) -> list[tf.Tensor]:
        raise SystemError("of another cause")

    with pytest.raises(KeyboardInterrupt):
        Compiled(interrupted)(tf.constant(1.0))
    with pytest.raises(SystemError, match="of another cause"):
        Compiled(broken)(tf.constant(1.0))

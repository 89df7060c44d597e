"""Every sampler on every problem of the catalogue: fields and draws, in one call and step by step, chains, compilation.

What takes time is to trace and to compile, so each pair has three programs that all tests share: a chain in one call,
three chains in one call, and a session, of a single chain for half of the pairs and of three for the others. Sessions
begin their chain anew.

It uses the inside of the package: it counts compilations, and compares the inputs of kernels, which no call shows.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import run as plan
from sgmcmc.core.compilation import Compiled
from sgmcmc.run import Plan
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Keep
from tests.catalogue import CATALOGUE, EVERY, PAIRS, PROBLEMS, Entry, Problem, dense

N_ITERS, N = 21, 25

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Run:
    """A sampler on a problem, and its chains."""

    entry: Entry
    problem: Problem
    n_chains: int | None  # of the session

    @cached_property
    def single(self) -> sgmcmc.Draws:
        return self.one_call()

    @cached_property
    def three(self) -> sgmcmc.Draws:
        return self.one_call(nChains=3)

    @cached_property
    def sampler(self) -> Any:
        """To run step by step."""
        return self.set_up()

    @property
    def draws(self) -> sgmcmc.Draws:
        """What the session is to step through."""
        return self.single if self.n_chains is None else self.three

    def after(self, n_iterations: int) -> Arrays:
        return {name: array[..., n_iterations - 1, *self._axes(name)] for name, array in self.draws.items()}

    def set_up(self, **changes: Any) -> Any:
        quiet = {"verbose": False} if "paramsOpt" in self.entry.fields else {}
        return self.entry.setup(**self._arguments() | quiet | {"nChains": self.n_chains} | changes)

    def one_call(self, **changes: Any) -> sgmcmc.Draws:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="XLA cannot compile")
            return self.entry.one_call(**self._arguments() | {"verbose": False, "nIters": N_ITERS} | changes)

    def _axes(self, name: str) -> tuple[slice, ...]:
        return (slice(None),) * np.ndim(self.problem.params[name])

    def _arguments(self) -> dict[str, Any]:
        own = {"stepsize": self.entry.stepsize, "minibatchSize": N, "seed": 3}
        return self.problem.arguments() | own | self.entry.settings


RUNS = {
    f"{entry.name}-{problem}": Run(entry, PROBLEMS[problem](), None if k % 2 else 3)
    for k, (entry, problem) in enumerate(PAIRS)
}
SOME = ("sghmc-dense", "sgldcv-sparse", "scir-simplex")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def those(chosen: Callable[[Run], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", [name for name, run in RUNS.items() if chosen(run)], indirect=True)


def assert_same(arrays: Arrays, others: Arrays) -> None:
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


def begun(run: Run) -> tuple[Any, Any]:
    return run.sampler, sgmcmc.initSess(run.sampler, verbose=False)


def test_the_catalogue_is_complete() -> None:
    lower_case = {name for name in sgmcmc.__all__ if name + "Setup" in sgmcmc.__all__}
    assert {entry.name for entry in EVERY} == lower_case


# --- what comes back --------------------------------------------------------------------------------------------------


def test_draws_have_the_shapes_of_the_parameters(run: Run) -> None:
    for out, chains in ((run.single, ()), (run.three, (3,))):
        for name, theta in run.problem.params.items():
            assert out[name].shape == (*chains, N_ITERS, *np.shape(theta))
            assert out[name].dtype == np.float32
            assert np.isfinite(out[name]).all()
            first, last = (np.take(out[name], t, axis=len(chains)) for t in (0, -1))
            assert (first != last).any()


def test_fields(run: Run) -> None:
    sampler, chains = run.sampler, () if run.n_chains is None else (3,)
    n_data = len(run.problem.dataset["x"])
    assert (sampler.N, sampler.n, sampler.seed) == (n_data, N, 3)
    assert sampler.stepsize == dict.fromkeys(run.problem.params, run.entry.stepsize)
    for name, entry in run.problem.dataset.items():
        np.testing.assert_allclose(sampler.data[name], entry, rtol=1e-6)
    for name, theta in run.problem.params.items():
        assert isinstance(sampler.params[name], tf.Variable)
        assert sampler.params[name].shape == (*chains, *np.shape(theta))
    for field in ("alpha", "L", "a", "paramsOpt", "logPostOptGrad"):
        assert hasattr(sampler, field) == (field in run.entry.fields), field
    for field in set(run.entry.settings) & {"alpha", "a"}:
        assert getattr(sampler, field) == dict.fromkeys(run.problem.params, run.entry.settings[field])
    if "L" in run.entry.fields:
        assert run.entry.settings["L"] == sampler.L
    assert run.entry.name in repr(sampler)


# --- chains -----------------------------------------------------------------------------------------------------------


def test_three_chains_begin_with_the_single_one(run: Run) -> None:
    for name, array in run.three.items():
        np.testing.assert_allclose(array[0], run.single[name], rtol=2e-4, atol=2e-5, err_msg=name)
        assert (array[0] != array[1]).any() and (array[1] != array[2]).any()


@pytest.mark.parametrize("run", SOME, indirect=True)
def test_one_chain_is_the_single_one(run: Run) -> None:
    """All that differs is an axis, which the loop takes from any state."""
    assert_same({name: array[0] for name, array in run.one_call(nChains=1).items()}, run.single)


# --- step by step -----------------------------------------------------------------------------------------------------


def test_stepping_gives_the_one_call_chain_bit_for_bit(run: Run) -> None:
    for size in (1, 7):
        sampler, sess = begun(run)
        for done in range(size, N_ITERS + 1, size):
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
            assert_same(sgmcmc.getParams(sampler, sess), run.after(done))


def test_the_log_posterior_step_by_step_is_that_of_one_call(run: Run) -> None:
    sampler, sess = begun(run)
    assert np.isnan(sampler.estLogPost).all()
    for made in (1, 3, N_ITERS):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=made - sess.iteration)
        np.testing.assert_array_equal(sampler.estLogPost, run.draws.logPosterior[..., made - 1])
        assert repr(sess).startswith(f"<session after {made} iterations: ")
        assert all(f"{name} {tuple(theta.shape)}" in repr(sess) for name, theta in sampler.params.items())


def test_assigning_to_params_moves_the_chain(run: Run) -> None:
    sampler, sess = begun(run)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    shift = 1e-3
    for name, theta in run.after(5).items():
        sampler.params[name].assign(theta + np.float32(shift))
    sgmcmc.sgmcmcStep(sampler, sess)
    for name, theta in sgmcmc.getParams(sampler, sess).items():
        assert 0 < np.abs(theta - run.after(6)[name]).max() < 10 * shift, name


@those(lambda run: run.n_chains is None)
def test_params_compute_in_the_users_own_functions(run: Run) -> None:
    """As R's `-logLik(sgld$params, testset) / n`: eagerly and in a function of the user's own."""
    sampler = run.sampler
    dtypes = {name: tf.int32 if name in run.problem.integers else tf.float32 for name in run.problem.dataset}
    held_out = {name: tf.constant(value[:50], dtypes[name]) for name, value in run.problem.dataset.items()}
    log_loss = tf.function(lambda: -run.problem.logLik(sampler.params, held_out) / 50.0)
    for name, theta in run.problem.params.items():
        sampler.params[name].assign(theta)
    before = log_loss().numpy()
    sampler, sess = begun(run)
    for _ in range(3):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=20)
    assert log_loss().numpy() < before
    np.testing.assert_allclose(log_loss(), -run.problem.logLik(sampler.params, held_out) / 50.0, rtol=1e-5)


@those(lambda run: run.entry in CATALOGUE)
def test_a_step_to_infinity_is_named_and_not_made(run: Run) -> None:
    """Whoever is there first, the density, a parameter or its memory; of several chains the one that diverges."""
    chain = 0 if run.n_chains is None else 1
    for size in (1, 9):
        sampler, sess = begun(run)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=2)
        name = "scalar" if "scalar" in sampler.params else "groups"
        far = np.array(sampler.params[name].numpy())
        far[(chain, ...) if run.n_chains else ...] = 1e30
        sampler.params[name].assign(far)
        with pytest.raises(sgmcmc.DivergenceError) as caught:
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
        assert (caught.value.iteration, caught.value.chain, caught.value.parameter) == (3, chain, name)
        assert sess.iteration == 2
        np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)[name], far)


# --- control variates -------------------------------------------------------------------------------------------------


@those(lambda run: "paramsOpt" in run.entry.fields)
def test_control_variates_start_at_the_mode_with_the_exact_gradient(run: Run) -> None:
    sampler, sess = begun(run)
    problem, start = run.problem, sgmcmc.getParams(sampler, sess)
    dtypes = {name: tf.int32 if name in problem.integers else tf.float32 for name in problem.dataset}
    data = {name: tf.constant(value, dtypes[name]) for name, value in problem.dataset.items()}
    with tf.GradientTape() as tape:
        value = problem.logLik(sampler.paramsOpt, data) + problem.logPrior(sampler.paramsOpt)
    exact = tape.gradient(value, sampler.paramsOpt)
    mode = {name: theta.numpy() for name, theta in sampler.paramsOpt.items()}
    for name in problem.params:
        assert (start[name] == mode[name]).all() and (mode[name] != 0).any()
        gradient = tf.convert_to_tensor(exact[name])
        np.testing.assert_allclose(sampler.logPostOptGrad[name], gradient, rtol=1e-3, atol=1e-3)
    from_mode = run.set_up(params=mode, nItersOpt=0)
    sess = sgmcmc.initSess(from_mode, verbose=False)
    sgmcmc.sgmcmcStep(from_mode, sess, nSteps=10)
    assert_same(sgmcmc.getParams(from_mode, sess), run.after(10))


# --- how it is computed -----------------------------------------------------------------------------------------------


def test_compiled_and_plain_programs_agree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that draws, and fetches, and the loop: what they draw, what is recorded, and where the chain stands."""
    sampler, sess = begun(run)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=N_ITERS)
    traced, plain = Compiled.traced, []

    def as_a_graph(self: Compiled, tensors: Any, jit_compile: bool) -> Any:
        plain.append(self)
        return traced(self, tensors, jit_compile=False)

    with monkeypatch.context() as patch:
        patch.setattr(Compiled, "traced", as_a_graph)
        specs = {name: tf.TensorSpec(np.shape(theta), tf.float32) for name, theta in run.problem.params.items()}
        prepared = sampler.prepared(verbose=False)
        loop = Loop(prepared, Keep(specs).recorder(prepared.kernel, prepared.chains), Fetch.IN_PROGRAM)
        outcome = loop.advance(loop.flatten(prepared.state), Plan(N_ITERS).stretch(0, N_ITERS, loop.capacity))
    assert len(plain) == 2

    def assert_close(some: Any, others: Any) -> None:
        for one, other in zip(tf.nest.flatten(some), tf.nest.flatten(others), strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            if np.issubdtype(np.asarray(one).dtype, np.floating):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(one, other)

    assert_close(loop.feed.block(0), sampler._loop.feed.block(0))
    assert_close(outcome.leaves, sess.current()[0])
    assert len(outcome.rows) == len(tf.nest.flatten(loop.row_specs))
    rows = tf.nest.pack_sequence_as(loop.row_specs, [row.numpy()[:N_ITERS] for row in outcome.rows])
    draws = {"posterior": dict(run.draws), "sample_stats": dict(run.draws.sampleStats)}
    if run.n_chains is None:
        draws = tf.nest.map_structure(lambda array: array[None], draws)
    assert_close(rows, tf.nest.map_structure(lambda array: np.swapaxes(array, 0, 1), draws))
    np.testing.assert_allclose(outcome.log_density, draws["sample_stats"]["lp"][:, -1], rtol=1e-4)


@pytest.mark.parametrize("run", SOME, indirect=True)
def test_progress_bars_and_short_stretches_do_not_matter(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the loop's, which knows no sampler; of all samplers stepping has stretches of one iteration."""
    monkeypatch.setattr(plan, "STRETCH_SECONDS", 1e-9)  # every stretch as short as can be
    screen = io.StringIO()
    with redirect_stderr(screen):
        draws = run.one_call(verbose=True)
    assert_same(draws, run.single)
    assert f"{run.entry.name}: 100%" in screen.getvalue()
    assert "log posterior" in screen.getvalue()


def test_seeds() -> None:
    """All 64 bits of a seed go into what iterations are inputs with, and that into the draws."""
    arguments = dense().arguments() | {"stepsize": 1e-3, "minibatchSize": N}

    def inputs(seed: int | None) -> tuple[bytes, ...]:
        prepared = sgmcmc.sgldSetup(**arguments, seed=seed)._sampler.prepare(verbose=False)
        block = prepared.kernel.draw_inputs(prepared.constants, tf.zeros([1], tf.uint32))
        return tuple(leaf.numpy().tobytes() for leaf in tf.nest.flatten(block))

    assert inputs(1) == inputs(1)
    of_seeds = [inputs(seed) for seed in (0, 1, 2**63, 2**64 - 1, None, None)]
    assert all(len(set(leaves)) == 6 for leaves in zip(*of_seeds, strict=True))

    def first(seed: int | None) -> float:
        return float(sgmcmc.sgld(**arguments, nIters=1, verbose=False, seed=seed)["scalar"][0])

    assert first(1) == first(1) != first(2**63)

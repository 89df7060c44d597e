"""A chain is a function of its seed: how it is run cannot change a bit of it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import numpy as np
import pytest

import sgmcmc
from sgmcmc.run import plan
from tests.catalogue import CATALOGUE, dense
from tests.contract.conftest import N_ITERS, Run


def stepped(sampler: object, size: int) -> dict[str, np.ndarray]:
    sess = sgmcmc.initSess(sampler, verbose=False)
    visited = []
    for _ in range(N_ITERS // size):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
        visited.append(sgmcmc.getParams(sampler, sess))
    return {name: np.stack([params[name] for params in visited]) for name in visited[0]}


def assert_same(draws: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> None:
    assert draws.keys() == others.keys()
    for name, array in draws.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


def test_stepping_gives_the_one_call_chain_bit_for_bit(run: Run) -> None:
    sampler = run.sampler
    assert_same(stepped(sampler, 1), run.draws)
    assert_same(stepped(sampler, 7), {name: array[6::7] for name, array in run.draws.items()})


def test_progress_bars_and_short_stretches_do_not_matter(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "STRETCH_SECONDS", 1e-9)  # every stretch as short as can be
    screen = io.StringIO()
    with redirect_stderr(screen):
        draws = run.one_call(verbose=True)
    assert_same(draws, run.draws)
    assert f"{run.entry.name}: 100%" in screen.getvalue()
    assert "log posterior estimate" in screen.getvalue()


def test_seeds() -> None:
    sgld, problem = CATALOGUE[0], dense()

    def first(seed: int | None) -> float:
        out = sgld.one_call(**problem.arguments(), stepsize=1e-3, minibatchSize=25, nIters=1, verbose=False, seed=seed)
        return float(out["scalar"][0])

    assert first(1) == first(1)
    assert len({first(seed) for seed in (0, 1, 2**63, 2**64 - 1, None, None)}) == 6


def test_assigning_to_params_moves_the_chain(run: Run) -> None:
    sampler = run.sampler
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    assert_same(sgmcmc.getParams(sampler, sess), {name: array[4] for name, array in run.draws.items()})
    shift = 1e-3
    for name, array in run.draws.items():
        sampler.params[name].assign(array[4] + np.float32(shift))
    sgmcmc.sgmcmcStep(sampler, sess)
    for name, theta in sgmcmc.getParams(sampler, sess).items():
        assert 0 < np.abs(theta - run.draws[name][5]).max() < 10 * shift, name

"""The engine's chain axis: chain c is the same however many chains run beside it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.core.types import State
from sgmcmc.kernel import build
from sgmcmc.run.loop import Loop
from tests.catalogue import CATALOGUE, PROBLEMS, Entry

ITERATIONS = 20


def positions(entry: Entry, problem: str, n_chains: int) -> dict[str, np.ndarray]:
    """{name: [T, C, ...]} through the generic `build`."""
    arguments = PROBLEMS[problem]().arguments() | entry.settings | {"seed": 5, "minibatchSize": 30}
    sampler = entry.setup(stepsize=entry.stepsize, **arguments)._sampler
    transition = build(
        sampler.model, sampler.minibatch, sampler.gradient, sampler.dynamics, sampler.stepsize, 5, n_chains
    )
    centre = {name: tf.constant(theta) for name, theta in sampler.start.items()}
    start = {name: tf.tile(theta[None], [n_chains] + [1] * theta.ndim) for name, theta in centre.items()}
    state = transition.init(start, centre)

    def record(state: State) -> dict[str, tf.Tensor]:
        return state.params

    loop = Loop(transition, record, state)
    block = loop.advance(loop.flatten(state), ITERATIONS)
    assert block.log_density.shape == (n_chains,)
    return {name: draws.numpy()[:ITERATIONS] for name, draws in block.draws.items()}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_three_chains_begin_with_the_single_one(entry: Entry, problem: str) -> None:
    one, three = positions(entry, problem, 1), positions(entry, problem, 3)
    for name, array in three.items():
        assert array.shape[1] == 3
        np.testing.assert_allclose(array[:, :1], one[name], rtol=2e-4, atol=2e-5, err_msg=name)
        assert (array[:, 0] != array[:, 1]).any() and (array[:, 1] != array[:, 2]).any()

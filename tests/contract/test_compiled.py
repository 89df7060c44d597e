"""What XLA makes of the loop computes the same as the plain TensorFlow graph, for every sampler."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.contract.conftest import Run

ITERATIONS = 12


def test_compiled_and_plain_loops_agree(run: Run) -> None:
    inner = run.sampler._sampler
    state = inner.initial_state(verbose=False)
    loop = inner.loop(state)
    leaves = loop.flatten(state)
    block = loop.advance(leaves, ITERATIONS)
    arguments = [*leaves, tf.constant([ITERATIONS, 1])]
    plain = loop._compiled._trace(arguments, jit_compile=False)(*arguments)
    for compiled_leaf, plain_leaf in zip(block.leaves, plain, strict=False):
        np.testing.assert_allclose(compiled_leaf, plain_leaf, rtol=1e-4, atol=1e-5)
    draws = plain[len(leaves) : len(leaves) + len(block.draws)]
    for (name, compiled_draws), plain_draws in zip(block.draws.items(), draws, strict=True):
        np.testing.assert_allclose(
            compiled_draws[:ITERATIONS], plain_draws[:ITERATIONS], rtol=1e-4, atol=1e-5, err_msg=name
        )
    assert int(loop.unflatten(block.leaves).step) == ITERATIONS * inner.transition.inner_steps
    np.testing.assert_allclose(block.log_density, plain[-1], rtol=1e-4)

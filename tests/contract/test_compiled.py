"""What XLA makes of the loop computes the same as the plain TensorFlow graph, for every sampler."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.run.recorder import Keep
from tests.contract.conftest import Run

ITERATIONS = 12


def test_compiled_and_plain_loops_agree(run: Run) -> None:
    inner = run.sampler._sampler
    state = inner.initial_state(verbose=False)
    keep = Keep({name: tf.TensorSpec(theta.shape, tf.float32) for name, theta in inner.start.items()})
    loop = inner.loop(state, keep.recorder(inner.transition, 1))
    leaves = loop.flatten(state)
    block = loop.advance_and_record(leaves, ITERATIONS)
    arguments = [*leaves, tf.constant([ITERATIONS, 1, 1])]
    plain = loop._compiled._trace(arguments, jit_compile=False)(*arguments)
    for compiled_leaf, plain_leaf in zip(block.leaves, plain, strict=False):
        np.testing.assert_allclose(compiled_leaf, plain_leaf, rtol=1e-4, atol=1e-5)
    for compiled_rows, plain_rows in zip(tf.nest.flatten(block.rows), plain[len(leaves) : -1], strict=True):
        np.testing.assert_allclose(compiled_rows[:ITERATIONS], plain_rows[:ITERATIONS], rtol=1e-4, atol=1e-5)
    assert int(loop.unflatten(block.leaves)[0].step) == ITERATIONS * inner.transition.inner_steps
    np.testing.assert_allclose(block.log_density, plain[-1], rtol=1e-4)

"""What XLA makes of the programs computes the same as the plain TensorFlow graph, for every sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.recorder import Keep
from tests.contract.conftest import Run

ITERATIONS = 12


def test_compiled_and_plain_programs_agree(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that draws and fetches, and the loop, each from the same arguments."""
    sampler = run.sampler._sampler
    prepared = sampler.prepare(verbose=False)
    keep = Keep({name: tf.TensorSpec(theta.shape, tf.float32) for name, theta in sampler.start.items()})
    loop = Loop(prepared, keep.recorder(prepared.transition, prepared.chains), Fetch.IN_PROGRAM)
    stretch = Plan(ITERATIONS).stretch(0, ITERATIONS, loop.capacity)
    assert (stretch.end, stretch.n_rows) == (ITERATIONS, ITERATIONS)

    call, calls = Compiled.__call__, []

    def recorded(self: Compiled, *tensors: tf.Tensor) -> list[tf.Tensor]:
        plain = self.traced(tensors, jit_compile=False)(*tensors)
        calls.append((call(self, *tensors), plain))
        return calls[-1][0]

    with monkeypatch.context() as patch:
        patch.setattr(Compiled, "__call__", recorded)
        outcome = loop.advance(loop.flatten(prepared.state), stretch)
    (block, plain_block), (results, plain_results) = calls

    def assert_close(compiled: Any, plain: Any) -> None:
        assert compiled.dtype == plain.dtype and compiled.shape == plain.shape
        if compiled.dtype.is_floating:
            np.testing.assert_allclose(compiled, plain, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(compiled, plain)

    for compiled, plain in zip(block, plain_block, strict=True):
        assert_close(compiled, plain)
    leaves, rows = len(outcome.leaves), len(outcome.rows)
    assert len(results) == len(plain_results) == leaves + rows + 1
    for compiled, plain in zip(results[:leaves], plain_results[:leaves], strict=True):
        assert_close(compiled, plain)
    for compiled, plain in zip(results[leaves:-1], plain_results[leaves:-1], strict=True):
        assert_close(compiled[:ITERATIONS], plain[:ITERATIONS])
    np.testing.assert_allclose(outcome.log_density, plain_results[-1], rtol=1e-4)


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

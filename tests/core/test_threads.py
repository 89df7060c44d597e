"""Compiled kernels write where they should, also with several threads, as users have them.

XLA (TensorFlow 2.21, CPUs with AVX-512) compiles the narrowing of uint64 to 32 bits to a store of 8 bytes for the last
element of a row of 8k + 1, which zeroes what lies behind: see `_multiply_high` in core/random.py. The tests run in
processes of their own because this suite runs on one thread, where the next row repairs most of it, and because a loop
that does not end cannot be interrupted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOPS = """
import numpy as np, tensorflow as tf
from sgmcmc.dataset import Dataset
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import build
from sgmcmc.minibatch.uniform import with_replacement
from sgmcmc.model import Model, Returns
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Recorder

C = 2000
x = np.random.default_rng(0).normal(1, 1, 90).astype(np.float32)
model = Model(lambda p, d: -0.5 * tf.reduce_sum((d["x"] - p["theta"]) ** 2), lambda p: -5 * p["theta"] ** 2,
              Dataset({"x": x}), Returns.SUM, tf.float32)
dynamics = sghmc(0.2, 5)._replace(refresh=None)
transition = build(model, with_replacement(90, 9), plain(model), {"theta": dynamics}, {"theta": 5e-4}, 1, C)
state = transition.init({"theta": tf.zeros([C])}, {"theta": tf.zeros([])})
loop = Loop(transition, Recorder(lambda s: {"theta": s.params["theta"], "nu": s.dynamics["theta"]["momentum"]}), state)
leaves = loop.flatten(state)
for call in range(1, 301):
    leaves = loop.advance(leaves, 3).leaves
    assert int(loop.unflatten(leaves)[0].step) == 15 * call, (call, int(loop.unflatten(leaves)[0].step))
print("as many as asked for")
"""


INDICES = """
import numpy as np, tensorflow as tf
from sgmcmc.core.random import Purpose, Stream

stream = Stream(1, Purpose.MINIBATCH, 2000)
for size in (1, 7, 8, 9, 10, 17, 25):
    for draw in (stream.integers, stream.distinct_integers):
        draws = [tf.function(lambda c: draw(c, size, 90), jit_compile=jit, autograph=False)(tf.constant(3, tf.uint32))
                 for jit in (True, False)]
        assert np.array_equal(*draws), (size, np.argwhere(draws[0] != draws[1])[:3])
print("all alike")
"""


@pytest.mark.slow
def test_loops_make_as_many_steps_as_asked():
    """The counter of a loop may stand behind the indices of a minibatch; zeroed, it made 10^5 steps too many."""
    assert output_of(LOOPS) == "as many as asked for"


def test_indices_are_the_same_compiled_and_not():
    assert output_of(INDICES) == "all alike"


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.stderr[-2000:]

"""The compiled loop makes as many steps as it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np, tensorflow as tf
from sgmcmc.dataset import Dataset
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import build
from sgmcmc.minibatch.uniform import with_replacement
from sgmcmc.model import Model, Returns
from sgmcmc.run.loop import Loop

C = 2000
x = np.random.default_rng(0).normal(1, 1, 90).astype(np.float32)
model = Model(lambda p, d: -0.5 * tf.reduce_sum((d["x"] - p["theta"]) ** 2), lambda p: -5 * p["theta"] ** 2,
              Dataset({"x": x}), Returns.SUM, tf.float32)
dynamics = sghmc(0.2, 5)._replace(refresh=None)
transition = build(model, with_replacement(90, 9), plain(model), {"theta": dynamics}, {"theta": 5e-4}, 1, C)
state = transition.init({"theta": tf.zeros([C])}, {"theta": tf.zeros([])})
loop = Loop(transition, lambda s: {"theta": s.params["theta"], "nu": s.dynamics["theta"]["momentum"]}, state)
leaves = loop.flatten(state)
for call in range(1, 301):
    leaves = loop.advance(leaves, 3).leaves
    assert int(loop.unflatten(leaves).step) == 15 * call, (call, int(loop.unflatten(leaves).step))
print("as many as asked for")
"""


@pytest.mark.slow
def test_loop_makes_as_many_steps_as_asked():
    """With TensorFlow 2.21's CPU compiler and a `tf.cond` in the body, the memory of the loop's counter was that of the
    branch's result, and a race between threads made the loop 10^5 steps longer, or shorter, at random. In a process of
    its own, because a loop that does not end cannot be interrupted."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "as many as asked for" in done.stdout, done.stderr[-2000:]

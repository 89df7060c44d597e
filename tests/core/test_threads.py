"""Compiled kernels write where they should, also with several threads, as users have them, and are compiled once.

XLA (TensorFlow 2.21, CPUs with AVX-512) compiles the narrowing of uint64 to 32 bits to a store of 8 bytes for the last
element of a row of 8k + 1, which zeroes what lies behind: see `multiply_high` in core/xla.py. The tests run in
processes of their own because this suite runs on one thread, where the next row repairs most of it, and because a loop
that does not end cannot be interrupted.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOOPS = """
import numpy as np, tensorflow as tf
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, build
from sgmcmc.minibatch.uniform import with_replacement
from sgmcmc.model import Model, Returns
from sgmcmc.run import Plan, Prepared
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Recorder

C = 2000
x = np.random.default_rng(0).normal(1, 1, 90).astype(np.float32)
model = Model(lambda p, d: -0.5 * tf.reduce_sum((d["x"] - p["theta"]) ** 2), lambda p: -5 * p["theta"] ** 2,
              InMemory({"x": x}), Returns.SUM, tf.float32)
plain_sghmc = sghmc(0.2, 5)._replace(refresh=None, stats=None)


def init(theta, given):
    return plain_sghmc.init(theta, given) | {"steps": tf.constant(0)}


def step(theta, memory, given):  # counts how often it is made
    theta, after = plain_sghmc.step(theta, memory, given)
    return theta, after | {"steps": memory["steps"] + 1}


counting = plain_sghmc._replace(init=init, step=step)
iterations = Iterations({"theta": ()}, tf.float32, n_chains=C)
kernel = build(Product(model, with_replacement(90, 9), plain(model), {"theta": counting}, iterations))
given = constants(1, {"theta": 5e-4}, {}, tf.float32, range(C))
state = kernel.init(given, {"theta": tf.zeros([C])})
record = Recorder(lambda constants, state, inputs: {"posterior": state.params | state.memory["theta"]})
for fetch in Fetch:
    loop = Loop(Prepared(kernel, given, state, model.data, C), record, fetch, block_length=6)
    leaves, plan, calls = loop.flatten(state), Plan(3 * 150), 0
    for begin in range(0, plan.n_iterations, 3):
        leaves = loop.advance(leaves, plan.stretch(begin, begin + 3, loop.capacity)).leaves
        steps, calls = loop.unflatten(leaves)[0].memory["theta"]["steps"].numpy(), calls + 1
        assert (steps == 15 * calls).all(), (fetch, calls, steps)
    loop.feed.close()
print("as many as asked for")
"""


INDICES = """
import numpy as np, tensorflow as tf
from sgmcmc.core.random import Purpose, Stream, keys

stream = Stream(keys(1, Purpose.MINIBATCH, 2000))
for size in (1, 7, 8, 9, 10, 17, 25):
    each = tf.range(size)
    kinds = [lambda c: stream.integers(c, each, 90), lambda c: stream.permutation(c, each[None], 90)]
    if size in (9, 17):  # as in `reshuffled`
        kinds.append(lambda c: stream.permutation(c, tf.bitcast(c % 3, tf.int32)[:, None] * size + tf.range(size), 90))
    for draw in kinds:
        draws = [tf.function(draw, jit_compile=jit, autograph=False)(tf.constant([3, 4, 5], tf.uint32))
                 for jit in (True, False)]
        assert np.array_equal(*draws), (size, np.argwhere(draws[0] != draws[1])[:3])
print("all alike")
"""


COMPILED = """
import os, sys
from pathlib import Path
os.environ["XLA_FLAGS"] = f"--xla_dump_to={sys.argv[1]} --xla_dump_hlo_as_text"
import numpy as np, tensorflow as tf
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, build
from sgmcmc.minibatch.weighted import weighted
from sgmcmc.model import Model, Returns
from sgmcmc.run import Plan, Prepared
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import NOTHING

x = np.random.default_rng(0).normal(1, 1, 90).astype(np.float32)
model = Model(lambda p, d: -0.5 * tf.reduce_sum((d["x"] - p["theta"]) ** 2), None, InMemory({"x": x}), Returns.SUM,
              tf.float32)
for n_chains in (1, 3):
    minibatch = weighted(90, 9, tf.float32, np.full(90, 1 / 90))
    iterations = Iterations({"theta": ()}, tf.float32, n_chains=n_chains)
    kernel = build(Product(model, minibatch, plain(model), {"theta": sgld()}, iterations))
    given = constants(1, {"theta": 1e-3}, {"minibatch": minibatch.prepare(None)}, tf.float32, range(n_chains))
    state = kernel.init(given, {"theta": tf.zeros([n_chains])})
    loop = Loop(Prepared(kernel, given, state, model.data, n_chains), NOTHING, Fetch.WHEN_NEEDED, block_length=4)
    leaves, plan, programs = loop.flatten(state), Plan(40, thin=None), []
    for begin in range(0, plan.n_iterations, 2):
        leaves = loop.advance(leaves, plan.stretch(begin, begin + 2, loop.capacity)).leaves
        programs.append(len(list(Path(sys.argv[1]).glob("*before_optimizations.txt"))))
    assert programs[0] >= 2 * (1 + (n_chains == 3)) and len(set(programs)) == 1, programs
print("compiled once")
"""


def test_loops_are_compiled_once_however_many_blocks_they_run(tmp_path):
    """XLA compiles anew for each value of what it takes for a constant, and keeps it by that value.

    TensorFlow has it take an input for one if an operation of the user's, here tf.vectorized_map over the terms, makes
    a shape or a place depend on it. A block's memory is written to again, so the program of another block was found.
    """
    assert output_of(COMPILED, str(tmp_path)) == "compiled once"


def test_loops_make_as_many_steps_as_asked():
    """The counter of a loop may stand behind the indices of a minibatch; zeroed, it made 10^5 steps too many."""
    assert output_of(LOOPS) == "as many as asked for"


def test_indices_are_the_same_compiled_and_not():
    assert output_of(INDICES) == "all alike"


def output_of(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or done.stderr[-2000:]

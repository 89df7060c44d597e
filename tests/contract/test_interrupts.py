"""Ctrl-C at any moment: real signals, hundreds of them, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BEGIN = """
import os, signal, threading, time, warnings
import numpy as np, tensorflow as tf
import sgmcmc
X = np.random.default_rng(0).normal(size=64)
def log_lik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["x"] - params["t"] - params["u"]) ** 2) - params["u"] ** 2
GIVEN = dict(logLik=log_lik, dataset={"x": X}, params={"t": 0.0, "u": 0.0}, stepsize=1e-3, minibatchSize=8, seed=5)
RNG = np.random.default_rng(1)

class Interrupts:
    def __init__(self, least, most):
        self.least, self.most, self.armed, self.answered = least, most, threading.Event(), threading.Event()
        threading.Thread(target=self.send, daemon=True).start()
    def send(self):
        while True:
            self.armed.wait()
            time.sleep(RNG.uniform(self.least, self.most))
            if self.armed.is_set():  # nobody is interrupted who does not expect it
                self.armed.clear()
                self.answered.clear()
                os.kill(os.getpid(), signal.SIGINT)
                while not self.answered.wait(3):  # Python drops what is raised in a __del__: the user presses again
                    os.kill(os.getpid(), signal.SIGINT)
"""

STEPPING = """
T = 8000  # few, since an interrupt that Python drops costs the rest of them
whole = sgmcmc.sghmc(**GIVEN, L=2, alpha=0.1, nIters=T, verbose=False)
whole = {name: np.array(whole[name]) for name in "tu"}
sampler = sgmcmc.sghmcSetup(**GIVEN, L=2, alpha=0.1)
sess = sgmcmc.initSess(sampler)
sgmcmc.sgmcmcStep(sampler, sess)
interrupts, count = Interrupts(0.0005, 0.008), 0
while count < 500:
    try:
        interrupts.armed.set()
        while sess.iteration < T - 10:
            sgmcmc.sgmcmcStep(sampler, sess)
        interrupts.armed.clear()
    except KeyboardInterrupt:
        count += 1
    interrupts.answered.set()
    params = sgmcmc.getParams(sampler, sess)
    assert all(params[name] == whole[name][sess.iteration - 1] for name in "tu"), (count, sess.iteration)
    if sess.iteration >= T - 10:
        time.sleep(0.02)  # what was armed is over
        sess = sgmcmc.initSess(sampler)
        sgmcmc.sgmcmcStep(sampler, sess)
print("interrupts", count, "whole")
"""

ONE_CALL = """
whole = sgmcmc.sgld(**GIVEN, nIters=200_000, verbose=False)
began = time.perf_counter()
sgmcmc.sgld(**GIVEN, nIters=1000, thin=5, verbose=False)
interrupts, count, shorter = Interrupts(0.02, 2 * (time.perf_counter() - began)), 0, 0  # half before the first draw
warnings.simplefilter("ignore")
for _ in range(20):
    try:
        interrupts.armed.set()
        out = sgmcmc.sgld(**GIVEN, nIters=10**9, thin=5, verbose=False)
    except KeyboardInterrupt:  # before the first draw
        out = None
    interrupts.answered.set()
    count += 1
    if out is None:
        continue
    n = min(len(out["t"]), 40_000)
    assert (out["t"][:n] == whole["t"][4 : 5 * n : 5]).all() and len(out["t"]) == len(out["u"])
    shorter += 1
print("interrupts", count, "whole" if shorter > 5 else f"only {shorter} had draws")
"""


@pytest.mark.parametrize(("code", "least"), [(STEPPING, 500), (ONE_CALL, 20)], ids=["stepping", "one call"])
def test_interrupts_leave_everything_whole(code: str, least: int) -> None:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    _, count, state = done.stdout.split(maxsplit=2)
    assert int(count) >= least and state.strip() == "whole"

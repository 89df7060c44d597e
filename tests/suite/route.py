"""The files and functions of the package that a call passes: `python tests/suite/route.py`."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import tensorflow as tf

import sgmcmc

PACKAGE = Path(sgmcmc.__file__).parent
NAMELESS = ("<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")

DATASET = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
PARAMS = {"theta": 0.0}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def passed(call: Callable[[], Any]) -> set[CodeType]:
    """The functions of the package that are called, in all threads."""
    seen: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/") and code.co_name != "<module>":
            seen.add(code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def counted(codes: set[CodeType]) -> tuple[int, int]:
    """The numbers of files, and of functions that have a name."""
    return len({code.co_filename for code in codes}), sum(code.co_name not in NAMELESS for code in codes)


def calls() -> dict[str, Callable[[], Any]]:
    """The calls, in their order: nothing is compiled that an earlier one has compiled."""
    sampler = sgmcmc.sgldSetup(log_lik, DATASET, PARAMS, 1e-4, seed=1)
    session: list[Any] = []

    def step() -> None:
        sgmcmc.sgmcmcStep(sampler, session[0])
        sgmcmc.getParams(sampler, session[0])

    def begin() -> None:
        session.append(sgmcmc.initSess(sampler, verbose=False))
        step()

    automatic = {"minibatchSize": "auto", "nIters": "auto", "verbose": False, "seed": 1}
    return {
        "sgld": lambda: sgmcmc.sgld(log_lik, DATASET, PARAMS, 1e-4, verbose=False, seed=1),
        "sgldcv": lambda: sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **automatic),
        "session": begin,
        "step": step,
    }


if __name__ == "__main__":
    for name, call in calls().items():
        codes = passed(call)
        print(name, *counted(codes))
        if "--files" in sys.argv:
            for file, n in sorted(Counter(code.co_filename for code in codes).items()):
                print(f"    {Path(file).relative_to(PACKAGE)} {n}")

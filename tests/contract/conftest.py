"""Chains that several contract tests look at, run once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from tests.catalogue import PAIRS, PROBLEMS, Entry, Problem

N_ITERS = 77
N = 25


@dataclass(frozen=True)
class Run:
    """A sampler on a problem, and its one-call chain."""

    entry: Entry
    problem: Problem
    draws: dict[str, np.ndarray]

    @cached_property
    def sampler(self) -> Any:
        """The same, set up to run step by step; each `initSess` begins its chain anew."""
        quiet = {"verbose": False} if "paramsOpt" in self.entry.fields else {}
        return self.entry.setup(**self._arguments(), **quiet)

    def one_call(self, **changes: Any) -> dict[str, np.ndarray]:
        arguments = self._arguments() | {"verbose": False, "nIters": N_ITERS} | changes
        return self.entry.one_call(**arguments)

    def _arguments(self) -> dict[str, Any]:
        own = {"stepsize": self.entry.stepsize, "minibatchSize": N, "seed": 3}
        return self.problem.arguments() | own | self.entry.settings


@pytest.fixture(scope="session", params=PAIRS, ids=lambda x: f"{x[0].name}-{x[1]}")
def run(request: pytest.FixtureRequest) -> Run:
    entry, problem = request.param
    unrun = Run(entry, PROBLEMS[problem](), {})
    return Run(entry, unrun.problem, unrun.one_call())

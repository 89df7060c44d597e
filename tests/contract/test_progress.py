"""What is shown on the way to the draws: a bar, or lines in a log; nothing that fails on the way out loses a draw.

It uses the inside of the package: it replaces the clock, and a terminal.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import run as plan
from sgmcmc.core import progress
from tests.contract.test_storage import interrupt, run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Failing(Terminal):
    """Full after some writes."""

    def __init__(self, writes: int, live: bool) -> None:
        super().__init__()
        self.left, self.live = writes, live

    def isatty(self) -> bool:
        return self.live

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return super().write(text)


def closed() -> Terminal:
    stream = Terminal()
    stream.close()
    return stream


@pytest.fixture(scope="module")
def whole() -> sgmcmc.Draws:
    return run("sgldcv", 60)


@pytest.fixture
def full() -> Iterator[Any]:
    with contextlib.suppress(OSError), open("/dev/full", "w") as stream:
        yield stream


def shown(monkeypatch: pytest.MonkeyPatch, stream: Any) -> sgmcmc.Draws:
    with monkeypatch.context() as patch:
        patch.setattr(plan, "STRETCH_SECONDS", 1e-9)  # every stretch as short as can be
        patch.setattr(sys, "stderr", stream)
        return run("sgldcv", 60, verbose=True)


def assert_same(out: sgmcmc.Draws, whole: sgmcmc.Draws) -> None:
    np.testing.assert_array_equal(out["theta"], whole["theta"])


def test_no_draw_is_lost_to_a_broken_screen(whole: sgmcmc.Draws, full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many kinds in what shows the progress, and of four in a run, which meets a screen only there."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    failing = [Failing(k, live) for k in (0, 1) for live in (True, False)]
    for stream in (None, closed(), full, *failing):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            with progress.Progress(60, "sgldcv", "iteration", True) as shows:
                for done in range(1, 61):
                    shows.reached(done, np.zeros(2))
    in_runs = [Failing(3, True), Failing(3, False)]
    for stream in (None, closed(), *in_runs):
        assert_same(shown(monkeypatch, stream), whole)
    assert all(stream.left < 0 for stream in failing + in_runs)


def test_no_draw_is_lost_to_a_warning_that_cannot_be_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    unheard = []

    def to_stderr(message: Warning, *others: Any) -> None:
        unheard.append(str(message))
        sys.stderr.write(str(message))

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.setattr(warnings, "showwarning", to_stderr)
        patch.setattr(sys, "stderr", closed())
        interrupt(patch, 4)
        out = run("sgld", 5000)
    assert 0 < len(out["theta"]) < 5000 and "interrupted" in unheard[0]


def test_a_terminal_has_a_bar(whole: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    assert_same(shown(monkeypatch, screen), whole)
    assert "\rsgldcv |" in screen.getvalue() and "log posterior" in screen.getvalue()


def test_a_log_has_a_line_now_and_then(whole: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    """And always the last one."""
    log = io.StringIO()
    assert_same(shown(monkeypatch, log), whole)
    pattern = (
        r"Finding the mode: 100%, 150/150 iterations in [\d:]+, \d+/s, log posterior \S+\n"
        r"sgldcv: 100%, 60/60 iterations in [\d:]+, \d+/s, log posterior \S+\n"
    )
    assert "\r" not in log.getvalue()
    assert re.fullmatch(pattern, log.getvalue()), log.getvalue()
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    log = io.StringIO()
    shown(monkeypatch, log)
    *_, before, last = re.findall(r"^sgldcv: +(\d+)%, \d+/60 ", log.getvalue(), re.MULTILINE)
    assert int(before) <= int(last) == 100


@pytest.mark.parametrize("chains", [None, 2])
def test_no_draw_is_lost_to_the_result_of_a_reducer(chains: int | None) -> None:
    def result(accumulator: Any) -> Any:
        if accumulator["count"] > 0:  # not in the trial before the run
            raise KeyError("total")
        return accumulator

    def update(accumulator: Any, draw: Any) -> Any:
        return {"count": accumulator["count"] + 1.0}

    count = sgmcmc.Reducer(lambda draw: {"count": tf.zeros([])}, update, result)
    reducers = {"count": count, "mean": sgmcmc.runningMean()}
    with pytest.warns(
        UserWarning, match=r"the result of reduce\['count'\] of sgld must be .* KeyError: 'total'"
    ) as said:
        out = run("sgld", 60, reduce=reducers, collect=dict, nChains=chains)
    assert [Path(warning.filename).name for warning in said] == ["test_storage.py"]
    np.testing.assert_array_equal(out.reduced["count"]["count"], 60.0 if chains is None else [60.0, 60.0])
    mean = out["theta"].astype(float).mean(axis=-2)
    np.testing.assert_allclose(out.reduced["mean"]["theta"], mean, rtol=1e-6)


def test_what_is_said_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times and rates do not contain the first report, in which compilation is, and numbers are short."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    pace = progress._Pace(4.569999999999999, "pass", 0)  # private: the clock is set here
    now, said = 20.0, []
    for done in (0.1, 1.1, 4.569999999999999):
        pace.reached(done, None)
        said.append(str(pace))
        now += 2.0
    assert said == [
        "0.1/4.57 passes in 00:20",
        "1.1/4.57 passes, 00:06 left, 0.5/s",
        "4.57/4.57 passes in 00:24, 1.12/s",
    ]

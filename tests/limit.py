"""A test that takes too long fails, so that the suite stays one that is run.

What counts is processor time, of all threads and of the processes that the test has begun: another program on the
machine makes a test wait, but not work. Fixtures count for the first test that needs them, the work of a process that
tests share for the test that it is done for.
"""

from __future__ import annotations

from collections.abc import Generator

import psutil
import pytest

LIMIT = "limit"  # the name of the setting, in seconds
_BEGAN = pytest.StashKey[float]()


def _spent() -> float:
    here = psutil.Process()
    return sum(map(_spent_by, [here, *here.children(recursive=True)]))


def _spent_by(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(LIMIT, "seconds of processor time that a test may take, with its setup and teardown", default="120")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = _spent()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when != "teardown" or not report.passed:
        return report
    seconds, limit = _spent() - item.stash[_BEGAN], float(item.config.getini(LIMIT))
    if seconds > limit:
        report.outcome = "failed"
        report.longrepr = f"took {seconds:.1f} s of processor time; a test may take {limit:g}"
    return report

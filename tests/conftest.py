"""Every file of tests has a process of its own, as many at a time as there are cores.

XLA keeps what it has compiled, some 20 MB for a small program, until its process ends, and the suite compiles about a
thousand. Each process has one thread, since many small programs run faster without handing kernels between threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest
import tensorflow as tf

REPORTS = "SGMCMC_TEST_REPORTS"  # in the environment of such a process: the file that takes its reports

tf.config.threading.set_intra_op_parallelism_threads(1)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Share the tests out, and hear what became of them; a single file is run here, for debuggers."""
    files = defaultdict(list)
    for item in session.items:
        files[item.path].append(item)
    if REPORTS in os.environ or len(files) < 2 or session.config.option.collectonly or session.testsfailed:
        return None
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = [pool.submit(_run, items, Path(folder) / str(k)) for k, items in enumerate(files.values())]
        for run in as_completed(runs):
            for data in run.result():
                report = session.config.hook.pytest_report_from_serializable(config=session.config, data=data)
                session.config.hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                pool.shutdown(cancel_futures=True)
                raise session.Failed(session.shouldfail)
    return True


def _run(items: list[pytest.Item], file: Path) -> list[dict]:
    """The reports of these tests, run in a process; a failure for each of which there is none."""
    chosen = file.with_suffix(".txt")
    chosen.write_text("\n".join(item.nodeid for item in items), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", f"@{chosen}"]
    cwd = items[0].config.rootpath
    done = subprocess.run(command, cwd=cwd, env=os.environ | {REPORTS: str(file)}, capture_output=True, text=True)
    reports = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    finished = {report["nodeid"] for report in reports if report["when"] == "teardown"}
    lost = f"its process ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    for item in items:
        if item.nodeid not in finished:
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", lost, "call")
            reports.append(item.config.hook.pytest_report_to_serializable(config=item.config, report=report))
    return reports


def pytest_configure(config: pytest.Config) -> None:
    if REPORTS in os.environ:
        config.pluginmanager.register(_Reporter(config, Path(os.environ[REPORTS])))


class _Reporter:
    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config, self._file = config, file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(data) + "\n")

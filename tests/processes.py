"""Tests run in processes of their own, as many at a time as there are cores, those that take longest first.

XLA keeps what it has compiled, some 20 MB for a small program, until its process ends, and the suite compiles about a
thousand. So a process ends with its piece of the suite: memory is bounded by the largest piece. A process is cheap
because it is a fork of one that has imported TensorFlow, but has not begun to use it, and has a single thread.

A piece is a file, or several that take few seconds together, since a process takes some to begin; or all tests, of
whatever files, with the same value of a fixture of the session, so that what the fixture makes is made once. A piece
whose process dies has failed in the test that ran; another process goes on with the rest. With tests of a single file,
`--pdb` or `--collect-only`, pytest does all of it here.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

CONTEXT = multiprocessing.get_context("forkserver")
FEW = 10.0  # seconds of files that are worth a process


def is_one() -> bool:
    """Whether this is such a process."""
    return multiprocessing.parent_process() is not None


@dataclass
class Piece:
    """Tests for a process, which of them runs there, and what else was said there."""

    items: list[pytest.Item]
    seconds: float
    running: str | None = None
    said: list[str] = field(default_factory=list)


class Processes:
    """A plugin that shares the tests out, and hears what became of them.

    `imported` is a module that a process finds imported, `shared` are the fixtures of the session that take values.
    `table` is a file with the seconds of a test by file, which is written anew if `renew`.
    """

    def __init__(self, config: pytest.Config, imported: str, shared: Sequence[str], table: Path, renew: bool) -> None:
        self._config, self._shared, self._table, self._renew = config, shared, table, renew
        self._seconds: dict[str, float] = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}
        self._spent: Counter[str] = Counter()
        self._begun = 0
        CONTEXT.set_forkserver_preload([imported])

    def pytest_sessionstart(self) -> None:
        files = {Path(argument.partition("::")[0]) for argument in self._config.args}
        if not self._alone() and (len(files) > 1 or any(file.is_dir() for file in files)):
            ensure_running()  # it imports while tests are collected here

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self._alone() or session.testsfailed or len({item.path for item in session.items}) < 2:
            return None
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left behind
        waiting = self._pieces(session.items)
        running: dict[Connection, tuple[BaseProcess, Piece]] = {}
        with _ended(running):
            while waiting or running:
                while waiting and len(running) < (os.cpu_count() or 1):
                    self._begin(waiting.pop(0), running)
                for connection in wait(list(running)):
                    assert isinstance(connection, Connection)
                    process, piece = running[connection]
                    try:
                        self._hear(piece, *connection.recv())
                    except (EOFError, OSError):
                        del running[connection]
                        process.join()
                        waiting[:0] = self._rest(piece, process.exitcode)
                    if session.shouldfail:
                        raise session.Failed(session.shouldfail)
                    if session.shouldstop:
                        raise session.Interrupted(session.shouldstop)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._renew:
            of_file = defaultdict(list)
            for nodeid, seconds in self._spent.items():
                of_file[_file(nodeid)].append(seconds)
            means = self._seconds | {file: round(sum(each) / len(each), 2) for file, each in of_file.items()}
            kept = {file: means[file] for file in sorted(means) if (self._config.rootpath / file).exists()}
            self._table.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    def _alone(self) -> bool:
        return self._config.option.collectonly or self._config.option.usepdb

    def _pieces(self, items: list[pytest.Item]) -> list[Piece]:
        """The longest first, the shortest together; a file that is not in the table is taken to be longer than all."""
        parts = defaultdict(list)
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            values = [(name, id(params[name])) for name in self._shared if name in params]
            parts[str(values or item.path)].append(item)
        pieces = [
            Piece(part, sum(self._seconds.get(_file(item.nodeid), float("inf")) for item in part))
            for part in parts.values()
        ]
        pieces.sort(key=lambda piece: (piece.seconds, len(piece.items)), reverse=True)
        joined: list[Piece] = []
        for piece in pieces:
            if joined and joined[-1].seconds + piece.seconds <= FEW:
                joined[-1].items += piece.items
                joined[-1].seconds += piece.seconds
            else:
                joined.append(piece)
        return joined

    def _begin(self, piece: Piece, running: dict[Connection, tuple[BaseProcess, Piece]]) -> None:
        option = self._config.option
        arguments = [f"--rootdir={self._config.rootpath}", f"--capture={option.capture}", "-p", "no:cacheprovider"]
        arguments += ["-c", str(self._config.inipath)] if self._config.inipath else []
        arguments += [part for plugin in option.plugins for part in ("-p", plugin)]
        arguments += [part for filter_ in option.pythonwarnings or () for part in ("-W", filter_)]
        arguments += [part for setting in option.override_ini or () for part in ("-o", setting)]
        arguments += dict.fromkeys(str(item.path) for item in piece.items)
        folder = self._config._tmp_path_factory.getbasetemp() / f"process{self._begun}"
        options = vars(option) | {"basetemp": str(folder), "xmlpath": None}
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_work, args=(there, arguments, options, [item.nodeid for item in piece.items]))
        process.start()
        there.close()
        running[here] = process, piece
        self._begun += 1

    def _hear(self, piece: Piece, kind: str, said: Any) -> None:
        if kind == "begins":
            piece.running = said
        elif kind == "complains":
            piece.said.append(said)
        else:
            self._report([self._config.hook.pytest_report_from_serializable(config=self._config, data=x) for x in said])
            piece.items = [item for item in piece.items if item.nodeid != piece.running]
            piece.running = None

    def _rest(self, piece: Piece, code: int | None) -> list[Piece]:
        """What is still to be done of a piece whose process has ended; what cannot be done has failed."""
        lost = [item for item in piece.items if piece.running in (item.nodeid, None)]
        for item in lost:
            ended = "\n".join([f"its process ended with {code}", *piece.said])
            self._report([pytest.TestReport(item.nodeid, item.location, {}, "failed", ended, "call")])
        rest = [item for item in piece.items if item not in lost]
        return [Piece(rest, piece.seconds)] if rest else []

    def _report(self, reports: list[pytest.TestReport]) -> None:
        """As if the test had run here."""
        hook, which = self._config.hook, {"nodeid": reports[0].nodeid, "location": reports[0].location}
        hook.pytest_runtest_logstart(**which)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(**which)


@contextmanager
def _ended(running: dict[Connection, tuple[BaseProcess, Piece]]) -> Iterator[None]:
    """Processes that still run at the end, because of a failure or Ctrl-C, are ended."""
    try:
        yield
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _work(connection: Connection, arguments: list[str], options: dict[str, Any], wanted: list[str]) -> None:
    """Run these tests, in a process of their own."""
    with open(os.devnull, "w", encoding="utf-8") as silence:
        sys.stdout = silence  # pytest's own words; those of the tests are captured, or let through by `_Worker`
        pytest.main(arguments, plugins=[_Worker(connection, options, wanted)])


class _Worker:
    """A plugin that runs the wanted tests, in their order, and sends their reports."""

    def __init__(self, connection: Connection, options: dict[str, Any], wanted: list[str]) -> None:
        self._connection, self._options, self._wanted = connection, options, wanted
        self._reports: list[dict[str, Any]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        vars(config.option).update(self._options)
        self._config = config

    def pytest_sessionstart(self) -> None:
        if self._config.option.capture == "no":
            sys.stdout = sys.__stdout__

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._connection.send(("complains", report.longreprtext))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[nodeid] for nodeid in self._wanted if nodeid in found]
        if len(items) < len(self._wanted):
            self._connection.send(("complains", "It did not find all of its tests: has a file changed?"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._connection.send(("begins", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        self._connection.send(("reports", self._reports))
        self._reports = []

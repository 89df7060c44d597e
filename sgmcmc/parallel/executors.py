"""Executors, such as those of `concurrent.futures`, Dask or MPI, and the entry points of their workers."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from sgmcmc.parallel.serialization import Parcel, Written

THREADS = "TF_NUM_INTRAOP_THREADS"
KEPT, KEPT_WITH_FILES = 64, 4  # parcels that may come again; files are removed only when none needs them

Job = Callable[[Any, Any], Any]
"""A function of what is in a parcel, and of an item."""


class _Kept(threading.local):
    """What was in the last parcels, for each thread, since what is in them is used by one at a time."""

    def __init__(self) -> None:
        self.things: dict[tuple[Any, ...], Any] = {}
        self.with_files: dict[tuple[Any, ...], Any] = {}


_kept = _Kept()


def call(function: Job, parcel: Parcel, item: Any, parent: int) -> Any:
    """The function of what is in the parcel and an item; `parent` is the process that waits for it."""
    if os.getpid() == parent:  # in a thread, whose filters of warnings are those of all threads
        return function(parcel.opened(), item)
    settle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who waits has given them
        return function(parcel.opened(), item)


def call_again(function: Job, parcel: Parcel, item: Any, parent: int) -> Any:
    """The same, for a parcel that comes with many items: it is opened once, and what is compiled for it is kept."""
    return call(function, _Again(*parcel), item, parent)


class _Again(Parcel):
    """A parcel that is opened once in each thread."""

    def opened(self) -> Any:
        """What is in it."""
        things, most = (_kept.with_files, KEPT_WITH_FILES) if self.files else (_kept.things, KEPT)
        key = (self.contents, *self.files)
        if key not in things:
            while len(things) >= most:
                del things[next(iter(things))]
            things[key] = super().opened()
        return things[key]


def settle() -> None:
    """Make this process a worker among others: with one thread, unless said, and deaf to Ctrl-C, which comes to all."""
    if THREADS not in os.environ:
        with suppress(RuntimeError):  # TensorFlow was used before
            tf.config.threading.set_intra_op_parallelism_threads(1)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Future(Protocol):
    """What an executor returns for a job."""

    def done(self) -> bool:
        """Whether it has ended in any way."""

    def cancel(self) -> bool:
        """Give it up if it has not begun."""

    def result(self) -> Any:
        """What the job returned, or the exception that it raised."""


class Executor(Protocol):
    """Who makes the jobs."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Have a worker call the function."""


class Workers:
    """The workers of an executor, to which things are handed over once, however many jobs they are for.

    A context: large arrays are handed over as files, which are removed at its end. Workers that may not see the files
    of this machine, `apart`, are handed everything with their jobs.
    """

    def __init__(self, executor: Executor, apart: bool = False) -> None:
        self._executor = executor
        self._folder = None if apart else Path(tempfile.mkdtemp(prefix="sgmcmc-"))
        self._parcels: dict[int, tuple[Any, Parcel]] = {}
        self._files: Written = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def each(self, function: Job, thing: Any, items: Sequence[Any]) -> Iterator[Any]:
        """``function(thing, item)`` of each item, in order."""
        with self.begun(function, thing, items) as futures:
            for future in futures:
                yield future.result()

    @contextmanager
    def begun(self, function: Job, thing: Any, items: Sequence[Any]) -> Iterator[list[Future]]:
        """The futures of ``function(thing, item)`` of each item; those that have not begun are given up at the end."""
        futures: list[Future] = []
        try:
            parcel = self._parcel(thing)
            futures += [self._executor.submit(call_again, function, parcel, item, os.getpid()) for item in items]
            yield futures
        finally:
            for future in futures:
                future.cancel()

    def _parcel(self, thing: Any) -> Parcel:
        if id(thing) not in self._parcels:
            self._parcels[id(thing)] = thing, Parcel.of(thing, self._folder, self._files)
        return self._parcels[id(thing)][1]


def tell(executor: Executor, function: Callable[..., Any], *arguments: Any) -> None:
    """Have a worker call the function some time, if there still are some."""
    with suppress(Exception):  # of an executor that was shut down
        executor.submit(function, *arguments)


def workers_of(executor: Executor | None) -> AbstractContextManager[Workers | None]:
    """Those of an executor, or None without one."""
    return nullcontext() if executor is None else Workers(executor)


def each(workers: Workers | None, function: Job, thing: Any, items: Sequence[Any]) -> Iterable[Any]:
    """``function(thing, item)`` of each item, in order, by workers or in this process."""
    return map(partial(function, thing), items) if workers is None else workers.each(function, thing, items)

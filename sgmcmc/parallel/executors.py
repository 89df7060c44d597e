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
KEPT, KEPT_WITH_FILES = 64, 4  # parcels that may come again; files are removed only when no parcel needs them

Job = Callable[[Any, Any], Any]
"""A function of the contents of a parcel and of an item."""


class _Kept(threading.local):
    """The contents of the last parcels, for each thread, since only one thread at a time may use them."""

    def __init__(self) -> None:
        self.things: dict[tuple[Any, ...], Any] = {}
        self.with_files: dict[tuple[Any, ...], Any] = {}


_kept = _Kept()


def call(function: Job, parcel: Parcel, item: Any, parent: int) -> Any:
    """Call the function of the parcel's contents and an item; `parent` is the process that waits for the result."""
    if os.getpid() == parent:  # in a thread, which shares its warning filters with all threads
        return function(parcel.opened(), item)
    settle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent has given them
        return function(parcel.opened(), item)


def call_again(function: Job, parcel: Parcel, item: Any, parent: int) -> Any:
    """As `call`, for a parcel that comes with many items: it is opened once, so its compiled programs are kept."""
    return call(function, _Again(*parcel), item, parent)


class _Again(Parcel):
    def opened(self) -> Any:
        things, most = (_kept.with_files, KEPT_WITH_FILES) if self.files else (_kept.things, KEPT)
        key = (self.contents, *self.files)
        if key not in things:
            while len(things) >= most:
                del things[next(iter(things))]
            things[key] = super().opened()
        return things[key]


def settle() -> None:
    """Make this process a worker among others: one thread by default, and ignoring Ctrl-C, which reaches all."""
    if THREADS not in os.environ:
        with suppress(RuntimeError):  # TensorFlow was used before
            tf.config.threading.set_intra_op_parallelism_threads(1)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Future(Protocol):
    """What an executor returns for a job."""

    def done(self) -> bool:
        """Whether the job has ended in any way."""

    def cancel(self) -> bool:
        """Cancel the job if it has not begun."""

    def result(self) -> Any:
        """Return what the job returned, or raise its exception."""


class Executor(Protocol):
    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Have a worker call the function."""


class Workers:
    """The workers of an executor, which receive an object once, however many jobs use it.

    A context: large arrays are passed as files, which are removed at its end. Workers that may not see the files of
    this machine, `apart`, receive everything with their jobs.
    """

    def __init__(self, executor: Executor, apart: bool = False) -> None:
        self._executor = executor
        self._folder = None if apart else Path(tempfile.mkdtemp(prefix="sgmcmc-"))
        self._parcels: dict[int, tuple[Any, Parcel]] = {}
        self._files: Written = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def each(self, function: Job, thing: Any, items: Sequence[Any]) -> Iterator[Any]:
        with self.begun(function, thing, items) as futures:
            for future in futures:
                yield future.result()

    @contextmanager
    def begun(self, function: Job, thing: Any, items: Sequence[Any]) -> Iterator[list[Future]]:
        """The futures of ``function(thing, item)`` of each item; those that have not begun are cancelled at the end."""
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
    """Have a worker call the function at some time, if there are still workers."""
    with suppress(Exception):  # of an executor that was shut down
        executor.submit(function, *arguments)


def workers_of(executor: Executor | None) -> AbstractContextManager[Workers | None]:
    return nullcontext() if executor is None else Workers(executor)


def each(workers: Workers | None, function: Job, thing: Any, items: Sequence[Any]) -> Iterable[Any]:
    """``function(thing, item)`` of each item, in order, by workers or in this process."""
    return map(partial(function, thing), items) if workers is None else workers.each(function, thing, items)

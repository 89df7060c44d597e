"""What a worker of an executor does with what it is handed."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import tensorflow as tf

from sgmcmc.core.parcel import Parcel

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

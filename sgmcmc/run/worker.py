"""What a worker of an executor does: make some chains of a run, tell how far they are, and end when it is asked to."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.parcel import Parcel
from sgmcmc.run.sampled import Sampled

STOP = "stop"
THREADS = "TF_NUM_INTRAOP_THREADS"


def call(function: Callable[[Any, Any], Any], parcel: Parcel, item: Any, parent: int) -> Any:
    """The function of what is in the parcel and an item; `parent` is the process that waits for it."""
    if os.getpid() == parent:  # in a thread, whose filters of warnings are those of all threads
        return function(parcel.opened(), item)
    settle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who waits has given them
        return function(parcel.opened(), item)


def sample(parcel: Parcel, chains: range, folder: str, parent: int) -> Sampled:
    """Make these chains of the run in the parcel."""
    report = Report(Path(folder), chains)
    if report.is_stopped():
        raise CancelledError
    return call(lambda run, chains: run.part(chains, report), parcel, chains, parent)


def settle() -> None:
    """Make this process a worker among others: with one thread, unless said, and deaf to Ctrl-C, which comes to all."""
    if THREADS not in os.environ:
        with suppress(RuntimeError):  # TensorFlow was used before
            tf.config.threading.set_intra_op_parallelism_threads(1)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Report:
    """The progress of a job, in a file that is read by who waits for it, and where that asks it to end.

    A worker on another machine may not see the folder; then it runs to its end.
    """

    def __init__(self, folder: Path, chains: range) -> None:
        self._folder, self._file = folder, folder / f"progress-{chains.start}"
        self._is_seen = folder.exists()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the file."""

    def is_stopped(self) -> bool:
        """Whether the job should end."""
        return self._is_seen and ((self._folder / STOP).exists() or not self._folder.exists())

    def reached(self, done: int, log_density: np.ndarray) -> None:
        """Write how far the job is, or raise KeyboardInterrupt if it should end."""
        if self.is_stopped():
            raise KeyboardInterrupt
        with suppress(OSError):
            self._file.write_text(f"{done} {np.mean(log_density)}")

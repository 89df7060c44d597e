"""What a worker of an executor does: make some chains of a run, tell how far they are, and end when it is asked to."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path

import numpy as np

from sgmcmc.core.parcel import Parcel
from sgmcmc.core.worker import call
from sgmcmc.run.sampled import Sampled

STOP = "stop"


def sample(parcel: Parcel, chains: range, folder: str, parent: int) -> Sampled:
    """Make these chains of the run in the parcel."""
    report = Report(Path(folder), chains)
    if report.is_stopped():
        raise CancelledError
    return call(lambda run, chains: run.part(chains, report), parcel, chains, parent)


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

    def reached(self, done: int, log_density: np.ndarray | None = None) -> None:
        """Write how far the job is, or raise KeyboardInterrupt if it should end."""
        if self.is_stopped():
            raise KeyboardInterrupt
        with suppress(OSError):
            self._file.write_text(f"{done} {np.nan if log_density is None else np.mean(log_density)}")

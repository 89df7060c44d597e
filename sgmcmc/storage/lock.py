"""A file as a lock, which the system releases when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

BEYOND = 2**30  # of any byte that is read: Windows forbids others to read what is locked


def locked(file: Path) -> int:
    """The descriptor that holds the lock; closing it releases the lock.

    Raises
    ------
    BlockingIOError
        If another holds it.
    """
    descriptor = os.open(file, os.O_RDWR)
    try:
        _lock(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(*error.args) from error
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""A lock on a file, which the system releases when the process ends in any way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

BEYOND = 2**30  # beyond all bytes that are read: Windows does not let others read locked bytes


def locked(file: Path) -> int:
    """The descriptor that holds the lock; closing it releases the lock.

    Raises
    ------
    BlockingIOError
        If another process holds the lock.
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

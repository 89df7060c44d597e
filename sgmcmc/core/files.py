"""Files: written completely or not at all, locked, and recognised by a checksum."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import numpy as np


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file under a temporary name, then rename it atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(contents)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


BEYOND = 2**30  # beyond all bytes that are read: Windows does not let others read locked bytes


def locked(file: Path) -> int:
    """The descriptor that holds the lock until it is closed; BlockingIOError if another process holds it."""
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


def checksum(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:16]

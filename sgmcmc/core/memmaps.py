"""Memory maps of NumPy as what they are: parts of files."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np


def place(array: np.memmap) -> int | None:
    """The byte of its file at which the array begins.

    None if it has no file, changes of its own, or a file that is no longer the one at its path.
    """
    if array.filename is None or array.mode == "c":
        return None
    base = map_of(array)
    if base is None:
        return None
    begin = np.frombuffer(base, np.uint8).ctypes.data
    if not _is_file_at(Path(str(array.filename)), begin):
        return None
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.ctypes.data - begin + owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY


def map_of(array: np.ndarray) -> mmap.mmap | None:
    """The map that the array is a view of, if it is one."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def extent(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes of an array from its first element on: of the lowest, and after the highest."""
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + itemsize


def opened(file: str, dtype: str, at: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """A read-only memory map of a part of a file that begins at this byte."""
    low, high = extent(shape, strides, np.dtype(dtype).itemsize)
    words = np.memmap(file, np.uint8, "r", at + low, (high - low,))
    return np.ndarray(shape, dtype, words, -low, strides).view(np.memmap)


def _is_file_at(path: Path, address: int) -> bool:
    """Whether the system says that this address of memory is mapped to the file that is at the path now."""
    try:
        status, lines = path.stat(), Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        span, _, _, device, inode = line.split(maxsplit=5)[:5]
        first, last = (int(number, 16) for number in span.split("-"))
        if first <= address < last:
            major, minor = (int(number, 16) for number in device.split(":"))
            return int(inode) == status.st_ino and os.makedev(major, minor) == status.st_dev
    return False

"""The rows of memory-mapped arrays: read in order from the file, at random through the map.

A map reads ahead the neighbours of a requested row. This helps if the whole file fits
into memory, where it soon is. With a larger file, one row would be evicted to make room
for the neighbours of another, so the map is advised to read single pages. A pass must
then not use the map, which would read page by page.

A row that is not in memory takes as long as the disk needs to answer, about 100 us, but
a disk answers many requests at a time.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import psutil

from sgmcmc.parallel.serialization import extent, map_of, opened, place

THREADS = 16
WORTH = 64 * THREADS  # rows
SLOW, COPY = 2e-6, 1e-9  # seconds for a row, and for a byte of it, above which rows come from the disk


class Field(NamedTuple):
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The entry of each of the rows, uint8 [n, width], as a view."""
        strides = (rows.strides[0], *self.strides)
        return np.ndarray((len(rows), *self.shape), self.dtype, rows, self.offset, strides)


class FileRows:
    """Rows of a file, each of `width` bytes, from byte `at` on."""

    def __init__(self, file: str, at: int, n_rows: int, width: int, fields: Mapping[str, Field]) -> None:
        self._given = (file, at, n_rows, width, fields)
        self.fields, self._at, self._width = dict(fields), at, width
        self._rows = opened(file, "u1", at, (n_rows, width), (width, 1))
        self._file = open(file, "rb", buffering=0)  # noqa: SIM115 (until the object is gone)
        self._slowest = SLOW + COPY * width
        self._is_slow = True
        if n_rows * width > psutil.virtual_memory().available and (mapped := map_of(self._rows)) is not None:
            mapped.madvise(mmap.MADV_RANDOM)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        out = np.empty((len(indices), self._width), np.uint8)
        started = time.perf_counter()
        if self._is_slow and len(indices) >= WORTH:
            pieces = [np.array_split(array, THREADS) for array in (indices, out)]
            with ThreadPoolExecutor(THREADS, "sgmcmc-rows") as threads:
                list(threads.map(self._take, *pieces))
        else:
            self._take(indices, out)
        self._is_slow = time.perf_counter() - started > self._slowest * len(indices)
        return self._entries(out)

    def part(self, start: int, stop: int) -> dict[str, np.ndarray]:
        out = np.empty((stop - start, self._width), np.uint8)
        left, position = out.reshape(-1).data, self._at + start * self._width
        while left:
            n = os.preadv(self._file.fileno(), [left], position)
            if n == 0:
                raise OSError(f"{self._given[0]!r} has become shorter: it ends before observation {stop - 1}.")
            left, position = left[n:], position + n
        return self._entries(out)

    def _take(self, indices: np.ndarray, out: np.ndarray) -> None:
        np.take(self._rows, indices, axis=0, out=out, mode="clip")  # without the GIL, unlike indexing

    def _entries(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: field.of(rows) for name, field in self.fields.items()}


def file_rows(arrays: Mapping[str, Any]) -> list[FileRows]:
    """The arrays that are memory maps of whole rows, together if one row of a file holds several of them."""
    groups: list[_Group] = []
    for name, array in arrays.items():
        if (one := _Group.of(name, array)) is None:
            continue
        for k, group in enumerate(groups):
            if (both := group.joined(one)) is not None:
                groups[k] = both
                break
        else:
            groups.append(one)
    return [rows for group in groups if (rows := group.rows()) is not None]


class _Group(NamedTuple):
    file: str
    n_rows: int
    width: int  # from a row to the next
    begin: int  # of the bytes in the file that hold the entries of the first row
    end: int
    arrays: dict[str, tuple[int, np.ndarray]]  # each with the byte at which it begins

    @classmethod
    def of(cls, name: str, array: Any) -> _Group | None:
        if not isinstance(array, np.memmap) or not array.size or not array.ndim or (at := place(array)) is None:
            return None
        low, high = extent(array.shape[1:], array.strides[1:], array.itemsize)
        width = array.strides[0] if len(array) > 1 else high - low
        if low < 0 or width < high:
            return None
        return cls(str(array.filename), len(array), width, at, at + high, {name: (at, array)})

    def joined(self, other: _Group) -> _Group | None:
        begin, end = min(self.begin, other.begin), max(self.end, other.end)
        if (self.file, self.n_rows, self.width) != other[:3] or end - begin > self.width:
            return None
        return self._replace(begin=begin, end=end, arrays=self.arrays | other.arrays)

    def rows(self) -> FileRows | None:
        # The file may end before the last row does: all rows are then taken to begin earlier.
        missing = self.begin + self.n_rows * self.width - os.stat(self.file).st_size
        begin = self.begin - max(0, missing)
        if begin < 0 or self.end - begin > self.width:
            return None
        fields = {
            name: Field(array.dtype.str, at - begin, array.shape[1:], array.strides[1:])
            for name, (at, array) in self.arrays.items()
        }
        return FileRows(self.file, begin, self.n_rows, self.width, fields)

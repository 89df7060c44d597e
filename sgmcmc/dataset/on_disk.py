"""Data that stay on disk or in a user's object; rows are fetched when they are needed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sgmcmc.dataset import Data, Layout, extremes, may_be_index
from sgmcmc.dataset.arrays import Level, library_of, n_masked, require_exact
from sgmcmc.dataset.memmaps import FileRows, file_rows

SAMPLED_ROWS = 1024


@runtime_checkable
class RowSource(Protocol):
    """The interface of the user's own dataset objects."""

    def __len__(self) -> int:
        """The number of observations."""

    def take(self, indices: np.ndarray) -> Mapping[str, Any]:
        """The observations at `indices`, int64 [m], in this order: {name: array [m, ...]}."""


class Entry(NamedTuple):
    dtype: np.dtype
    shape: tuple[int, ...]


Attempt = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError for observations, at least two, {name: [m, ...]}, that hold an index out of range."""


class IndexWatch:
    """Tries those observations whose indices are lower or higher than all before.

    What may be an index are integers, and floats with at most `scalars` axes.
    """

    def __init__(self, attempt: Attempt, scalars: int = 1) -> None:
        self._attempt, self._scalars = attempt, scalars
        self._tried: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, views: Mapping[str, np.ndarray]) -> None:
        for name, entry in views.items():
            if not may_be_index(entry, self._scalars):
                continue
            columns = entry.reshape(len(entry), -1)
            least, greatest = columns.min(axis=0), columns.max(axis=0)
            low, high = self._tried.get(name, (least + 1, greatest - 1))
            if (least < low).any() or (greatest > high).any():
                at = extremes(entry)
                self._attempt({key: array[at] for key, array in views.items()})
                self._tried[name] = (np.minimum(low, least), np.maximum(high, greatest))


class FetchedData(Data):
    """Observations that `source` fetches; they are converted, and checked for NaN and infinite numbers."""

    def __init__(
        self, source: RowSource, entries: Mapping[str, Entry], levels: Mapping[str, list[Level]] | None = None
    ) -> None:
        self.size, self._source, self.levels = len(source), source, dict(levels or {})
        self.layout = Layout(entries)
        self._watch: IndexWatch | None = None

    def watch(self, attempt: Attempt) -> None:
        """Try fetched observations by `attempt`, if their indices are lower or higher than all before."""
        self._watch = IndexWatch(attempt)

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        indices = np.asarray(indices, np.int64)
        if isinstance(self._source, Arrays):
            self._fill(indices, self._source.take(indices), out)
            return
        # A user's source may not be thread-safe, and may reuse its arrays.
        with _SourceLock.lock:
            self._fill(indices, self._source.take(indices), out)

    def _fill(self, indices: np.ndarray, fetched: Mapping[str, Any], out: np.ndarray) -> None:
        for name, view in self.layout.views(out).items():
            label = f"dataset[{name!r}]"
            if name not in fetched:
                raise ValueError(f"take of dataset must return {name!r} as in its first call; got {sorted(fetched)}.")
            if masked := n_masked(fetched[name]):
                raise ValueError(f"{label} must have no masked values; got {masked} masked.")
            array = np.asarray(fetched[name])
            if array.shape != view.shape:
                raise ValueError(
                    f"take of dataset must return {name!r} with shape {view.shape} for {len(indices)} indices; "
                    f"got {array.shape}."
                )
            _require_type(label, array, view.dtype)
            with np.errstate(over="ignore"):
                view[...] = array
            if view.dtype.kind == "f" and not np.isfinite(view).all():
                at, *where = (int(i) for i in np.argwhere(~np.isfinite(view))[0])
                got = f"{view[(at, *where)]} at index {(int(indices[at]), *where)}"
                raise ValueError(f"{label} must be finite in {view.dtype}; got {got}.")
        if self._watch is not None and len(indices):
            self._watch(self.layout.views(out))

    def read(self, start: int, out: np.ndarray) -> None:
        stop = start + len(out)
        indices = np.arange(start, stop)
        if isinstance(self._source, Arrays):
            self._fill(indices, self._source.part(start, stop), out)
        else:
            self.take(indices, out)

    def checksum(self) -> str:
        """A checksum of 1024 evenly spaced observations, and of types and shapes."""
        sample = np.unique(np.linspace(0, self.size - 1, SAMPLED_ROWS).astype(np.int64))
        words = np.zeros((len(sample), self.layout.width), np.int64)
        self.take(sample, words)
        columns = [(name, str(dtype), shape) for name, (dtype, shape) in sorted(self.layout.entries.items())]
        return hashlib.sha256(repr((self.size, columns)).encode() + words.tobytes()).hexdigest()[:16]


class _SourceLock:
    """A lock for users' sources: only one thread reads them at a time."""

    lock = threading.Lock()

    @classmethod
    def renew(cls) -> None:
        """Replace the lock in a fork, where no thread is left that could release it."""
        cls.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SourceLock.renew)


def _require_type(label: str, array: np.ndarray, dtype: np.dtype) -> None:
    """Refuse floats for an integer entry, and integers that `dtype` cannot hold."""
    if dtype.kind == "f":
        return require_exact(label, array, dtype)
    if array.dtype.kind not in "biu":
        raise ValueError(f"{label} must be integers, as in the first call of take; got dtype {array.dtype}.")
    if array.dtype.kind in "iu" and array.size:
        least, most = int(array.min()), int(array.max())
        if not (np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max):
            raise ValueError(f"{label} must fit into {dtype}; got values from {least} to {most}.")


class Arrays:
    """NumPy memory maps and arrays, Zarr arrays and HDF5 datasets, all of N observations, as one source."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        in_files = file_rows(arrays)
        done = {name for rows in in_files for name in rows.fields}
        others = {name: array for name, array in arrays.items() if name not in done}
        self._readers: list[FileRows | OtherArrays] = [*in_files, *([OtherArrays(others)] if others else [])]
        self._size = next(iter(arrays.values())).shape[0]  # Zarr arrays have no len()

    def __len__(self) -> int:
        return self._size

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        return {name: array for reader in self._readers for name, array in reader.take(indices).items()}

    def part(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return {name: array for reader in self._readers for name, array in reader.part(start, stop).items()}


class OtherArrays:
    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def take(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        return {name: _taken(array, indices) for name, array in self._arrays.items()}

    def part(self, start: int, stop: int) -> dict[str, np.ndarray]:
        return {name: np.asarray(array[start:stop]) for name, array in self._arrays.items()}


def _taken(array: Any, indices: np.ndarray) -> np.ndarray:
    library = library_of(array)
    if library in ("zarr", "h5py"):
        # A Zarr chunk is then read only once; HDF5 accepts only increasing indices.
        distinct, places = np.unique(indices, return_inverse=True)
        return (array.oindex if library == "zarr" else array)[distinct][places]
    if not array.flags.c_contiguous:
        return np.asarray(array[indices])  # np.take would copy all of it first
    return np.take(array, indices, axis=0, mode="clip")

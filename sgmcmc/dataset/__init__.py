"""How an observation is packed into words, so that fetching it is one contiguous read.

All entries of a dataset are stored together in int64 words: copying integers never
changes bits, while floats might be normalised, and wide words halve the number of
copies that XLA makes.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import Level
from sgmcmc.parallel.executors import Workers

WORD = 8  # bytes
BLOCK_BYTES = 2**24
BLOCK_NUMBERS = 2**22
ALIGNMENT = 64  # bytes: TensorFlow requires it of memory that it uses without a copy


class Column(NamedTuple):
    """The position of an entry of the dataset in a packed row."""

    start: int  # bytes
    stop: int
    dtype: np.dtype
    shape: tuple[int, ...]


class Layout:
    """The columns of a packed row, from the type and the shape of one observation of each entry."""

    rows = 1  # of the user's data in an observation, padding included

    def __init__(self, entries: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> None:
        # 8-byte entries first, so that every entry is aligned to its own size.
        names = sorted(entries, key=lambda name: (-entries[name][0].itemsize, -math.prod(entries[name][1]), name))
        self.entries = {name: (entries[name][0], tuple(entries[name][1])) for name in names}
        self.columns: dict[str, Column] = {}
        start = 0
        for name, (dtype, shape) in self.entries.items():
            stop = start + dtype.itemsize * math.prod(shape)
            self.columns[name] = Column(start, stop, dtype, shape)
            start = stop
        self.width = -(-start // WORD)  # words

    @property
    def row_bytes(self) -> int:
        return self.width * WORD

    def specs(self, lead: Sequence[int]) -> dict[str, tf.TensorSpec]:
        return {
            name: tf.TensorSpec([*lead, *shape], tf.as_dtype(dtype)) for name, (dtype, shape) in self.entries.items()
        }

    def views(self, words: np.ndarray) -> dict[str, np.ndarray]:
        """The entries as NumPy views of packed rows, [..., width]: {name: [..., *shape]}."""
        as_bytes, lead = words.view(np.uint8), words.shape[:-1]

        def view(c: Column) -> np.ndarray:
            entry = as_bytes[..., c.start : c.stop].view(c.dtype)
            return entry.reshape((*lead, *c.shape), copy=False) if c.shape else entry[..., 0]

        return {name: view(column) for name, column in self.columns.items()}

    def unpack(self, words: tf.Tensor) -> Tree:
        """The observations in packed rows, [..., width]: {name: [..., *shape]}."""
        lead, entries = words.shape[:-1], {}
        for name, column in self.columns.items():
            dtype = tf.as_dtype(column.dtype)
            first, last = column.start // WORD, -(-column.stop // WORD)
            of_entry = tf.bitcast(_cut(words, first, last), dtype)
            if column.dtype.itemsize < WORD:
                of_entry = tf.reshape(of_entry, [*lead, 2 * (last - first)])
            skip = (column.start - first * WORD) // column.dtype.itemsize
            count = (column.stop - column.start) // column.dtype.itemsize
            of_entry, shape = _cut(of_entry, skip, skip + count), [*lead, *column.shape]
            entries[name] = of_entry if of_entry.shape == shape else tf.reshape(of_entry, shape)
        return entries


def _cut(x: tf.Tensor, start: int, stop: int) -> tf.Tensor:
    """x[..., start:stop], without an operation if it is all of x, which saves time."""
    return x if (start, stop) == (0, x.shape[-1]) else x[..., start:stop]


def may_be_index(entry: np.ndarray, scalars: int = 1) -> bool:
    """Whether an entry can be indices: integers, or one number for each observation, or for each of its rows."""
    return entry.dtype.kind == "i" or entry.ndim <= scalars


def extremes(entry: np.ndarray) -> np.ndarray:
    """The positions of the extremes of each column of an entry, at least two."""
    columns = entry.reshape(len(entry), -1)
    at = np.unique(np.concatenate([columns.argmin(axis=0), columns.argmax(axis=0)]))
    return np.resize(at, max(len(at), 2))


def aligned_zeros(n_rows: int, n_words: int) -> np.ndarray:
    """Aligned int64 zeros; NumPy allocates them, since its huge pages make random reads faster."""
    memory = np.zeros(n_rows * n_words + ALIGNMENT // WORD, np.int64)
    offset = (-memory.ctypes.data % ALIGNMENT) // WORD
    return memory[offset : offset + n_rows * n_words].reshape(n_rows, n_words)


def shared_tensor(words: np.ndarray) -> tf.Tensor:
    """The array as a tensor that shares its memory; with a GPU, a copy on the GPU."""
    if on_gpu():
        with tf.device("GPU:0"):
            return tf.constant(words)
    return tf.experimental.dlpack.from_dlpack(words.__dlpack__())


def on_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


class Shards(NamedTuple):
    """The sizes of the shards, each of consecutive observations, and how many iterations a chain stays on one."""

    sizes: list[int]
    hop: int

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.sizes) - self.sizes


class Data(ABC):
    """N observations that can be fetched as packed rows, such as `InMemory` or `FetchedData`."""

    size: int
    layout: Layout
    levels: dict[str, list[Level]]  # the categories of each categorical entry, in the order of their codes
    in_memory = False  # whether reading is only copying
    workers: Workers | None = None  # which make passes over all observations, if this process does not
    shards: Shards | None = None  # if chains use one after the other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "workers"}

    def as_counted(self, n: int) -> int:
        """n observations in the unit in which users count them."""
        return n

    def units(self) -> list[tuple[Data, np.ndarray | slice]]:
        """The data in parts whose observations are what users count, and the numbers of these."""
        return [(self, slice(None))]

    @abstractmethod
    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the packed observations at `indices`, [m], to `out`, [m, width]."""

    @abstractmethod
    def read(self, start: int, out: np.ndarray) -> None:
        """Write the packed observations from `start` on to `out`, [m, width]."""

    @abstractmethod
    def checksum(self) -> str:
        """A checksum that is equal for equal data."""

    def part(self, observations: slice) -> Tree:
        """Some consecutive observations, which must fit into memory."""
        start, stop, _ = observations.indices(self.size)
        words = aligned_zeros(stop - start, self.layout.width)
        self.read(start, words)
        return self.layout.unpack(shared_tensor(words))

    def all(self) -> Tree:
        """All observations, which must fit into memory."""
        return self.part(slice(None))


def checksum_of(parts: Sequence[Data]) -> str:
    return hashlib.sha256(" ".join(part.checksum() for part in parts).encode()).hexdigest()[:16]


def block_size(data: Data) -> int:
    """How many observations a pass over all data reads at a time, to bound its memory."""
    return int(min(data.size, max(256, BLOCK_BYTES // data.layout.row_bytes)))


def derivative_block(data: Data, numbers: int) -> int:
    """How many observations are in a block of a pass that computes this many numbers for each of their rows."""
    return max(16, BLOCK_NUMBERS // (numbers * data.layout.rows))


AnyData = TypeVar("AnyData", bound=Data)


def by_workers(data: AnyData, workers: Workers | None) -> AnyData:
    same = object.__new__(type(data))
    vars(same).update(vars(data), workers=workers)
    return same


def spaced_rows(data: Data, size: int) -> Tree:
    indices = np.linspace(0, data.size - 1, min(size, data.size)).astype(np.int64)
    words = aligned_zeros(len(indices), data.layout.width)
    data.take(indices, words)
    return data.layout.unpack(shared_tensor(words))

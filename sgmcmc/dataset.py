"""The data, packed row by row, so that fetching one observation is one contiguous read.

All entries of the dataset stand side by side in one int64 matrix [N, W], whatever their types: wide words halve the
number of scalar copies that XLA's gather makes, and integers are moved untouched, where floats might be normalised.
It is the only copy that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.checksum import checksum
from sgmcmc.core.types import Tree

WORD = 8  # bytes
ALIGNMENT = 64  # bytes: what TensorFlow asks of memory that it is to use in place
BLOCK_BYTES = 2**24


class Column(NamedTuple):
    """Where an entry of the dataset stands in a packed row."""

    start: int  # bytes
    stop: int
    dtype: np.dtype
    shape: tuple[int, ...]


class Dataset:
    """Observations packed from ``{name: array [N, ...]}`` of 4- and 8-byte numbers; N is `size`."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.size = len(next(iter(arrays.values())))
        self.columns = _layout(arrays)
        width = max(column.stop for column in self.columns.values())
        self._words = _aligned_zeros(self.size, -(-width // WORD))
        for name, view in self.arrays().items():
            view[...] = arrays[name]
        self._rows = _as_tensor(self._words)

    def arrays(self) -> dict[str, np.ndarray]:
        """The entries as NumPy views of the packed memory, {name: [N, ...]}."""
        as_bytes = self._words.view(np.uint8)
        return {
            name: as_bytes[:, c.start : c.stop].view(c.dtype).reshape((self.size, *c.shape), copy=False)
            if c.shape
            else as_bytes[:, c.start : c.stop].view(c.dtype)[:, 0]
            for name, c in self.columns.items()
        }

    def checksum(self) -> str:
        """Equal for equal data."""
        return checksum(self._words)

    def specs(self, n: int) -> dict[str, tf.TensorSpec]:
        """Shapes and types of n observations."""
        return {name: tf.TensorSpec([n, *c.shape], tf.as_dtype(c.dtype)) for name, c in self.columns.items()}

    def gather(self, indices: tf.Tensor) -> Tree:
        """The observations at `indices`, [...]: {name: [..., *shape]}."""
        return self._unpack(tf.gather(self._rows, indices), indices.shape)

    def all(self) -> Tree:
        """All observations."""
        return self._unpack(self._rows, tf.TensorShape([self.size]))

    def block(self, start: tf.Tensor, size: int) -> Tree:
        """`size` consecutive observations from `start` on."""
        rows = tf.slice(self._rows, [start, 0], [size, self._rows.shape[1]])
        return self._unpack(rows, tf.TensorShape([size]))

    @property
    def block_size(self) -> int:
        """How many observations a pass over all data takes at a time, so that its memory is bounded."""
        row_bytes = self._words.shape[1] * WORD
        return int(min(self.size, max(256, BLOCK_BYTES // row_bytes)))

    def _unpack(self, rows: tf.Tensor, lead: tf.TensorShape) -> Tree:
        entries = {}
        for name, column in self.columns.items():
            dtype = tf.as_dtype(column.dtype)
            first, last = column.start // WORD, -(-column.stop // WORD)
            words = tf.bitcast(rows[..., first:last], dtype)
            if column.dtype.itemsize < WORD:
                words = tf.reshape(words, [*lead, 2 * (last - first)])
            skip = (column.start - first * WORD) // column.dtype.itemsize
            count = (column.stop - column.start) // column.dtype.itemsize
            entries[name] = tf.reshape(words[..., skip : skip + count], [*lead, *column.shape])
        return entries


def _layout(arrays: Mapping[str, np.ndarray]) -> dict[str, Column]:
    """8-byte entries first, so that every entry is aligned to its own size."""
    columns, start = {}, 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, -arrays[name][0].size, name)):
        array = arrays[name]
        stop = start + array.dtype.itemsize * int(np.prod(array.shape[1:]))
        columns[name] = Column(start, stop, array.dtype, array.shape[1:])
        start = stop
    return columns


def _aligned_zeros(n_rows: int, n_words: int) -> np.ndarray:
    """Through NumPy rather than TensorFlow: NumPy asks the kernel for huge pages, which random reads profit from."""
    memory = np.zeros(n_rows * n_words + ALIGNMENT // WORD, np.int64)
    offset = (-memory.ctypes.data % ALIGNMENT) // WORD
    return memory[offset : offset + n_rows * n_words].reshape(n_rows, n_words)


def _as_tensor(words: np.ndarray) -> tf.Tensor:
    """The same memory as a tensor; a copy only where TensorFlow sees a GPU, on which it then lives."""
    if tf.config.list_logical_devices("GPU"):
        with tf.device("GPU:0"):
            return tf.constant(words)
    return tf.experimental.dlpack.from_dlpack(words.__dlpack__())

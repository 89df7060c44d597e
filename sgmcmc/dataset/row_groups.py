"""Observations of several rows: the alternatives of a choice, the visits of a person, a window of a series.

The rows of an observation are consecutive. All observations have the length of the longest, so that a minibatch is a
rectangular array: shorter ones are filled with copies of their last row, where a log likelihood is as finite as at the
row itself. An entry `inside` is 1 for the rows that count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import refused
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, Layout, aligned_zeros, extremes, spaced_rows
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Attempt, IndexWatch

INSIDE = "inside"
SPACED, PADDINGS = 1000, 16  # observations that are searched for extremes; other paddings that are tried, at most
FIRST, STOP = " first", " stop"  # positions in an observation between which its rows count


class PaddedLayout(Layout):
    """An observation in words: the entries of its own, then `length` packed rows."""

    def __init__(self, own: Layout, row: Layout, length: int, dtype: np.dtype) -> None:
        self._own, self._row, self.rows = own, row, length
        of_rows = {name: (entry, (length, *shape)) for name, (entry, shape) in row.entries.items()}
        of_own = {name: entry for name, entry in own.entries.items() if name not in (FIRST, STOP)}
        self.entries = {**of_rows, INSIDE: (dtype, (length,)), **of_own}
        self.width = own.width + length * row.width

    def views(self, words: np.ndarray) -> dict[str, np.ndarray]:
        cut, lead = self._own.width, words.shape[:-1]
        own = self._own.views(words[..., :cut])
        first, stop, at = own.pop(FIRST)[..., None], own.pop(STOP)[..., None], np.arange(self.rows)
        inside = ((first <= at) & (at < stop)).astype(self.entries[INSIDE][0])
        rows = words[..., cut:].reshape((*lead, self.rows, self._row.width), copy=False)
        return {**self._row.views(rows), INSIDE: inside, **own}

    def unpack(self, words: tf.Tensor) -> Tree:
        cut, lead = self._own.width, words.shape[:-1]
        own = self._own.unpack(words[..., :cut])
        first, stop, at = own.pop(FIRST)[..., None], own.pop(STOP)[..., None], tf.range(self.rows)
        inside = tf.cast((first <= at) & (at < stop), tf.as_dtype(self.entries[INSIDE][0]))
        rows = tf.reshape(words[..., cut:], [*lead, self.rows, self._row.width])
        return {**self._row.unpack(rows), INSIDE: inside, **own}


class Extents(NamedTuple):
    """The rows of each observation, int64 [N]: from `begin` to `end`, of which those from `counts` on count."""

    begin: np.ndarray
    counts: np.ndarray
    end: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.end - self.begin

    @property
    def longest(self) -> int:
        return int(self.lengths.max())


class RowGroups(Data):
    """N observations, each of some consecutive rows of `rows`; `own` are entries with one value for each of them."""

    layout: PaddedLayout

    def __init__(self, of: str, rows: Data, extents: Extents, own: Mapping[str, np.ndarray], dtype: np.dtype) -> None:
        require_free(of, rows.layout.entries, [INSIDE, *own])
        self.rows, self.extents, self.size = rows, extents, len(extents.begin)
        positions = {
            FIRST: (extents.counts - extents.begin).astype(np.int32),
            STOP: (extents.end - extents.begin).astype(np.int32),
        }
        self._own = InMemory({**own, **positions})
        self.layout = PaddedLayout(self._own.layout, rows.layout, extents.longest, dtype)
        self.levels, self.in_memory = dict(rows.levels), rows.in_memory
        self._watch: IndexWatch | None = None

    def watch(self, attempt: Attempt) -> None:
        """Try fetched observations by `attempt`, if their indices are lower or higher than all before."""
        self._watch = IndexWatch(attempt, scalars=2)

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        at = self._rows_of(indices)
        words = np.empty((at.size, self.rows.layout.width), np.int64)
        self.rows.take(at.reshape(-1), words)
        self._fill(indices, words, out)

    def read(self, start: int, out: np.ndarray) -> None:
        indices = np.arange(start, start + len(out))
        at = self._rows_of(indices)
        first = at.min()
        words = np.empty((at.max() + 1 - first, self.rows.layout.width), np.int64)
        self.rows.read(int(first), words)
        self._fill(indices, words[(at - first).reshape(-1)], out)

    def _rows_of(self, indices: np.ndarray) -> np.ndarray:
        """The rows of these observations, [m, longest]; those after the end are the last one again."""
        at = self.extents.begin[indices][:, None] + np.arange(self.layout.rows)
        return np.minimum(at, self.extents.end[indices][:, None] - 1)

    def _fill(self, indices: np.ndarray, words: np.ndarray, out: np.ndarray) -> None:
        self._own.take(indices, out[:, : self._own.layout.width])
        out[:, self._own.layout.width :] = words.reshape(len(out), self.layout.rows * self.rows.layout.width)
        if self._watch is not None and len(out):
            self._watch(self.layout.views(out))

    def shortest(self, size: int) -> tuple[Tree, list[Tree]]:
        """The observations with the fewest rows, and the same with other padding: a row that has an extreme value.

        All padding is that one row. Rows in another order would have the same sum, and so might gradients.
        """
        lengths = self.extents.lengths
        indices = np.resize(np.argsort(lengths, kind="stable")[: min(size, self.size)], size)
        words = aligned_zeros(size, self.layout.width)
        self.take(indices, words)
        some = {name: tf.constant(view) for name, view in self.layout.views(words).items()}
        is_padding = np.arange(self.layout.rows) >= lengths[indices][:, None]
        if not is_padding.any():
            return some, []
        spaced = spaced_rows(self, SPACED)
        rows = {name: spaced[name][:, 0].numpy() for name in self.rows.layout.entries}
        extreme = np.unique(np.concatenate([extremes(x) for x in rows.values()]))

        def padded_by(k: int) -> Tree:
            return {name: tf.where(_like(is_padding, x), x[k], some[name]) for name, x in rows.items()}

        return some, [some | padded_by(k) for k in extreme[:: -(-len(extreme) // PADDINGS)]]

    def checksum(self) -> str:
        hashed = hashlib.sha256(self.rows.checksum().encode() + self._own.checksum().encode())
        for array in self.extents:
            hashed.update(array.tobytes())
        return hashed.hexdigest()[:16]


def _like(mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The mask, [n, longest], with as many axes as these rows have in an observation."""
    return mask.reshape(*mask.shape, *[1] * (rows.ndim - 1))


def require_free(of: str, names: Mapping[str, object], taken: Sequence[str]) -> None:
    if both := [name for name in taken if name in names]:
        raise refused(of, "dataset", f"have no entry named {both[0]!r}, which its observations get", sorted(names))

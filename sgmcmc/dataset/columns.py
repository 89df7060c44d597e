"""The columns of a dataset as users give it: a dict of arrays, a table, a file, or an object with `take`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import attempted, refused
from sgmcmc.dataset import Data
from sgmcmc.dataset.arrays import (
    Codes,
    as_columns,
    categories,
    converted,
    described,
    integer_type,
    is_on_disk,
    numeric,
)
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Arrays, Entry, FetchedData, RowSource

MAPPED = "np.load(path, mmap_mode='r')"
PROBED = 2  # observations read to find the entries of a user's dataset object
BLOCK = 2**20  # rows of a column of a user's object that are read at a time


class Columns:
    """The columns of a dataset, checked to be named and of one length, but not yet converted.

    `labels` are columns whose values are not numbers for the log likelihood.
    """

    def __init__(self, of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype, labels: Collection[str] = ()):
        self._of, self._dtype = of, dtype
        if isinstance(dataset, tf.data.Dataset | Iterator):
            why = "since minibatches are drawn at random"
            must = f"be a dict of arrays, or an object with __len__ and take(indices), {why}"
            advice = f"Arrays that do not fit into memory can be memory-mapped: {MAPPED}"
            raise refused(of, "dataset", must, f"{described(dataset)}, which can only be read in order. {advice}")
        given = as_columns(of, dataset, labels)
        if isinstance(given, RowSource) and not isinstance(given, Mapping) and not hasattr(given, "shape"):
            self._source: RowSource | None = given
            self._entries = _probed(of, given)
        else:
            self._source, self._entries = None, _checked_entries(of, given)
        _require_integers(of, integers, self._entries)
        self._integers, self.names = integers, list(self._entries)

    def values(self, name: str) -> np.ndarray:
        """A column as it is, [N, ...], read into memory."""
        if self._source is None:
            entry = self._entries[name]
            entry = entry.array if isinstance(entry, Codes) else entry
            return np.asarray(entry[:]) if is_on_disk(entry) else np.asarray(entry)
        starts = range(0, len(self._source), BLOCK)
        blocks = (np.arange(start, min(start + BLOCK, len(self._source))) for start in starts)
        return np.concatenate([np.asarray(self._source.take(rows)[name]) for rows in blocks])

    def data(self, names: Collection[str]) -> Data:
        """The observations with these columns, each converted to its type; categories become codes."""
        of, dtype = self._of, self._dtype
        chosen = {name: self._entries[name] for name in names}
        integers = [name for name in self._integers if name in chosen]
        if self._source is not None:
            return FetchedData(self._source, _specs(of, chosen, integers, dtype))
        codes = categories(of, chosen)
        chosen |= {name: column.array for name, column in codes.items()}
        integers, levels = [*integers, *codes], {name: column.levels for name, column in codes.items()}
        arrays = {
            name: entry if is_on_disk(entry) else converted(of, name, entry, name in integers, dtype)
            for name, entry in chosen.items()
        }
        _require_one_length(of, arrays)
        if any(map(is_on_disk, arrays.values())):
            return FetchedData(Arrays(arrays), _specs(of, arrays, integers, dtype), levels)
        return InMemory(arrays, levels)


def _probed(of: str, source: RowSource) -> dict[str, np.ndarray]:
    """The first rows of a user's object."""
    must = f"take of dataset of {of} must return a dict of arrays with one row for each index"
    n_data = len(source)
    if n_data < 1:
        raise refused(of, "dataset", "have at least one observation", f"a length of {n_data}")
    indices = np.arange(min(PROBED, n_data))
    probed = attempted(must, lambda: dict(source.take(indices).items()))
    arrays = {name: numeric(f"dataset[{name!r}]", of, array) for name, array in probed.items()}
    if not arrays or any(array.shape[:1] != indices.shape for array in arrays.values()):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"{must}; got shapes {shapes} for {len(indices)} indices.")
    return arrays


def _checked_entries(of: str, dataset: Any) -> dict[str, Any]:
    if not isinstance(dataset, Mapping) or not dataset or not all(isinstance(name, str) for name in dataset):
        raise refused(of, "dataset", "be a dict with at least one entry and names as keys", described(dataset))
    for name, entry in dataset.items():
        if isinstance(entry, tf.data.Dataset | Iterator):
            advice = f"Read it into an array, or into a file for {MAPPED}"
            got = f"{described(entry)}, which can only be read once and in order. {advice}"
            raise refused(of, f"dataset[{name!r}]", "be an array", got)
    _require_one_index(of, dataset)
    return dict(dataset)


def _require_integers(of: str, integers: Any, names: Collection[str]) -> None:
    is_list = isinstance(integers, Collection) and not isinstance(integers, str)
    if not is_list or any(name not in list(names) for name in integers):
        raise refused(of, "integers", f"list names in dataset, {sorted(names)}", repr(integers))


def _require_one_index(of: str, dataset: Mapping[str, Any]) -> None:
    """Refuse pandas entries with different labels, whose rows would be combined by position."""
    labelled = {name: entry.index for name, entry in dataset.items() if hasattr(entry, "iloc")}
    for (first, index), (name, other) in pairwise(labelled.items()):
        if not index.equals(other):
            raise ValueError(
                f"dataset of {of} must have entries with the same pandas index; got different ones for {name!r} and "
                f"{first!r}. Align them, as by {name}.loc[{first}.index], or combine rows by position, as by "
                f"{name}.to_numpy()."
            )


def _require_one_length(of: str, arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if not array.shape:
            must = "have its observations on the first axis"
            raise refused(of, f"dataset[{name!r}]", must, f"the single number {array}")
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise refused(of, "dataset", "have entries of the same length, the number of observations", lengths)
    if 0 in lengths.values():
        raise refused(of, "dataset", "have at least one observation", lengths)


def _specs(of: str, arrays: Mapping[str, Any], integers: Collection[str], float_type: np.dtype) -> dict[str, Entry]:
    entries = {}
    for name, array in arrays.items():
        dtype, label = np.dtype(array.dtype), f"dataset[{name!r}] of {of}"
        if dtype.kind not in "biuf":
            raise ValueError(f"{label} must be an array of real numbers; got dtype {array.dtype}.")
        entries[name] = Entry(integer_type(label, dtype) if name in integers else float_type, tuple(array.shape[1:]))
    return entries

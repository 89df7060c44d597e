"""The argument `dataset`: data to be packed into memory, or data that stay where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.dataset.data import Data, Shards
from sgmcmc.dataset.elsewhere import Arrays, Elsewhere, Entry, Takes, is_on_disk
from sgmcmc.dataset.entry import converted, described, integer_type, numeric
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import Remote, Remotes, remotes
from sgmcmc.dataset.shards import Joined
from sgmcmc.dataset.tables import as_columns, categories
from sgmcmc.samplers._checks import require_count
from sgmcmc.samplers._executor import checked_executor
from sgmcmc.samplers.shards import shards

PROBED = 2  # observations that show the entries of a user's dataset object


def checked_dataset(of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype) -> Data:
    """The data, with every entry converted to its type; categories become codes.

    Raises
    ------
    ValueError
        If an entry is invalid; the message names it.
    """
    if isinstance(dataset, InMemory | Elsewhere | Joined | Remotes):  # of another sampler
        return dataset
    if isinstance(dataset, shards):
        return _of_shards(of, dataset, integers, dtype)
    if isinstance(dataset, tf.data.Dataset | Iterator):
        raise ValueError(
            f"dataset of {of} must be a dict of arrays, or an object with __len__ and take(indices), since minibatches "
            f"are drawn at random; got {described(dataset)}, which can only be read in order. Arrays that do not "
            f"fit into memory can be memory-mapped: np.load(path, mmap_mode='r')."
        )
    dataset = as_columns(of, dataset)
    if isinstance(dataset, Takes) and not isinstance(dataset, Mapping) and not hasattr(dataset, "shape"):
        return _of_object(of, dataset, integers, dtype)
    if not isinstance(dataset, Mapping) or not dataset or not all(isinstance(name, str) for name in dataset):
        raise ValueError(
            f"dataset of {of} must be a dict with at least one entry and names as keys; got {described(dataset)}."
        )
    codes = categories(of, dataset)
    _require_integers(of, integers, dataset)
    for name, entry in dataset.items():
        if isinstance(entry, tf.data.Dataset | Iterator):
            raise ValueError(
                f"dataset[{name!r}] of {of} must be an array; got {described(entry)}, which can only be read once "
                f"and in order. Read it into an array, or into a file for np.load(path, mmap_mode='r')."
            )
    _require_one_index(of, dataset)
    dataset = {**dataset, **{name: column.array for name, column in codes.items()}}
    integers, levels = [*integers, *codes], {name: column.levels for name, column in codes.items()}
    on_disk = any(is_on_disk(entry) for entry in dataset.values())
    arrays = {
        name: entry if is_on_disk(entry) else converted(of, name, entry, name in integers, dtype)
        for name, entry in dataset.items()
    }
    _require_one_length(of, arrays)
    if not on_disk:
        return InMemory(arrays, levels)
    entries = {
        name: _entry(of, name, array.dtype, array.shape[1:], name in integers, dtype) for name, array in arrays.items()
    }
    return Elsewhere(Arrays(arrays), entries, levels)


def _of_shards(of: str, asked: shards, integers: Sequence[str], dtype: np.dtype) -> Data:
    """The data of all shards, in order."""
    given = asked.datasets
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"datasets of shards, of {of}, must be a list of datasets; got {described(given)}.")
    hop = require_count("hop of shards", of, asked.hop, 1)
    data = _opened(of, asked, integers, dtype)
    for number, one in enumerate(data):
        here, first = ({name: (c.dtype, c.shape) for name, c in x.layout.columns.items()} for x in (one, data[0]))
        if one.shards is not None:
            raise ValueError(f"datasets of shards, of {of}, must not be shards again; got some in shard {number}.")
        if here != first:
            entries = {name: f"{dtype} {list(shape)}" for name, (dtype, shape) in here.items()}
            others = {name: f"{dtype} {list(shape)}" for name, (dtype, shape) in first.items()}
            raise ValueError(
                f"datasets of shards, of {of}, must have the same entries; got {entries} in shard {number} and "
                f"{others} in shard 0."
            )
        if one.levels != data[0].levels:
            raise ValueError(
                f"datasets of shards, of {of}, must have the same categories, since codes stand for them; got "
                f"{one.levels} in shard {number} and {data[0].levels} in shard 0. Give all of them to each shard: "
                "pandas.Categorical(x, categories=...)."
            )
    if isinstance(data[0], Remote):
        return Remotes(cast(list[Remote], data), hop)
    at = Shards([one.size for one in data], hop)
    in_memory = [one for one in data if isinstance(one, InMemory)]
    if len(in_memory) == len(data):
        return InMemory.joined(in_memory, at)
    return Joined(data, at)


def _opened(of: str, asked: shards, integers: Sequence[str], dtype: np.dtype) -> Sequence[Data]:
    """The data of each shard, here or by a worker of its executor."""
    opens = [partial(_checked, f"{of} in shard {k}", one, integers, dtype) for k, one in enumerate(asked.datasets)]
    if asked.executors is None:
        return [one() for one in opens]
    if not isinstance(asked.executors, Sequence) or len(asked.executors) != len(opens):
        got = len(asked.executors) if isinstance(asked.executors, Sequence) else repr(asked.executors)
        raise ValueError(f"executors of shards, of {of}, must have one for each of {len(opens)} datasets; got {got}.")
    for executor in asked.executors:
        checked_executor(of, executor, None, 1)
    try:
        return remotes(opens, asked.executors)
    except TypeError as error:  # of what cannot be pickled
        raise ValueError(
            f"datasets of shards, of {of}, must be such that they can be pickled, or functions that are; got {error}."
        ) from error


def _checked(of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype) -> Data:
    return checked_dataset(of, dataset() if callable(dataset) else dataset, integers, dtype)


def _of_object(of: str, source: Takes, integers: Sequence[str], dtype: np.dtype) -> Data:
    must = f"take of dataset of {of} must return a dict of arrays with one row for each index"
    n_data = len(source)
    if n_data < 1:
        raise ValueError(f"dataset of {of} must have at least one observation; got a length of {n_data}.")
    indices = np.arange(min(PROBED, n_data))
    probed = attempted(must, lambda: dict(source.take(indices).items()))
    arrays = {name: numeric(f"dataset[{name!r}]", of, array) for name, array in probed.items()}
    if not arrays or any(array.ndim == 0 or len(array) != len(indices) for array in arrays.values()):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"{must}; got shapes {shapes} for {len(indices)} indices.")
    _require_integers(of, integers, arrays)
    return Elsewhere(
        source,
        {
            name: _entry(of, name, array.dtype, array.shape[1:], name in integers, dtype)
            for name, array in arrays.items()
        },
    )


def _require_integers(of: str, integers: Any, names: Collection[str]) -> None:
    if (
        isinstance(integers, str)
        or not isinstance(integers, Collection)
        or any(name not in list(names) for name in integers)
    ):
        raise ValueError(f"integers of {of} must list names in dataset, {sorted(names)}; got {integers!r}.")


def _require_one_index(of: str, dataset: Mapping[str, Any]) -> None:
    """Refuse pandas entries with different labels, whose rows would be combined by position."""
    labelled = {name: entry.index for name, entry in dataset.items() if hasattr(entry, "iloc")}
    for (first, index), (name, other) in pairwise(labelled.items()):
        if not index.equals(other):
            raise ValueError(
                f"dataset of {of} must have entries with one pandas index; got others for {name!r} than for {first!r}. "
                f"Align them, such as {name}.loc[{first}.index], or combine rows by position, by {name}.to_numpy()."
            )


def _require_one_length(of: str, arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if not array.shape:
            raise ValueError(
                f"dataset[{name!r}] of {of} must have its observations on a first axis; got the single number {array}."
            )
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"dataset of {of} must have entries of one length, the number of observations; got {lengths}.")
    if 0 in lengths.values():
        raise ValueError(f"dataset of {of} must have at least one observation; got {lengths}.")


def _entry(
    of: str, name: str, dtype: np.dtype, shape: tuple[int, ...], is_integer: bool, float_type: np.dtype
) -> Entry:
    label = f"dataset[{name!r}] of {of}"
    if np.dtype(dtype).kind not in "biuf":
        raise ValueError(f"{label} must be an array of real numbers; got dtype {dtype}.")
    return Entry(integer_type(label, np.dtype(dtype)) if is_integer else float_type, tuple(shape))

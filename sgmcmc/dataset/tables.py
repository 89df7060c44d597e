"""Tables, whose columns are the entries of a dataset, and columns of categories, which become codes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SHOWN = 5
PARQUET = (".parquet", ".pq")
NEEDS_PYARROW = 'Parquet files need pyarrow: pip install "sgmcmc[formats]"'

Level = str | int | float | bool


class Codes(NamedTuple):
    """A column of categories."""

    array: np.ndarray  # int32 [N], positions in the levels
    levels: list[Level]


def as_columns(of: str, dataset: Any, words: Collection[str] = ()) -> Any:
    """The columns of a table by name; anything else unchanged. Columns in `words` may have strings.

    Raises
    ------
    ValueError
        If columns are neither numbers nor categories; the message says how to convert them.
    """
    path = os.fspath(dataset) if isinstance(dataset, str | os.PathLike) else None
    if path is not None:
        dataset = _read(of, path)
    elif type(dataset).__module__.partition(".")[0] == "pyarrow" and hasattr(dataset, "to_pandas"):
        dataset = dataset.to_pandas()
    elif hasattr(dataset, "columns") and hasattr(dataset, "to_pandas"):
        raise ValueError(
            f"dataset of {of} must be a pandas or Arrow table; got a {type(dataset).__name__}. Call its to_pandas()."
        )
    if not (hasattr(dataset, "columns") and hasattr(dataset, "iloc")):
        return dataset
    names = list(dataset.columns)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(
            f"dataset of {of} must have at least one column and distinct column names; got {names[:SHOWN]}."
        )
    bad = {name: advice for name in names if name not in words and (advice := unusable(name, dataset[name]))}
    if bad:
        raise ValueError(
            f"dataset of {of} must have columns of numbers or of categories; got {len(bad)} others. "
            + " ".join(list(bad.values())[:SHOWN])
            + (
                f" Or leave them out: frame.drop(columns={list(bad)[:SHOWN]})."
                if path is None
                else f" fromParquet({path!r}) reads strings as categories, and can leave columns out."
            )
        )
    return {name: dataset[name] for name in names}


def _read(of: str, path: str | os.PathLike) -> Any:
    if Path(path).suffix not in PARQUET or not Path(path).exists():
        raise ValueError(
            f"dataset of {of} must be a dict of arrays, a table, or the path of a Parquet file that exists; got "
            f"{os.fspath(path)!r}."
        )
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(NEEDS_PYARROW) from error


def unusable(name: str, column: Any) -> str:
    """The type of a column that is neither numbers nor categories, and a remedy; "" for all others."""
    if is_categorical(column):
        return ""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return ""
    if kind in "mM":
        return f"{name!r} has times: (x - x.min()).dt.total_seconds() converts them to numbers."
    first = next((value for value in column if isinstance(value, str)), None)
    if first is not None:
        return (
            f"{name!r} has strings such as {first!r}: frame[{name!r}].astype('category') converts them to categories."
        )
    return f"{name!r} has the dtype {column.dtype}."


def is_categorical(entry: Any) -> bool:
    """Whether it is a pandas Series or array of categories."""
    return getattr(getattr(entry, "dtype", None), "name", None) == "category"


def coded(label: str, entry: Any) -> Codes:
    """The codes of a column of categories, and their levels.

    Raises
    ------
    ValueError
        If values are missing.
    """
    column = getattr(entry, "cat", entry)
    array = np.asarray(column.codes, np.int32)
    if (array < 0).any():
        raise ValueError(
            f"{label} must have no missing categories; got {int((array < 0).sum())}, the first at index "
            f"{int(np.argmin(array))}. Leave these observations out, or give them a separate category."
        )
    return Codes(array, [_level(x) for x in column.categories])


def _recoded(label: str, entry: Any, levels: Sequence[Level]) -> np.ndarray:
    """The codes of categories or words by the levels of another table.

    Raises
    ------
    ValueError
        If some are not among the levels, or if the entry has numbers, which may be levels or codes.
    """
    if is_categorical(entry):
        array, own = coded(label, entry)
    else:
        words = np.asarray(entry)
        if words.dtype.kind in "biufc":
            raise ValueError(
                f"{label} must be categories, such as pandas.Categorical(x, categories=...), as in the dataset of the "
                f"run; got numbers of dtype {words.dtype}."
            )
        values, array = np.unique(words.astype(str), return_inverse=True)
        own = values.tolist()
    place = {level: code for code, level in enumerate(levels)}
    used = [own[code] for code in np.unique(array)]
    if unknown := [str(level) for level in used if level not in place]:
        raise ValueError(
            f"{label} must have categories among the {len(levels)} of the run, such as {list(levels)[:SHOWN]}; got "
            f"{unknown[:SHOWN]}."
        )
    return np.array([place.get(level, -1) for level in own], np.int32)[array]


def categories(of: str, dataset: Mapping[str, Any]) -> dict[str, Codes]:
    """The entries that are categories, in a table or as codes on disk."""
    return {
        name: entry if isinstance(entry, Codes) else coded(f"dataset[{name!r}] of {of}", entry)
        for name, entry in dataset.items()
        if isinstance(entry, Codes) or is_categorical(entry)
    }


def with_levels(of: str, dataset: Any, levels: Mapping[str, Sequence[Level]]) -> Any:
    """A dataset whose categories have the codes of a run."""
    dataset = as_columns(of, dataset, levels)
    if not isinstance(dataset, Mapping):
        return dataset
    return {
        name: _recoded(f"dataset[{name!r}] of {of}", entry, levels[name]) if name in levels else entry
        for name, entry in dataset.items()
    }


def _level(value: Any) -> Level:
    """A category as a JSON value."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)

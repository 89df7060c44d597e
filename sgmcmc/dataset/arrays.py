"""Arrays and tables as users give them, and their conversion."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_of_rounded

SHOWN = 5
PARQUET = (".parquet", ".pq")
NEEDS_PYARROW = 'Parquet files need pyarrow: pip install "sgmcmc[formats]"'
WITHOUT_MISSING = "leave such observations out, as frame.dropna() does, or fill them in"

Level = str | int | float | bool


def numeric(label: str, of: str, value: Any) -> np.ndarray:
    """An array of real numbers; True and False count as 1 and 0."""
    must = f"{label} of {of} must be an array of real numbers"
    if sparse_like(value):
        raise ValueError(
            f"{must}; got {described(value)}. Make it dense (toarray, tf.sparse.to_dense) if that fits into memory; "
            "otherwise pass the positions and the values of the nonzero entries as two arrays with a row for each "
            "observation, and name the positions in integers."
        )
    if masked := n_masked(value):
        raise ValueError(
            f"{label} of {of} must be an array without masked values; got {masked} masked. Leave these observations "
            "out, or fill in the values with the method filled."
        )
    dtype = getattr(value, "dtype", None)
    if hasattr(value, "isna") and not isinstance(dtype, np.dtype) and (missing := np.asarray(value.isna())).any():
        raise ValueError(
            f"{label} of {of} must have no missing values; got {int(missing.sum())} in a column of type {dtype}, the "
            f"first at index {int(np.argmax(missing))}. {WITHOUT_MISSING.capitalize()}."
        )
    try:
        array = np.asarray(value)
    except Exception as error:
        got = f"{type(value).__name__} ({error})"
        raise ValueError(f"{label} of {of} must be an array of numbers; got {got}.") from error
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{must}; got {_kind(value, array)}.")
    return array


def n_masked(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(n_masked(part) for part in value if isinstance(part, np.ma.MaskedArray))
    return int(np.ma.count_masked(value)) if isinstance(value, np.ma.MaskedArray) else 0


def sparse_like(value: Any) -> bool:
    return type(value).__module__.startswith("scipy.sparse") or isinstance(value, tf.SparseTensor | tf.RaggedTensor)


def described(value: Any) -> str:
    """The value in short form for a message: arrays by their type and shape."""
    if isinstance(value, tf.data.Dataset):
        return "a tf.data.Dataset"
    shape = getattr(value, "shape", None)
    if shape is None or (isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0):
        text = repr(value)
        return text if len(text) <= 200 else f"{text[:200]}..."
    name = "array" if isinstance(value, np.ndarray) else type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name} of shape {tuple(shape)}"


def _kind(value: Any, array: np.ndarray) -> str:
    """What is not numeric: columns of a data frame, or the type of the array."""
    types: Any = getattr(value, "dtypes", None)
    if not hasattr(types, "items"):
        if array.dtype.kind in "mM":
            return f"times of dtype {array.dtype}; (x - x.min()) / np.timedelta64(1, 's') converts them to numbers"
        word = next((x for x in array.flat if isinstance(x, str)), None)
        if word is not None:
            return f"strings such as {str(word)!r}; pandas.Categorical(x) converts them to categories"
        return f"dtype {array.dtype}"
    others = {name: str(dtype) for name, dtype in types.items() if getattr(dtype, "kind", "O") not in "biuf"}
    return f"{described(value)} with columns {others}, which must be left out or coded as numbers"


def first_non_finite(array: np.ndarray) -> str:
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at index {tuple(int(i) for i in where)}"


def integer_type(label: str, dtype: np.dtype) -> np.dtype:
    """int32 or int64, whichever holds this integer type."""
    if dtype.kind not in "biu":
        raise ValueError(f"{label} must have an integer type, since it is named in integers; got dtype {dtype}.")
    wide = dtype.newbyteorder("=") in (np.int64, np.uint32, np.uint64)
    return np.dtype(np.int64 if wide else np.int32)


def require_exact(label: str, array: np.ndarray, float_type: np.dtype) -> None:
    """Refuse integers that the float type rounds."""
    if array.dtype.kind not in "iu" or not array.size:
        return
    largest, exact = max(-int(array.min()), int(array.max())), 2 ** (np.finfo(float_type).nmant + 1)
    if largest > exact:
        raise ValueError(
            f"{label} must hold integers that {float_type} represents exactly, up to {exact} (or name it in integers=, "
            f"or use dtype='float64'); got values up to {largest}."
        )


def converted(of: str, name: str, value: Any, is_integer: bool, float_type: np.dtype) -> np.ndarray:
    """An entry as an array of its integer type or of the float type, without loss."""
    label = f"dataset[{name!r}]"
    array = numeric(label, of, value)
    if is_integer:
        as_integer = integer_type(f"{label} of {of}", array.dtype)
        if array.dtype.newbyteorder("=") == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{label} of {of} must fit into int64; got values up to {array.max()}.")
        return array.astype(as_integer, copy=False)
    require_exact(f"{label} of {of}", array, float_type)
    with np.errstate(over="ignore"):
        as_float = array.astype(float_type, copy=False)
    if not np.isfinite(as_float).all():
        more = f", a missing value: {WITHOUT_MISSING}" if np.isnan(as_float).any() else ""
        raise ValueError(f"{label} of {of} must be finite in {float_type}; got {first_non_finite(as_float)}{more}.")
    warn_of_rounded(label, of, array, as_float)
    return as_float


class Codes(NamedTuple):
    array: np.ndarray  # int32 [N], positions in the levels
    levels: list[Level]


def as_columns(of: str, dataset: Any, words: Collection[str] = ()) -> Any:
    """The columns of a table by name; anything else unchanged. Columns in `words` may have strings."""
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
        remedy = f"Or leave them out: frame.drop(columns={list(bad)[:SHOWN]})."
        if path is not None:
            remedy = f"fromParquet({path!r}) reads strings as categories, and can leave columns out."
        must = f"dataset of {of} must have columns of numbers or of categories; got {len(bad)} others."
        raise ValueError(" ".join([must, *list(bad.values())[:SHOWN], remedy]))
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
    kind = getattr(column.dtype, "kind", "O")
    if is_categorical(column) or kind in "biuf":
        return ""
    if kind in "mM":
        return f"{name!r} has times: (x - x.min()).dt.total_seconds() converts them to numbers."
    first = next((value for value in column if isinstance(value, str)), None)
    if first is None:
        return f"{name!r} has the dtype {column.dtype}."
    return f"{name!r} has strings such as {first!r}: frame[{name!r}].astype('category') converts them to categories."


def is_categorical(entry: Any) -> bool:
    return getattr(getattr(entry, "dtype", None), "name", None) == "category"


def coded(label: str, entry: Any) -> Codes:
    column = getattr(entry, "cat", entry)
    array = np.asarray(column.codes, np.int32)
    if (array < 0).any():
        raise ValueError(
            f"{label} must have no missing categories; got {int((array < 0).sum())}, the first at index "
            f"{int(np.argmin(array))}. Leave these observations out, or give them a separate category."
        )
    return Codes(array, [_level(x) for x in column.categories])


def _recoded(label: str, entry: Any, levels: Sequence[Level]) -> np.ndarray:
    """The codes of categories or words by the levels of another table; numbers may be levels or codes."""
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


def with_levels(of: str, dataset: Any, levels: Mapping[str, Sequence[Level]], labels: Collection[str] = ()) -> Any:
    """The dataset with categories as codes, by the levels of another table; `labels` may have strings."""
    dataset = as_columns(of, dataset, [*levels, *labels])
    if not isinstance(dataset, Mapping):
        return dataset
    return {
        name: _recoded(f"dataset[{name!r}] of {of}", entry, levels[name]) if name in levels else entry
        for name, entry in dataset.items()
    }


def _level(value: Any) -> Level:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def is_on_disk(array: Any) -> bool:
    return isinstance(array, np.memmap) or library_of(array) in ("zarr", "h5py")


def library_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]

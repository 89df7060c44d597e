"""Users' arrays of numbers, checked and converted without loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import warn_of_rounded


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
            f"first at index {int(np.argmax(missing))}. Leave such observations out, as frame.dropna() does, or fill "
            "them in."
        )
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(
            f"{label} of {of} must be an array of numbers; got {type(value).__name__} ({error})."
        ) from error
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{must}; got {_kind(value, array)}.")
    return array


def n_masked(value: Any) -> int:
    """The number of masked values in a NumPy masked array, or in a list of some."""
    if isinstance(value, list | tuple):
        return sum(n_masked(part) for part in value if isinstance(part, np.ma.MaskedArray))
    return int(np.ma.count_masked(value)) if isinstance(value, np.ma.MaskedArray) else 0


def sparse_like(value: Any) -> bool:
    """Whether the value is a sparse matrix of SciPy, or a sparse or ragged tensor."""
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
    """The first number that is NaN or infinite, and its index."""
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at index {tuple(int(i) for i in where)}"


def integer_type(label: str, dtype: np.dtype) -> np.dtype:
    """int32 or int64, whichever holds this integer type."""
    if dtype.kind not in "biu":
        raise ValueError(f"{label} must have an integer type, since it is named in integers; got dtype {dtype}.")
    wide = dtype.newbyteorder("=") in (np.int64, np.uint32, np.uint64)
    return np.dtype(np.int64 if wide else np.int32)


def converted(of: str, name: str, value: Any, is_integer: bool, float_type: np.dtype) -> np.ndarray:
    """An entry as an array of its integer type or of the float type, without loss."""
    label = f"dataset[{name!r}]"
    array = numeric(label, of, value)
    if is_integer:
        as_integer = integer_type(f"{label} of {of}", array.dtype)
        if array.dtype.newbyteorder("=") == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{label} of {of} must fit into int64; got values up to {array.max()}.")
        return array.astype(as_integer, copy=False)
    exact = 2 ** (np.finfo(float_type).nmant + 1)
    if array.dtype.kind in "iu" and array.size and max(-int(array.min()), int(array.max())) > exact:
        raise ValueError(
            f"{label} of {of} must hold integers that {float_type} represents exactly, up to {exact} (or name it in "
            f"integers=, or use dtype='float64'); got values up to {max(-int(array.min()), int(array.max()))}."
        )
    with np.errstate(over="ignore"):
        as_float = array.astype(float_type, copy=False)
    if not np.isfinite(as_float).all():
        missing = ", a missing value: leave such observations out, as frame.dropna() does, or fill them in"
        more = missing if np.isnan(as_float).any() else ""
        raise ValueError(f"{label} of {of} must be finite in {float_type}; got {first_non_finite(as_float)}{more}.")
    warn_of_rounded(label, of, array, as_float)
    return as_float

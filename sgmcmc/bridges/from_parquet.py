"""fromParquet: a dataset on disk from Parquet files that do not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sgmcmc.arguments import require_float_type
from sgmcmc.bridges.arrow import Source, columns_of, converted
from sgmcmc.core.errors import require_flag
from sgmcmc.dataset.arrays import PARQUET

NAME = "fromParquet"
SUFFIXES = (*PARQUET, ".arrow", ".feather", ".ipc")


def fromParquet(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    columns: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    *,
    folder: str | os.PathLike | None = None,
    dtype: str = "float32",
    verbose: bool = True,
) -> dict[str, Any]:
    """A dataset on disk, from Parquet or Arrow files that do not fit into memory.

    Minibatches need random rows, which these files cannot provide, since they are
    compressed by columns. The columns are therefore copied once to a file of rows, next
    to the files, which is memory-mapped. Later calls reuse it if the files and the
    arguments are the same. Delete it when you no longer need it.

    Parameters
    ----------
    path : path or sequence of paths
        A file, a folder of files, or several files, with the same columns. The files of a
        folder are read in the order of their names. The suffixes ``.parquet`` and ``.pq``
        mean Parquet; ``.arrow``, ``.feather`` and ``.ipc`` mean Arrow IPC.
    columns : sequence of str or dict, optional
        The columns that become entries of the dataset; by default all. A dict gives for
        each entry a column, or a list of numeric columns that become the columns of a
        matrix: ``{"X": ["age", "income"], "y": "bought"}``.
    folder : path, optional
        The folder of the copy. By default a folder next to `path`, with its name and the
        suffix ``.rows``.
    dtype : {"float32", "float64"}, default "float32"
        The type of floating-point columns. Integer columns keep theirs.
    verbose : bool, default True
        Whether to show progress.

    Returns
    -------
    dict
        The `dataset` of a sampler: memory maps of shape (N,) or (N, k). Columns of
        strings and categories become codes, as for a pandas table; use `labelled` to
        name them in draws and plots.

    Raises
    ------
    ValueError
        If a column does not exist or holds anything but numbers, strings or
        categories, if a value is missing, or if a number is NaN or infinite; the
        message names the row.
    OSError
        If the disk does not have enough free space, which is checked first.
    ImportError
        If pyarrow is not installed; the extra `formats` includes it.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import tensorflow as tf
    >>> from sgmcmc import fromParquet, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.normal(size=1000), "z": rng.normal(size=1000)})
    >>> table["y"] = table.x - table.z + rng.normal(size=1000)
    >>> table.to_parquet("table.parquet")
    >>> dataset = fromParquet("table.parquet", {"X": ["x", "z"], "y": "y"}, verbose=False)
    >>> dataset["X"].shape, dataset["y"].dtype
    ((1000, 2), dtype('float32'))
    >>> def logLik(params, dataset):
    ...     return -0.5 * (dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) ** 2
    >>> out = sgldcv(logLik, dataset, {"beta": np.zeros(2)}, nIters=4000, verbose=False, seed=1)
    >>> bool(np.allclose(out["beta"].mean(axis=0), [1, -1], atol=0.1))
    True
    """
    float_type = np.dtype(require_float_type(NAME, dtype).as_numpy_dtype)
    verbose = require_flag("verbose", NAME, verbose)
    paths, beside = _files(path)
    source = Source(NAME, paths)
    if source.size < 1:
        raise ValueError(f"path of {NAME} must name files with at least one row; got none in {str(beside)!r}.")
    kept = beside if folder is None else Path(folder)
    return converted(NAME, source, _entries(columns, source.names), float_type, kept, verbose)


def _files(path: Any) -> tuple[list[Path], Path]:
    """The files, and the default folder of the copy."""
    must = f"path of {NAME} must be a Parquet or Arrow file, a folder of them, or a list of files"
    given = [path] if isinstance(path, str | os.PathLike) else path
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, str | os.PathLike) for one in given):
        raise ValueError(f"{must}; got {path!r}.")
    paths: list[Path] = []
    for one in map(Path, given):
        found = sorted(file for file in one.rglob("*") if file.suffix in SUFFIXES) if one.is_dir() else [one]
        if not found or not all(file.is_file() and file.suffix in SUFFIXES for file in found):
            raise ValueError(f"{must}, with one of the suffixes {', '.join(SUFFIXES)}; got {str(one)!r}.")
        paths += found
    first = Path(given[0])
    return paths, first.with_name(f"{first.name}.rows")


def _entries(columns: Any, names: Sequence[str]) -> Mapping[str, str | Sequence[str]]:
    must = f"columns of {NAME} must be a list of columns, or a dict of columns and lists of columns"
    if columns is None:
        return {name: name for name in names}
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence) or not columns:
        raise ValueError(f"{must}; got {columns!r}.")
    entries = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    for name, entry in entries.items():
        wanted = columns_of(entry)
        if not isinstance(name, str) or not isinstance(wanted, Sequence) or not wanted:
            raise ValueError(f"{must}; got {columns!r}.")
        if missing := [one for one in wanted if one not in names]:
            raise ValueError(f"{must} that the files have, {list(names)[:10]}; got {missing[:3]}.")
    return entries

"""Conversion of columns in Parquet and Arrow files to one file of rows, for random access."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import lost_differences, refused, warn_user
from sgmcmc.core.files import write_whole
from sgmcmc.core.progress import Progress
from sgmcmc.dataset.arrays import NEEDS_PYARROW, PARQUET, Codes, Level

BATCH = 2**16  # rows
MOST_LEVELS = 100_000  # of a column of strings, which are held in memory

Entries = Mapping[str, str | Sequence[str]]
"""{name: the column, or the columns of a matrix}"""


def columns_of(entry: str | Sequence[str]) -> Sequence[str]:
    return [entry] if isinstance(entry, str) else entry


class Column(NamedTuple):
    dtype: np.dtype
    levels: list[Level] | None = None  # of a column of categories


class Rounding:
    """The rounding error of a column, and its range."""

    def __init__(self) -> None:
        self._least, self._most, self._error = np.inf, -np.inf, 0.0

    def add(self, values: np.ndarray, converted: np.ndarray) -> None:
        if values.size and np.isfinite(converted).all():
            self._least, self._most = min(self._least, values.min()), max(self._most, values.max())
            self._error = max(self._error, np.abs(values - converted).max())

    def warning(self, of: str, name: str, dtype: np.dtype) -> str:
        """The warning if differences between observations are lost, or ""."""
        spread = self._most - self._least
        return lost_differences(f"column {name!r}", of, self._error, spread, dtype) if spread > 0 else ""


class Source:
    """Parquet or Arrow files with the same columns, in the order of their names."""

    def __init__(self, of: str, paths: Sequence[Path]) -> None:
        try:
            from pyarrow import dataset
        except ImportError as error:
            raise ImportError(NEEDS_PYARROW) from error
        self._of, self.paths, self.rounding = of, list(paths), dict[str, Rounding]()
        form = "parquet" if paths[0].suffix in PARQUET else "ipc"
        try:
            self._dataset = dataset.dataset([str(path) for path in paths], format=form)
            self.size = self._dataset.count_rows()
        except Exception as error:
            got = f"{[str(path) for path in paths[:3]]} ({type(error).__name__}: {error})"
            raise refused(of, "path", "name files of one table that pyarrow can read", got) from error
        self.names = list(self._dataset.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """The rows in order, as Arrow batches, each with the number of its first row."""
        start = 0
        read = {"batch_size": BATCH, "batch_readahead": 2, "fragment_readahead": 1}
        for batch in self._dataset.to_batches(columns=list(dict.fromkeys(columns)), **read):
            yield start, batch
            start += batch.num_rows

    def columns(self, names: Sequence[str], float_type: np.dtype, verbose: bool) -> dict[str, Column]:
        """The types and levels of these columns. Strings need a pass over the data."""
        import pyarrow as pa

        found, words = dict[str, Column](), list[str]()
        for name in dict.fromkeys(names):
            kind = self._dataset.schema.field(name).type
            if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
                words.append(name)
            elif pa.types.is_floating(kind):
                found[name] = Column(float_type)
            elif pa.types.is_boolean(kind):
                found[name] = Column(np.dtype(np.int8))
            elif pa.types.is_integer(kind):
                found[name] = Column(np.dtype(kind.to_pandas_dtype()))
            else:
                raise self._refuse("hold numbers, strings or categories", f"{name!r} of type {kind}")
        return found | self._levels(words, verbose) if words else found

    def _levels(self, words: Sequence[str], verbose: bool) -> dict[str, Column]:
        import pyarrow as pa

        schema, seen = self._dataset.schema, {name: dict[Level, None]() for name in words}
        declared = {name for name in words if pa.types.is_dictionary(schema.field(name).type)}
        with Progress(self.size, "Reading categories", "row", verbose) as progress:
            for start, batch in self.batches(words):
                for name in words:
                    column = batch.column(name)
                    values = column.dictionary if name in declared else column.unique()
                    seen[name].update(dict.fromkeys(value for value in values.to_pylist() if value is not None))
                    if len(seen[name]) > MOST_LEVELS:
                        must = f"have at most {MOST_LEVELS:,} different strings"
                        raise self._refuse(must, f"more in {name!r}. Leave it out, or give it as numbers")
                progress.reached(start + batch.num_rows)
        # Categories that were declared keep their order, as in pandas; strings are sorted.
        return {
            name: Column(np.dtype(np.int32), list(levels) if name in declared else sorted(levels, key=str))
            for name, levels in seen.items()
        }

    def arrays(self, batch: Any, start: int, columns: Mapping[str, Column]) -> dict[str, np.ndarray]:
        """The columns of a batch, without missing values, NaN and infinity."""
        found = {}
        for name, column in columns.items():
            array = batch.column(name)
            if array.null_count:
                row = start + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                raise self._refuse("have no missing values", f"some in {name!r}, the first in row {row}")
            if column.levels is not None:
                found[name] = _codes(array, column.levels)
                continue
            values = array.to_numpy(zero_copy_only=False)
            with np.errstate(over="ignore"):
                found[name] = values.astype(column.dtype)
            if values.dtype.kind == "f":
                self.rounding.setdefault(name, Rounding()).add(values, found[name])
            if column.dtype.kind == "f" and not np.isfinite(found[name]).all():
                at = int(np.argmin(np.isfinite(found[name])))
                raise self._refuse(f"be finite in {column.dtype}", f"{values[at]} in row {start + at} of {name!r}")
        return found

    def _refuse(self, must: str, got: str) -> ValueError:
        return refused(self._of, "columns", must, got)


def _codes(array: Any, levels: Sequence[Level]) -> np.ndarray:
    """The positions of strings in the levels."""
    place = {level: code for code, level in enumerate(levels)}
    encoded = array if hasattr(array, "dictionary") else array.dictionary_encode()
    codes = np.array([place.get(level, -1) for level in encoded.dictionary.to_pylist()], np.int32)
    return codes[encoded.indices.to_numpy(zero_copy_only=False)]


def converted(
    of: str, source: Source, entries: Entries, float_type: np.dtype, folder: Path, verbose: bool
) -> dict[str, Any]:
    """The entries as memory maps of one file in the folder, which is written if it does not exist."""
    key = _key(source, entries, float_type)
    rows, about = folder / f"{key}.npy", folder / f"{key}.json"
    if not (rows.exists() and about.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        _convert(of, source, entries, float_type, rows, about, verbose)
    table = np.load(rows, mmap_mode="r")
    known = json.loads(about.read_text(encoding="utf-8"))
    levels: dict[str, list[Level]] = known["levels"]
    for warning in known["warnings"]:
        warn_user(warning)
    return {name: Codes(table[name], levels[name]) if name in levels else table[name] for name in entries}


def _key(source: Source, entries: Entries, float_type: np.dtype) -> str:
    """A name that depends on the files and on the entries taken from them."""
    files = [(str(path.resolve()), (status := path.stat()).st_size, status.st_mtime_ns) for path in source.paths]
    wanted = [[name, entry if isinstance(entry, str) else list(entry)] for name, entry in entries.items()]
    text = json.dumps([1, files, wanted, str(float_type)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _convert(
    of: str, source: Source, entries: Entries, float_type: np.dtype, rows: Path, about: Path, verbose: bool
) -> None:
    names = [name for entry in entries.values() for name in columns_of(entry)]
    columns = source.columns(names, float_type, verbose)
    record = np.dtype([(name, *_field(of, name, entry, columns)) for name, entry in entries.items()])
    needed, free = source.size * record.itemsize, shutil.disk_usage(rows.parent).free
    if needed > free:
        room = f"{needed / 1e9:.1f} GB in {str(rows.parent)!r}, where {free / 1e9:.1f} GB are free"
        raise OSError(errno.ENOSPC, f"{of} needs {room}; name another folder, or fewer columns")
    partial = rows.with_name(f".{rows.stem}.{os.getpid()}.npy")
    try:
        table = np.lib.format.open_memmap(partial, "w+", record, (source.size,))
        with Progress(source.size, "Converting", "row", verbose) as progress:
            for start, batch in source.batches(names):
                part, arrays = table[start : start + batch.num_rows], source.arrays(batch, start, columns)
                for name, entry in entries.items():
                    if isinstance(entry, str):
                        part[name] = arrays[entry]
                    else:
                        for k, column in enumerate(entry):
                            part[name][:, k] = arrays[column]
                progress.reached(start + batch.num_rows)
        table.flush()
        del table
        single = {name: columns[entry] for name, entry in entries.items() if isinstance(entry, str)}
        levels = {name: column.levels for name, column in single.items() if column.levels is not None}
        warnings = [warning for name, one in source.rounding.items() if (warning := one.warning(of, name, float_type))]
        known = {"files": [str(path) for path in source.paths], "levels": levels, "warnings": warnings}
        write_whole(about, json.dumps(known).encode())
        partial.replace(rows)
    finally:
        partial.unlink(missing_ok=True)


def _field(
    of: str, name: str, entry: str | Sequence[str], columns: Mapping[str, Column]
) -> tuple[np.dtype, tuple[int, ...]]:
    if isinstance(entry, str):
        return columns[entry].dtype, ()
    if worded := [column for column in entry if columns[column].levels is not None]:
        must = "be columns of numbers, which become a matrix"
        raise refused(of, f"columns[{name!r}]", must, f"{worded} with strings")
    return np.result_type(*(columns[column].dtype for column in entry)), (len(entry),)

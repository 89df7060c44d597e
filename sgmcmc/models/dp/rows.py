"""Rows of counts, checked and stored by their nonzero entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sgmcmc.dataset.entry import described, numeric

FEWEST, LARGEST_CODE = 20, 30  # rows that show a pattern, and a code that is still likely
LARGEST = 2**24  # float32 holds every integer up to here


class Rows(NamedTuple):
    """N rows, padded with counts of 0 to the length of the longest."""

    categories: np.ndarray  # int32 [N, longest]
    counts: np.ndarray  # int32 [N, longest]
    width: int  # d, the number of categories

    def totals(self) -> np.ndarray:
        """The sum over all rows, [d]."""
        return np.bincount(self.categories.ravel(), self.counts.ravel(), self.width)


def checked_rows(label: str, of: str, value: Any, width: int | None = None) -> Rows:
    """Rows from a matrix of counts, (N, d), dense or SciPy sparse.

    Raises
    ------
    ValueError
        If the shape is wrong, an entry is not a count, or a row is empty.
    """
    shape, row, category, count = _entries(label, of, value)
    if width is not None and shape[1] != width:
        raise ValueError(f"{label} of {of} must have {width} columns, one for each category; got {shape[1]}.")
    bad = np.flatnonzero((count < 0) | (count != np.round(count)) | ~(count <= LARGEST))
    if len(bad):
        index = (int(row[bad[0]]), int(category[bad[0]]))
        raise ValueError(
            f"{label} of {of} must have counts, integers from 0 to 2**24; got {count[bad[0]]} at index {index}."
        )
    there = count > 0
    row, category, count = row[there], category[there], count[there]
    length = np.bincount(row, minlength=shape[0])
    if not length.all():
        raise ValueError(
            f"{label} of {of} must have rows with at least one positive count; got none in row {length.argmin()}."
        )
    if count.sum() >= 2**31:
        raise ValueError(f"{label} of {of} must have a sum below 2**31; got {count.sum():.0f}.")
    place = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    padded = np.zeros((2, shape[0], length.max()), np.int32)
    padded[:, row, place] = category, count
    return Rows(padded[0], padded[1], shape[1])


def look_like_codes(rows: Rows) -> bool:
    """Whether columns seem to hold the code of a category, from 1 on, in place of counts."""
    totals = rows.counts.sum(axis=1)
    full = rows.categories.shape[1] == rows.width and bool((rows.counts > 0).all())
    enough = len(totals) >= FEWEST
    return full and enough and int(rows.counts.max()) <= LARGEST_CODE and bool((totals != totals[0]).any())


def _entries(label: str, of: str, value: Any) -> tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray]:
    """The shape, and the rows, categories and counts of the entries, in order of rows."""
    if hasattr(value, "tocsr"):
        _require_matrix(label, of, value, value.shape)
        if value.dtype.kind not in "biuf":
            raise ValueError(f"{label} of {of} must have real numbers; got {value.dtype}.")
        matrix = value.astype(np.float64).tocsr()  # duplicates are summed in float64, not in a type of few bits
        matrix.sum_duplicates()
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return matrix.shape, row, matrix.indices, matrix.data
    array = numeric(label, of, value)
    _require_matrix(label, of, value, array.shape)
    row, category = np.nonzero(array)
    return array.shape, row, category, array[row, category].astype(np.float64)


def _require_matrix(label: str, of: str, value: Any, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] < 1 or shape[1] < 2:
        raise ValueError(
            f"{label} of {of} must be a matrix of counts with a row for each observation and a column for each of at "
            f"least two categories, an array or a sparse matrix of SciPy's; got {described(value)}."
        )

"""Documents: a checked matrix of word counts, and the tokens of each document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.dataset.arrays import described, numeric

if TYPE_CHECKING:
    from scipy import sparse


NONE = -1  # padding
SHOWN = 5  # documents that a message names
MOST = 2**31  # tokens


def checked_documents(docs: Any, of: str, at_least: int = 1, n_words: int | None = None) -> sparse.csr_array:
    """The counts as int64, with each word of a document once and no zeros stored."""
    from scipy import sparse

    must = f"docs of {of} must be a matrix of counts, sparse or dense, with a row for each document"
    if not sparse.issparse(docs):
        docs = numeric("docs", of, docs)
    if docs.ndim != 2:
        raise ValueError(f"{must} and a column for each word; got {described(docs)}.")
    if docs.dtype.kind not in "biuf":
        raise ValueError(f"{must}; got numbers of {docs.dtype}.")
    if docs.shape[0] < at_least or docs.shape[1] < 1:
        raise ValueError(f"{must}, at least {at_least}, and a column for each word; got {described(docs)}.")
    if n_words is not None and docs.shape[1] != n_words:
        raise ValueError(
            f"docs of {of} must have a column for each of the {n_words} words of the documents that the topics were "
            f"learnt from; got {docs.shape[1]} columns."
        )
    stored = sparse.coo_array(docs)
    _require_counts(stored, of)
    counts = sparse.csr_array(stored.astype(np.int64))  # duplicates are summed in int64, not in a narrow type
    counts.eliminate_zeros()
    empty = np.flatnonzero(np.diff(counts.indptr) == 0)
    if len(empty):
        named = ", ".join(map(str, empty[:SHOWN])) + (", ..." if len(empty) > SHOWN else "")
        raise ValueError(
            f"docs of {of} must have at least one word in each document; got {len(empty)} empty, of index {named}."
        )
    return counts


def _require_counts(stored: sparse.coo_array, of: str) -> None:
    values = stored.data
    allowed = np.isfinite(values) & (values >= 0) & (values < MOST)
    allowed[allowed] = values[allowed] == np.floor(values[allowed])
    if not allowed.all():
        at = int(np.argmin(allowed))
        where = tuple(int(axis[at]) for axis in stored.coords)
        raise ValueError(
            f"docs of {of} must hold counts, whole numbers from 0 to 2**31 - 1; got {values[at]} of word {where[1]} in "
            f"document {where[0]}."
        )


def checked_vocabulary(vocabulary: Any, of: str, n_words: int) -> np.ndarray:
    if vocabulary is None:
        return np.arange(n_words).astype(str)
    words = np.asarray(vocabulary)
    if words.shape != (n_words,):
        raise ValueError(
            f"vocabulary of {of} must have a word for each of the {n_words} columns of docs; got shape {words.shape}."
        )
    return words


def tokens(counts: sparse.csr_array, width: int | None = None) -> np.ndarray:
    """The words of each document, repeated by count, padded with `NONE`: int32 [n, width]."""
    words, lengths = _in_a_row(counts)
    longest = max(int(lengths.max()), 1) if width is None else width
    table = np.full((len(lengths), longest), NONE, np.int32)
    table[np.arange(longest) < lengths[:, None]] = words
    return table


def halves(counts: sparse.csr_array, seed: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Each document's tokens in two random halves; the second has the odd token."""
    from scipy import sparse

    words, lengths = _in_a_row(counts)
    n_tokens, documents = len(words), np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(n_tokens, dtype=np.uint32)
    uniforms = Stream(keys(seed, Purpose.COMPLETION, 1)).uniform(np.zeros(1, np.uint32), places).numpy()[0, 0]
    order = np.lexsort((uniforms, documents))
    first = np.arange(n_tokens) - np.repeat(np.cumsum(lengths) - lengths, lengths) < np.repeat(lengths // 2, lengths)

    def counted(chosen: np.ndarray) -> sparse.csr_array:
        ones = np.ones(len(chosen), np.int64)
        part = sparse.csr_array((ones, (documents[chosen], words[chosen])), shape=counts.shape)
        part.sum_duplicates()
        return part

    return counted(order[first]), counted(order[~first])


def _in_a_row(counts: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(counts.indices, counts.data), np.asarray(counts.sum(axis=1)).ravel()

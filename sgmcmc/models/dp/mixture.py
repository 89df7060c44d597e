"""Mixture: the result of dpMixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import require_flag
from sgmcmc.dataset.arrays import described, numeric
from sgmcmc.draws.draws import Draws

FEWEST, LARGEST_CODE = 20, 30  # the rows needed to see a pattern, and the largest plausible code
LARGEST = 2**24  # float32 holds every integer up to here
BLOCK = 64  # draws
ROUNDING = 1e-6  # of the sum of float32 weights


class Rows(NamedTuple):
    """N rows, padded with counts of 0 to the length of the longest."""

    categories: np.ndarray  # int32 [N, longest]
    counts: np.ndarray  # int32 [N, longest]
    width: int  # d, the number of categories


def checked_rows(label: str, of: str, value: Any, width: int | None = None) -> Rows:
    """Rows from a matrix of counts, (N, d), dense or SciPy sparse; refused if a row is empty."""
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
    """Whether columns seem to hold category codes, from 1 on, instead of counts."""
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
        matrix = value.astype(np.float64).tocsr()  # duplicates are summed in float64, not in a narrow type
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
            f"least two categories, an array or a SciPy sparse matrix; got {described(value)}."
        )


class Mixture:
    """The draws of a Dirichlet process mixture, and summaries that need no labels.

    The labels of the components may switch between draws. The number of occupied
    components, the predictive distribution and the probability that two observations are
    in the same component do not depend on labels.

    Parameters
    ----------
    draws : Draws
        The draws of `dpMixture`: ``Mixture(Draws.load(path))`` reads saved ones, and
        ``Mixture(out.draws[100:])`` takes some of them.

    Attributes
    ----------
    draws : Draws
        All arrays, by name, with ``save``, ``summary`` and slices: see `Draws`.
    components : numpy.ndarray
        The number of occupied components, (T,) for T draws, or (nChains, T).
    alpha : numpy.ndarray
        The concentration, (T,) or (nChains, T).
    weights : array
        The weights of the components in stick order, (T, K) or (nChains, T, K), with K the
        `maxComponents`. One minus their sum is the weight of all further components.
    theta : array
        The probabilities of the categories in each component, (T, K, d) or (nChains, T, K, d).
    assignments : array
        The component of each observation, (T, N) or (nChains, T, N); only with
        ``assignments=True``.
    iterations : numpy.ndarray
        The iteration after which each draw was made, counted from 1.
    nChains : int or None
        None if there is a single chain without a chain axis.
    settings : dict
        The arguments, checked.
    seed : int
        The seed in use.
    timings : dict of str to float
        Seconds: "sampling" with compilation, and "total".

    Examples
    --------
    See `dpMixture`.
    """

    def __init__(self, draws: Draws) -> None:
        if not isinstance(draws, Draws) or draws.settings.get("sampler") != "dpMixture":
            raise ValueError(f"draws of Mixture must be those of dpMixture; got {draws!r}.")
        self.draws = draws

    def __getattr__(self, name: str) -> Any:
        if name in ("iterations", "nChains", "settings", "seed", "timings"):
            return getattr(self.draws, name)
        if name in ("components", "alpha", "weights", "theta", "assignments") and name in self.draws:
            return self.draws[name]
        raise AttributeError(f"'Mixture' has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        components = np.asarray(self.draws["components"])
        of_draws = f"{components.min()} to {components.max()} components" if components.size else "no draws"
        return f"<mixture of dpMixture, seed {self.seed}: {of_draws}, {components.shape} draws>"

    def logPredictive(self, heldOut: Any, *, perDraw: bool = False) -> Any:
        """The mean log predictive probability of held-out rows.

        Parameters
        ----------
        heldOut : array_like or sparse matrix
            Rows of counts with the same categories, (M, d).
        perDraw : bool, default False
            Whether to score each draw separately. Otherwise the probability of a row is the
            mean over all draws of all chains, the posterior predictive probability.

        Returns
        -------
        float or numpy.ndarray
            A number; with `perDraw` one for each draw, (T,) or (nChains, T).

        Raises
        ------
        ValueError
            If there are no draws, or `heldOut` has other categories or entries that are not counts.

        Notes
        -----
        The mean over rows i of the logarithm of the mean over draws of::

            sum_j w_j Multi(x_i | n_i, theta_j) + (1 - sum_j w_j) p(x_i)

        where p is the Dirichlet-multinomial distribution of a row under the prior of a
        component.
        """
        perDraw = require_flag("perDraw", "logPredictive", perDraw)
        rows = self._rows("heldOut", "logPredictive", heldOut)
        if perDraw:
            means = [np.logaddexp.reduce(log_joint, axis=1).mean() for log_joint in self._log_joints(rows)]
            return np.reshape(means, np.shape(self.components))
        total, n_draws = np.full(len(rows.counts), -np.inf), 0
        for log_joint in self._log_joints(rows):
            total, n_draws = np.logaddexp(total, np.logaddexp.reduce(log_joint, axis=1)), n_draws + 1
        return float((total - np.log(n_draws)).mean())

    def coClustering(self, rows: Any, pairs: Any) -> np.ndarray:
        """The posterior probability that two rows belong to the same component.

        Parameters
        ----------
        rows : array_like or sparse matrix
            Rows of counts with the same categories, (M, d), observations or new ones.
        pairs : array_like
            Pairs of row numbers, (P, 2).

        Returns
        -------
        numpy.ndarray
            The mean over all draws of all chains of the probability given the weights and the
            components, (P,). For observed rows this is the posterior probability that they are
            assigned to the same component.

        Raises
        ------
        ValueError
            If there are no draws, `rows` has other categories or entries that are not counts, or a pair does not exist.
        """
        data = self._rows("rows", "coClustering", rows)
        which = numeric("pairs", "coClustering", pairs)
        n_rows = len(data.counts)
        if which.ndim != 2 or which.shape[1] != 2 or which.dtype.kind not in "iu":
            raise ValueError(f"pairs of coClustering must be pairs of integers, (P, 2); got shape {which.shape}.")
        if which.size and not (which.min() >= 0 and which.max() < n_rows):
            raise ValueError(
                f"pairs of coClustering must be numbers of rows, from 0 to {n_rows - 1}; got {which.min()} to "
                f"{which.max()}."
            )
        total, n_draws = np.zeros(len(which)), 0
        for log_joint in self._log_joints(data):
            shares = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True))[:, :-1]
            total, n_draws = total + np.sum(shares[which[:, 0]] * shares[which[:, 1]], axis=1), n_draws + 1
        return np.where(which[:, 0] == which[:, 1], 1.0, total / n_draws)

    def _rows(self, argument: str, of: str, value: Any) -> Rows:
        if not np.size(self.components):
            raise ValueError(f"{of} needs draws; there are none.")
        return checked_rows(argument, of, value, self.theta.shape[-1])

    def _log_joints(self, rows: Rows) -> Iterator[np.ndarray]:
        """For each draw log(w_j p(x_i | theta_j)), [M, K + 1]; the last column is for all further components."""
        from scipy import sparse
        from scipy.special import gammaln

        counts = rows.counts.astype(np.float64)
        there = rows.counts > 0
        of_rows = np.nonzero(there)[0]
        matrix = sparse.csr_matrix((counts[there], (of_rows, rows.categories[there])), (len(counts), rows.width))
        n = counts.sum(axis=1)
        arrangements = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1)
        a, total = self.settings["a"], self.settings["a"] * rows.width
        # The Dirichlet-multinomial probability of a row, under the prior of a component.
        of_categories = np.sum(gammaln(a + counts) - gammaln(a), axis=1)
        further = arrangements + (gammaln(total) - gammaln(total + n) + of_categories)
        for weights, theta in self._each():
            with np.errstate(divide="ignore"):
                rest = 1 - weights.sum()
                log_w = np.log(np.append(weights, rest if rest > ROUNDING else 0.0))
                log_theta = np.maximum(np.log(theta), -1e300)  # so that categories that a row lacks add nothing
            yield log_w + np.column_stack([arrangements[:, None] + matrix @ log_theta.T, further])

    def _each(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The weights and components of each draw, in float64; draws on disk are read in blocks."""
        groups = self.draws.groups["posterior"]
        n_chains, n_draws = groups["weights"].shape[:2]
        for chain in range(n_chains):
            for first in range(0, n_draws, BLOCK):
                block = (np.asarray(groups[name][chain, first : first + BLOCK]) for name in ("weights", "theta"))
                yield from zip(*(x.astype(np.float64) for x in block), strict=True)

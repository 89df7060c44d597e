"""windows: a time series as observations that can be drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sgmcmc.core.errors import refused, require_count
from sgmcmc.dataset import Data, Shards
from sgmcmc.dataset.arrays import Level, with_levels
from sgmcmc.dataset.columns import Columns
from sgmcmc.dataset.groups import AUTO, by_label
from sgmcmc.dataset.row_groups import Extents, RowGroups
from sgmcmc.dataset.shards import joined

BEGINS = "begins"
UNKNOWN = 8  # steps before a window until it is known how many are needed


@dataclass(frozen=True, repr=False)
class windows:  # noqa: N801 - reads as a function where it is used
    """One time series, or several, as windows of consecutive steps, for the argument `dataset`.

    The log likelihood of a series is a sum of predictive log densities,
    log p(y_t | y_1, ..., y_t-1). If the series forgets its past, so that steps long ago
    hardly matter, the `before` steps before a window suffice to predict those in it
    [1]_. A window of `length` steps, together with the `before` steps before it, is one
    observation: its term is the sum of the predictive log densities of its own steps,
    from a filter that starts at the first of the steps before. N is the number of windows.

    `logLik` gets each column with shape (n, before + length, ...), in which the first
    row of a window is the first of the steps before it, and two more entries:

    - `inside`, (n, before + length), is 1 for the steps of the window and 0 for those before
      it, and for padding after the end of a series, which repeats the last step;
    - `begins`, (n,), is 1 if the first row is the first step of its series, where the
      filter starts from the initial distribution of the model, and 0 elsewhere, where a
      stationary distribution, say, is a better start.

    Every step of a series is inside exactly one window, and no window has steps of two series.

    Parameters
    ----------
    data : dict, table, object with `take`, or list of them
        The steps of a series in the order of time, in any form that `dataset` can have; a
        list has one entry for each of several series.
    length : int
        Steps in a window. Longer windows spend less time on the steps before them, shorter
        ones make minibatches more representative of the whole series.
    before : int or "auto", default "auto"
        Steps before a window from which its own are predicted. The error decreases by a
        factor for each further step: the rate at which the series forgets its past. "auto"
        tries 4, 8, 16, ... when the sampler is set up, and takes the first number for which
        posterior means are expected to be within 0.02 posterior standard deviations of
        those with all steps. With a number, a sampler that finds the mode warns if this
        error exceeds 0.05. ``out.settings["before"]`` is the number, and
        ``out.settings["expected"]`` has the error: `contextShift`, and for standard
        deviations their ratio `contextSdRatio`.
    by : str, optional
        The column with the label of the series of each step, for several series in one
        table. It is not passed to `logLik`.

    Raises
    ------
    ValueError
        When the sampler is set up: if an argument is out of range, if `by` is not a column,
        or if data on disk are not sorted by series.

    References
    ----------
    .. [1] Aicher, C., Ma, Y.-A., Foti, N. J. and Fox, E. B. (2019). Stochastic gradient MCMC for state space models.
       SIAM Journal on Mathematics of Data Science 1, 555-587.

    Examples
    --------
    An autoregression, which needs one step before a window:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgldcv, windows
    >>> rng = np.random.default_rng(0)
    >>> y = np.zeros(5000)
    >>> for t in range(1, 5000):
    ...     y[t] = 0.7 * y[t - 1] + rng.normal()
    >>> def logLik(params, dataset):
    ...     y = dataset["y"]
    ...     of_steps = -0.5 * (y[:, 1:] - params["phi"] * y[:, :-1]) ** 2
    ...     return tf.reduce_sum(dataset["inside"][:, 1:] * of_steps, axis=1)
    >>> out = sgldcv(
    ...     logLik, windows({"y": y}, length=20, before=1), {"phi": 0.0}, nIters=4000, verbose=False, seed=1
    ... )
    >>> exact = (y[1:] @ y[:-1]) / (y[:-1] @ y[:-1])
    >>> bool(abs(out["phi"].mean() - exact) < 0.2 * out["phi"].std())
    True
    """

    data: Any
    length: int
    before: int | str = AUTO
    by: str | None = None

    def __repr__(self) -> str:
        return f"windows(..., length={self.length!r}, before={self.before!r}, by={self.by!r})"

    def with_levels(self, of: str, levels: Mapping[str, Sequence[Level]]) -> windows:
        """The same windows, with categories coded by these levels."""
        if isinstance(self.data, list | tuple):
            return replace(self, data=[with_levels(of, one, levels) for one in self.data])
        return replace(self, data=with_levels(of, self.data, levels, [] if self.by is None else [self.by]))

    def opened(self, of: str, integers: Sequence[str], dtype: np.dtype) -> Windows:
        """The windows, with every entry converted to its type."""
        length = require_count("length of windows", of, self.length, 1)
        before = None
        if self.before != AUTO:
            before = require_count("before of windows", of, self.before, 0, ", or 'auto'")
        rows, ends = self._series(of, integers, dtype)
        return Windows(of, rows, ends, length, UNKNOWN if before is None else before, dtype, before is None)

    def _series(self, of: str, integers: Sequence[str], dtype: np.dtype) -> tuple[Data, np.ndarray]:
        """The steps of all series, one after the other, and where each series ends."""
        if isinstance(self.data, list | tuple):
            if self.by is not None:
                raise refused(of, "by of windows, in dataset", "be None if data are a list of series", repr(self.by))
            if not self.data:
                raise refused(of, "data of windows, in dataset", "have at least one series", "an empty list")
            each = [Columns(of, one, integers, dtype) for one in self.data]
            series = [one.data(one.names) for one in each]
            sizes = [one.size for one in series]
            return joined(f"data of windows, in dataset of {of},", series, Shards(sizes, 1)), np.cumsum(sizes)
        if self.by is None:
            columns = Columns(of, self.data, integers, dtype)
            rows = columns.data(columns.names)
            return rows, np.array([rows.size])
        columns = Columns(of, self.data, integers, dtype, labels=[self.by])
        if self.by not in columns.names or len(columns.names) == 1:
            must = f"be one of several columns of the data, {columns.names}"
            raise refused(of, "by of windows, in dataset", must, repr(self.by))
        rows, ends, _ = by_label(of, self.by, columns, [name for name in columns.names if name != self.by])
        return rows, ends


class Windows(RowGroups):
    """The windows of the series that end at rows `ends`."""

    def __init__(
        self, of: str, rows: Data, ends: np.ndarray, length: int, before: int, dtype: np.dtype, automatic: bool = False
    ) -> None:
        extents, begins = tiled(ends, length, before)
        super().__init__(of, rows, extents, {BEGINS: begins.astype(dtype)}, dtype)
        self.length, self.before, self.automatic = length, before, automatic
        self._ends, self._dtype = ends, dtype

    @property
    def most_before(self) -> int:
        """The most steps that a window has before it in its series; with as many, all of the past is seen."""
        return int((np.diff(self._ends, prepend=0).max() - 1) // self.length * self.length)

    def with_before(self, before: int) -> Windows:
        """The same windows with this many steps before them."""
        return Windows("", self.rows, self._ends, self.length, before, self._dtype)


def tiled(ends: np.ndarray, length: int, before: int) -> tuple[Extents, np.ndarray]:
    """The windows of the series that end there, and whether the first row of each is the first of its series."""
    starts = np.append(0, ends[:-1])
    n_windows = -(-(ends - starts) // length)
    series = np.repeat(np.arange(len(ends)), n_windows)
    number = np.arange(len(series)) - np.repeat(np.cumsum(n_windows) - n_windows, n_windows)
    counts = starts[series] + number * length
    begin = np.maximum(counts - before, starts[series])
    return Extents(begin, counts, np.minimum(counts + length, ends[series])), begin == starts[series]

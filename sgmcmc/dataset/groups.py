"""groups: a dataset in long form whose rows belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sgmcmc.core.errors import refused
from sgmcmc.dataset import Data, aligned_zeros, block_size
from sgmcmc.dataset.arrays import Level, with_levels
from sgmcmc.dataset.bundles import Bundles, padding_is_costly
from sgmcmc.dataset.columns import Columns
from sgmcmc.dataset.memory import Subset
from sgmcmc.dataset.row_groups import Extents, RowGroups

AUTO = "auto"


@dataclass(frozen=True, repr=False)
class groups:  # noqa: N801 - reads as a function where it is used
    """Rows that belong together as one observation, for the argument `dataset`.

    The data are in long form, with a row for each alternative of a choice, visit of a
    person or pupil of a school. All rows with the same label in the column `by` are one
    observation: N is the number of groups, minibatches consist of whole groups, and
    `logLik` is a sum over groups.

    `logLik` gets each column with shape (n, longest, ...), where `longest` is the number of
    rows of the largest group, and an entry `inside` of shape (n, longest), which is 1 for
    rows and 0 for padding. Padding repeats the last row of the group, so functions of it
    are finite and it needs no other care than a factor of `inside`, or of minus infinity
    in a softmax.

    Parameters
    ----------
    data : dict, table, or object with `take`
        The rows, in any form that `dataset` can have. The rows of a group stay in their
        order. On disk they must be consecutive.
    by : str
        The column with the labels of the groups: numbers, strings or categories. It is not
        passed to `logLik`.
    constant : sequence of str, default ()
        Columns that do not vary within a group, such as the income of a person. `logLik`
        gets them once for each group, with shape (n, ...).
    bundled : bool or "auto", default "auto"
        Whether to bundle groups of very unequal size, as described in the notes. "auto" does
        if padding all of them to the longest would more than triple the number of rows, to
        over four million.

    Raises
    ------
    ValueError
        When the sampler is set up: if `by` or `constant` are not columns, if a constant column
        varies within a group, if labels are missing, or if data on disk are not sorted by group.

    Notes
    -----
    With bundles, `logLik` is called once for each class of groups of similar length, and
    `longest` is that of the class. It must return a term for each group, of shape (n,).
    Every bundle has the same number of places for groups of each class; all places together
    have at most three times as many rows as the data. Minibatches are simple
    random samples of bundles, and their gradients are unbiased. N and `minibatchSize` count
    groups, on average over bundles; a minibatch has at least one bundle, and
    ``out.settings["bundles"]`` is the number of bundles. With `gibbs`, `shards`, `suffStats`,
    and `subsampling` by given weights or a function, "auto" pads.

    Examples
    --------
    Choices between alternatives, each with a cost: the conditional logit model.

    >>> import numpy as np
    >>> import pandas as pd
    >>> import tensorflow as tf
    >>> from sgmcmc import groups, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> situation = np.repeat(np.arange(1000), rng.integers(2, 6, size=1000))
    >>> table = pd.DataFrame({"situation": situation, "cost": rng.normal(size=len(situation))})
    >>> utility = -table.cost + rng.gumbel(size=len(table))
    >>> table["chosen"] = utility == utility.groupby(table.situation).transform("max")
    >>> def logLik(params, dataset):
    ...     inside = dataset["inside"] > 0
    ...     utility = tf.where(inside, params["beta"] * dataset["cost"], -np.inf)
    ...     chosen = tf.reduce_sum(tf.where(inside, dataset["chosen"] * params["beta"] * dataset["cost"], 0.0), axis=1)
    ...     return chosen - tf.reduce_logsumexp(utility, axis=1)
    >>> out = sgldcv(
    ...     logLik, groups(table, by="situation"), {"beta": 0.0}, nIters=4000, verbose=False, seed=1
    ... )
    >>> bool(abs(out["beta"].mean() + 1) < 0.2)
    True
    """

    data: Any
    by: str
    constant: Sequence[str] = ()
    bundled: bool | str = AUTO

    def __repr__(self) -> str:
        return f"groups(..., by={self.by!r}, constant={self.constant!r})"

    def with_levels(self, of: str, levels: Mapping[str, Sequence[Level]]) -> groups:
        """The same groups, with categories coded by these levels."""
        return replace(self, data=with_levels(of, self.data, levels, [self.by]))

    def opened(
        self, of: str, integers: Sequence[str], dtype: np.dtype, may_bundle: bool = False
    ) -> RowGroups | Bundles:
        """The groups, with every entry converted to its type."""
        self._require_bundled(of, may_bundle)
        columns = Columns(of, self.data, integers, dtype, labels=[self.by])
        of_rows = self._of_rows(of, columns)
        rows, end, order = by_label(of, self.by, columns, of_rows)
        extents = Extents(begin := np.append(0, end[:-1]), begin, end)
        constants, levels = dict[str, np.ndarray](), dict[str, list[Level]]()
        if self.constant:
            own = columns.data(self.constant)
            constants = _constants(of, own if order is None else Subset(own, order), begin, end)
            levels = own.levels
        bundled = self.bundled if self.bundled != AUTO else may_bundle and padding_is_costly(extents)
        grouped = (Bundles.of_groups if bundled else RowGroups)(of, rows, extents, constants, dtype)
        grouped.levels |= levels
        return grouped

    def _require_bundled(self, of: str, may: bool) -> None:
        if self.bundled != AUTO and not isinstance(self.bundled, bool):
            raise refused(of, "bundled of groups, in dataset", f"be True, False or {AUTO!r}", repr(self.bundled))
        if self.bundled is True and not may:
            must = f"be False or {AUTO!r} with gibbs, shards, suffStats, given weights or transitions"
            raise refused(of, "bundled of groups, in dataset", must, "True")

    def _of_rows(self, of: str, columns: Columns) -> list[str]:
        names = columns.names
        if self.by not in names:
            raise refused(of, "by of groups, in dataset", f"be one of the columns {names}", repr(self.by))
        given = self.constant
        if isinstance(given, str) or not set(given) <= set(names) - {self.by}:
            must = f"be a list of some of the columns {[name for name in names if name != self.by]}"
            raise refused(of, "constant of groups, in dataset", must, repr(given))
        of_rows = [name for name in names if name != self.by and name not in given]
        if not of_rows:
            raise refused(of, "dataset", f"have columns besides {self.by!r} and the constant ones", names)
        return of_rows


def by_label(of: str, by: str, columns: Columns, names: Sequence[str]) -> tuple[Data, np.ndarray, np.ndarray | None]:
    """The rows of these columns, in which equal labels are consecutive; where each label ends; the order, if new."""
    rows, codes = columns.data(names), _label_codes(of, by, columns)
    if len(codes) != rows.size:
        lengths = {by: len(codes), names[0]: rows.size}
        raise refused(of, "dataset", "have entries of the same length, the number of rows", lengths)
    n_labels, ends = int(codes.max()) + 1, _run_ends(codes)
    if len(ends) == n_labels:
        return rows, ends, None
    if not rows.in_memory:
        must = f"be sorted by {by!r}, so that the rows of a group can be read at once, since it is on disk"
        raise refused(of, "dataset", must, f"{n_labels} groups in {len(ends)} parts")
    order = np.argsort(codes, kind="stable")
    return Subset(rows, order), _run_ends(codes[order]), order


def _label_codes(of: str, by: str, columns: Columns) -> np.ndarray:
    """The labels of the rows as numbers, [rows], in the order in which they first occur."""
    import pandas as pd

    labels = columns.values(by)
    if labels.ndim != 1:
        raise refused(of, f"dataset[{by!r}]", "have one label for each row", f"shape {labels.shape}")
    codes, _ = pd.factorize(labels)
    if (codes < 0).any():
        got = f"{int((codes < 0).sum())}, the first at row {int(np.argmin(codes))}"
        raise refused(of, f"dataset[{by!r}]", "have no missing labels", got)
    return codes


def _run_ends(codes: np.ndarray) -> np.ndarray:
    """Where each run of equal codes ends, int64."""
    return np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes)).astype(np.int64)


def _constants(of: str, own: Data, begin: np.ndarray, end: np.ndarray) -> dict[str, np.ndarray]:
    """The entries with one value for each group, [N, ...], checked to be the same in all of its rows."""
    firsts = aligned_zeros(len(begin), own.layout.width)
    own.take(begin, firsts)
    values = {name: np.ascontiguousarray(view) for name, view in own.layout.views(firsts).items()}
    size, group_of = block_size(own), np.repeat(np.arange(len(begin)), end - begin)
    for start in range(0, own.size, size):
        words = aligned_zeros(min(size, own.size - start), own.layout.width)
        own.read(start, words)
        group = group_of[start : start + len(words)]
        for name, view in own.layout.views(words).items():
            differs = (view != values[name][group]).reshape(len(words), -1).any(axis=1)
            if differs.any():
                row = start + int(np.argmax(differs))
                must = "be the same in all rows of a group, since it is named in constant"
                got = f"another value in row {row} than in row {int(begin[group_of[row]])}"
                raise refused(of, f"dataset[{name!r}]", must, got)
    return values

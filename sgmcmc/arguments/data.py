"""The argument `dataset`.

For an index out of range, XLA silently gathers some other row. TensorFlow's operations on the CPU raise an error, so a
log likelihood that gathers is tried with them on all observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import tensorflow as tf

from sgmcmc.arguments.destination import checked_executor
from sgmcmc.core.errors import refused, require_count
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, Shards, aligned_zeros, block_size, may_be_index
from sgmcmc.dataset.arrays import described
from sgmcmc.dataset.bundles import Bundles, column_of
from sgmcmc.dataset.columns import Columns
from sgmcmc.dataset.groups import groups
from sgmcmc.dataset.on_disk import Attempt, FetchedData
from sgmcmc.dataset.remote import RemoteShard, RemoteShards, open_shards
from sgmcmc.dataset.row_groups import RowGroups
from sgmcmc.dataset.shards import Joined, joined, require_alike
from sgmcmc.dataset.windows import Windows, windows


@dataclass(frozen=True)
class shards:  # noqa: N801 - reads as a function where it is used
    """Data in several places, for the argument `dataset`: a chain uses one of them at a time.

    Each chain stays on a shard for `hop` iterations and then hops to shard k with
    probability N_k / N [1]_. Its minibatches are drawn within the shard, and the n
    observations have the weight N/n in the sum over all N. The search for the mode and
    all passes over the observations use all shards.

    With control variates (`sgldcv`, `sghmccv`, `sgnhtcv`), the estimates are centred at
    the mode of all shards, with the exact gradient of all observations there. A shard
    then affects the chain only through the difference between its curvature and that of
    all observations. If observations were assigned to shards at random, this difference
    is small. If the shards differ, such as hospitals or parts of a sorted table, it makes
    standard deviations too large, less so if the chain hops often. This error is
    predicted at the mode, from the shards' curvatures, and a run warns if it exceeds
    `tolerance`. Without control variates the shards' gradients matter too, and the error
    is much larger. It is not predicted without a search for the mode, or for more than
    500 elements of the parameters.

    Parameters
    ----------
    datasets : sequence
        The shards: each is a dataset as for the argument `dataset`, or a function without
        arguments that returns one. All must have the same entries with the same shapes,
        and categorical columns the same categories.
    hop : int, default 5
        Number of iterations that a chain stays on a shard. With 1, minibatches of
        different iterations are independent, and differences between shards only add
        gradient noise.
    executors : sequence of executors, optional
        One for each shard. Only its workers read the shard's observations: see below. By
        default this process reads all shards.

    Notes
    -----
    With `executors`, observations never leave the workers of their shard; only results of
    functions do. These are sums over the shard, in the passes, and the state of a chain
    after a stay. A stay is one job of a worker, which sees only the chain's next
    minibatches. Such results can reveal much about single observations, above all if
    minibatches or shards are small: this is not differential privacy. The types, shapes
    and number of the observations, their categories and a checksum are known here too.
    An executor is any object with a method ``submit``, such as Dask's
    ``client.get_executor(workers=["place"])``. Its workers must receive everything needed
    to open a dataset, preferably as a function, which is called there. `executor`,
    `gibbs`, ``gradients=True`` and estimators that remember observations are then not
    available, and ``optStepsize`` is "auto".

    With shards, `subsampling` is "uniform" or "withReplacement", within the shard.
    `minibatchSize` is a number, and at most the size of the smallest shard unless
    observations are drawn with replacement. With leaps, as in `sghmc`, a stay still has
    `hop` iterations.

    References
    ----------
    .. [1] Ahn, S., Shahbaba, B. and Welling, M. (2014). Distributed stochastic gradient MCMC. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgldcv, shards
    >>> rng = np.random.default_rng(0)
    >>> hospitals = [{"x": rng.normal(3.0, 1.0, size=size)} for size in (4000, 2000, 1000)]
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgldcv(
    ...     logLik, shards(hospitals), {"theta": 0.0}, minibatchSize=100, nIters=2000, verbose=False, seed=1
    ... )
    >>> x = np.concatenate([hospital["x"] for hospital in hospitals])
    >>> bool(abs(out["theta"].mean() - x.mean()) < 0.3 / np.sqrt(len(x)))
    True
    """

    datasets: Sequence[Any]
    hop: int = 5
    executors: Sequence[Any] | None = None


def checked_dataset(of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype, may_bundle: bool = False) -> Data:
    """The data, with every entry converted to its type."""
    if isinstance(dataset, Data):  # checked for another sampler
        return dataset
    if isinstance(dataset, shards):
        return _of_shards(of, dataset, integers, dtype)
    if isinstance(dataset, groups):
        return dataset.opened(of, integers, dtype, may_bundle)
    if isinstance(dataset, windows):
        return dataset.opened(of, integers, dtype)
    columns = Columns(of, dataset, integers, dtype)
    return columns.data(columns.names)


def _of_shards(of: str, asked: shards, integers: Sequence[str], dtype: np.dtype) -> Data:
    given, datasets_must = asked.datasets, f"datasets of shards, of {of}, must"
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"{datasets_must} be a list of datasets; got {described(given)}.")
    hop = require_count("hop of shards", of, asked.hop, 1)
    data = _opened(of, asked, integers, dtype)
    for number, one in enumerate(data):
        if one.shards is not None:
            raise ValueError(f"{datasets_must} not be shards themselves; got some in shard {number}.")
    label, at = datasets_must.removesuffix(" must"), Shards([one.size for one in data], hop)
    if isinstance(data[0], RemoteShard):
        require_alike(label, data)
        return RemoteShards(cast(list[RemoteShard], data), hop)
    return joined(label, data, at)


def _opened(of: str, asked: shards, integers: Sequence[str], dtype: np.dtype) -> Sequence[Data]:
    """The data of each shard, here or by a worker of its executor."""
    opens = [partial(_checked, f"{of} in shard {k}", one, integers, dtype) for k, one in enumerate(asked.datasets)]
    if asked.executors is None:
        return [one() for one in opens]
    if not isinstance(asked.executors, Sequence) or len(asked.executors) != len(opens):
        got = len(asked.executors) if isinstance(asked.executors, Sequence) else repr(asked.executors)
        raise ValueError(f"executors of shards, of {of}, must have one for each of {len(opens)} datasets; got {got}.")
    for executor in asked.executors:
        checked_executor(of, executor, None, 1)
    try:
        return open_shards(opens, asked.executors)
    except TypeError as error:
        must = f"datasets of shards, of {of}, must be datasets or functions that can be pickled"
        raise ValueError(f"{must}; got {error}.") from error


def _checked(of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype) -> Data:
    data = checked_dataset(of, dataset() if callable(dataset) else dataset, integers, dtype)
    require_number_before(of, data)
    return data


def require_number_before(of: str, data: Data) -> None:
    """Refuse windows with steps before them whose number is still to be found."""
    if isinstance(data, Windows) and data.automatic:
        must = "be a number in shards, for a transition, and with suffStats, where the error of fewer steps is unknown"
        raise refused(of, "before of windows, in dataset", must, "'auto'")


OUT_OF_RANGE = re.compile(r"= \[?(-?\d+)\]? (?:is not in|is out of range|does not index)[^\[]*\[(?:0, )?(\d+)")


def attempt_at_extremes(of: str, argument: str, function: Callable, start: Mapping[str, np.ndarray]) -> Attempt:
    """A function that tries the user's function, known by this argument, on some observations."""

    def tried(observations: Mapping[str, np.ndarray]) -> None:
        with tf.device("CPU:0"):
            params = {name: tf.constant(theta) for name, theta in start.items()}
            data: Tree = {name: tf.constant(entry) for name, entry in observations.items()}
            try:
                function(params, data)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(_message(of, argument, observations, str(error.message))) from error

    return tried


def check_indices(of: str, argument: str, function: Callable, start: Mapping[str, np.ndarray], data: Data) -> None:
    """Try all observations, in the process that holds them: those in memory now, others when they are read."""
    match data:
        case Joined() | RemoteShards():
            for part in data.parts:
                check_indices(of, argument, function, start, part)
        case RemoteShard():
            data.asked(_check_local, (of, argument, function, start))
        case FetchedData() | RowGroups(in_memory=False) | Bundles(in_memory=False):
            data.watch(attempt_at_extremes(of, argument, function, start))
        case _:
            require_in_range(attempt_at_extremes(of, argument, function, start), data)


def _check_local(data: Data, given: tuple[str, str, Callable, Mapping[str, np.ndarray]]) -> None:
    check_indices(*given, data)


def require_in_range(tried: Attempt, data: Data) -> None:
    """Try all observations, in blocks."""
    size = block_size(data)
    words = aligned_zeros(size, data.layout.width)
    for start in range(0, data.size, size):
        block = words[: min(size, data.size - start)]
        data.read(start, block)
        tried(data.layout.views(block))


def _message(of: str, argument: str, observations: Mapping[str, Any], message: str) -> str:
    found = OUT_OF_RANGE.search(message)
    if found is None:
        must = f"{argument} of {of} must be defined for every observation"
        if "does not index" in message:  # from tf.gather_nd, for several at once
            must = f"dataset of {of} must hold indices that {argument} can use"
        return f"{must}; on some it raised: {message}"
    index, size = int(found[1]), int(found[2])
    holding = {column_of(name) for name, x in observations.items() if may_be_index(x) and (x == index).any()}
    where = ", ".join(f"dataset[{name!r}]" for name in sorted(holding))
    return (
        f"dataset of {of} must hold indices that {argument} can use, here from 0 to {size - 1} for an axis of {size}; "
        f"got {index}, {f'which is in {where}' if where else f'computed by {argument}'}."
    )

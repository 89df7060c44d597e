"""The argument `dataset`.

For an index out of range, XLA silently gathers some other row. TensorFlow's operations on the CPU raise an error, so a
log likelihood that gathers is tried with them on all observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import tensorflow as tf

from sgmcmc.arguments.destination import checked_executor
from sgmcmc.core.errors import attempted, refused, require_count
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, Shards, block_size, may_be_index
from sgmcmc.dataset.arrays import as_columns, categories, converted, described, integer_type, is_on_disk, numeric
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Arrays, Entry, FetchedData, RowSource
from sgmcmc.dataset.remote import RemoteShard, RemoteShards, open_shards
from sgmcmc.dataset.shards import Joined


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


MAPPED = "np.load(path, mmap_mode='r')"
PROBED = 2  # observations read to find the entries of a user's dataset object


def checked_dataset(of: str, dataset: Any, integers: Sequence[str], dtype: np.dtype) -> Data:
    """The data, with every entry converted to its type; categories become codes."""
    if isinstance(dataset, InMemory | FetchedData | Joined | RemoteShards):  # checked for another sampler
        return dataset
    if isinstance(dataset, shards):
        return _of_shards(of, dataset, integers, dtype)
    if isinstance(dataset, tf.data.Dataset | Iterator):
        must = "be a dict of arrays, or an object with __len__ and take(indices), since minibatches are drawn at random"
        advice = f"Arrays that do not fit into memory can be memory-mapped: {MAPPED}"
        raise refused(of, "dataset", must, f"{described(dataset)}, which can only be read in order. {advice}")
    dataset = as_columns(of, dataset)
    if isinstance(dataset, RowSource) and not isinstance(dataset, Mapping) and not hasattr(dataset, "shape"):
        return _of_object(of, dataset, integers, dtype)
    if not isinstance(dataset, Mapping) or not dataset or not all(isinstance(name, str) for name in dataset):
        raise refused(of, "dataset", "be a dict with at least one entry and names as keys", described(dataset))
    codes = categories(of, dataset)
    _require_integers(of, integers, dataset)
    for name, entry in dataset.items():
        if isinstance(entry, tf.data.Dataset | Iterator):
            advice = f"Read it into an array, or into a file for {MAPPED}"
            got = f"{described(entry)}, which can only be read once and in order. {advice}"
            raise refused(of, f"dataset[{name!r}]", "be an array", got)
    _require_one_index(of, dataset)
    dataset = {**dataset, **{name: column.array for name, column in codes.items()}}
    integers, levels = [*integers, *codes], {name: column.levels for name, column in codes.items()}
    arrays = {
        name: entry if is_on_disk(entry) else converted(of, name, entry, name in integers, dtype)
        for name, entry in dataset.items()
    }
    _require_one_length(of, arrays)
    if any(map(is_on_disk, dataset.values())):
        return FetchedData(Arrays(arrays), _entries(of, arrays, integers, dtype), levels)
    return InMemory(arrays, levels)


def _of_shards(of: str, asked: shards, integers: Sequence[str], dtype: np.dtype) -> Data:
    given, datasets_must = asked.datasets, f"datasets of shards, of {of}, must"
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"{datasets_must} be a list of datasets; got {described(given)}.")
    hop = require_count("hop of shards", of, asked.hop, 1)
    data = _opened(of, asked, integers, dtype)
    for number, one in enumerate(data):
        here, first = (
            {name: f"{c.dtype} {list(c.shape)}" for name, c in x.layout.columns.items()} for x in (one, data[0])
        )
        if one.shards is not None:
            raise ValueError(f"{datasets_must} not be shards themselves; got some in shard {number}.")
        if here != first:
            got = f"{here} in shard {number} and {first} in shard 0"
            raise ValueError(f"{datasets_must} have the same entries; got {got}.")
        if one.levels != data[0].levels:
            raise ValueError(
                f"{datasets_must} have the same categories, since codes stand for them; got {one.levels} in shard "
                f"{number} and {data[0].levels} in shard 0. Give all of them to each shard: "
                "pandas.Categorical(x, categories=...)."
            )
    if isinstance(data[0], RemoteShard):
        return RemoteShards(cast(list[RemoteShard], data), hop)
    at = Shards([one.size for one in data], hop)
    in_memory = [one for one in data if isinstance(one, InMemory)]
    return InMemory.joined(in_memory, at) if len(in_memory) == len(data) else Joined(data, at)


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
    return checked_dataset(of, dataset() if callable(dataset) else dataset, integers, dtype)


def _of_object(of: str, source: RowSource, integers: Sequence[str], dtype: np.dtype) -> Data:
    must = f"take of dataset of {of} must return a dict of arrays with one row for each index"
    n_data = len(source)
    if n_data < 1:
        raise refused(of, "dataset", "have at least one observation", f"a length of {n_data}")
    indices = np.arange(min(PROBED, n_data))
    probed = attempted(must, lambda: dict(source.take(indices).items()))
    arrays = {name: numeric(f"dataset[{name!r}]", of, array) for name, array in probed.items()}
    if not arrays or any(array.shape[:1] != indices.shape for array in arrays.values()):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"{must}; got shapes {shapes} for {len(indices)} indices.")
    _require_integers(of, integers, arrays)
    return FetchedData(source, _entries(of, arrays, integers, dtype))


def _require_integers(of: str, integers: Any, names: Collection[str]) -> None:
    is_list = isinstance(integers, Collection) and not isinstance(integers, str)
    if not is_list or any(name not in list(names) for name in integers):
        raise refused(of, "integers", f"list names in dataset, {sorted(names)}", repr(integers))


def _require_one_index(of: str, dataset: Mapping[str, Any]) -> None:
    """Refuse pandas entries with different labels, whose rows would be combined by position."""
    labelled = {name: entry.index for name, entry in dataset.items() if hasattr(entry, "iloc")}
    for (first, index), (name, other) in pairwise(labelled.items()):
        if not index.equals(other):
            raise ValueError(
                f"dataset of {of} must have entries with the same pandas index; got different ones for {name!r} and "
                f"{first!r}. Align them, as by {name}.loc[{first}.index], or combine rows by position, as by "
                f"{name}.to_numpy()."
            )


def _require_one_length(of: str, arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if not array.shape:
            must = "have its observations on the first axis"
            raise refused(of, f"dataset[{name!r}]", must, f"the single number {array}")
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise refused(of, "dataset", "have entries of the same length, the number of observations", lengths)
    if 0 in lengths.values():
        raise refused(of, "dataset", "have at least one observation", lengths)


def _entries(of: str, arrays: Mapping[str, Any], integers: Collection[str], float_type: np.dtype) -> dict[str, Entry]:
    entries = {}
    for name, array in arrays.items():
        dtype, label = np.dtype(array.dtype), f"dataset[{name!r}] of {of}"
        if dtype.kind not in "biuf":
            raise ValueError(f"{label} must be an array of real numbers; got dtype {array.dtype}.")
        entries[name] = Entry(integer_type(label, dtype) if name in integers else float_type, tuple(array.shape[1:]))
    return entries


OUT_OF_RANGE = re.compile(r"= \[?(-?\d+)\]? (?:is not in|is out of range|does not index)[^\[]*\[(?:0, )?(\d+)")

Attempt = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError for observations, {name: [m, ...]}, that hold an index out of range."""


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
        case InMemory():
            require_in_range(attempt_at_extremes(of, argument, function, start), data)
        case FetchedData():
            data.watch(attempt_at_extremes(of, argument, function, start))


def _check_local(data: Data, given: tuple[str, str, Callable, Mapping[str, np.ndarray]]) -> None:
    check_indices(*given, data)


def require_in_range(tried: Attempt, data: InMemory) -> None:
    """Try all observations, in blocks."""
    arrays, size = data.arrays(), block_size(data)
    for start in range(0, data.size, size):
        tried({name: array[start : start + size] for name, array in arrays.items()})


def _message(of: str, argument: str, observations: Mapping[str, Any], message: str) -> str:
    found = OUT_OF_RANGE.search(message)
    if found is None:
        must = f"{argument} of {of} must be defined for every observation"
        if "does not index" in message:  # from tf.gather_nd, for several at once
            must = f"dataset of {of} must hold indices that {argument} can use"
        return f"{must}; on some it raised: {message}"
    index, size = int(found[1]), int(found[2])
    holding = [name for name, entry in observations.items() if may_be_index(entry) and (entry == index).any()]
    where = ", ".join(f"dataset[{name!r}]" for name in holding)
    return (
        f"dataset of {of} must hold indices that {argument} can use, here from 0 to {size - 1} for an axis of {size}; "
        f"got {index}, {f'which is in {where}' if where else f'computed by {argument}'}."
    )

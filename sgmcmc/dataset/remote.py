"""Shards whose observations stay with the workers of their executors; only results of functions come back."""

from __future__ import annotations

import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import warn_user
from sgmcmc.core.files import checksum
from sgmcmc.dataset import Data, Layout, Shards, checksum_of
from sgmcmc.dataset.arrays import Level
from sgmcmc.dataset.memory import Subset
from sgmcmc.parallel.executors import Executor, Future, Workers, tell

Open = Callable[[], Data]
MOST_OPEN = 16  # data sets that a worker keeps open


class ShardFacts(NamedTuple):
    """What this process knows about the observations of a shard."""

    size: int
    layout: Layout
    levels: dict[str, list[Level]]
    checksum: str
    warnings: Sequence[str] = ()  # of the checks of the data


class Opening(NamedTuple):
    """A function that opens data in a worker, the name under which it keeps them, and the checksum they must have."""

    name: str
    open: Open
    checksum: str | None = None


class RemoteData(Data):
    """Observations that cannot be read in this process."""

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        raise _unreadable()

    def read(self, start: int, out: np.ndarray) -> None:
        raise _unreadable()

    def checksum(self) -> str:
        raise _unreadable()


class RemoteShard(RemoteData):
    """A stand-in for the observations of one shard; a job of its workers gets the observations themselves."""

    workers: Workers

    def __init__(self, opening: Opening, workers: Workers, facts: ShardFacts) -> None:
        self.size, self.layout, self.levels, self._checksum, _ = facts
        self.workers, self._opening = workers, opening

    def __reduce__(self) -> tuple[Any, ...]:
        return opened, (self._opening,)

    def checksum(self) -> str:
        return self._checksum

    def some(self, indices: np.ndarray) -> RemoteShard:
        """The observations at sorted `indices`, which stay where they are."""
        name = f"{self._opening.name} {checksum(indices)}"
        opening = Opening(name, partial(_some, self._opening, indices))
        return RemoteShard(opening, self.workers, ShardFacts(len(indices), self.layout, self.levels, name))

    def asked(self, function: Callable[[Data, Any], Any], item: Any) -> Any:
        return next(iter(self.workers.each(_answer, RemoteCall(self, function, item), [None])))


class RemoteCall(NamedTuple):
    """A function of the observations of a shard, sent by value with everything it needs."""

    data: Any  # a `Remote`, which a worker receives as the observations
    function: Callable[[Data, Any], Any]
    item: Any


def _answer(question: RemoteCall, item: None) -> Any:
    return question.function(question.data, question.item)


class RemoteShards(RemoteData):
    shards: Shards

    def __init__(self, parts: Sequence[RemoteShard], hop: int) -> None:
        self.parts, self.shards = list(parts), Shards([part.size for part in parts], hop)
        self.layout, self.levels, self.size = parts[0].layout, parts[0].levels, sum(self.shards.sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return OtherShards, (self.size, self.layout, self.levels, self.shards)

    def checksum(self) -> str:
        return checksum_of(self.parts)

    def some(self, indices: np.ndarray) -> RemoteShards:
        starts = self.shards.starts
        parts = zip(self.parts, starts, np.split(indices, np.searchsorted(indices, starts[1:])), strict=True)
        return RemoteShards([part.some(here - start) for part, start, here in parts if len(here)], self.shards.hop)


class OtherShards(RemoteData):
    def __init__(self, size: int, layout: Layout, levels: dict[str, list[Level]], shards: Shards) -> None:
        self.size, self.layout, self.levels, self.shards = size, layout, levels, shards


def open_shards(opens: Sequence[Open], executors: Sequence[Executor]) -> list[RemoteShard]:
    """The shards, each opened by a worker of its own executor, all at the same time."""
    openings = [Opening(uuid.uuid4().hex, one) for one in opens]
    workers = [Workers(executor, apart=True) for executor in executors]
    parts = []
    with ExitStack() as stack:
        begun: list[Future] = []
        for opening, of_shard in zip(openings, workers, strict=True):
            begun += stack.enter_context(of_shard.begun(_facts, opening, [None]))
        for number, (opening, of_shard, future) in enumerate(zip(openings, workers, begun, strict=True)):
            try:
                facts: ShardFacts = future.result()
            except Exception as error:
                error.add_note(f"This error is from the job that opens shard {number}.")
                raise
            parts.append(RemoteShard(opening._replace(checksum=facts.checksum), of_shard, facts))
            # A worker keeps the data open as long as this process may ask for them.
            weakref.finalize(parts[-1], tell, executors[number], _forget, opening.name).atexit = False
            for said in facts.warnings:
                warn_user(said)
    return parts


_lock = threading.RLock()
_data: dict[str, Data] = {}  # in a worker, the data opened last


def opened(opening: Opening) -> Data:
    with _lock:
        found = _data.pop(opening.name, None)
        if found is None:
            found = opening.open()
            if opening.checksum is not None and found.checksum() != opening.checksum:
                changed = "the observations of a shard must not change; these have changed since they were opened."
                raise RuntimeError(changed)
        while len(_data) >= MOST_OPEN:
            del _data[next(iter(_data))]
        _data[opening.name] = found
        return found


def _forget(name: str) -> None:
    with _lock:
        for known in [known for known in _data if known.split()[0] == name]:
            del _data[known]


def _facts(opening: Opening, item: None) -> ShardFacts:
    with _lock, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = opened(opening)
    return ShardFacts(data.size, data.layout, data.levels, data.checksum(), [str(one.message) for one in said])


def _some(opening: Opening, indices: np.ndarray) -> Data:
    return Subset(opened(opening), indices)


def _unreadable() -> RuntimeError:
    return RuntimeError("the observations of shards with executors stay with their workers, and cannot be read here.")

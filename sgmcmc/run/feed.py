"""The inputs of iterations that depend only on the iteration number, computed in blocks.

Blocks always begin at multiples of their length K, so that the bits of a draw do not
depend on how a chain is run. One compiled program draws the indices, weights and noise
of a block. Then a thread fetches the observations, two blocks ahead of the chain. With
one processor, the thread of the chain fetches them; if the data are on a GPU, the
program itself does.
"""

from __future__ import annotations

import enum
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, aligned_zeros, on_gpu, shared_tensor
from sgmcmc.dataset.memory import InMemory
from sgmcmc.kernel import BlockInputs
from sgmcmc.run import Prepared

# A block costs half a millisecond besides its iterations, to refill the caches: long blocks are faster, even if they
# are larger than a cache. With data on disk, the first block of a run should not take long.
BLOCK_BYTES, BLOCK_BYTES_ELSEWHERE = 2**24, 2**22
SHORT_BLOCK = 8  # iterations; a block of data on disk may be larger if it would have fewer
LONGEST_BLOCK = 4096
SHORTEST_BLOCK = 2  # a block of one is not sliced, so XLA would fuse, and round, the next operations differently
AHEAD = 2  # blocks


class Fetch(enum.Enum):
    """Who fetches the observations of a block, and when."""

    IN_PROGRAM = "by the program that draws the indices"
    WHEN_NEEDED = "by the host, when the chain comes to the block"
    AHEAD = "by a thread of the host, before the chain comes to the block"


def choose(data: Data) -> Fetch:
    """The fastest way for these data."""
    if isinstance(data, InMemory) and on_gpu():
        return Fetch.IN_PROGRAM
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Fetch.AHEAD if usable > 1 or not isinstance(data, InMemory) else Fetch.WHEN_NEEDED


class Feed:
    """The blocks of one chain, or of several side by side."""

    def __init__(self, prepared: Prepared, fetch: Fetch | None = None, length: int | None = None) -> None:
        kernel, constants, data = prepared.kernel, prepared.constants, prepared.data
        self._kernel, self._constants, self._data = kernel, constants, data
        self.fetch = choose(data) if fetch is None else fetch
        one = kernel.draw_inputs(constants, tf.zeros([1], tf.uint32))
        self.state_bytes = _n_bytes(tf.nest.flatten(prepared.state))
        most = BLOCK_BYTES if isinstance(data, InMemory) else BLOCK_BYTES_ELSEWHERE
        self.length = length or _length(one, data.layout.width, self.state_bytes, most)
        self.specs = _specs(one, self.length, data.layout.width)
        self._names = (sorted(one.draws), sorted(one.indices))
        self._draw = Compiled(self._drawn)
        n_slots = {Fetch.IN_PROGRAM: 0, Fetch.WHEN_NEEDED: 1, Fetch.AHEAD: AHEAD + 1}[self.fetch]
        self._slots = [self._new_slot() for _ in range(n_slots)]
        self._current: tuple[int, list[tf.Tensor]] | None = None
        self._coming: dict[int, Future[list[tf.Tensor]]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def block(self, number: int) -> list[tf.Tensor]:
        """The draws, indices and packed observations of a block, by name; valid until the next call."""
        if self._current is None or self._current[0] != number:
            self._current = None  # from here on its buffers may be overwritten, even if the next line fails
            self._current = (number, self._made(number) if self.fetch is Fetch.AHEAD else self._make(number))
        return self._current[1]

    def of_chains(self, constants: Tree) -> None:
        """Go on with the blocks of other chains."""
        self.close()
        self._constants = constants

    def begin(self, number: int) -> None:
        """Start the thread, if there is one, with this block."""
        if self.fetch is Fetch.AHEAD:
            # Traced here: two threads that trace at once fight for the interpreter's lock.
            self._draw.trace([tf.TensorSpec([], tf.uint32), *tf.nest.flatten(self._constants)])
            self._submit(number)

    def close(self) -> None:
        """End the thread; a later request starts another one."""
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._thread, self._coming, self._current = None, {}, None

    def structure(self, leaves: list[tf.Tensor]) -> tuple[BlockInputs, dict[str, tf.Tensor]]:
        """The leaves of a block by name: the block, and the packed observations."""
        draws, indices = self._names
        n, m = len(draws), len(indices)
        return (
            BlockInputs(dict(zip(indices, leaves[n : n + m], strict=True)), dict(zip(draws, leaves[:n], strict=True))),
            dict(zip(indices, leaves[n + m :], strict=True)),
        )

    def _made(self, number: int) -> list[tf.Tensor]:
        self._submit(number)
        return self._coming.pop(number).result()

    def _submit(self, number: int) -> None:
        """Have the thread make this block and the following ones."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sgmcmc-feed")
        if number not in self._coming:
            self._abandon()
        for k in range(number, number + AHEAD + 1):
            if k not in self._coming:
                self._coming[k] = self._thread.submit(self._make, k)

    def _abandon(self) -> None:
        for future in self._coming.values():
            future.cancel()
        wait(self._coming.values())  # so that nothing writes to the slots any more
        self._coming.clear()

    def _make(self, number: int) -> list[tf.Tensor]:
        first = tf.constant(number * self.length % 2**32, tf.uint32)
        leaves = self._draw(first, *tf.nest.flatten(self._constants))
        if self.fetch is Fetch.IN_PROGRAM:
            return leaves
        indices = leaves[len(self._names[0]) :]
        slot = self._slots[number % len(self._slots)]
        for at, (buffer, _) in zip(indices, slot, strict=True):
            self._data.take(at.numpy().reshape(-1), buffer)
        return [*leaves, *(rows for _, rows in slot)]

    def _drawn(self, first: tf.Tensor, *constants: tf.Tensor) -> list[tf.Tensor]:
        iterations = first + tf.cast(tf.range(self.length), tf.uint32)
        block = self._kernel.draw_inputs(tf.nest.pack_sequence_as(self._constants, constants), iterations)
        draws = [block.draws[name] for name in self._names[0]]
        indices = [block.indices[name] for name in self._names[1]]
        if self.fetch is not Fetch.IN_PROGRAM:
            return [*draws, *indices]
        assert isinstance(self._data, InMemory)
        table = self._data.rows
        return [*draws, *indices, *(tf.gather(table, at) for at in indices)]

    def _new_slot(self) -> list[tuple[np.ndarray, tf.Tensor]]:
        """Memory for the observations of a block, shared by arrays and tensors."""
        slot = []
        for spec in self.specs[len(self._names[0]) + len(self._names[1]) :]:
            *lead, width = spec.shape
            buffer = aligned_zeros(int(np.prod(lead)), width)
            slot.append((buffer, shared_tensor(buffer.reshape(spec.shape))))
        return slot


def _specs(one: BlockInputs, length: int, width: int) -> list[tf.TensorSpec]:
    """The specs of the leaves of a block, from the block of one iteration."""
    draws, indices = ([tree[name] for name in sorted(tree)] for tree in (one.draws, one.indices))
    specs = [tf.TensorSpec([length, *x.shape[1:]], x.dtype) for x in (*draws, *indices)]
    return [*specs, *(tf.TensorSpec([length, *x.shape[1:], width], tf.int64) for x in indices)]


def _length(one: BlockInputs, width: int, state_bytes: int, most: int) -> int:
    """The number of iterations in a block, a power of two."""
    of_iteration = max(_n_bytes(_specs(one, 1, width)), 1)
    usual, short = (
        2 ** int(np.log2(max(limit / of_iteration, 1))) for limit in (max(most, state_bytes // 2), BLOCK_BYTES)
    )
    return max(min(max(usual, min(SHORT_BLOCK, short)), LONGEST_BLOCK), SHORTEST_BLOCK)


def _n_bytes(tensors: list[Any]) -> int:
    return sum(x.shape.num_elements() * x.dtype.size for x in tensors)

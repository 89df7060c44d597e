"""Passes over all observations, in blocks, so that their memory is bounded.

A thread reads the next block of data on disk while the current one is computed.
Workers that can read the data may compute the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.progress import Progress
from sgmcmc.dataset import Data, aligned_zeros, block_size, shared_tensor
from sgmcmc.dataset.remote import RemoteShard, RemoteShards
from sgmcmc.parallel.executors import Future, Workers

PIECES = 64  # of a pass, at most
WORTH = 2**28  # bytes of data that are worth the time that workers take to start and to compile


class FullPass:
    """``of_block(words, *values)``, compiled, for the packed rows of each block in turn, by default of some megabytes.

    `programs` are those of earlier passes by the same `of_block` over data of the same layout, by the length of a
    block. This pass uses them and adds its own.
    """

    def __init__(
        self,
        data: Data,
        of_block: Callable[..., list[tf.Tensor]],
        size: int | None = None,
        programs: dict[int, Compiled] | None = None,
    ) -> None:
        self._of_block = of_block
        self._data, self._size = data, min(size or block_size(data), data.size)
        # A shorter last block needs its own program.
        lengths = {self._size, data.size % self._size or self._size}
        self._programs = {} if programs is None else programs
        self._programs.update({n: Compiled(of_block, hides=True) for n in lengths - self._programs.keys()})
        n_buffers = 1 if data.in_memory else 2
        self._of_parts: list[FullPass] = []
        self._buffers = {n: [aligned_zeros(n, data.layout.width) for _ in range(n_buffers)] for n in lengths}

    @property
    def size(self) -> int:
        return self._data.size

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data, self._of_block, self._size)

    def __call__(
        self,
        values: Sequence[tf.Tensor] = (),
        title: str = "",
        verbose: bool = False,
        of_each: Sequence[np.ndarray] = (),
    ) -> Iterator[list[tf.Tensor]]:
        """The results of the blocks; use each one before requesting the next.

        `of_each` are arrays [N, ...]; `of_block` gets the rows of its block after the values.
        """
        with self._progress(title, verbose) as progress:
            for end, results in self.blocks(values, range(self.size), of_each):
                yield results
                progress.reached(end)

    def _progress(self, title: str, verbose: bool) -> Progress:
        return Progress(self.size, title, "observation", verbose and self.size > self._size)

    def blocks(
        self, values: Sequence[tf.Tensor], part: range, of_each: Sequence[np.ndarray] = ()
    ) -> Iterator[tuple[int, list[tf.Tensor]]]:
        """The results of the blocks of a part, each with the end of its block; `of_each` has the rows of the part."""
        start = part.start
        for words in self._read_ahead(range(part.start, part.stop, self._size)):
            end = start + len(words)
            rows = (tf.constant(x[start - part.start : end - part.start]) for x in of_each)
            yield end, self._programs[len(words)](shared_tensor(words), *values, *rows)
            start = end

    def _read_ahead(self, starts: Sequence[int]) -> Iterator[np.ndarray]:
        """The packed observations from each start on, valid until the next is requested."""
        if self._data.in_memory or len(starts) == 1:
            yield from map(self._read, starts)
            return
        with ThreadPoolExecutor(1, "sgmcmc-pass") as thread:
            coming = thread.submit(self._read, starts[0])
            for start in starts[1:]:
                words = coming.result()
                coming = thread.submit(self._read, start)
                yield words
            yield coming.result()

    def _read(self, start: int) -> np.ndarray:
        n, number = min(self._size, self.size - start), start // self._size
        words = self._buffers[n][number % len(self._buffers[n])]
        self._data.read(start, words)
        return words

    def summed(
        self,
        values: Sequence[tf.Tensor] = (),
        title: str = "",
        verbose: bool = False,
        of_each: Sequence[np.ndarray] = (),
    ) -> list[np.ndarray]:
        """The sums of the results over all blocks, in float64, bitwise identical wherever the pieces are computed."""
        return _added(self._pieces(_summed, values, title, verbose, of_each))

    def joined(self, values: Sequence[tf.Tensor] = (), title: str = "", verbose: bool = False) -> list[np.ndarray]:
        """The results of all blocks, concatenated, with a row for each observation."""
        return _concatenated(self._pieces(_joined, values, title, verbose))

    def _pieces(
        self, made: Made, values: Sequence[tf.Tensor], title: str, verbose: bool, of_each: Sequence[np.ndarray] = ()
    ) -> Iterator[list[np.ndarray]]:
        """`made` of the results of each piece, computed here or by workers."""
        with self._progress(title, verbose) as progress:
            if elsewhere := self._elsewhere():
                yield from _from_workers(elsewhere, made, values, of_each, title or "a pass", progress)
                return
            blocks = self.blocks(values, range(self.size), of_each)
            for end, results in groupby(blocks, lambda block: self._end(block[0])):
                yield made(x for _, x in results)
                progress.reached(end)

    def _elsewhere(self) -> list[tuple[Workers, FullPass]]:
        """The workers that make the pass, each with its own pass, if this process does not."""
        data = self._data
        if isinstance(data, RemoteShards):
            if not self._of_parts:
                self._of_parts = [FullPass(part, self._of_block, self._size) for part in data.parts]
            return [(part.workers, of_part) for part, of_part in zip(data.parts, self._of_parts, strict=True)]
        if data.workers is None or (data.size * data.layout.row_bytes < WORTH and not isinstance(data, RemoteShard)):
            return []
        return [(data.workers, self)]

    def pieces(self, made: Made, values: Sequence[np.ndarray], of_each: Sequence[np.ndarray]) -> list[Piece]:
        parts = [range(start, self._end(start + 1)) for start in range(0, self.size, self._piece_size)]
        return [Piece(made, part, values, [x[part.start : part.stop] for x in of_each]) for part in parts]

    def _end(self, end: int) -> int:
        return min(-(-end // self._piece_size) * self._piece_size, self.size)

    @property
    def _piece_size(self) -> int:
        return self._size * -(-self.size // (self._size * PIECES))


Made = Callable[[Iterable[list[tf.Tensor]]], list[np.ndarray]]
"""A function of the results of some blocks."""


class Piece(NamedTuple):
    made: Made
    part: range
    values: Sequence[np.ndarray]
    of_each: Sequence[np.ndarray]


def _from_workers(
    passes: Sequence[tuple[Workers, FullPass]],
    made: Made,
    values: Sequence[tf.Tensor],
    of_each: Sequence[np.ndarray],
    title: str,
    progress: Progress,
) -> Iterator[list[np.ndarray]]:
    given, start, done = [np.asarray(x) for x in values], 0, 0
    jobs: list[tuple[Piece, int, Future]] = []
    with ExitStack() as stack:
        for workers, full in passes:
            pieces = full.pieces(made, given, [x[start : start + full.size] for x in of_each])
            futures = stack.enter_context(workers.begun(_made_of, full, pieces))
            jobs += [(piece, start, future) for piece, future in zip(pieces, futures, strict=True)]
            start += full.size
        for piece, first, future in jobs:
            try:
                yield future.result()
            except Exception as error:
                error.add_note(
                    f"This error is from {title} over all observations, in the job of executor with observations "
                    f"{first + piece.part.start} to {first + piece.part.stop - 1}; later jobs may have failed too."
                )
                raise
            done += len(piece.part)
            progress.reached(done)


def _made_of(full: FullPass, piece: Piece) -> list[np.ndarray]:
    values = [tf.constant(x) for x in piece.values]
    return piece.made(results for _, results in full.blocks(values, piece.part, piece.of_each))


def _summed(blocks: Iterable[list[tf.Tensor]]) -> list[np.ndarray]:
    return _added([np.asarray(x.numpy(), np.float64) for x in results] for results in blocks)


def _added(terms: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
    total: list[np.ndarray] = []
    for arrays in terms:
        total = [t + x for t, x in zip(total, arrays, strict=True)] if total else arrays
    return total


def _joined(blocks: Iterable[list[tf.Tensor]]) -> list[np.ndarray]:
    return _concatenated([x.numpy() for x in results] for results in blocks)


def _concatenated(parts: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]

"""Passes over all observations, in blocks, so that their memory is bounded.

Blocks of data on disk are read ahead, by a thread, while the one before is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.progress import Progress
from sgmcmc.dataset.data import Data, block_size
from sgmcmc.dataset.layout import aligned_zeros, shared_tensor


class FullPass:
    """``of_block(words, *values)``, compiled, for the packed rows of one block after the other.

    Parameters
    ----------
    data : Data
    of_block : callable
    size : int, optional
        Observations in a block; by default a few megabytes of them.
    programs : dict, optional
        Programs of earlier passes by the same `of_block` over data of the same layout, by the length of a block.
        This pass uses them and adds its own.
    """

    def __init__(
        self,
        data: Data,
        of_block: Callable[..., list[tf.Tensor]],
        size: int | None = None,
        programs: dict[int, Compiled] | None = None,
    ) -> None:
        self._data, self._size = data, min(size or block_size(data), data.size)
        # A shorter last block needs its own program.
        lengths = {self._size, data.size % self._size or self._size}
        self._programs = {} if programs is None else programs
        for n in lengths - self._programs.keys():
            self._programs[n] = Compiled(of_block)
        n_buffers = 1 if data.in_memory else 2
        self._buffers = {n: [aligned_zeros(n, data.layout.width) for _ in range(n_buffers)] for n in lengths}

    def __call__(
        self,
        values: Sequence[tf.Tensor] = (),
        title: str = "",
        verbose: bool = False,
        of_each: Sequence[np.ndarray] = (),
    ) -> Iterator[list[tf.Tensor]]:
        """The results of the blocks; use each one before requesting the next.

        `of_each` are arrays [N, ...] with a row for each observation; `of_block` gets
        the rows of its block after the values.
        """
        starts = range(0, self._data.size, self._size)
        with Progress(self._data.size, title, "observation", verbose and len(starts) > 1) as progress:
            for start, words in zip(starts, self._blocks(starts), strict=True):
                end = start + len(words)
                yield self._programs[len(words)](
                    shared_tensor(words), *values, *(tf.constant(x[start:end]) for x in of_each)
                )
                progress.reached(end)

    def _blocks(self, starts: Sequence[int]) -> Iterator[np.ndarray]:
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
        n, number = min(self._size, self._data.size - start), start // self._size
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
        """The sums of the results over all blocks, in float64."""
        total: list[np.ndarray] = []
        for results in self(values, title, verbose, of_each):
            arrays = [np.asarray(x.numpy(), np.float64) for x in results]
            total = [t + x for t, x in zip(total, arrays, strict=True)] if total else arrays
        return total

"""One pass over all observations, in blocks, so that its memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.dataset.data import Data, block_size
from sgmcmc.dataset.layout import aligned_zeros, shared_tensor
from sgmcmc.run.progress import Progress


def full_pass(
    data: Data, of_block: Callable[..., list[tf.Tensor]], values: Sequence[tf.Tensor], title: str, verbose: bool
) -> Iterator[list[tf.Tensor]]:
    """``of_block(words, *values)`` for the packed rows of one block after the other, compiled."""
    size, program = block_size(data), Compiled(of_block)
    starts = range(0, data.size, size)
    with Progress(data.size, title, "observation", verbose and len(starts) > 1) as progress:
        for start in starts:
            n = min(size, data.size - start)
            if n < size:  # a shorter last block has a program of its own
                program = Compiled(of_block)
            words = aligned_zeros(n, data.layout.width)
            data.read(start, words)
            yield program(shared_tensor(words), *values)
            progress.reached(start + n)

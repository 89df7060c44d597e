"""How often all observations together gather each row of the parameters that move by rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.data import block_size
from sgmcmc.dataset.layout import aligned_zeros, shared_tensor
from sgmcmc.model import Model
from sgmcmc.run.progress import Progress


def counted(model: Model, start: Mapping[str, np.ndarray], verbose: bool) -> Tree:
    """{name: [rows]} of the parameters that move by rows, by one pass over all data in blocks.

    Which rows are gathered must depend on the data alone, as it does where they are indices in the dataset.
    """
    names, data, size = sorted(model.by_rows), model.data, block_size(model.data)
    if not names:
        return {}
    params = {name: tf.constant(theta, model.dtype) for name, theta in start.items()}

    def rows(words: tf.Tensor) -> list[tf.Tensor]:
        found = model.rows(params, data.layout.unpack(words))
        return [found[name] for name in names]

    counts = {name: np.zeros(start[name].shape[0], np.int64) for name in names}
    starts, of_block = range(0, data.size, size), Compiled(rows)
    with Progress(data.size, "Counting rows", "observation", verbose and len(starts) > 1) as progress:
        for first in starts:
            n = min(size, data.size - first)
            if n < size:  # a shorter last block has a program of its own
                of_block = Compiled(rows)
            words = aligned_zeros(n, data.layout.width)
            data.read(first, words)
            for name, of_name in zip(names, of_block(shared_tensor(words)), strict=True):
                counts[name] += np.bincount(of_name.numpy(), minlength=len(counts[name]))
            progress.reached(first + n)
    for name, count in counts.items():
        if not count.all():
            warn_user(
                f"no observation gathers {int((count == 0).sum())} of the rows of {name!r}, such as row "
                f"{int(np.argmin(count))}, and logPrior does not see them: they stay where they begin."
            )
    return {name: tf.constant(np.maximum(count, 1), model.dtype) for name, count in counts.items()}

"""How often all observations together gather each row of the parameters that move by rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.model import Model


def counted(model: Model, start: Mapping[str, np.ndarray], verbose: bool) -> Tree:
    """{name: [rows]} of the parameters that move by rows, by one pass over all data in blocks.

    The gathered rows must depend only on the data, such as by indices in the dataset.
    """
    names, data = sorted(model.by_rows), model.data
    if not names:
        return {}
    params = {name: tf.constant(theta, model.dtype) for name, theta in start.items()}

    def rows(words: tf.Tensor) -> list[tf.Tensor]:
        found = model.rows(params, data.layout.unpack(words))
        return [found[name] for name in names]

    counts = {name: np.zeros(start[name].shape[0], np.int64) for name in names}
    for of_block in FullPass(data, rows)(title="Counting rows", verbose=verbose):
        for name, of_name in zip(names, of_block, strict=True):
            counts[name] += np.bincount(of_name.numpy(), minlength=len(counts[name]))
    for name, count in counts.items():
        if not count.all():
            warn_user(
                f"no observation gathers {int((count == 0).sum())} of the rows of {name!r}, such as row "
                f"{int(np.argmin(count))}, and logPrior does not use them: they stay where they begin."
            )
    return {name: tf.constant(np.maximum(count, 1), model.dtype) for name, count in counts.items()}

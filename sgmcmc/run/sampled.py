"""What the iterations of some chains have left, in a form that can travel between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import DivergenceError
from sgmcmc.core.types import Tree
from sgmcmc.run.checkpoint import Checkpoint
from sgmcmc.run.recorder import Accumulated


class Sampled(NamedTuple):
    """The rows of some chains, and the accumulators after them."""

    chains: list[int]
    rows: Tree  # {group: {name: [C, stored, ...]}}
    stored: int
    accumulated: Accumulated  # of NumPy's arrays
    seconds: float
    interrupted: bool = False
    diverged: DivergenceError | None = None
    checkpoints: Mapping[int, Checkpoint] = {}  # where they can go on, by the first chain of each job, if they are to

    def then(self, later: Sampled) -> Sampled:
        """The same chains after they went on, and left what is `later`."""
        rows = {
            group: {name: np.concatenate([x, later.rows[group][name]], axis=1) for name, x in members.items()}
            for group, members in self.rows.items()
        }
        return later._replace(rows=rows, stored=self.stored + later.stored)

    def of_chains(self, chains: range) -> Sampled:
        """What some of the chains have left."""
        here = slice(self.chains.index(chains.start), self.chains.index(chains.start) + len(chains))
        rows, reduced = tf.nest.map_structure(lambda x: x[here], (self.rows, self.accumulated.reduced))
        return self._replace(chains=list(chains), rows=rows, accumulated=self.accumulated._replace(reduced=reduced))

    def first(self, n_rows: int) -> Sampled:
        """The same with the first rows only."""
        rows = {group: {k: x[:, :n_rows] for k, x in members.items()} for group, members in self.rows.items()}
        return self._replace(rows=rows, stored=n_rows)


def joined(parts: Sequence[Sampled]) -> Sampled:
    """The chains of all parts, whose rows are equally many."""
    from sgmcmc.output.joined import side_by_side  # `import sgmcmc` needs no xarray

    averages = parts[0].accumulated.averages
    if averages and all(part.accumulated.averages["count"] == averages["count"] for part in parts):
        shares = np.array([len(part.chains) for part in parts], float) / sum(len(part.chains) for part in parts)
        sums = {
            name: np.tensordot(shares, [part.accumulated.averages["sums"][name] for part in parts], axes=1)
            for name in averages["sums"]
        }
        averages = averages | {"sums": sums}
    return Sampled(
        [chain for part in parts for chain in part.chains],
        side_by_side([part.rows for part in parts]),
        min(part.stored for part in parts),
        Accumulated(_concatenated([part.accumulated.reduced for part in parts]), averages),
        max(part.seconds for part in parts),
        any(part.interrupted for part in parts),
        checkpoints={chain: end for part in parts for chain, end in part.checkpoints.items()},
    )


def most(parts: Sequence[Sampled]) -> list[Sampled]:
    """The parts, cut to equally many rows, that together have the most draws."""
    from sgmcmc.output.joined import most_draws

    chosen, n_rows = most_draws([part.stored for part in parts], [len(part.chains) for part in parts])
    return [parts[k].first(n_rows) for k in chosen]


def _concatenated(trees: Sequence[Any]) -> Any:
    return tf.nest.map_structure(lambda *x: np.concatenate(x), *trees)

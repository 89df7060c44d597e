"""What users see of the positions of a session, and where chains stand when they assign to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.compiled import Compiled
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.types import Tree


class Seen:
    """The constrained parameters of a session.

    It remembers what it has shown, since the inverse of a transform does not return the
    same bits.

    Parameters
    ----------
    transforms : Transforms
    n_chains : int or None
        None for a single chain, whose parameters have no chain axis.
    """

    def __init__(self, transforms: Transforms, n_chains: int | None) -> None:
        self._transforms, self._names = transforms, sorted(transforms.each)
        self._forward = self._compiled(transforms.forward, n_chains)
        self._inverse = self._compiled(transforms.inverse, n_chains)
        self._shown: Tree = {}

    def of_positions(self, positions: Tree) -> Tree:
        """The parameters at these positions."""
        self._shown = self._applied(self._forward, positions)
        return positions | self._shown

    def positions(self, params: Tree, before: Tree) -> Tree:
        """The positions of these parameters: those `before` of what is as it was shown.

        Raises
        ------
        ValueError
            If a parameter that was assigned is not in its support.
        """
        changed = [name for name in self._names if not np.array_equal(params[name], self._shown[name])]
        if not changed:
            return params | {name: before[name] for name in self._names}
        found = self._applied(self._inverse, params)
        for name in changed:
            if not np.isfinite(found[name]).all():
                support = self._transforms.each[name].support
                raise ValueError(f"params[{name!r}] of a session must have {support}; got {params[name].numpy()}.")
        return params | {name: (found if name in changed else before)[name] for name in self._names}

    def _compiled(self, function: Callable[[Tree], Tree], n_chains: int | None) -> Compiled:
        of_all = function if n_chains is None else over_chains(function, n_chains)

        def of_leaves(*leaves: tf.Tensor) -> list[tf.Tensor]:
            made = of_all(dict(zip(self._names, leaves, strict=True)))
            return [made[name] for name in self._names]

        return Compiled(of_leaves)

    def _applied(self, function: Compiled, tree: Mapping[str, tf.Tensor]) -> Tree:
        if not self._names:
            return {}
        return dict(zip(self._names, function(*[tree[name] for name in self._names]), strict=True))

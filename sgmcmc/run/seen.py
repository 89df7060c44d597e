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
        self._transforms, self._names, self._single = transforms, sorted(transforms.each), n_chains is None
        self._forward = self._compiled(transforms.forward, n_chains)
        self._inverse = self._compiled(transforms.inverse, n_chains)
        self._holds = self._compiled(
            lambda params: {k: transforms.each[k].holds(x) for k, x in params.items()}, n_chains
        )
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
        changed = {name: self._of_chains(params[name].numpy() != self._shown[name].numpy()) for name in self._names}
        if not any(of_chains.any() for of_chains in changed.values()):
            return params | {name: before[name] for name in self._names}
        found, holds = self._applied(self._inverse, params), self._applied(self._holds, params)
        positions = {}
        for name, of_chains in changed.items():
            if (of_chains & ~holds[name].numpy()).any():
                support, got = self._transforms.each[name].support, params[name].numpy().tolist()
                raise ValueError(f"params[{name!r}] of a session must have {support}; got {got}.")
            u = found[name].numpy()
            each = of_chains.reshape(of_chains.shape + (1,) * (u.ndim - of_chains.ndim))
            positions[name] = tf.constant(np.where(each, u, before[name]))
        return params | positions

    def _of_chains(self, elements: np.ndarray) -> np.ndarray:
        """Whether any element of each chain is True, [C], or [] for a single chain."""
        return np.asarray(elements.any(axis=tuple(range(0 if self._single else 1, elements.ndim))))

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

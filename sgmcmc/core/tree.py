"""Nested dicts as flat lists of leaves, each with the path of its keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sgmcmc.core.types import Tree


def with_paths(tree: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves in order; an empty dict or tuple has none."""
    if not isinstance(tree, Mapping | tuple):
        return [(path, tree)]
    return [pair for key in dict(tree) for pair in with_paths(tree[key], (*path, key))]


def from_paths(leaves: Iterable[tuple[Iterable[str], Any]]) -> Tree:
    """The nested dict of these leaves."""
    tree: Tree = {}
    for path, leaf in leaves:
        *above, last = path
        branch = tree
        for key in above:
            branch = branch.setdefault(key, {})
        branch[last] = leaf
    return tree

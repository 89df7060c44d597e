"""A chain that runs step by step: the only mutable state of the package."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.compilation import Compiled
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree
from sgmcmc.run import Pace, Plan, Prepared
from sgmcmc.run.advance import Failure, stretches
from sgmcmc.run.checkpoint import Beginning, Checkpoint
from sgmcmc.run.loop import Loop


class SessionParams:
    """The constrained parameters of a session; what it has shown is kept, since an inverse loses bits."""

    def __init__(self, transforms: Transforms, n_chains: int | None) -> None:
        self._transforms, self._names, self._single = transforms, sorted(transforms.each), n_chains is None
        self._forward = self._compiled(transforms.forward, n_chains)
        self._inverse = self._compiled(transforms.inverse, n_chains)
        self._holds = self._compiled(
            lambda params: {k: transforms.each[k].holds(x) for k, x in params.items()}, n_chains
        )
        self._shown: Tree = {}

    def of_positions(self, positions: Tree) -> Tree:
        self._shown = self._applied(self._forward, positions)
        return positions | self._shown

    def positions(self, params: Tree, before: Tree) -> Tree:
        """The positions of these parameters; those unchanged since they were shown keep the positions `before`."""
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


DIGEST_BYTES = hashlib.sha256().digest_size


class Session:
    """The state of a chain, or of several side by side, between steps.

    Each step reads the position from `variables` and writes it back, so that users can
    compute with them and assign to them. It uses raw operations, because the methods of
    tf.Variable take longer than a step.

    Parameters
    ----------
    loop : Loop
    leaves : list of tf.Tensor
        The state to begin with.
    variables : mapping of str to tf.Variable
        One for each parameter; they are set to the position of that state.
    seen : Seen
        How they follow from the position.
    failure : Failure
        The error of a chain that diverges.
    iteration : int, default 0
        The number of iterations before that state.
    """

    def __init__(
        self,
        loop: Loop,
        leaves: list[tf.Tensor],
        variables: Mapping[str, tf.Variable],
        seen: SessionParams,
        failure: Failure,
        iteration: int = 0,
    ) -> None:
        self._loop, self._seen, self._failure = loop, seen, failure
        self.variables, self.leaps = variables, loop.leaps
        self._pace = Pace(loop.feed.length, loop.shortest)
        self._pace.length = loop.feed.length
        self._at = (list(leaves), iteration, False)
        self._write()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(variable.shape)}" for name, variable in sorted(self.variables.items()))
        return f"<session after {self.iteration} iterations: {shapes}>"

    @property
    def iteration(self) -> int:
        return self._at[1]

    def step(self, n_steps: int = 1) -> None:
        """Run `n_steps` iterations; after an error the session is unchanged."""
        with self._loop.alone:
            leaves, done = self._current(), self.iteration
            plan = Plan(done + n_steps, thin=None)
            for _, outcome in stretches(self._loop, leaves, plan, self._pace, done, self._failure):
                leaves = outcome.leaves
            self._at = (list(leaves), done + n_steps, False)
            self._write()

    def current(self) -> tuple[list[tf.Tensor], int]:
        """The leaves at the position in the variables, and the iteration count."""
        with self._loop.alone:
            return self._current(), self.iteration

    def _current(self) -> list[tf.Tensor]:
        self._write()
        leaves, where = list(self._at[0]), self._loop.positions
        params = {
            name: tf.raw_ops.ReadVariableOp(resource=self.variables[name].handle, dtype=self.variables[name].dtype)
            for name in where
        }
        for name, position in self._seen.positions(params, {name: leaves[k] for name, k in where.items()}).items():
            leaves[where[name]] = position
        return leaves

    def params(self) -> dict[str, np.ndarray]:
        with self._loop.alone:
            self._write()
            return {name: variable.numpy() for name, variable in self.variables.items()}

    def _write(self) -> None:
        """Write the position to the variables, unless they have it: an interrupt may come between a step and this."""
        leaves, iteration, written = self._at
        if not written:
            positions = {name: leaves[k] for name, k in self._loop.positions.items()}
            for name, value in self._seen.of_positions(positions).items():
                tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=value)
            self._at = (leaves, iteration, True)


def saved(session: Session, prepared: Prepared, settings: dict[str, Any]) -> bytes:
    """The state and the beginning of a session as bytes, with a checksum of both."""
    leaves, iteration = session.current()
    state = Checkpoint(iteration, 0, [leaf.numpy() for leaf in leaves]).encode()
    beginning = Beginning.of(settings, prepared).encode()
    contents = len(state).to_bytes(8, "little") + state + beginning
    return hashlib.sha256(contents).digest() + contents


def restored(data: bytes, path: str) -> tuple[Checkpoint, Beginning]:
    """The inverse of `saved`, for the file at `path`."""
    digest, contents = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    try:
        if hashlib.sha256(contents).digest() != digest:
            raise ValueError("its checksum is not that of its contents")
        size = int.from_bytes(contents[:8], "little")
        return Checkpoint.decode(contents[8 : 8 + size]), Beginning.decode(contents[8 + size :])
    except ValueError as error:
        raise not_a_session(path, error) from error


def not_a_session(path: str, error: ValueError) -> ValueError:
    return ValueError(f"path of restoreSess must be a file that saveSess wrote; got {path!r} ({error}).")

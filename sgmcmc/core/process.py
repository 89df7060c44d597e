"""TensorFlow's threads do not live on in a forked process, where it waits for them forever."""

from __future__ import annotations

import os


class _Process:
    used = False
    orphaned = False

    @classmethod
    def forked(cls) -> None:
        cls.orphaned = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


def use() -> None:
    """Say that TensorFlow is about to be used.

    Raises
    ------
    RuntimeError
        In a fork of a process where it was.
    """
    if _Process.orphaned:
        raise RuntimeError(
            "sgmcmc cannot be used in a process that was forked from one where it had been used, since TensorFlow "
            "would hang; start processes by multiprocessing.get_context('spawn')."
        )
    _Process.used = True

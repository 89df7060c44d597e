"""Which processes and threads may use the package."""

from __future__ import annotations

import os
import threading


class _Process:
    """TensorFlow's threads do not live on in a forked process, where it waits for them forever."""

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


class OneThread:
    """A context that refuses a second thread while one is within; not to be entered twice by the same.

    An interrupt may leave the name of a thread here, until that thread comes again or has ended.
    """

    def __init__(self) -> None:
        self._within: dict[str, threading.Thread] = {}

    def __enter__(self) -> None:
        use()
        thread = threading.current_thread()
        within = self._within.setdefault("thread", thread)
        if within is not thread and within.is_alive():
            raise RuntimeError(
                f"sessions of one sampler must be used by one thread at a time; {within.name!r} is using one. Give "
                "each thread a sampler of its own."
            )
        self._within["thread"] = thread

    def __exit__(self, *_: object) -> None:
        self._within.pop("thread", None)

"""Which processes and threads may use the package."""

from __future__ import annotations

import os
import threading


class _Process:
    """Whether TensorFlow was used.

    Its threads do not exist in a fork, where it waits for them forever.
    """

    used = False
    orphaned = False

    @classmethod
    def forked(cls) -> None:
        cls.orphaned = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


def use() -> None:
    """Note that TensorFlow is about to be used.

    Raises
    ------
    RuntimeError
        If this process is a fork of one that has used it.
    """
    if _Process.orphaned:
        raise RuntimeError(
            "sgmcmc cannot be used in a process that was forked after sgmcmc had been used, since TensorFlow would "
            "hang; start processes with multiprocessing.get_context('spawn')."
        )
    _Process.used = True


class OneThread:
    """A context that only one thread at a time can be in.

    A thread must not enter it twice.

    An interrupt may leave a thread registered; this ends when it enters again or has
    ended.
    """

    def __init__(self) -> None:
        self._within: dict[str, threading.Thread] = {}

    def __enter__(self) -> None:
        use()
        thread = threading.current_thread()
        within = self._within.setdefault("thread", thread)
        if within is not thread and within.is_alive():
            raise RuntimeError(
                f"sessions of one sampler must be used by one thread at a time; {within.name!r} is using one. Use a "
                "separate sampler for each thread."
            )
        self._within["thread"] = thread

    def __exit__(self, *_: object) -> None:
        self._within.pop("thread", None)

"""The arguments that say who runs the chains, checked before anything runs."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from sgmcmc.core.checks import require_count
from sgmcmc.core.pickling import require_picklable
from sgmcmc.run.jobs import Jobs

FEWEST = 2  # chains of a job by default: one more in a program is nearly free


def checked_jobs(name: str, n_chains: int | None, chains: range, executor: Any, chainsPerJob: Any) -> Jobs | None:
    """The jobs in which these chains run, or None if they run here.

    Raises
    ------
    ValueError
        If `executor` cannot be used, or `chainsPerJob` is invalid.
    """
    per_job = checked_executor(name, executor, chainsPerJob, len(chains))
    if per_job is None:
        return None
    if n_chains is None:
        raise ValueError(f"executor of {name} must come with nChains, of which each job has some; got nChains=None.")
    return Jobs(executor, grouped(chains, per_job))


def checked_executor(name: str, executor: Any, chainsPerJob: Any, n_chains: int) -> int | None:
    """How many of the chains a job has, or None without an executor."""
    if executor is None:
        if chainsPerJob is not None:
            raise ValueError(f"chainsPerJob of {name} must come with executor; got {chainsPerJob!r} without one.")
        return None
    must = f"executor of {name} must be None or an object with a method submit that returns futures"
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ValueError(f"{must}, such as a ProcessPoolExecutor; got {executor!r}.")
    if isinstance(executor, ProcessPoolExecutor) and _method(executor) == "fork":
        raise ValueError(
            f"executor of {name} must have processes that begin afresh, since TensorFlow hangs in a fork: "
            f"ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn')); got one that forks."
        )
    if chainsPerJob is None:
        return max(FEWEST, -(-n_chains // n_workers(executor)))
    return require_count("chainsPerJob", name, chainsPerJob, 1)


def require_portable(name: str, thing: Any) -> None:
    """Refuse what cannot be handed to a worker: a process that cannot see the memory of this one.

    Raises
    ------
    ValueError
        With the name of what it is.
    """
    try:
        require_picklable(thing)
    except TypeError as error:
        raise ValueError(
            f"executor of {name} must be given functions and data that can be pickled; got {error}."
        ) from error


def grouped(chains: range, per_job: int) -> list[range]:
    """As few groups of at most so many chains as there can be, as equal as can be if only the last is smaller.

    So the chains of a group are the chunk of an array that has all.
    """
    n_groups = -(-len(chains) // per_job)
    size = -(-len(chains) // n_groups)
    return [range(begin, min(begin + size, chains.stop)) for begin in range(chains.start, chains.stop, size)]


def n_workers(executor: Any) -> int:
    """The number of workers, as far as executors say it, or that of processors here."""
    for attribute in ("_max_workers", "num_workers"):  # of concurrent.futures and loky; of mpi4py
        if isinstance(number := getattr(executor, attribute, None), int) and number > 0:
            return number
    client: Any = getattr(executor, "_client", None)  # of Dask
    return sum(client.nthreads().values()) if hasattr(client, "nthreads") else (os.cpu_count() or 1)


def _method(executor: ProcessPoolExecutor) -> str:
    context: Any = executor._mp_context
    return context.get_start_method()

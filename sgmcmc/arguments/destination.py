"""Checks of the arguments for storage, memory and executors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import tensorflow as tf

from sgmcmc.core.checks import require_count
from sgmcmc.core.errors import reason
from sgmcmc.parallel.serialization import require_picklable
from sgmcmc.run import TUNING
from sgmcmc.run.checkpoint import Beginning, Checkpoint, require_same
from sgmcmc.run.jobs import Jobs
from sgmcmc.run.one_call import Run
from sgmcmc.storage import path_of_part, reserved_names
from sgmcmc.storage.zarr import read_checkpoint

GB = 1e9


def require_memory(run: Run, accumulators: Mapping[str, Any], on_disk: bool) -> None:
    """Refuse a run that needs more memory than is free.

    Raises
    ------
    MemoryError
        With the size, and what to do instead.
    """
    name, n_chains = run.sampler.name, run.sampler.n_chains or 1
    free = psutil.virtual_memory().available
    sums = 2 * n_chains * _bytes(tf.nest.flatten(accumulators))  # the loop holds the old sums and the new ones
    if sums > free:
        raise MemoryError(
            f"reduce of {name} must keep sums that fit into memory; got {sums / GB:.1f} GB, while {free / GB:.1f} GB "
            f"are free. Use collect to reduce less of each draw."
        )
    if on_disk or not run.keep.stores:
        return
    needed = sums + run.plan.n_rows * n_chains * _bytes_of_row(run)
    if needed > free:
        ways = [
            *(["store fewer draws with thin"] if run.keep.thin == 1 else ["use a larger thin"]),
            *([] if run.keep.collect else ["store less of each draw with collect"]),
            *([] if run.keep.reducers else ["store only sums with reduce"]),
            "write them to disk with storage='run.zarr'",
            f"run step by step with {name}Setup",
        ]
        raise MemoryError(
            f"nIters of {name} must produce draws that fit into memory; got {run.plan.n_rows} draws, which need "
            f"{needed / GB:.1f} GB, while {free / GB:.1f} GB are free. Options: {'; '.join(ways)}."
        )


def _bytes_of_row(run: Run) -> int:
    """Bytes of one recorded row of one chain."""
    sampler = run.sampler
    gradients = sum(theta.nbytes for theta in sampler.start.values()) if run.keep.gradients else 0
    return _bytes(run.keep.draw.values()) + sampler.n_stats * sampler.dtype.size + gradients


def _bytes(specs: Any) -> int:
    return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)


def in_store(run: Run, storage: Any, resume: bool, seeded: bool) -> Run:
    """The same run with the store `storage`, from its checkpoint if there is one.

    Raises
    ------
    ValueError
        If `storage` cannot be a store, or if this run cannot continue it.
    """
    name, path = run.sampler.name, _path(run.sampler.name, storage)
    stored = [*run.keep.draw, *(run.sampler.start if run.keep.gradients else ())] if run.keep.stores else []
    if bad := reserved_names(stored):
        raise ValueError(
            f"names of draws of {name} must be usable in storage; got {bad}, which xarray or Zarr reserves."
        )
    run = replace(run, path=path)
    if not path.exists():
        _require_writable(name, path)
        return run
    if not resume:
        raise ValueError(
            f"storage of {name} must be a new path, or come with resume=True; got {str(path)!r}, which exists."
        )
    from sgmcmc.storage.store import parts_of

    try:
        groups, beginning = parts_of(path), Beginning.decode(*read_checkpoint(path, "beginning"))
        stores = [path] if groups is None else [path_of_part(path, chains) for chains in groups]
        checkpoints = [Checkpoint.decode(*read_checkpoint(store, "state")) for store in stores if store.exists()]
    except Exception as error:
        raise ValueError(
            f"storage of {name} must be a store that this package wrote; got {str(path)!r}, which is not one, or "
            f"is damaged ({reason(error)})."
        ) from error
    if not seeded:
        run = replace(run, sampler=run.sampler.with_seed(beginning.settings["seed"]))
    run = run.settled(beginning.found.get(TUNING, {}))
    require_same(name, run.identity, beginning.settings, f"{str(path)!r} was begun")
    done = max((checkpoint.iteration for checkpoint in checkpoints), default=0)
    if run.enough is None and run.n_iterations < done:
        raise ValueError(
            f"nIters of {name} must be at least the {done} iterations that {str(path)!r} already holds; "
            f"got {run.n_iterations}."
        )
    run = replace(run, beginning=beginning)
    if groups is not None:
        return replace(run, jobs=Jobs(run.jobs.executor if run.jobs else None, groups))
    if run.jobs is not None:
        raise ValueError(
            f"executor of {name} must be None to continue {str(path)!r}, which was begun without one and has no parts."
        )
    return replace(run, checkpoints={run.sampler.first_chain: checkpoints[0]})


def _path(name: str, storage: Any) -> Path:
    must = f"storage of {name} must be None or the path of a Zarr store, whose name ends in '.zarr'"
    if "://" in str(storage):
        raise ValueError(f"{must}; got {storage!r}, a URL: a store is a folder in a file system.")
    if not isinstance(storage, str | Path) or Path(storage).suffix != ".zarr":
        raise ValueError(f"{must}; got {storage!r}.")
    path = Path(storage).expanduser()
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{must}, in a folder that exists; got {str(storage)!r}.")
    try:
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError("storage needs Zarr and xarray: pip install zarr xarray") from error
    return path


def _require_writable(name: str, path: Path) -> None:
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise ValueError(f"storage of {name} must be in a writable folder; got {str(path)!r} ({error}).") from error


FEWEST = 2  # chains of a job by default: a second chain in a program costs almost nothing


def checked_jobs(name: str, chains: range, executor: Any, chainsPerJob: Any) -> Jobs | None:
    """The jobs in which these chains run, or None if they run here.

    Raises
    ------
    ValueError
        If `executor` cannot be used, or `chainsPerJob` is invalid.
    """
    per_job = checked_executor(name, executor, chainsPerJob, len(chains))
    if per_job is None:
        return None
    return Jobs(executor, grouped(chains, per_job))


def checked_executor(name: str, executor: Any, chainsPerJob: Any, n_chains: int) -> int | None:
    """The number of chains per job, or None without an executor."""
    if executor is None:
        if chainsPerJob is not None:
            raise ValueError(f"chainsPerJob of {name} must come with executor; got {chainsPerJob!r} without one.")
        return None
    must = f"executor of {name} must be None or an object with a method submit that returns futures"
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ValueError(f"{must}, such as a ProcessPoolExecutor; got {executor!r}.")
    if isinstance(executor, ProcessPoolExecutor) and _method(executor) == "fork":
        raise ValueError(
            f"executor of {name} must start fresh processes, since TensorFlow hangs in a forked one: "
            f"ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn')); got one that forks."
        )
    if chainsPerJob is None:
        return max(FEWEST, -(-n_chains // n_workers(executor)))
    return require_count("chainsPerJob", name, chainsPerJob, 1)


def require_portable(name: str, thing: Any) -> None:
    """Refuse what cannot be sent to a worker, a process that cannot see the memory of this one.

    Raises
    ------
    ValueError
        With the name of what cannot be sent.
    """
    try:
        require_picklable(thing)
    except TypeError as error:
        raise ValueError(
            f"executor of {name} must be given functions and data that can be pickled; got {error}."
        ) from error


def grouped(chains: range, per_job: int) -> list[range]:
    """The fewest groups of at most `per_job` chains, of equal size except for a smaller last one.

    Each group is then a chunk of an array with all chains.
    """
    n_groups = -(-len(chains) // per_job)
    size = -(-len(chains) // n_groups)
    return [range(begin, min(begin + size, chains.stop)) for begin in range(chains.start, chains.stop, size)]


def n_workers(executor: Any) -> int:
    """The number of workers if the executor reports it, or else that of processors here."""
    for attribute in ("_max_workers", "num_workers"):  # of concurrent.futures and loky; of mpi4py
        if isinstance(number := getattr(executor, attribute, None), int) and number > 0:
            return number
    client: Any = getattr(executor, "_client", None)  # of Dask
    return sum(client.nthreads().values()) if hasattr(client, "nthreads") else (os.cpu_count() or 1)


def _method(executor: ProcessPoolExecutor) -> str:
    context: Any = executor._mp_context
    return context.get_start_method()

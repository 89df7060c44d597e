"""Where draws are stored, and who runs the chains."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgmcmc.core.errors import reason, refused, require_count
from sgmcmc.parallel.serialization import require_picklable
from sgmcmc.run import TUNING
from sgmcmc.run.checkpoint import Beginning, Checkpoint, require_same
from sgmcmc.run.jobs import Jobs
from sgmcmc.run.one_call import Run
from sgmcmc.storage import path_of_part, reserved_names
from sgmcmc.storage.zarr import read_checkpoint

GB = 1e9


def in_store(run: Run, storage: Any, resume: bool, seeded: bool) -> Run:
    """The same run with the store `storage`, from its checkpoint if there is one."""
    name, path = run.sampler.name, _path(run.sampler.name, storage)
    stored = [*run.keep.draw, *(run.sampler.start if run.keep.gradients else ())] if run.keep.stores else []
    if bad := reserved_names(stored):
        raise refused(name, "names of draws", "be usable in storage", f"{bad}, which xarray or Zarr reserves")
    run = replace(run, path=path)
    if not path.exists():
        _require_writable(name, path)
        return run
    if not resume:
        raise refused(name, "storage", "be a new path, or come with resume=True", f"{str(path)!r}, which exists")
    from sgmcmc.storage.store import parts_of

    try:
        groups, beginning = parts_of(path), Beginning.decode(*read_checkpoint(path, "beginning"))
        stores = [path] if groups is None else [path_of_part(path, chains) for chains in groups]
        checkpoints = [Checkpoint.decode(*read_checkpoint(store, "state")) for store in stores if store.exists()]
    except Exception as error:
        got = f"{str(path)!r}, which is not one, or is damaged ({reason(error)})"
        raise refused(name, "storage", "be a store that this package wrote", got) from error
    if not seeded:
        run = replace(run, sampler=run.sampler.with_seed(beginning.settings["seed"]))
    run = run.with_automatic_thin(beginning.found.get(TUNING, {}))
    require_same(name, run.identity, beginning.settings, f"{str(path)!r} was begun")
    done = max((checkpoint.iteration for checkpoint in checkpoints), default=0)
    if run.stopping_rule is None and run.n_iterations < done:
        must = f"be at least the {done} iterations that {str(path)!r} already holds"
        raise refused(name, "nIters", must, run.n_iterations)
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


def checked_jobs(name: str, chains: range, executor: Any, chainsPerJob: Any) -> Jobs:
    return Jobs(executor, grouped(chains, checked_executor(name, executor, chainsPerJob, len(chains))))


def checked_executor(name: str, executor: Any, chainsPerJob: Any, n_chains: int) -> int:
    """The number of chains per job."""
    must = f"executor of {name} must be None or an object with a method submit that returns futures"
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ValueError(f"{must}, such as a ProcessPoolExecutor; got {executor!r}.")
    context: Any = executor._mp_context if isinstance(executor, ProcessPoolExecutor) else None
    if context is not None and context.get_start_method() == "fork":
        raise ValueError(
            f"executor of {name} must start fresh processes, since TensorFlow hangs in a forked one: "
            f"ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn')); got one that forks."
        )
    if chainsPerJob is None:
        return max(FEWEST, -(-n_chains // n_workers(executor)))
    return require_count("chainsPerJob", name, chainsPerJob, 1)


def require_portable(name: str, thing: Any) -> None:
    """Refuse what cannot be sent to a worker, a process that cannot see the memory of this one."""
    try:
        require_picklable(thing)
    except TypeError as error:
        raise refused(name, "executor", "be given functions and data that can be pickled", error) from error


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

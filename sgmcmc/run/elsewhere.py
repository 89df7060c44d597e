"""The chains of a run in jobs, and their draws side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sgmcmc.core.layout import path_of_part
from sgmcmc.run.advance import Watcher
from sgmcmc.run.jobs import Jobs, Outcome
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.sampled import Sampled
from sgmcmc.storage.parts import create_whole, show_parts
from sgmcmc.storage.zarr import read_rows

if TYPE_CHECKING:
    from sgmcmc.run.one_call import Run


def by_jobs(run: Run, jobs: Jobs, prepared: Prepared, progress: Watcher) -> Sampled:
    """All chains of a run whose beginning is known; `prepared` are those of the first job.

    Raises
    ------
    Exception
        That of the first job that failed; its attribute `partial` has the draws of all jobs that have some.
    """
    sent, path = replace(run, jobs=None), run.path
    if path is None:
        with progress:
            outcome = jobs.made(sent, progress)
    else:
        specs = sent.of_chains(jobs.groups[0]).loop(prepared).row_specs
        if not path.exists():
            assert run.beginning is not None
            create_whole(path, specs, run.beginning.encode(), run.settings | prepared.settings, jobs.groups)
        with progress:
            outcome = jobs.made(sent, progress, partial(show_parts, path))
        rows = [read_rows(path_of_part(path, chains), specs) for chains in outcome.groups]
        parts = [part._replace(rows=one) for part, one in zip(outcome.parts, rows, strict=True)]
        outcome = outcome._replace(parts=parts)
    if outcome.has_failed:
        raise _failure(run, prepared, outcome, len(jobs.groups))
    return outcome.sampled()


def _failure(run: Run, prepared: Prepared, outcome: Outcome, n_jobs: int) -> BaseException:
    """The exception of the first job that failed, with the draws of all jobs that have some."""
    draws = {part.chains[0]: run.drawn(prepared, part, {}) for part in outcome.parts if part.stored}
    diverged = next((part for part in outcome.parts if part.diverged), None)
    error: Any
    if diverged is not None and diverged.diverged is not None:
        chains: Sequence[int] = diverged.chains
        error = diverged.diverged.with_draws(run.drawn(prepared, diverged, {}), diverged.stored)
    else:
        chains, error = next(iter(outcome.failures.items()))
    kept = f"`partial` of this error has the draws of the {len(draws)} of {n_jobs} jobs that returned some."
    if run.path is not None:
        kept += f" {str(run.path)!r} has all that were written; resume=True goes on with it."
    error.add_note(f"This is of the job of chains {chains[0]} to {chains[-1]} of {run.sampler.name}. {kept}")
    error.partial = list(draws.values())
    return error

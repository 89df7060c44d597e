"""What is expected of a chain that hops between shards of the data, before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.core.coordinates import DENSE, DIAGONAL
from sgmcmc.core.schedules import first
from sgmcmc.core.types import Mode, Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.shards import shards_of
from sgmcmc.dataset.some import some_of
from sgmcmc.laplace.hops import Shard, mobility, sd_ratios
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import FLOPS, n_rows

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler

MOST = 500  # elements of the parameters, for matrices of each shard
PER_ELEMENT = 100  # observations of a shard, at least, if not all: its curvature is then right within a tenth
TOLERANCE = 0.05  # of an sd, if the run has none


def with_shards(sampler: ProductSampler, mode: Mode, preconditioner: Tree, tuning: Tree) -> Tree:
    """The tuning, if there is one, with the standard deviations of a chain that hops between shards.

    With a warning if one of them differs by more than the tolerance from that of the posterior.
    """
    data, posterior = sampler.model.data, Posterior(sampler.model, sampler.shapes)
    assert data.shards is not None
    hop, shards = data.shards.hop, _at_mode(sampler, posterior, mode)
    precision = sum((one.share * one.precision for one in shards), np.zeros([posterior.size, posterior.size]))
    if not np.linalg.eigvalsh(precision)[0] > 0:  # unknown, or not concave, which other warnings are about
        return tuning
    root = _root(sampler, posterior, precision, preconditioner, float(tuning["stepsize"]) if tuning else None)
    ratios = sd_ratios(shards, root, hop)
    if not np.abs(ratios - 1).max() <= (sampler.curvature.tolerance or TOLERANCE):
        _warn(sampler, posterior, ratios, sd_ratios(shards, root, 1) if hop > 1 else None)
    if not tuning or not np.isfinite(ratios).all():
        return tuning
    of_each = posterior.arrays(ratios)
    return tuning | {key: {name: x * of_each[name] for name, x in tuning[key].items()} for key in ("sd", "sdRatio")}


def _at_mode(sampler: ProductSampler, posterior: Posterior, mode: Mode) -> list[Shard]:
    """What each shard says of the posterior there; nothing if that is not known, or too expensive."""
    size, data = posterior.size, list(shards_of(sampler.model.data))
    rows = n_rows(size, FLOPS) // len(data)
    moves = all(one.stationary is not None for one in sampler.dynamics.values())
    if not moves or size > MOST or rows < min(PER_ELEMENT * size, max(one.size for one in data)):
        return []
    at, shards = posterior.flat(mode.params), []
    for one in data:
        part = posterior.of(some_of(one, rows, sampler.seed))
        gradient = np.zeros(size) if sampler.gradient.centred else part.value_and_gradient(at)[1]
        shards.append(Shard(one.size / sampler.model.data.size, -part.hessian(at), gradient))
    return shards


def _root(
    sampler: ProductSampler, posterior: Posterior, precision: np.ndarray, preconditioner: Tree, stepsize: float | None
) -> np.ndarray:
    """A root of the matrix by which a gradient moves the chain in an iteration, [D, D]."""
    root = np.eye(posterior.size)
    if DENSE in preconditioner:
        root = preconditioner[DENSE].numpy().astype(np.float64)
    elif preconditioner:
        root = np.diag(posterior.flat(preconditioner[DIAGONAL]))
    in_root = np.einsum("ji,jk,ki->i", root, precision, root)
    moved = np.empty(posterior.size)
    for name, e in posterior.elements.items():
        eps = first(sampler.stepsize[name], sampler.dtype) if stepsize is None else stepsize
        moved[e.start : e.stop] = mobility(sampler.dynamics[name], eps, in_root[e.start : e.stop])
    return root * np.sqrt(moved)


def _warn(sampler: ProductSampler, posterior: Posterior, ratios: np.ndarray, if_one: np.ndarray | None) -> None:
    """Warn of these ratios; `if_one` are those of hops in each iteration, if hops are less often."""
    most = ratios.max()
    name = posterior.names(ratios == most)[0]
    large = f"up to {most - 1:.0%} too large" if np.isfinite(most) else "without bound"
    cures = ["decrease stepsize", "deal the observations to shards at random"]
    if if_one is not None:
        cures.insert(0, f"hop more often (with hop=1 it would be {if_one.max() - 1:.0%})")
    if not sampler.gradient.centred:
        cures.append("use control variates")
    warn_user(
        f"the shards of {sampler.name} differ so much that standard deviations of its draws are expected to be "
        f"{large}, in {name!r}: {', or '.join(cures)}."
    )

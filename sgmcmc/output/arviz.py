"""Draws as ArviZ's tree."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from sgmcmc.core.types import Tree
    from sgmcmc.output.draws import Draws


def to_arviz(draws: Draws) -> xr.DataTree:
    """The groups posterior and sample_stats, with the stepsize and minibatch size of every draw."""
    base = require_arviz("toArviz")
    groups = {group: dict(members) for group, members in draws._groups.items()}
    stats, settings = groups["sample_stats"], draws.settings
    shape = stats["lp"].shape
    stepsizes = settings["stepsize"]
    if "step_size" not in stats:
        by_parameter = np.array([stepsizes[name] for name in sorted(stepsizes)])
        stats["step_size"] = np.broadcast_to(by_parameter, (*shape, len(by_parameter)))
    if "minibatch_size" not in stats:
        stats["minibatch_size"] = np.broadcast_to(np.array(settings["minibatchSize"]), shape)
    dims = {name: ["parameter"] for name, array in stats.items() if array.ndim == 3}
    groups = {group: members for group, members in groups.items() if members}
    if isinstance(stats["lp"], np.ndarray):
        tree = base.from_dict(groups, dims=dims, coords={"parameter": sorted(stepsizes)})
    else:  # on disk: read only when used
        tree = _tree_of_arrays(groups, sorted(stepsizes))
    tree.attrs.update(inference_library="sgmcmc", sampler=settings["sampler"], seed=str(draws.seed))
    return tree


def _tree_of_arrays(groups: Tree, parameters: list[str]) -> xr.DataTree:
    import xarray as xr

    def dataset(members: Tree) -> xr.Dataset:
        named = {
            name: x if isinstance(x, xr.DataArray) else xr.DataArray(x, dims=("chain", "draw", "parameter")[: x.ndim])
            for name, x in members.items()
        }
        result = xr.Dataset(named)
        coords = {dim: np.arange(size) for dim, size in result.sizes.items()}
        return result.assign_coords(coords | ({"parameter": parameters} if "parameter" in coords else {}))

    return xr.DataTree.from_dict({group: dataset(members) for group, members in groups.items()})


def require_arviz(function: str) -> ModuleType:
    """arviz_base, or a word on how to get it."""
    try:
        import arviz_base
        import arviz_stats  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{function} needs ArviZ: pip install "sgmcmc[arviz]"') from error
    return arviz_base

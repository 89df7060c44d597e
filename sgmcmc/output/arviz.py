"""Draws as ArviZ's tree."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.core.layout import dimension_names, unfit_names

if TYPE_CHECKING:
    import xarray as xr

    from sgmcmc.core.types import Tree
    from sgmcmc.output.draws import Draws


def to_arviz(draws: Draws) -> xr.DataTree:
    """The groups posterior and sample_stats, with the stepsize and minibatch size of every draw."""
    base = require_arviz("toArviz")
    groups, settings = draws.groups, draws.settings
    if "posterior" not in groups:
        raise ValueError("toArviz needs draws, and none are stored; with reduce=, collect= says what is stored.")
    names = [name for members in groups.values() for name in members]
    if bad := unfit_names(names):
        raise ValueError(f"names for toArviz must be fit for xarray; got {bad}, which it reserves.")
    stats = dict(groups["sample_stats"])
    groups["sample_stats"] = stats
    parameters, shape = sorted(settings["stepsize"]), stats["lp"].shape
    if "step_size" not in stats:
        constants = np.array([settings["stepsize"][name] for name in parameters])
        stats["step_size"] = np.broadcast_to(constants, (*shape, len(parameters)))
    if "minibatch_size" not in stats:
        stats["minibatch_size"] = np.broadcast_to(np.array(settings["minibatchSize"]), shape)
    coords = {"draw": draws.iterations, "parameter": parameters}
    if isinstance(stats["lp"], np.ndarray):
        dims = {
            name: list(dimension_names(group, name, array.ndim, names)[2:])
            for group, members in groups.items()
            for name, array in members.items()
        }
        tree = base.from_dict(groups, dims=dims, coords=coords)
    else:  # on disk: read only when used
        tree = _tree_of_arrays(groups, coords)
    tree.attrs.update(inference_library="sgmcmc", sampler=settings["sampler"], seed=str(draws.seed))
    return tree


def _tree_of_arrays(groups: Tree, coords: Tree) -> xr.DataTree:
    import xarray as xr

    def dataset(group: str, members: Tree) -> xr.Dataset:
        named = {
            name: x
            if isinstance(x, xr.DataArray)
            else xr.DataArray(x, dims=dimension_names(group, name, x.ndim, members))
            for name, x in members.items()
        }
        result = xr.Dataset(named)
        numbered = {dim: np.arange(size) for dim, size in result.sizes.items()}
        return result.assign_coords(numbered | {dim: values for dim, values in coords.items() if dim in numbered})

    return xr.DataTree.from_dict({group: dataset(group, members) for group, members in groups.items()})


def require_arviz(function: str) -> ModuleType:
    """arviz_base, or a word on how to get it."""
    try:
        import arviz_base
        import arviz_stats  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{function} needs ArviZ: pip install "sgmcmc[arviz]"') from error
    return arviz_base

"""Export of draws to ArviZ and pandas."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.draws.elements import label, of, refused, require_stored, with_words
from sgmcmc.storage import dimension_names, reserved_names

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from sgmcmc.core.trees import Tree
    from sgmcmc.draws.draws import Draws


def to_frame(draws: Draws) -> pd.DataFrame:
    import pandas as pd

    require_stored(draws, "toDataFrame")
    rows, labels = _of_all_chains(draws), of(draws)
    names = [label(name, place, labels) for name, x in rows.items() for place in np.ndindex(*x.shape[1:])]
    index = pd.MultiIndex.from_product([draws.chains, draws.iterations], names=["chain", "draw"])
    return pd.DataFrame(np.column_stack([x.reshape(len(x), -1) for x in rows.values()]), index=index, columns=names)


def _of_all_chains(draws: Draws) -> dict[str, np.ndarray]:
    """The draws of all chains, concatenated, {name: [C T, *shape]}."""
    posterior = draws.groups["posterior"].items()
    return {name: np.asarray(x).reshape(x.shape[0] * x.shape[1], *x.shape[2:]) for name, x in posterior}


def _log_likelihood(draws: Draws) -> np.ndarray:
    """The log likelihood of each observation at each draw, [C, T, N]."""
    if draws.comparison is None:
        raise ValueError(
            "logLikelihood of toArviz must be False for draws without the arguments of their call, such as those of "
            "load, of a session or of lda; got True."
        )
    if missing := sorted(set(draws.settings["parameters"]) - draws.keys()):
        raise refused("toArviz", "logLikelihood", "be False for draws without all parameters", f"no {missing}")
    terms = draws.comparison.log_lik_terms(_of_all_chains(draws))
    return terms.reshape(len(draws.chains), len(draws.iterations), -1)


def to_arviz(draws: Draws, log_likelihood: bool = False) -> xr.DataTree:
    """The groups posterior and sample_stats, with the stepsize and minibatch size of every draw."""
    base = require_arviz("toArviz")
    require_stored(draws, "toArviz")
    groups, settings = draws.groups, draws.settings
    names = [name for members in groups.values() for name in members]
    if bad := reserved_names(names):
        raise ValueError(f"names for toArviz must be usable in xarray; got {bad}, which it reserves.")
    some = next(iter(groups["posterior"].values()))
    groups["sample_stats"] = _constants(settings, some.shape[:2]) | groups.get("sample_stats", {})
    coords = {"chain": draws.chains, "draw": draws.iterations, "parameter": settings["parameters"]}
    if isinstance(some, np.ndarray):
        dims = {
            name: list(dimension_names(group, name, array.ndim, names)[2:])
            for group, members in groups.items()
            for name, array in members.items()
        }
        tree = base.from_dict(groups, dims=dims, coords=coords)
    else:  # on disk: read only when used
        tree = _tree_of_arrays(groups, coords)
    if labels := of(draws):
        for group in {"posterior", "gradients"} & groups.keys():
            tree[group].dataset = with_words(tree[group].to_dataset(), labels)
    if log_likelihood:
        values = {"logLik": _log_likelihood(draws)}
        added = base.from_dict({"log_likelihood": values}, dims={"logLik": ["observation"]}, coords=coords)
        tree["log_likelihood"] = added["log_likelihood"]
    tree.attrs.update(inference_library="sgmcmc", sampler=settings["sampler"], seed=str(draws.seed))
    return tree


def _constants(settings: Mapping[str, Any], shape: tuple[int, ...]) -> Tree:
    """Statistics that are the same for every draw and so are not recorded; possibly none."""
    constants = {}
    stepsizes = [settings.get("stepsize", {}).get(name) for name in settings["parameters"]]
    if all(isinstance(eps, float) for eps in stepsizes):
        constants["step_size"] = np.broadcast_to(np.array(stepsizes), (*shape, len(stepsizes)))
    if "minibatchSize" in settings:
        constants["minibatch_size"] = np.broadcast_to(np.array(settings["minibatchSize"]), shape)
    return constants


def _tree_of_arrays(groups: Tree, coords: Tree) -> xr.DataTree:
    import xarray as xr

    def variable(group: str, name: str, x: Any, members: Tree) -> xr.DataArray:
        return x if isinstance(x, xr.DataArray) else xr.DataArray(x, dims=dimension_names(group, name, x.ndim, members))

    def dataset(group: str, members: Tree) -> xr.Dataset:
        result = xr.Dataset({name: variable(group, name, x, members) for name, x in members.items()})
        numbered = {dim: np.arange(size) for dim, size in result.sizes.items()}
        return result.assign_coords(numbered | {dim: values for dim, values in coords.items() if dim in numbered})

    return xr.DataTree.from_dict({group: dataset(group, members) for group, members in groups.items()})


def require_arviz(function: str) -> ModuleType:
    """arviz_base, or an ImportError that says how to install it."""
    try:
        import arviz_base
        import arviz_stats  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{function} needs ArviZ: pip install arviz-base "arviz-stats[xarray]"') from error
    return arviz_base

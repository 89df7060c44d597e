"""Words for the elements of parameters, such as "effect[UA]" for "effect[3]"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.dataset.entry import described

if TYPE_CHECKING:
    import xarray as xr

    from sgmcmc.output.draws import Draws

SHOWN = 5


class Axis(NamedTuple):
    """What stands along the first axis of a parameter."""

    name: str | None  # the entry of the dataset whose levels these are
    words: tuple[str, ...]


Labels = Mapping[str, Axis]


def checked_labels(draws: Draws, labels: Any) -> dict[str, Any]:
    """The labels as `Draws.labelled` describes them, beside those that the draws have already; as JSON."""
    if not isinstance(labels, Mapping) or not labels.keys() <= draws.keys():
        got = sorted(map(str, labels)) if isinstance(labels, Mapping) else described(labels)
        raise ValueError(f"labels of labelled must be a dict for some of {sorted(draws)}; got {got}.")
    levels = draws.settings.get("levels", {})
    axes = {**of(draws), **{name: _axis(draws, levels, name, given) for name, given in labels.items()}}
    return {name: {"name": axis.name, "words": list(axis.words)} for name, axis in axes.items()}


def of(draws: Any) -> Labels:
    """The labels of draws; none for a plain dict."""
    given = getattr(draws, "settings", {}).get("labels", {})
    return {name: Axis(axis["name"], tuple(axis["words"])) for name, axis in given.items()}


def label(base: str, place: tuple[int, ...], labels: Labels | None = None) -> str:
    """The name of an element, such as "theta[0, 1]"."""
    if not place:
        return base
    words = [str(i) for i in place]
    if labels and base in labels and place[0] < len(labels[base].words):
        words[0] = labels[base].words[place[0]]
    return f"{base}[{', '.join(words)}]"


def rows(draws: Draws) -> dict[str, str]:
    """For each element of labelled parameters the name with numbers, and that with words."""
    labels, lead = of(draws), 1 if draws.nChains is None else 2
    return {
        label(base, place): label(base, place, labels)
        for base in labels
        if base in draws
        for place in np.ndindex(*draws[base].shape[lead:])
    }


def with_words(dataset: xr.Dataset, labels: Labels) -> xr.Dataset:
    """The variables, with the words as coordinates of their first axes."""
    import xarray as xr

    def worded(name: str, variable: xr.DataArray) -> xr.DataArray:
        if name not in labels or variable.ndim < 3:
            return variable
        old, axis = str(variable.dims[2]), labels[name]
        new = old if axis.name is None or axis.name in dataset else axis.name
        return variable.drop_vars(old, errors="ignore").rename({old: new}).assign_coords({new: list(axis.words)})

    return xr.Dataset({name: worded(str(name), x) for name, x in dataset.items()}, attrs=dataset.attrs)


def _axis(draws: Draws, levels: Mapping[str, Sequence[Any]], name: str, given: Any) -> Axis:
    must = f"labels[{name!r}] of labelled must be"
    shape = draws[name].shape[1 if draws.nChains is None else 2 :]
    if isinstance(given, str):
        if given not in levels:
            raise ValueError(f"{must} an entry of the dataset with categories, {sorted(levels)}; got {given!r}.")
        axis = Axis(given, tuple(map(str, levels[given])))
    elif isinstance(given, Sequence):
        axis = Axis(None, tuple(map(str, given)))
    else:
        raise ValueError(f"{must} a list of words, or an entry of the dataset with categories; got {described(given)}.")
    if not shape or len(set(axis.words)) != len(axis.words) or len(axis.words) != shape[0]:
        raise ValueError(
            f"{must} distinct words, one for each element along the first axis of shape {shape}; got "
            f"{len(axis.words)}, such as {list(axis.words[:SHOWN])}."
        )
    return axis

"""The elements of parameters: their labels, and their values by names such as "theta[0]"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sgmcmc.core.errors import refused
from sgmcmc.dataset.arrays import described

if TYPE_CHECKING:
    import xarray as xr

    from sgmcmc.draws.draws import Draws


SHOWN = 5
SOURCES = "be the result of a sampler or a dict of arrays (T, ...)"


def require_stored(draws: Draws, of: str) -> None:
    if not draws:
        raise ValueError(
            f"{of} needs draws, but none are stored: reduce= keeps only sums, in out.reduced. Add collect= to store "
            "draws."
        )


class Axis(NamedTuple):
    """The labels along the first axis of a parameter."""

    name: str | None  # the entry of the dataset whose levels these are
    words: tuple[str, ...]


Labels = Mapping[str, Axis]


def checked_labels(draws: Draws, labels: Any) -> dict[str, Any]:
    """The labels described in `Draws.labelled`, added to those that the draws already have, as JSON."""
    if not isinstance(labels, Mapping) or not labels.keys() <= draws.keys():
        got = sorted(map(str, labels)) if isinstance(labels, Mapping) else described(labels)
        raise refused("labelled", "labels", f"be a dict for some of {sorted(draws)}", got)
    axes = {**of(draws), **{name: _axis(draws, name, given) for name, given in labels.items()}}
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
    """The elements of labelled parameters: {name with numbers: name with words}."""
    labels, posterior = of(draws), draws.groups.get("posterior", {})
    return {
        label(base, place): label(base, place, labels)
        for base in labels
        if base in posterior
        for place in np.ndindex(*posterior[base].shape[2:])
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


def _axis(draws: Draws, name: str, given: Any) -> Axis:
    argument, levels = f"labels[{name!r}]", draws.settings.get("levels", {})
    shape = draws.groups["posterior"][name].shape[2:]
    if isinstance(given, str):
        if given not in levels:
            must = f"be an entry of the dataset with categories, {sorted(levels)}"
            raise refused("labelled", argument, must, repr(given))
        axis = Axis(given, tuple(map(str, levels[given])))
    elif isinstance(given, Sequence):
        axis = Axis(None, tuple(map(str, given)))
    else:
        must = "be a list of words, or an entry of the dataset with categories"
        raise refused("labelled", argument, must, described(given))
    if not shape or len(set(axis.words)) != len(axis.words) or len(axis.words) != shape[0]:
        must = f"be distinct words, one for each element along the first axis of shape {shape}"
        raise refused("labelled", argument, must, f"{len(axis.words)}, such as {list(axis.words[:SHOWN])}")
    return axis


Place = tuple[str, tuple[int, ...]]
"""A parameter and the leading indices of one of its parts."""


class Element(NamedTuple):
    """One number of a parameter along all chains."""

    label: str
    values: np.ndarray  # float64 [C, T]
    base: str
    place: tuple[int, ...]


class Chains:
    """The draws that tables and plots read: a `Draws`, or a plain dict of arrays (T, ...)."""

    def __init__(self, draws: Any, function: str, argument: str = "draws") -> None:
        self._function, self._argument, self.labels = function, argument, of(draws)
        self.arrays: dict[str, Any]  # [C, T, ...]; may be on disk, to be read element by element
        if hasattr(draws, "groups"):
            if not draws:
                raise ValueError(
                    f"{function} needs draws, but none are stored, since reduce= was given without collect=."
                )
            self.arrays, self.iterations = draws.groups["posterior"], np.asarray(draws.iterations)
        elif isinstance(draws, Mapping) and draws:
            self.arrays = {name: self._plain(name, array)[None] for name, array in draws.items()}
            lengths = {name: array.shape[1] for name, array in self.arrays.items()}
            if len(set(lengths.values())) > 1:
                raise self.refused(argument, "hold arrays with equally many draws", lengths)
            self.iterations = np.arange(1, 1 + next(iter(lengths.values())))
        else:
            raise self.refused(argument, SOURCES, repr(draws))
        if len(self.iterations) == 0:
            raise self.refused(argument, "hold at least one draw", "none")

    def refused(self, argument: str, must: str, got: Any) -> ValueError:
        return refused(self._function, argument, must, got)

    def _plain(self, name: Any, array: Any) -> np.ndarray:
        result = np.asarray(array)
        if not isinstance(name, str) or result.ndim == 0 or result.dtype.kind not in "fiub":
            got = f"{result.dtype.name} of shape {result.shape} for {name!r}"
            raise self.refused(self._argument, SOURCES, got)
        return result

    def shape(self, base: str) -> tuple[int, ...]:
        """The shape of one draw of the parameter."""
        return tuple(self.arrays[base].shape[2:])

    def locate(self, name: Any, argument: str = "names") -> Place:
        match = None
        if isinstance(name, str):
            if name in self.arrays:
                return name, ()
            if found := self._by_words(name):
                return found
            match = re.fullmatch(r"(.+?)\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]", name)
        if match is None or match[1] not in self.arrays:
            known = ", ".join(repr(base) for base in islice(self.arrays, 12))
            must = f"be among {known}, or their elements, as in '{next(iter(self.arrays))}[0]'"
            raise self.refused(argument, must, repr(name))
        base, index = match[1], tuple(int(i) for i in match[2].split(","))
        shape = self.shape(base)
        if len(index) > len(shape) or any(not -n <= i < n for i, n in zip(index, shape, strict=False)):
            raise self.refused(argument, f"lie within the shape of {base!r}, {shape}", repr(name))
        return base, tuple(i % n for i, n in zip(index, shape, strict=False))

    def _by_words(self, name: str) -> Place | None:
        """What a name such as "effect[UA]" stands for."""
        for base, axis in self.labels.items():
            for k, word in enumerate(axis.words if name.startswith(f"{base}[") else ()):
                rest = name.removeprefix(f"{base}[{word}").removesuffix("]")
                place = (k, *(int(i) for i in re.findall(r"\d+", rest)))
                if name == label(base, place, self.labels) and len(place) <= len(self.shape(base)):
                    return base, place
        return None

    def places(self, names: str | Sequence[str] | None) -> list[Place]:
        """What these names stand for, each once; None stands for all parameters."""
        names = list(self.arrays) if names is None else [names] if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not names:
            raise self.refused("names", "be a name such as 'theta' or 'theta[0]', or a list of them", repr(names))
        return list(dict.fromkeys(self.locate(name) for name in names))

    def elements(self, names: str | Sequence[str] | None, limit: int) -> tuple[list[Element], int]:
        """The elements of these names, and how many there would be without the limit.

        Each name gets at least one; the names share the limit evenly.
        """
        places = self.places(names)
        if names is not None:
            limit = max(limit, len(places))
        rests = [self.shape(base)[len(index) :] for base, index in places]
        sizes = [int(np.prod(rest)) for rest in rests]
        chosen = [
            element
            for (base, index), rest, count in zip(places, rests, _shares(sizes, limit), strict=True)
            for element in self.read(base, index, list(islice(np.ndindex(*rest), count)))
        ]
        if not chosen:
            raise self.refused("names", "stand for at least one number", repr(names))
        return chosen, sum(sizes)

    def read(self, base: str, index: tuple[int, ...], rests: list[tuple[int, ...]]) -> list[Element]:
        if not rests:
            return []
        box = tuple(slice(0, max(along) + 1) for along in zip(*rests, strict=True))  # one pass over the disk
        block = np.asarray(self.arrays[base][(slice(None), slice(None), *index, *box)])
        result = []
        for rest in rests:
            name, where = label(base, index + rest, self.labels), cast(Any, (..., *rest))
            values = block[where].astype(np.float64)
            if not np.isfinite(values).all():
                bad = values[~np.isfinite(values)][0]
                raise self.refused(self._argument, "be finite", f"{bad} in {name!r}")
            result.append(Element(name, values, base, index + rest))
        return result


def _shares(sizes: list[int], limit: int) -> list[int]:
    """How many elements each name gets, in turn, up to the limit or the sizes."""
    shares = [0] * len(sizes)
    while sum(shares) < min(limit, sum(sizes)):
        for i, size in enumerate(sizes):
            shares[i] += int(shares[i] < size and sum(shares) < limit)
    return shares


class Reference(NamedTuple):
    """What an element is compared with: other draws, [C, T], or a density."""

    values: np.ndarray | None = None
    heights: Callable[[np.ndarray], np.ndarray] = np.zeros_like
    extent: tuple[float, float] | None = None


def references(reference: Any, chains: Chains, elements: list[Element], function: str) -> list[Reference | None]:
    """What `reference` holds for each element, by its name or its parameter's."""
    if reference is None:
        return [None] * len(elements)
    if not isinstance(reference, Mapping):
        must = "be a dict of draws, of (mean, sd) or of densities by names of parameters"
        raise chains.refused("reference", must, repr(reference))
    if hasattr(reference, "groups"):
        other = Chains(reference, function, "reference")
        return [_other_draws(other, chains, element) for element in elements]
    entries = {chains.locate(name, "names in reference"): entry for name, entry in reference.items()}
    result: list[Reference | None] = []
    for element in elements:
        place = next((p for p in ((element.base, element.place), (element.base, ())) if p in entries), None)
        result.append(None if place is None else _entry(entries[place], len(place[1]), chains, element))
    return result


def _other_draws(other: Chains, chains: Chains, element: Element) -> Reference | None:
    if element.base not in other.arrays:
        return None
    shape, found = chains.shape(element.base), other.shape(element.base)
    if found != shape:
        raise chains.refused("reference", f"be of the shape of draws, {shape} for {element.base!r}", found)
    return Reference(other.read(element.base, element.place, [()])[0].values)


def _entry(entry: Any, n_indices: int, chains: Chains, element: Element) -> Reference:
    """The reference for an element, from the entry for the part of its parameter with its first `n_indices` indices."""
    shape, within = chains.shape(element.base)[n_indices:], element.place[n_indices:]
    if callable(entry):

        def heights(x: np.ndarray) -> np.ndarray:
            found = np.asarray(entry(x), np.float64)
            if found.shape != x.shape:
                must = f"give one density for each of {len(x)} points of {element.label!r}"
                raise chains.refused("reference", must, f"an array of shape {found.shape}")
            return found

        return Reference(heights=heights)
    if isinstance(entry, tuple):
        try:
            mean, sd = (float(np.broadcast_to(np.asarray(x, np.float64), shape)[within]) for x in entry)
        except (TypeError, ValueError):
            mean, sd = 0.0, 0.0
        if not (np.isfinite(mean) and 0 < sd < np.inf):
            must = "be (mean, sd) with a positive sd, each one number or of the shape of the parameter"
            raise chains.refused("reference", must, f"{entry!r} for {element.label!r}")
        return Reference(None, lambda x: _normal(x, mean, sd), (mean - 3.5 * sd, mean + 3.5 * sd))
    values = np.asarray(entry)
    usable = values.dtype.kind in "fiub" and values.ndim > 0 and values.shape[1:] == shape
    if not usable or not np.isfinite(values).all():
        wanted = ", ".join(["T", *map(str, shape)]) + ("," if not shape else "")
        must = f"be finite draws ({wanted}), (mean, sd) or a density for {element.label!r}"
        raise chains.refused("reference", must, f"{values.dtype.name} of shape {values.shape}")
    return Reference(values[cast(Any, (..., *within))].astype(np.float64)[None])


def _normal(x: np.ndarray, mean: float, sd: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))

"""The elements of parameters: their labels, and their values by names such as "theta[0]"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.dataset.arrays import described

if TYPE_CHECKING:
    import xarray as xr

    from sgmcmc.draws.draws import Draws


SHOWN = 5


class Axis(NamedTuple):
    """The labels along the first axis of a parameter."""

    name: str | None  # the entry of the dataset whose levels these are
    words: tuple[str, ...]


Labels = Mapping[str, Axis]


def checked_labels(draws: Draws, labels: Any) -> dict[str, Any]:
    """The labels described in `Draws.labelled`, added to those that the draws already have, as JSON."""
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
    """The elements of labelled parameters: {name with numbers: name with words}."""
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


class Element(NamedTuple):
    """One number of a parameter along all chains."""

    label: str
    values: np.ndarray  # float64 [C, T]
    base: str
    place: tuple[int, ...]


class Reference(NamedTuple):
    """What an element is compared with: other draws, [C, T], or a density."""

    values: np.ndarray | None = None
    heights: Callable[[np.ndarray], np.ndarray] = np.zeros_like
    extent: tuple[float, float] | None = None


class Chains:
    """The draws that the plots read: a `Draws`, or a plain dict of arrays (T, ...)."""

    def __init__(self, draws: Any, function: str, argument: str = "draws") -> None:
        self._function, self._argument, self.labels = function, argument, of(draws)
        if hasattr(draws, "groups"):
            if not draws:
                raise ValueError(
                    f"{function} needs draws, but none are stored, since reduce= was given without collect=."
                )
            self._arrays: Mapping[str, Any] = draws  # may be on disk: read element by element
            self._axes = 1 if draws.nChains is None else 2
            self.iterations = np.asarray(draws.iterations)
        elif isinstance(draws, Mapping) and draws:
            self._arrays = {name: self._plain(name, array) for name, array in draws.items()}
            self._axes = 1
            lengths = {name: len(array) for name, array in self._arrays.items()}
            if len(set(lengths.values())) > 1:
                raise ValueError(f"{argument} of {function} must hold arrays with equally many draws; got {lengths}.")
            self.iterations = np.arange(1, 1 + next(iter(lengths.values())))
        else:
            raise ValueError(
                f"{argument} of {function} must be the result of a sampler or a dict of arrays (T, ...); got {draws!r}."
            )
        if len(self.iterations) == 0:
            raise ValueError(f"{argument} of {function} must hold at least one draw; got none.")

    def _plain(self, name: Any, array: Any) -> np.ndarray:
        result = np.asarray(array)
        if not isinstance(name, str) or result.ndim == 0 or result.dtype.kind not in "fiub":
            raise ValueError(
                f"{self._argument} of {self._function} must be the result of a sampler or a dict of arrays (T, ...); "
                f"got {result.dtype.name} of shape {result.shape} for {name!r}."
            )
        return result

    def shape(self, base: str) -> tuple[int, ...]:
        """The shape of one draw of the parameter."""
        return tuple(self._arrays[base].shape[self._axes :])

    def locate(self, name: Any, argument: str = "names") -> tuple[str, tuple[int, ...]]:
        """The parameter and the leading indices that a name stands for."""
        if isinstance(name, str) and name in self._arrays:
            return name, ()
        if isinstance(name, str) and (found := self._by_words(name)):
            return found
        match = re.fullmatch(r"(.+?)\[\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]", name) if isinstance(name, str) else None
        if match is None or match[1] not in self._arrays:
            known = ", ".join(repr(base) for base in islice(self._arrays, 12))
            raise ValueError(
                f"{argument} of {self._function} must be among {known}, or their elements, as in "
                f"'{next(iter(self._arrays))}[0]'; got {name!r}."
            )
        base, index = match[1], tuple(int(i) for i in match[2].split(","))
        shape = self.shape(base)
        if len(index) > len(shape) or any(not -n <= i < n for i, n in zip(index, shape, strict=False)):
            raise ValueError(
                f"{argument} of {self._function} must lie within the shape of {base!r}, {shape}; got {name!r}."
            )
        return base, tuple(i % n for i, n in zip(index, shape, strict=False))

    def _by_words(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """What a name such as "effect[UA]" stands for."""
        for base, axis in self.labels.items():
            for k, word in enumerate(axis.words if name.startswith(f"{base}[") else ()):
                rest = name.removeprefix(f"{base}[{word}").removesuffix("]")
                place = (k, *(int(i) for i in re.findall(r"\d+", rest)))
                if name == label(base, place, self.labels) and len(place) <= len(self.shape(base)):
                    return base, place
        return None

    def places(self, names: str | Sequence[str] | None) -> list[tuple[str, tuple[int, ...]]]:
        """The parameters and indices that these names stand for, each once.

        None stands for all.
        """
        names = list(self._arrays) if names is None else [names] if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not names:
            raise ValueError(
                f"names of {self._function} must be a name such as 'theta' or 'theta[0]', or a list of them; "
                f"got {names!r}."
            )
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
        counts = _shares(sizes, limit)
        chosen = [
            element
            for (base, index), rest, count in zip(places, rests, counts, strict=True)
            for element in self._read(base, index, list(islice(np.ndindex(*rest), count)))
        ]
        if not chosen:
            raise ValueError(f"names of {self._function} must stand for at least one number; got {names!r}.")
        return chosen, sum(sizes)

    def _read(self, base: str, index: tuple[int, ...], rests: list[tuple[int, ...]]) -> list[Element]:
        if not rests:
            return []
        box = tuple(slice(0, max(along) + 1) for along in zip(*rests, strict=True))  # one pass over the disk
        block = np.asarray(self._arrays[base][(*(slice(None),) * self._axes, *index, *box)])
        result = []
        for rest in rests:
            place = index + rest
            name = label(base, place, self.labels)
            where: Any = (Ellipsis, *rest)
            values = np.atleast_2d(block[where]).astype(np.float64)
            if not np.isfinite(values).all():
                bad = values[~np.isfinite(values)][0]
                raise ValueError(f"{self._argument} of {self._function} must be finite; got {bad} in {name!r}.")
            result.append(Element(name, values, base, place))
        return result


def references(reference: Any, chains: Chains, elements: list[Element], function: str) -> list[Reference | None]:
    """What `reference` holds for each element, by its name or its parameter's."""
    if reference is None:
        return [None] * len(elements)
    if not isinstance(reference, Mapping):
        raise ValueError(
            f"reference of {function} must be a dict of draws, of (mean, sd) or of densities by names of parameters; "
            f"got {reference!r}."
        )
    if hasattr(reference, "groups"):
        other = Chains(reference, function, "reference")
        return [_other_draws(other, chains, element, function) for element in elements]
    places = {chains.locate(name, "names in reference"): name for name in reference}
    result = []
    for element in elements:
        place = next((p for p in ((element.base, element.place), (element.base, ())) if p in places), None)
        result.append(None if place is None else _entry(reference[places[place]], place, chains, element, function))
    return result


def _other_draws(other: Chains, chains: Chains, element: Element, function: str) -> Reference | None:
    if element.base not in other._arrays:
        return None
    if other.shape(element.base) != chains.shape(element.base):
        raise ValueError(
            f"reference of {function} must be of the shape of draws, {chains.shape(element.base)} for "
            f"{element.base!r}; got {other.shape(element.base)}."
        )
    return Reference(other._read(element.base, element.place, [()])[0].values)


def _entry(entry: Any, place: tuple[str, tuple], chains: Chains, element: Element, function: str) -> Reference:
    base, index = place
    if callable(entry):
        return Reference(heights=lambda x: _heights(entry, x, element.label, function))
    shape = chains.shape(base)[len(index) :]
    within = element.place[len(index) :]
    if isinstance(entry, tuple):
        try:
            mean, sd = (float(np.broadcast_to(np.asarray(x, np.float64), shape)[within]) for x in entry)
        except (TypeError, ValueError):
            mean, sd = 0.0, 0.0
        if not (np.isfinite(mean) and 0 < sd < np.inf):
            raise ValueError(
                f"reference of {function} must be (mean, sd) with a positive sd, each one number or of the shape of "
                f"the parameter; got {entry!r} for {element.label!r}."
            )
        return Reference(None, lambda x: _normal(x, mean, sd), (mean - 3.5 * sd, mean + 3.5 * sd))
    values = np.asarray(entry)
    if (
        values.dtype.kind not in "fiub"
        or values.ndim == 0
        or values.shape[1:] != shape
        or not np.isfinite(values).all()
    ):
        wanted = ", ".join(["T", *map(str, shape)]) + ("," if not shape else "")
        raise ValueError(
            f"reference of {function} must be finite draws ({wanted}), (mean, sd) or a density for "
            f"{element.label!r}; got {values.dtype.name} of shape {values.shape}."
        )
    where: Any = (Ellipsis, *within)
    return Reference(values[where].astype(np.float64)[None])


def _heights(density: Callable, x: np.ndarray, label: str, function: str) -> np.ndarray:
    heights = np.asarray(density(x), np.float64)
    if heights.shape != x.shape:
        raise ValueError(
            f"reference of {function} must give one density for each of {len(x)} points of {label!r}; got an array of "
            f"shape {heights.shape}."
        )
    return heights


def _normal(x: np.ndarray, mean: float, sd: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def _shares(sizes: list[int], limit: int) -> list[int]:
    """How many elements each name gets, in turn, up to the limit or the sizes."""
    shares = [0] * len(sizes)
    while sum(shares) < min(limit, sum(sizes)):
        for i, size in enumerate(sizes):
            shares[i] += int(shares[i] < size and sum(shares) < limit)
    return shares

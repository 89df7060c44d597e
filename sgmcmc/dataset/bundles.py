"""Groups of very unequal size, as observations of equal size.

If all groups had the length of the longest, most of a minibatch would be padding. So groups are sorted into classes of
similar length, and an observation is a bundle of groups: every bundle has the same number of slots of each class, and a
slot without a group has weight 0. The log likelihood is evaluated once for each class, and its terms are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, Layout
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Attempt, IndexWatch
from sgmcmc.dataset.row_groups import Extents, RowGroups

COST = 3  # the most rows in all bundles, padding and empty slots included, for each row of the data
FEWEST = 2  # bundles, even if they cost more
MANY = 2**22  # rows with padding; for fewer, compiling the log likelihood for each class takes longer
FILLED, UP_TO = " filled", ", up to "  # in the names of entries


class LengthClass(NamedTuple):
    """Groups of similar length, and where they are: slot j of bundle i holds number `held[i, j]`, if it is filled."""

    groups: RowGroups
    numbers: np.ndarray  # of these groups among all
    held: np.ndarray  # [M, k]
    filled: np.ndarray  # [M, k], 1 or 0

    @property
    def slots(self) -> int:
        return self.held.shape[1]

    def entry(self, name: str) -> str:
        """The name of an entry of these groups in a bundle."""
        return f"{name}{UP_TO}{self.groups.layout.rows}"


def column_of(entry: str) -> str:
    """The name of an entry of the groups, from that of an entry of bundles."""
    return entry.partition(UP_TO)[0]


def padding_is_costly(extents: Extents) -> bool:
    """Whether groups of one length would have too many rows."""
    lengths = extents.lengths
    return len(lengths) * extents.longest > max(COST * int(lengths.sum()), MANY)


class BundleLayout(Layout):
    """A bundle in words: whether each slot is filled, then the slots of each class."""

    def __init__(self, classes: Sequence[LengthClass], filled: Layout) -> None:
        self._filled, self.parts, self.width = filled, list[_Part](), filled.width
        self.entries = dict(filled.entries)
        for one in classes:
            of_group = one.groups.layout
            stop = self.width + one.slots * of_group.width
            names = {name: one.entry(name) for name in of_group.entries}
            self.parts.append(_Part(of_group, names, one.slots, slice(self.width, stop)))
            self.entries |= {
                names[name]: (kind, (one.slots, *shape)) for name, (kind, shape) in of_group.entries.items()
            }
            self.width = stop
        self.rows = sum(one.slots * one.groups.layout.rows for one in classes)

    def views(self, words: np.ndarray) -> dict[str, np.ndarray]:
        entries, lead = self._filled.views(words[..., : self._filled.width]), words.shape[:-1]
        for part in self.parts:
            of_slots = words[..., part.at].reshape((*lead, part.slots, part.layout.width), copy=False)
            entries |= {part.names[name]: x for name, x in part.layout.views(of_slots).items()}
        return entries

    def unpack(self, words: tf.Tensor) -> Tree:
        entries, lead = self._filled.unpack(words[..., : self._filled.width]), words.shape[:-1]
        for part in self.parts:
            of_slots = tf.reshape(words[..., part.at], [*lead, part.slots, part.layout.width])
            entries |= {part.names[name]: x for name, x in part.layout.unpack(of_slots).items()}
        return entries


class _Part(NamedTuple):
    layout: Layout  # of a group
    names: dict[str, str]  # of the entries in a bundle
    slots: int
    at: slice  # words


class Bundles(Data):
    """M bundles of groups."""

    layout: BundleLayout

    def __init__(self, classes: Sequence[LengthClass], dtype: np.dtype) -> None:
        self.classes, self._dtype, self.size = list(classes), dtype, len(classes[0].held)
        self._filled = InMemory({one.entry(FILLED): one.filled.astype(dtype) for one in classes})
        self.layout = BundleLayout(classes, self._filled.layout)
        self.levels, self.in_memory = classes[0].groups.levels, classes[0].groups.in_memory
        self._watch: IndexWatch | None = None

    @classmethod
    def of_groups(
        cls, of: str, rows: Data, extents: Extents, own: Mapping[str, np.ndarray], dtype: np.dtype
    ) -> Bundles:
        """The groups with these extents, in as many bundles as `COST` allows."""
        lengths = extents.lengths
        members = classes_of(lengths)
        size, classes = n_bundles([lengths[one] for one in members]), list[LengthClass]()
        for one in members:
            of_class = {name: x[one] for name, x in own.items()}
            grouped = RowGroups(of, rows, Extents(*(x[one] for x in extents)), of_class, dtype)
            classes.append(LengthClass(grouped, one, *in_slots(len(one), size, spread=rows.in_memory)))
        return cls(classes, dtype)

    @property
    def n_groups(self) -> int:
        return sum(one.groups.size for one in self.classes)

    def as_counted(self, n: int) -> int:
        """The number of groups in n bundles, on average."""
        return round(n * self.n_groups / self.size)

    def units(self) -> list[tuple[Data, np.ndarray | slice]]:
        """For each class, bundles of one group each."""
        alone = (
            one._replace(held=np.arange(n := one.groups.size)[:, None], filled=np.ones([n, 1])) for one in self.classes
        )
        return [(Bundles([one], self._dtype), one.numbers) for one in alone]

    def watch(self, attempt: Attempt) -> None:
        """Try fetched bundles by `attempt`, if their indices are lower or higher than all before."""
        self._watch = IndexWatch(attempt, scalars=3)

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        self._filled.take(indices, out[:, : self._filled.layout.width])
        for one, part in zip(self.classes, self.layout.parts, strict=True):
            words = np.empty((len(indices) * part.slots, part.layout.width), np.int64)
            one.groups.take(one.held[indices].reshape(-1), words)
            out[:, part.at] = words.reshape(len(indices), part.slots * part.layout.width)
        if self._watch is not None and len(out):
            self._watch(self.layout.views(out))

    def read(self, start: int, out: np.ndarray) -> None:
        self.take(np.arange(start, start + len(out)), out)

    def shortest(self, size: int) -> tuple[Tree, list[Tree]]:
        """Bundles of the groups with the fewest rows of each class, and the same with other padding in one class."""
        some, of_classes = Tree(), list[Tree]()
        for one in self.classes:
            groups, otherwise = one.groups.shortest(size * one.slots)
            some |= self._in_slots(one, size, groups)
            of_classes += [self._in_slots(one, size, other) for other in otherwise]
        return some, [some | other for other in of_classes]

    def _in_slots(self, one: LengthClass, size: int, groups: Tree) -> Tree:
        slots = {one.entry(name): tf.reshape(x, [size, one.slots, *x.shape[1:]]) for name, x in groups.items()}
        return slots | {one.entry(FILLED): tf.ones([size, one.slots], tf.as_dtype(self._dtype))}

    def checksum(self) -> str:
        hashed = hashlib.sha256()
        for one in self.classes:
            hashed.update(one.groups.checksum().encode() + one.held.tobytes() + one.filled.tobytes())
        return hashed.hexdigest()[:16]

    def summed(self, log_lik: Callable[[Tree, Tree], Any]) -> Callable[[Tree, Tree], tf.Tensor]:
        """The log likelihood of each bundle, [n], also of those of one of the classes, from that of each group."""
        each = zip(self.classes, self.layout.parts, strict=True)
        classes = [{FILLED: one.entry(FILLED), **part.names} for one, part in each]

        def of_bundles(params: Tree, dataset: Tree) -> tf.Tensor:
            given = (entries for entries in classes if entries[FILLED] in dataset)
            of_classes = ({name: dataset[entry] for name, entry in entries.items()} for entries in given)
            return tf.add_n([_of_slots(log_lik, params, slots) for slots in of_classes])

        return of_bundles


def _of_slots(log_lik: Callable[[Tree, Tree], Any], params: Tree, slots: Tree) -> tf.Tensor:
    """The sum of the terms of the groups in slots of one class, for each bundle, [n]."""
    filled = slots.pop(FILLED)
    n_groups = filled.shape[0] * filled.shape[1]
    each = {name: tf.reshape(x, [n_groups, *x.shape[2:]]) for name, x in slots.items()}
    terms = tf.convert_to_tensor(log_lik(dict(params), each))
    if terms.shape != [n_groups]:
        raise ValueError(
            "logLik must return a vector with a term for each group, since some groups are much longer than others; "
            f"got shape {terms.shape} for {n_groups} groups. With groups(..., bundled=False) it may return a sum"
        )
    return tf.reduce_sum(filled * tf.reshape(terms, filled.shape), axis=1)


def classes_of(lengths: np.ndarray) -> list[np.ndarray]:
    """The groups of each class, the longest first: few classes, since the log likelihood is compiled for each of them.

    Lengths that differ by a factor of at most 2 would be enough to bound padding; then classes that cost least are
    merged with the next longer one, as long as there is less padding than data.
    """
    classes, left = list[np.ndarray](), np.arange(len(lengths))
    while len(left):
        longer = 2 * lengths[left] > lengths[left].max()
        classes.append(left[longer])
        left = left[~longer]
    padding = sum(len(one) * lengths[one].max() - lengths[one].sum() for one in classes)
    while len(classes) > 1:
        longest = np.array([lengths[one].max() for one in classes])
        added = -np.diff(longest) * [len(one) for one in classes[1:]]
        k = int(added.argmin())
        padding += added[k]
        if padding > lengths.sum():
            break
        classes[k : k + 2] = [np.sort(np.concatenate(classes[k : k + 2]))]
    return classes


def n_bundles(lengths: Sequence[np.ndarray]) -> int:
    """The most bundles of groups of these lengths, by class, that have not more rows than `COST` allows."""
    sizes = np.arange(FEWEST, sum(map(len, lengths)) + 1)
    rows = sum(-(-len(one) // sizes) * sizes * one.max() for one in lengths)
    return int(sizes[rows <= COST * sum(one.sum() for one in lengths)].max(initial=FEWEST))


def in_slots(n_groups: int, n_bundles: int, spread: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which group is in each slot, [M, k], and whether there is one; bundles differ by at most one group.

    Consecutive groups are spread over bundles, which are then more alike if the data are sorted, or stay together,
    which reads data on disk in order.
    """
    number = np.arange(n_groups)
    bundle = number % n_bundles if spread else number * n_bundles // n_groups
    order = np.argsort(bundle, kind="stable")
    counts = np.bincount(bundle, minlength=n_bundles)
    slot = number - np.repeat(np.cumsum(counts) - counts, counts)
    shape = n_bundles, int(counts.max())
    held, filled = np.zeros(shape, np.int64), np.zeros(shape)
    held[bundle[order], slot], filled[bundle[order], slot] = order, 1
    return held, filled

"""Which iterations to run, in stretches within a block, and which to record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

STRETCH_SECONDS = 0.1


class Stretch(NamedTuple):
    """The iterations of one call of the loop."""

    begin: int  # how many iterations there are before it
    end: int  # how many there are after it
    due: int  # the first count of iterations after which a row is recorded; beyond `end` if none is
    n_rows: int
    thin: int  # iterations from one recorded row to the next


@dataclass(frozen=True)
class Plan:
    """Records the last of every `thin` iterations after the first `burn_in`.

    Nothing if `thin` is None.
    """

    n_iterations: int
    thin: int | None = 1
    burn_in: int = 0

    @property
    def n_rows(self) -> int:
        """How many rows are recorded in all."""
        return self.rows_by(self.n_iterations)

    def stretch(self, begin: int, end: int, capacity: int) -> Stretch:
        """The stretch from `begin` to at most `end`, with at most `capacity` rows."""
        end = min(end, self.n_iterations)
        if self.thin is None:
            return Stretch(begin, end, end + 1, 0, 1)
        before = self.rows_by(begin)
        due = self.burn_in + (before + 1) * self.thin
        end = min(end, due + (capacity - 1) * self.thin)
        return Stretch(begin, end, due, self.rows_by(end) - before, self.thin)

    def rows_by(self, iteration: int) -> int:
        """How many rows are recorded in the first so many iterations."""
        return 0 if self.thin is None else max(iteration - self.burn_in, 0) // self.thin


class Pace:
    """The length of stretches: short ones keep Ctrl-C responsive, long ones cost less.

    The draws are the same.
    """

    def __init__(self, longest: int, shortest: int = 1) -> None:
        self.length, self._longest, self._shortest = shortest, longest, shortest

    def adapt(self, made: int, elapsed: float) -> None:
        """Adapt the length, given that `made` iterations took `elapsed` seconds."""
        if elapsed > 2 * STRETCH_SECONDS:
            self.length = max(made // 2, self._shortest)
        elif (
            elapsed < STRETCH_SECONDS / 2 and 2 * made > self.length
        ):  # stretches at the end of a block are shorter and tell nothing
            self.length = min(2 * self.length, self._longest)

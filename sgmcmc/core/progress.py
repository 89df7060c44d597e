"""Progress: a bar on a terminal or in a notebook, else a line every LINE_SECONDS.

Errors while showing it do not end a chain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
from tqdm.auto import tqdm

LINE_SECONDS = 30.0
LINE = "{desc}: {percentage:3.0f}%, {n_fmt} of {total_fmt} {unit} in {elapsed}, {remaining} left, {rate_fmt}{postfix}"


class Progress:
    """Progress on stderr.

    After an error, such as a closed stream or a full disk, nothing more is shown.

    Parameters
    ----------
    total : int or float
        The number of units to do.
    title, unit : str
        The name of the task, and of its unit.
    shown : bool
        False shows nothing.
    done : int, default 0
        The number of units done before.
    """

    def __init__(self, total: float, title: str, unit: str, shown: bool, done: float = 0) -> None:
        self._meter: Any = None
        if shown and sys.stderr is not None:
            self._try(lambda: self._begin(total, title, unit, done))

    def __enter__(self) -> Progress:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the display; the last state stays visible."""
        if self._meter is not None:
            self._try(self._meter.close)

    def reached(self, done: float, log_density: np.ndarray | None = None) -> None:
        """Show that `done` units are done."""
        if self._meter is not None:
            self._try(lambda: self._meter.reached(done, log_density))

    def _begin(self, *arguments: Any) -> None:
        self._meter = _Bar(*arguments) if _is_live(sys.stderr) else _Lines(*arguments)
        self._meter.begin()

    def _try(self, show: Callable[[], None]) -> None:
        try:
            show()
        except Exception:  # OSError or ValueError, depending on stderr; it must not end the chain
            meter, self._meter = self._meter, None
            if meter is not None:
                meter.give_up()


@contextmanager
def unheard_warnings() -> Iterator[None]:
    """A context in which a warning does not raise the ValueError of a closed stderr."""
    try:
        yield
    except ValueError:
        if not getattr(sys.stderr, "closed", False):
            raise


class _Bar:
    def __init__(self, total: float, title: str, unit: str, done: float) -> None:
        # A delay, so that nothing is written before self._bar exists.
        self._bar = tqdm(total=total, initial=done, desc=title, unit=unit, delay=1e-9)
        self.begin, self.close = self._bar.refresh, self._bar.close

    def reached(self, done: float, log_density: np.ndarray | None) -> None:
        self._bar.set_postfix_str(_remark(log_density), refresh=False)
        self._bar.update(done - self._bar.n)

    def give_up(self) -> None:
        self._bar.disable = True  # otherwise it would write again when it is deleted


class _Lines:
    def __init__(self, total: float, title: str, unit: str, done: float) -> None:
        self._told: dict[str, Any] = {"total": total, "prefix": title, "unit": _plural(unit), "initial": done}
        self._at: tuple[float, np.ndarray | None] = (done, None)
        self._begun = self._last = time.monotonic()

    def begin(self) -> None:
        pass

    give_up = begin

    def reached(self, done: float, log_density: np.ndarray | None) -> None:
        self._at = (done, log_density)
        if time.monotonic() - self._last >= LINE_SECONDS:
            self.close()

    def close(self) -> None:
        self._last = time.monotonic()
        done, log_density = self._at
        elapsed, remark = self._last - self._begun, _remark(log_density)
        line = tqdm.format_meter(n=done, elapsed=elapsed, postfix=remark, bar_format=LINE, **self._told)
        print(line, file=sys.stderr, flush=True)


def _plural(unit: str) -> str:
    return unit + ("es" if unit.endswith("s") else "s")


def _remark(log_density: np.ndarray | None) -> str:
    return "" if log_density is None else f"log posterior estimate {float(np.mean(log_density)):.6g}"


def _is_live(stream: Any) -> bool:
    """Whether output can be overwritten: on a terminal, or in a notebook."""
    return bool(stream.isatty()) or "ipykernel" in type(stream).__module__

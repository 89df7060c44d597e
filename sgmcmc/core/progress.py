"""Progress: a bar on a terminal or in a notebook, else a line every LINE_SECONDS."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tqdm import TqdmWarning

with warnings.catch_warnings():
    warnings.simplefilter("ignore", TqdmWarning)  # of a notebook without ipywidgets, where the bar is text
    from tqdm.auto import tqdm

LINE_SECONDS = 30.0


class Progress:
    """Progress on stderr. After an error, such as a closed stream or a full disk, nothing more is shown."""

    def __init__(self, total: float, title: str, unit: str, shown: bool, done: float = 0) -> None:
        self._meter: Any = None
        if shown and sys.stderr is not None:
            self._try(lambda: self._begin(total, title, unit, done))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._meter is not None:
            self._try(self._meter.close)

    def reached(self, done: float, log_density: np.ndarray | None = None) -> None:
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
    """Let no warning raise a ValueError because stderr is closed."""
    try:
        yield
    except ValueError:
        if not getattr(sys.stderr, "closed", False):
            raise


class _Pace:
    """The text of a display: how much is done, and how long the rest will take."""

    def __init__(self, total: float, unit: str, done: float) -> None:
        self._total, self._unit, self._begun = total, _plural(unit), time.monotonic()
        self._done, self._first = done, (self._begun, done)
        self._log_density: np.ndarray | None = None
        self._reports = 0

    def reached(self, done: float, log_density: np.ndarray | None) -> None:
        self._done, self._log_density, self._reports = done, log_density, self._reports + 1
        if self._reports == 1:  # from here on, the rate excludes the compilation
            self._first = time.monotonic(), done

    def __str__(self) -> str:
        now, (then, first) = time.monotonic(), self._first
        rate = (self._done - first) / (now - then) if self._reports > 1 and now > then else 0.0
        left = (self._total - self._done) / rate if rate > 0 else 0.0
        when = f", {_clock(left)} left" if left >= 1 else f" in {_clock(now - self._begun)}"
        said = [f"{_number(self._done)}/{_number(self._total)} {self._unit}{when}"]
        if rate > 0:
            said.append(f"{_number(rate)}/s")
        if self._log_density is not None:
            said.append(f"log posterior {float(np.mean(self._log_density)):.6g}")
        return ", ".join(said)


class _Bar:
    def __init__(self, total: float, title: str, unit: str, done: float) -> None:
        self._pace = _Pace(total, unit, done)
        bar_format = "{desc} |{bar}| {said}"  # in 80 columns
        # A delay, so that nothing is written before self._bar exists.
        self._bar = _Meter(total=total, initial=done, desc=title, delay=1e-9, bar_format=bar_format)
        self._bar.said = self._pace
        self.begin, self.close = self._bar.refresh, self._bar.close

    def reached(self, done: float, log_density: np.ndarray | None) -> None:
        self._pace.reached(done, log_density)
        self._bar.n = done
        self._bar.update(0)

    def give_up(self) -> None:
        self._bar.disable = True  # otherwise it would write again when it is deleted


class _Meter(tqdm):
    said: Any = ""  # one more field of the format

    @property
    def format_dict(self) -> dict[str, Any]:
        return super().format_dict | {"said": self.said}


class _Lines:
    def __init__(self, total: float, title: str, unit: str, done: float) -> None:
        self._title, self._total, self._done, self._pace = title, total, done, _Pace(total, unit, done)
        self._last = time.monotonic()

    def begin(self) -> None:
        pass

    give_up = begin

    def reached(self, done: float, log_density: np.ndarray | None) -> None:
        self._done = done
        self._pace.reached(done, log_density)
        if time.monotonic() - self._last >= LINE_SECONDS:
            self.close()

    def close(self) -> None:
        self._last = time.monotonic()
        print(f"{self._title}: {self._done / self._total:4.0%}, {self._pace}", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return str(tqdm.format_interval(seconds))


def _number(x: float) -> str:
    return f"{x:.0f}" if x >= 100 or x == round(x) else f"{x:.3g}"


def _plural(unit: str) -> str:
    return unit + ("es" if unit.endswith("s") else "s")


def _is_live(stream: Any) -> bool:
    """Whether output can be overwritten: on a terminal, or in a notebook."""
    return bool(stream.isatty()) or "ipykernel" in type(stream).__module__

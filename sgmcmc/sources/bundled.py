"""The small data sets that are installed with the package: tables with a header, and their labels in column one."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path
from typing import Any

import numpy as np

# Their sources and licences are described in data/README.md.
FILES = {"breastCancer": "breast_cancer.csv", "digits": "digits.csv", "wine": "wine.csv"}


def read(name: str) -> dict[str, Any]:
    """The features X, the labels y and the names of the features."""
    with _path(FILES[name]).open(encoding="utf-8") as lines:
        columns = next(lines).rstrip("\n").split(",")
        table = np.loadtxt(lines, delimiter=",")
    return {"X": table[:, 1:].copy(), "y": table[:, 0].astype(np.int64), "names": columns[1:]}


def _path(file: str) -> Path:
    """Where it is installed, or in a checkout beside the package."""
    in_checkout = Path(__file__).parents[2] / "data" / file
    if in_checkout.exists():
        return in_checkout
    installed = (Path(str(one.locate())) for one in files("sgmcmc") or [] if one.name == file)
    return next(installed, in_checkout)

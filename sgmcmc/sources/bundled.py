"""The small data sets that are installed with the package: tables with a header, and their labels in column one."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

# Their sources and licences are described in data/README.md.
FILES = {"breastCancer": "breast_cancer.csv", "digits": "digits.csv", "wine": "wine.csv"}


def read(name: str) -> dict[str, Any]:
    """The features X, the labels y and the names of the features."""
    installed = files("sgmcmc").joinpath("data")
    folder = installed if installed.is_dir() else Path(__file__).parents[2] / "data"  # in a checkout: next to sgmcmc
    with folder.joinpath(FILES[name]).open(encoding="utf-8") as lines:
        columns = next(lines).rstrip("\n").split(",")
        table = np.loadtxt(lines, delimiter=",")
    return {"X": table[:, 1:].copy(), "y": table[:, 0].astype(np.int64), "names": columns[1:]}

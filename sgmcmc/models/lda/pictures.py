"""The picture of topics: their most probable words as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.output._panels import COLOURS, panels, require_matplotlib

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = 5  # of panels


def bars(table: pd.DataFrame, axes: Any, of: str) -> np.ndarray:
    """A panel for each topic of a table of top words."""
    plt = require_matplotlib(of)
    groups = list(table.groupby("topic", sort=False))
    columns = min(len(groups), COLUMNS)
    shape = (-(-len(groups) // columns), columns)
    n_words = int(table["rank"].max())
    size = (0.6 + 2.0 * columns, shape[0] * (0.7 + 0.17 * n_words))
    grid = panels(plt, axes, of, len(groups), shape, figsize=size)
    for ax, (topic, rows) in zip(grid, groups, strict=True):
        error = {"elinewidth": 0.8, "ecolor": "0.4"}
        ax.barh(rows["rank"], rows["probability"], xerr=rows["sd"], color=COLOURS[0], height=0.75, error_kw=error)
        ax.set_yticks(rows["rank"], rows["word"].astype(str))
        ax.set_ylim(n_words + 0.6, 0.4)
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(plt.MaxNLocator(3))
        ax.set_title(f"topic {topic}", loc="left", fontsize="small")
    return grid

"""Draw docs/guide/pictures/rooms.svg: the rooms of the package, and what one hands to another."""

from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

PICTURE = Path(__file__).parent / "guide" / "pictures" / "rooms.svg"
PLAIN, MATHEMATICS = "#eef1f5", "#fdf0dc"
WIDTH, HEIGHT = 1.55, 0.5

ROOMS = {  # where each is drawn, and whether it holds the mathematics
    "samplers": (0, 4, False),
    "arguments": (0, 3, False),
    "run": (3, 3, False),
    "laplace": (0, 1.5, True),
    "kernel": (3, 1.5, True),
    "dynamics": (1.1, 0, True),
    "gradients": (3, 0, True),
    "minibatch": (4.9, 0, True),
    "dataset": (5.8, 1.5, False),
    "storage": (5.8, 3, False),
    "draws": (5.8, 4, False),
}


class Handover(NamedTuple):
    """One room hands a record to another; `module` defines it."""

    giver: str
    taker: str
    record: str
    module: str
    label: str = ""  # if not the name of the record


HANDOVERS = [
    Handover("samplers", "arguments", "Choices", "arguments.choices"),
    Handover("arguments", "run", "ProductSampler", "run.product"),
    Handover("laplace", "run", "Tuning", "laplace.stepsize"),
    Handover("kernel", "run", "Kernel", "kernel"),
    Handover("dynamics", "kernel", "Dynamics", "dynamics"),
    Handover("gradients", "kernel", "Gradient", "gradients"),
    Handover("minibatch", "kernel", "Minibatch", "minibatch"),
    Handover("dataset", "run", "Data", "dataset"),
    Handover("run", "storage", "Storage", "run.advance", "rows"),
    Handover("storage", "draws", "WholeStore", "storage.store", "a store"),
    Handover("run", "draws", "Draws", "draws.draws"),
]


def draw() -> None:
    """Write the picture."""
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "sgmcmc", "font.family": "sans-serif", "font.size": 10}
    figure, axes = plt.subplots(figsize=(8.8, 5))
    for name, (x, y, mathematics) in ROOMS.items():
        box = FancyBboxPatch(
            (x, y), WIDTH, HEIGHT, boxstyle="round,pad=0.06", ec="#555555", fc=MATHEMATICS if mathematics else PLAIN
        )
        axes.add_patch(box)
        axes.text(x + WIDTH / 2, y + HEIGHT / 2, f"{name}/", ha="center", va="center", weight="bold")
    for one in HANDOVERS:
        begin, end = _ends(one.giver, one.taker)
        axes.annotate("", end, begin, arrowprops={"arrowstyle": "-|>", "color": "#333333", "shrinkA": 0, "shrinkB": 0})
        x, y = ((b + e) / 2 for b, e in zip(begin, end, strict=True))
        label = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(x, y, one.label or one.record, ha="center", va="center", style="italic", size=9, bbox=label)
    axes.set(xlim=(-0.2, 7.6), ylim=(-0.2, 4.7))
    axes.axis("off")
    figure.tight_layout(pad=0.2)
    figure.savefig(PICTURE, metadata={"Date": None})


def _ends(giver: str, taker: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """From the edge of one box to that of another."""
    (x, y, _), (u, v, _) = ROOMS[giver], ROOMS[taker]
    gap = 0.07
    if y == v:
        right = u > x
        height = y + HEIGHT / 2
        return (x + WIDTH + gap if right else x - gap, height), (u - gap if right else u + WIDTH + gap, height)
    down = v < y
    begin = (x + WIDTH / 2, y - gap if down else y + HEIGHT + gap)
    end = (u + WIDTH / 2 + (x - u) * 0.15, v + HEIGHT + gap if down else v - gap)
    return begin, end


if __name__ == "__main__":
    draw()

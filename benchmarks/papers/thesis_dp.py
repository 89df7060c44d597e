"""Section 5.5.2 of the thesis of Baker (2018): a Dirichlet process mixture of the visits of an anonymous web site.

    python benchmarks/papers/thesis_dp.py --data FOLDER --output FOLDER

FOLDER has msweb.npz. Writes thesis_dp.md, thesis_dp.json and thesis_dp.png.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from shared import THESIS, Clock, arguments, house_style, plt, table, write

from sgmcmc import NoRoomError, dpMixture
from sgmcmc.models import Mixture

SEEDS, ITERATIONS, DRAWS, MINIBATCH, ROOM = (1, 2, 3, 4, 5), 4000, 100, 1000, 100
# Table B.5.3, whose stepsizes are the defaults, with K as the components that a chain begins with.
SETTINGS: dict[str, dict[str, Any]] = {
    "scir": {"a": 0.5, "starts": 20},
    "sgrld": {"a": 0.001, "starts": 30},
    "gibbs": {"a": 0.5, "starts": 20},
}
TITLES = {"scir": "SCIR", "sgrld": "SGRLD", "gibbs": "exact, all counts"}
COLOURS = {"scir": "#228833", "sgrld": "#ee6677", "gibbs": "#4477aa"}


def msweb(folder: Path) -> tuple[Any, Any]:
    """Which areas each user visited, to learn from and held out."""
    file = np.load(folder / "msweb.npz")

    def rows(part: str) -> Any:
        user, area = file[f"{part}_user"], file[f"{part}_area"]
        return sparse.csr_array((np.ones(len(user)), (user, area)), (int(file[f"n_{part}"]), len(file["area_id"])))

    return rows("train"), rows("test")


def run(method: str, seed: int, counts: Any, held_out: Any, iterations: int) -> dict[str, Any]:
    """What one chain tells along its way; where there was no room for a component, until then."""
    stopped = None
    try:
        out = dpMixture(
            counts,
            MINIBATCH,
            iterations,
            False,
            seed,
            method=method,
            thin=max(iterations // DRAWS, 1),
            maxComponents=ROOM,
            **SETTINGS[method],
        )
    except NoRoomError as error:
        out, stopped = error.draws, error.iteration
    second_half = Mixture(out.draws[len(out.iterations) // 2 :])
    return {
        "iterations": out.iterations.tolist(),
        "components": out.components.tolist(),
        "alpha": out.alpha.tolist(),
        "log predictive": out.logPredictive(held_out, perDraw=True).tolist(),
        "averaged": second_half.logPredictive(held_out),
        "seconds": out.timings["sampling"],
        "stopped": stopped,
    }


def row_of(method: str, chains: list[dict[str, Any]]) -> list[str]:
    last = [chain["log predictive"][-1] for chain in chains]
    averaged = [chain["averaged"] for chain in chains]
    components = [chain["components"][-1] for chain in chains]
    alpha = np.mean([chain["alpha"][-1] for chain in chains])
    speed = np.mean([chain["iterations"][-1] / chain["seconds"] for chain in chains])
    stopped = sum(chain["stopped"] is not None for chain in chains)
    return [
        TITLES[method],
        f"{np.mean(last):.3f}",
        f"{np.std(last):.3f}",
        f"{np.mean(averaged):.3f}",
        f"{min(components)} to {max(components)}",
        f"{alpha:.2f}",
        f"{speed:.0f}",
        str(stopped),
    ]


def draw(found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    house_style()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for method, chains in found.items():
        for k, chain in enumerate(chains):
            label = TITLES[method] if k == 0 else None
            style = {"color": COLOURS[method], "linewidth": 0.8, "label": label}
            left.plot(chain["iterations"], chain["log predictive"], **style)
            right.plot(chain["iterations"], chain["components"], **style)
    left.set(xlabel="iteration", ylabel="log predictive, held-out users")
    right.set(xlabel="iteration", ylabel="components with users", ylim=(0, None))
    left.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    iterations, seeds = (40, SEEDS[:1]) if given.quick else (ITERATIONS, SEEDS)
    counts, held_out = msweb(given.data)
    found: dict[str, list[dict[str, Any]]] = {}
    for method in SETTINGS:
        found[method] = []
        for seed in seeds:
            found[method].append(run(method, seed, counts, held_out, iterations))
            clock(f"{method}, seed {seed}: log predictive {found[method][-1]['log predictive'][-1]:.3f}")
    draw(found, given.output / "thesis_dp.png")
    (given.output / "thesis_dp.json").write_text(json.dumps(found) + "\n")
    header = ["method", "last draw", "sd over seeds", "average", "components", "alpha", "iterations/s", "no room"]
    write(
        given.output / "thesis_dp.md",
        [
            "# A Dirichlet process mixture of the visits of a web site",
            f"{THESIS}, section 5.5.2 and appendix B.4, with the settings of table B.5.3: {counts.shape[0]:,} users, "
            f"{counts.shape[1]} areas, {counts.sum() / counts.shape[0]:.1f} visits on average, and "
            f"{held_out.shape[0]:,} held-out users. {len(seeds)} seeds of {iterations} iterations, minibatches of "
            f"{MINIBATCH}. The prior of alpha is Gamma(1, 1); the thesis calls its prior uninformative, and gives no "
            f"numbers. *Exact* is `method='gibbs'`: the counts of all users are kept in place of estimates.",
            table(header, [row_of(method, chains) for method, chains in found.items()]),
            "*Last draw*: the mean log predictive probability of the held-out users, with the number of orders of "
            "their visits, in the last draw, over the seeds. *Average*: that of the average over the draws of the "
            "second half of a chain. *Iterations/s* are with compilation. *No room*: how many chains ended because "
            f"there was no room for another component among {ROOM}.",
            "The figure of the thesis shows SCIR above SGRLD, with less variation over seeds; SGRLD proposes many more "
            "components than are needed.",
            "![Log predictive and number of components along the chains](thesis_dp.png)",
            f"{clock.minutes} minutes.",
        ],
    )


if __name__ == "__main__":
    main()

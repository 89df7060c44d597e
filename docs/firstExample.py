"""Draw the picture of the README's first example, vignettes/figures/readme.png, by running the example itself."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parents[1]

readme = (ROOT / "README.md").read_text(encoding="utf-8")
example = re.search(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[1]
namespace: dict = {}
exec(example, namespace)
draws, x = namespace["out"]["theta"].astype(float), namespace["dataset"]["x"]  # (chains, draws)
mean, sd = x.mean(), 1 / np.sqrt(len(x))

plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 2.4), width_ratios=[2.2, 1], sharey=True, layout="constrained", gridspec_kw={"wspace": 0.02}
)
shown = 500
for chain, colour in zip(draws, ("#4477aa", "#cc6677", "#228833", "#b8860b"), strict=True):
    left.plot(np.arange(1, shown + 1), chain[:shown], color=colour, linewidth=0.8)
left.set(xlabel="iteration", ylabel="theta", xlim=(1, shown), ylim=(mean - 4.5 * sd, mean + 4.5 * sd))
grid = np.linspace(mean - 4.5 * sd, mean + 4.5 * sd, 300)
density = np.exp(-0.5 * ((grid - mean) / sd) ** 2) / sd / np.sqrt(2 * np.pi)
right.hist(
    draws.ravel(), bins=60, density=True, orientation="horizontal", color="#4477aa", alpha=0.5, label="all draws"
)
right.plot(density, grid, color="black", linewidth=1, label="exact posterior")
right.set(xticks=[])
right.spines["bottom"].set_visible(False)
right.legend(loc="upper right", frameon=False, fontsize="small")
figure.savefig(ROOT / "vignettes" / "figures" / "readme.png", dpi=150)

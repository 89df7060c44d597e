"""The stored outputs and figures of the vignettes on their pages, where they are not executed; and their order."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from PIL import Image
from sphinx.application import Sphinx

VIGNETTES = Path(__file__).resolve().parents[2] / "vignettes"
FIGURES = VIGNETTES / "figures"
OUTPUTS = VIGNETTES / "outputs"
ORDER = (
    "gettingStarted",
    "tuning",
    "hugeChains",
    "varianceReduction",
    "dynamics",
    "robustSteps",
    "intervals",
    "scales",
    "volatility",
    "mvGauss",
    "gaussMixture",
    "logisticRegression",
    "kerasNetwork",
    "nn",
    "simplex",
    "topics",
    "dirichletProcess",
    "portingFromR",
)
THUMBNAIL = (560, 392)  # twice the pixels of its place on the page
SHOWN = {  # of each figure, the panel that can be read at the size of a thumbnail: left, top, right and bottom
    "gettingStarted": (0, 0, 0.41, 1),
    "intervals": (0.40, 0.04, 1, 0.52),
    "tuning": (0.34, 0.12, 0.65, 1),
    "hugeChains": (0, 0, 0.515, 1),
    "varianceReduction": (0, 0, 0.65, 0.64),
    "dynamics": (0.66, 0.5, 1, 1),
    "dirichletProcess": (0.5, 0, 1, 1),
    "mvGauss": (0.365, 0, 0.69, 1),
    "gaussMixture": (0.035, 0.05, 0.27, 0.51),
    "logisticRegression": (0.035, 0.05, 0.375, 0.48),
    "kerasNetwork": (0, 0, 0.455, 1),
    "robustSteps": (0, 0, 0.36, 0.485),
    "nn": (0.035, 0.05, 0.37, 0.48),
    "scales": (0, 0, 0.44, 1),
    "volatility": (0, 0, 0.655, 1),
    "portingFromR": (0.53, 0.08, 1, 1),
    "topics": (0.52, 0.52, 1, 1),
}
END = ".. _sphx_glr_download_"
CELL = re.compile(r"^\.\. GENERATED FROM PYTHON SOURCE LINES \d+-\d+\n", re.MULTILINE)
CODE = ".. code-block:: Python\n"


class VignetteOrder:
    """From the first to read to the last; those without a place come at the end, by name."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, filename: str) -> tuple[int, str]:
        """The sort key of a file."""
        stem = Path(filename).stem
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)

    def __repr__(self) -> str:
        return "<VignetteOrder>"


def make_thumbnails(app: Sphinx) -> None:
    """From the figures, in place of the grey ones that the gallery makes of what it did not execute."""
    folder = Path(app.srcdir) / "gallery" / "images" / "thumb"
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES.glob("*.png"):
        with Image.open(figure) as picture:
            left, top, right, bottom = SHOWN.get(figure.stem, (0, 0, 1, 1))
            width, height = picture.size
            box = (int(left * width), int(top * height), int(right * width), int(bottom * height))
            picture = picture.convert("RGB").crop(box)
            picture.thumbnail(THUMBNAIL)
            canvas = Image.new("RGB", THUMBNAIL, "white")
            canvas.paste(picture, ((THUMBNAIL[0] - picture.width) // 2, (THUMBNAIL[1] - picture.height) // 2))
            canvas.save(folder / f"sphx_glr_{figure.stem}_thumb.png")


def picture(stem: str) -> str:
    """The figure of a vignette, as reStructuredText."""
    return f".. image:: /../vignettes/figures/{stem}.png\n   :alt: The figure that this vignette draws\n\n"


def printed(text: str) -> str:
    """What a cell printed, as reStructuredText."""
    lines = "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").splitlines())
    return f".. rst-class:: sphx-glr-script-out\n\n .. code-block:: none\n\n{lines}\n\n"


def with_outputs(page: str, cells: list[dict], stem: str) -> str:
    """The page of a vignette with the outputs and the figure of its cells below them."""
    body, mark, footer = page.rpartition(END)
    parts = CELL.split(body)
    heads = [*CELL.findall(body), ""]
    code = [k for k, part in enumerate(parts) if k and part.lstrip("\n").startswith(CODE)]
    if len(code) != len(cells):
        raise ValueError(f"vignettes/outputs/{stem}.json has {len(cells)} cells, and the page {len(code)}.")
    for k, cell in zip(code, cells, strict=True):
        output = printed(cell["printed"]) if cell["printed"].strip() else ""
        parts[k] = parts[k].rstrip("\n") + "\n\n" + output + (picture(stem) if cell["figure"] else "")
    return "".join(part + head for part, head in zip(parts, heads, strict=True)) + mark + footer


def add_outputs(app: Sphinx, docname: str, source: list[str]) -> None:
    """To the page of a vignette that was not executed, what `docs/vignetteOutputs.py` has stored of a full run."""
    folder, _, stem = docname.rpartition("/")
    if folder != "gallery" or os.environ.get("SGMCMC_DOCS") == "full" or not (FIGURES / f"{stem}.png").exists():
        return
    stored = json.loads((OUTPUTS / f"{stem}.json").read_text(encoding="utf-8"))
    source[0] = with_outputs(source[0], stored["cells"], stem)


def setup(app: Sphinx) -> dict:
    """Register both, after the gallery has been written."""
    app.connect("builder-inited", make_thumbnails, priority=900)
    app.connect("source-read", add_outputs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

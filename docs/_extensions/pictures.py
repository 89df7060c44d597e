"""The committed figures of the vignettes on their pages, where the vignettes are not executed; and their order."""

from __future__ import annotations

import builtins
from pathlib import Path

from PIL import Image
from sphinx.application import Sphinx

VIGNETTES = Path(__file__).resolve().parents[2] / "vignettes"
FIGURES = VIGNETTES / "figures"
ORDER = (
    "gettingStarted",
    "mvGauss",
    "gaussMixture",
    "logisticRegression",
    "nn",
    "tuning",
    "varianceReduction",
    "dynamics",
    "topics",
    "dirichletProcess",
    "hugeChains",
    "portingFromR",
)
THUMBNAIL = (400, 280)
END = ".. _sphx_glr_download_"


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


def tell_file(gallery_conf: dict, fname: str) -> None:
    """Let a vignette that is executed know where it is; the gallery gives it no `__file__` of its own."""
    builtins.__file__ = str(VIGNETTES / Path(fname).name)


def make_thumbnails(app: Sphinx) -> None:
    """From the figures, in place of the grey ones that the gallery makes of what it did not execute."""
    folder = Path(app.srcdir) / "gallery" / "images" / "thumb"
    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES.glob("*.png"):
        with Image.open(figure) as picture:
            picture = picture.convert("RGB")
            picture.thumbnail(THUMBNAIL)
            canvas = Image.new("RGB", THUMBNAIL, "white")
            canvas.paste(picture, ((THUMBNAIL[0] - picture.width) // 2, (THUMBNAIL[1] - picture.height) // 2))
            canvas.save(folder / f"sphx_glr_{figure.stem}_thumb.png")


def add_figure(app: Sphinx, docname: str, source: list[str]) -> None:
    """At the end of a vignette's page, unless the vignette was executed and the page has what it drew."""
    folder, _, stem = docname.rpartition("/")
    if folder != "gallery" or not (FIGURES / f"{stem}.png").exists() or ".. image-sg::" in source[0]:
        return
    figure = f".. image:: /../vignettes/figures/{stem}.png\n   :alt: The figure that this vignette draws\n\n"
    before, mark, after = source[0].rpartition(END)
    source[0] = f"{before}{figure}{mark}{after}" if mark else source[0] + "\n" + figure


def setup(app: Sphinx) -> dict:
    """Register both, after the gallery has been written."""
    app.connect("builder-inited", make_thumbnails, priority=900)
    app.connect("source-read", add_figure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Run vignettes in full and store what each cell prints, for their pages: `python docs/vignetteOutputs.py NAME...`.

Without names, all of them. What a vignette prints goes to vignettes/outputs/NAME.json, and its figure to
vignettes/figures/NAME.png. Which data a vignette takes is chosen as always, by SGMCMC_VIGNETTES in the environment; for
a vignette with such a mode, NAME.json is written with SGMCMC_VIGNETTES=full only, as its figure is.
"""

import ast
import contextlib
import datetime
import io
import json
import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

VIGNETTES = Path(__file__).resolve().parents[1] / "vignettes"


def cells_of(vignette: Path) -> list[tuple[str, int]]:
    """The code of each cell, as the gallery divides a vignette, and the line where it begins."""
    _, blocks = split_code_and_text_blocks(str(vignette))
    return [(code, line) for label, code, line in blocks if label == "code" and code.strip()]


def meaning(code: str) -> str:
    """What a cell does, whatever its comments and line breaks: by this a stored output is compared with its cell."""
    return ast.unparse(ast.parse(code))


def run(vignette: Path) -> list[dict]:
    """What each cell prints, and whether it draws the figure."""
    figure = VIGNETTES / "figures" / f"{vignette.stem}.png"
    namespace = {"__name__": "__main__", "__file__": str(vignette)}
    cells = []
    with plt.rc_context(), contextlib.chdir(figure.parent):
        for code, line in cells_of(vignette):
            before = figure.stat().st_mtime_ns if figure.exists() else None
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * (line - 1) + code, str(vignette), "exec"), namespace)
            drawn = figure.exists() and figure.stat().st_mtime_ns != before
            cells.append({"code": meaning(code), "printed": printed.getvalue(), "figure": drawn})
        plt.close("all")
    return cells


def main(names: list[str]) -> None:
    """Run and store."""
    (VIGNETTES / "outputs").mkdir(exist_ok=True)
    for name in names or sorted(path.stem for path in VIGNETTES.glob("*.py")):
        cells = run(VIGNETTES / f"{name}.py")
        if os.environ.get("SGMCMC_VIGNETTES") == "short" or not any(cell["figure"] for cell in cells):
            print(f"{name}: not stored, because it was not run in full", file=sys.stderr)
            continue
        made = {"made by": f"python docs/vignetteOutputs.py {name}", "date": str(datetime.date.today())}
        stored = made | {"cells": cells}
        text = json.dumps(stored, indent=1, ensure_ascii=False) + "\n"
        (VIGNETTES / "outputs" / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: stored", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])

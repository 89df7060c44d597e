"""Every vignette runs from start to end and draws its figure."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VIGNETTES = sorted((ROOT / "vignettes").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda path: path.stem)
def test_vignette_runs(vignette, tmp_path):
    shutil.copytree(ROOT / "data", tmp_path / "data")
    copy = tmp_path / "vignettes" / vignette.name
    copy.parent.mkdir()
    shutil.copy(vignette, copy)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, str(copy)],
        env=os.environ | {"SGMCMC_QUICK": "1", "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    figure = (copy.parent / "figures" / f"{vignette.stem}.png").read_bytes()
    assert figure.startswith(b"\x89PNG") and len(figure) > 10_000

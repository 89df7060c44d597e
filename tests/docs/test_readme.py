"""The README's Python runs as it stands, its links lead somewhere and its commands can be found by .ci/run."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_python_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    for i, block in enumerate(blocks):
        exec(compile(block, f"README.md, Python block {i + 1}", "exec"), namespace)
        if i == 0:  # the numbers that the README promises
            draws, exact = namespace["out"]["theta"], namespace["dataset"]["x"].mean()
            assert abs(draws.mean() - exact) < 0.003
            assert abs(draws.std() - 0.01) < 0.002
        if i == 1:  # four chains
            assert namespace["out"]["theta"].shape == (4, 2000)
            assert (abs(namespace["out"]["theta"].mean(axis=1) - exact) < 0.003).all()
        if i == 3:  # the three ways to a mean
            ways = [namespace["total"] / 10_000, namespace["out"]["theta"].values.mean()]
            assert np.ptp(ways) < 1e-5 and abs(ways[0] - exact) < 0.003
    assert np.isfinite(namespace["out"]["theta"]).all()


def test_links_to_files_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", ["main job", "tests"])
def test_commands_are_marked_once(name):
    assert len(re.findall(rf"^<!-- ci: {name} -->\n```sh\n[^\n]+\n```$", README, re.MULTILINE)) == 1

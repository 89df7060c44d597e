"""The README's Python runs as it stands, its links lead somewhere and its commands can be found by .ci/run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    exec(compile(block, "README.md, Python block", "exec"), namespace)
    draws, exact = namespace["out"]["theta"], namespace["dataset"]["x"].mean()
    assert abs(draws.mean() - exact) < 0.003  # the numbers that the README promises
    assert abs(draws.std() - 0.01) < 0.002


def test_is_short():
    assert len(README.split()) <= 850


def test_links_to_files_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", ["main job", "tests"])
def test_commands_are_marked_once(name):
    assert len(re.findall(rf"^<!-- ci: {name} -->\n```sh\n[^\n]+\n```$", README, re.MULTILINE)) == 1

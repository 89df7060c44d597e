"""What pyproject.toml says of the packages, and other files repeat. `.ci/packages` tries the packages themselves."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    found[1]
    for classifier in PROJECT["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
]


def test_the_pythons_of_the_classifiers_are_those_required():
    first, end = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    assert [f"3.{minor}" for minor in range(int(first), int(end))] == PYTHONS


def test_the_packages_are_tried_with_every_python():
    (line,) = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line.split() == [f"python{version}" for version in PYTHONS]


def test_the_readme_names_the_pythons():
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_without_any_python_the_packages_are_not_said_to_work():
    tried = subprocess.run([ROOT / ".ci" / "packages", "python3.0", "python3.1"], capture_output=True, text=True)
    assert tried.returncode == 1
    assert tried.stdout.splitlines() == ["python3.0 is not here: not tried.", "python3.1 is not here: not tried."]
    assert "None of the Pythons is here" in tried.stderr

"""What pyproject.toml says and other files repeat, and the tag of a release. .ci/packages tries the packages."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


def steps(workflow):
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [(job, step) for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_every_python_or_one_of_them(workflow):
    chosen = [
        (job.get("strategy", {}).get("matrix", {}).get("python"), step["with"]["python-version"])
        for job, step in steps(workflow)
        if step.get("uses", "").startswith("actions/setup-python@")
    ]
    assert chosen
    for matrix, version in chosen:
        if matrix:
            assert matrix == PYTHONS and version == "${{ matrix.python }}"
        else:
            assert version.split() == PYTHONS or version in PYTHONS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_what_workflows_run_exists(workflow):
    commands = " ".join(step.get("run", "") for _, step in steps(workflow))
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+)", commands)) <= set(targets)
    assert set(re.findall(r"-e \"\.\[(\w+)\]", commands)) <= set(PROJECT["optional-dependencies"])
    assert all((ROOT / script).is_file() for script in re.findall(r"\.ci/\S+", commands))


def test_a_tag_is_accepted_if_it_is_the_version_and_the_changelog_has_its_date(tmp_path):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def said_of(tag, heading):
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n", encoding="utf-8")
        checked = subprocess.run(
            [sys.executable, tmp_path / ".ci" / "check_tag.py", tag], capture_output=True, text=True
        )
        assert (checked.returncode == 0) == (checked.stderr == "")
        return checked.stderr

    version = PROJECT["version"]
    assert said_of(f"v{version}", f"## [{version}] - 2026-01-31") == ""
    assert "is not" in said_of("v0.0.1", f"## [{version}] - 2026-01-31")
    assert "no line" in said_of(f"v{version}", f"## [{version}] - unreleased")

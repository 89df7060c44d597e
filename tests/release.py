"""Tests that see little which others do not, or take long for it, are left to `make check-all`.

They are listed in release.txt, where a * stands for every test of a file. They run with --release, or if they, or their
files, are named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("release.txt")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = any(not Path(argument).is_dir() for argument in config.args)
    if config.getoption("--release") or named:
        return
    lines = listed()
    left = [item for item in items if is_listed(item.nodeid, lines)]
    items[:] = [item for item in items if not is_listed(item.nodeid, lines)]
    config.hook.pytest_deselected(items=left)


def listed() -> set[str]:
    """The lines of the table."""
    return set(TABLE.read_text(encoding="utf-8").splitlines())


def is_listed(nodeid: str, lines: set[str]) -> bool:
    """Whether the test is there, by itself or as one of all tests of its file with the same parameters."""
    file, _, test = nodeid.partition("::")
    return nodeid in lines or f"{file}::*{test[test.find('[') :]}" in lines

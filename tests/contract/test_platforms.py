"""Nothing in the package needs Linux, as far as it can be told on Linux.

It uses the inside of the package: it imitates other platforms.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sgmcmc.core import files

ROOT = Path(__file__).parents[2]
POSIX = {"fcntl", "grp", "posix", "pwd", "resource", "termios", "pty"}


def test_no_file_is_a_link() -> None:
    """On Windows a link in a checkout is a file with the name of what it leads to."""
    assert [path for path in (ROOT / "sgmcmc").rglob("*") if path.is_symlink()] == []
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_all_folders_are_installed() -> None:
    """They are listed one by one, and the data come from beside the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "sgmcmc").rglob("__init__.py")}
    assert set(settings["packages"]) == folders
    assert settings["package-dir"] == {"": "."}  # with others setuptools makes an import hook, which mypy cannot follow


def test_no_module_of_posix_is_imported_with_the_package() -> None:
    for file in (ROOT / "sgmcmc").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert POSIX.isdisjoint(name.split(".")[0] for name in names), file


def test_the_lock_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: set[int] = set()

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        assert mode == 2 and n_bytes == 1 and place > 2**20
        if place in held:
            raise PermissionError(13, "Permission denied")
        held.add(place)

    windows: Any = SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(files.sys, "platform", "win32")
    file = tmp_path / "lock"
    file.write_bytes(b"name")
    first = files.locked(file)
    with pytest.raises(BlockingIOError):
        files.locked(file)
    assert file.read_bytes() == b"name"
    os.close(first)

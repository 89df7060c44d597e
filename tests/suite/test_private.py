"""The tests of the contract say why they use more than the public face."""

import ast
from pathlib import Path

import pytest

CONTRACT = sorted((Path(__file__).parents[1] / "contract").glob("test_*.py"))
FACE = {"sgmcmc", "sgmcmc.diagnostics", "sgmcmc.models"}


def modules(tree: ast.Module) -> set[str]:
    """The modules that a file imports from."""
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", CONTRACT, ids=lambda path: path.stem)
def test_a_file_that_imports_from_a_room_says_why(path: Path) -> None:
    tree = ast.parse(path.read_text())
    inside = {module for module in modules(tree) - FACE if module.startswith("sgmcmc.")}
    assert bool(inside) == ("It uses the inside of the package: it " in (ast.get_docstring(tree) or ""))

"""Writes docs/guide/combinations.md from the tables by which a call checks its arguments."""

import re
from pathlib import Path

from sgmcmc.arguments.refusals import TABLES, Table

PAGE = Path(__file__).parent / "guide" / "combinations.md"

HEAD = """# What works with what

Every dynamics works with every estimator, every scheme of minibatches, many chains, storage and sessions. These are the
exceptions, each with its reason. A call that asks for one of them raises a `ValueError` before anything is computed.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([HEAD, *(f"## {title}\n\n{_table(table)}" for title, table in TABLES.items())])


def _table(table: Table) -> str:
    rows = [(group.given, row.argument, row.must) for group in table for row in group.rows]
    lines = ["| with | argument | must |", "|---|---|---|"]
    before = ""
    for given, argument, must in rows:
        lines.append(f"| {given if given != before else ''} | `{argument}` | {_code(must)} |")
        before = given
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Words of the program as code."""
    return re.sub(r"(?<![`\w])(\w+=\S+?\)?|\w+\(\)|'\w+')(?=[\s,;:)]|$)", r"`\1`", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

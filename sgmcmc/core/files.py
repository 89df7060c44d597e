"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file under a temporary name, then rename it atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(contents)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)

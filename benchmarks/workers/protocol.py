"""How a worker talks to its script, by JSON requests and replies, a line each, on stdin and stdout; how it is timed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any


def serve(commands: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests ``{"do": command, **arguments}`` until stdin is closed."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not mix with the replies
    for line in sys.stdin:
        request = json.loads(line)
        reply = commands[request.pop("do")](**request)
        print(json.dumps(reply), file=replies, flush=True)


def versions(*packages: str) -> dict[str, str]:
    """Of installed packages."""
    return {package: metadata.version(package) for package in packages}


def seconds(function: Callable[[], Any]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """The `seconds` of a block and its `work`, seconds of processor time; known when it ends."""
    spent: dict[str, float] = {}
    started, worked = time.perf_counter(), time.process_time()
    try:
        yield spent
    finally:
        spent |= {"seconds": time.perf_counter() - started, "work": time.process_time() - worked}

"""Executors that the tests of a file share."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, SPAWN) as pool:
        yield pool


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as threads:
        yield threads

"""How the suite runs: each process with one thread, since small programs run faster without handing kernels around."""

from __future__ import annotations

import os
import signal
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported

import pytest
import tensorflow as tf

from tests import limit, processes, release

tf.config.threading.set_intra_op_parallelism_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it begins with & ignore it


def pytest_addoption(parser: pytest.Parser) -> None:
    limit.pytest_addoption(parser)
    parser.addoption("--release", action="store_true", help="also the tests of release.txt, which repeat others")
    parser.addoption("--renew-seconds", action="store_true", help="write seconds.json, by which the longest go first")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(limit)
    if not processes.is_one():
        config.pluginmanager.register(release)
        table, renew = Path(__file__).with_name("seconds.json"), config.getoption("--renew-seconds")
        config.pluginmanager.register(processes.Processes(config, "tests.imported", ["run"], table, renew))

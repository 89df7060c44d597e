"""The suite's own machinery, on suites of a few small tests: processes, what becomes of failures, and the limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import release

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import os
from pathlib import Path
import pytest
from tests import limit, processes

HERE = Path(__file__).parent
os.cpu_count = lambda: {cores}

def pytest_addoption(parser):
    limit.pytest_addoption(parser)
    parser.addoption("--renew", action="store_true")

def pytest_configure(config):
    config.pluginmanager.register(limit)
    if not processes.is_one():
        (HERE / "main").write_text(str(os.getpid()))
        seconds = HERE / "seconds.json"
        config.pluginmanager.register(processes.Processes(config, "pytest", ["value"], seconds, config.option.renew))

@pytest.fixture(scope="session", params=["a", "b"])
def value(request):
    log("made " + request.param)
    return request.param

@pytest.fixture(autouse=True)
def logged(request):
    log(request.node.nodeid)

def log(line):
    with (HERE / "log").open("a") as lines:
        lines.write(line + "\\n")
"""
Suite = Callable[..., subprocess.CompletedProcess[str]]


def command(folder: Path, files: dict[str, str], arguments: tuple[str, ...], cores: int) -> dict:
    (folder / "conftest.py").write_text(CONFTEST.format(cores=cores), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return {
        "args": line,
        "cwd": folder,
        "env": env | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        "text": True,
    }


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Runs pytest on a suite of these files; lines that tests log are in `log`."""

    def run(files: dict[str, str], *arguments: str, cores: int = 2) -> subprocess.CompletedProcess[str]:
        return subprocess.run(**command(tmp_path, files, arguments, cores), capture_output=True, timeout=100)

    return run


def logged(folder: Path) -> list[str]:
    return (folder / "log").read_text(encoding="utf-8").splitlines()


MANY = {
    "test_a.py": """
import os, pytest
from pathlib import Path

def test_good():
    assert os.getpid() != int((Path(__file__).parent / "main").read_text())

@pytest.mark.parametrize("x", [1, 2])
def test_bad(x):
    print("words of a test")
    assert x == 2, "a reason"

@pytest.mark.skip(reason="not now")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False
""",
    "test_b.py": """
import pytest

@pytest.fixture
def broken():
    raise ValueError("no fixture")

def test_setup(broken):
    pass

def test_end():
    pass
""",
}


def test_what_becomes_of_tests_is_told_as_if_they_had_run_here(suite: Suite) -> None:
    done = suite(MANY, "--durations=3", "--durations-min=0")
    assert done.returncode == 1 and "1 failed, 3 passed, 1 skipped, 1 xfailed, 1 error" in done.stdout
    for words in ("words of a test", "a reason", "assert 1 == 2", "no fixture", "slowest 3 durations"):
        assert words in done.stdout
    assert "FAILED test_a.py::test_bad[1] - AssertionError: a reason" in done.stdout
    assert "ERROR test_b.py::test_setup - ValueError: no fixture" in done.stdout


def test_tests_are_chosen_as_always(suite: Suite, tmp_path: Path) -> None:
    assert "2 passed, 5 deselected" in suite(MANY, "-k", "good or end").stdout
    assert sorted(logged(tmp_path)) == ["test_a.py::test_good", "test_b.py::test_end"]
    done = suite(MANY, "test_b.py::test_end", "test_a.py::test_bad")
    assert done.returncode == 1 and "1 failed, 2 passed" in done.stdout
    assert "7 tests collected" in suite(MANY, "--collect-only").stdout


def test_words_are_let_through_if_asked_for(suite: Suite) -> None:
    assert "words of a test" in suite(MANY, "-s", "-k", "test_end or test_bad and 2").stdout


def test_a_single_file_runs_here(suite: Suite) -> None:
    done = suite(MANY, "test_a.py")
    assert "2 failed" in done.stdout and "FAILED test_a.py::test_good" in done.stdout


def test_the_first_failure_ends_all(suite: Suite, tmp_path: Path) -> None:
    files = {f"test_{k}.py": f"def test_it(): assert {k} != 2" for k in range(5)}
    (tmp_path / "seconds.json").write_text(json.dumps({f"test_{k}.py": 9 - k for k in range(5)}), encoding="utf-8")
    done = suite(files, "-x", cores=1)
    assert done.returncode == 1 and "stopping after 1 failures" in done.stdout and "1 failed, 2 passed" in done.stdout
    assert logged(tmp_path) == [f"test_{k}.py::test_it" for k in range(3)]
    assert "1 failed, 4 passed" in suite(files, "--maxfail=2", cores=1).stdout


CRASHES = "import os, pytest\n@pytest.mark.parametrize('k', range(4))\ndef test_it(k): k == 2 and os._exit(7)"


def test_a_crash_is_a_failure_of_the_test_that_ran(suite: Suite, tmp_path: Path) -> None:
    done = suite({"test_a.py": CRASHES, "test_b.py": "def test_good(): pass"})
    assert done.returncode == 1 and "1 failed, 4 passed" in done.stdout
    assert "its process ended with 7" in done.stdout and "FAILED test_a.py::test_it[2]" in done.stdout
    assert len(logged(tmp_path)) == 5


def test_tests_that_a_process_does_not_find_have_failed(suite: Suite) -> None:
    """Of files that are others each time they are read."""
    fewer = "from tests import processes\nif not processes.is_one():\n    def test_gone(): pass\ndef test_it(): pass"
    done = suite({"test_a.py": fewer, "test_b.py": "def test_good(): pass"})
    assert done.returncode == 1 and "1 failed, 2 passed" in done.stdout and "has a file changed?" in done.stdout
    changing = "from tests import processes\nassert not processes.is_one(), 'not here'\ndef test_it(): pass"
    done = suite({"test_a.py": changing, "test_b.py": "def test_good(): pass"})
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout and "not here" in done.stdout


def test_what_a_fixture_of_the_session_makes_is_made_once(suite: Suite, tmp_path: Path) -> None:
    file = "def test_it(value): pass\ndef test_again(value): pass\ndef test_without(): pass"
    assert "15 passed" in suite({f"test_{k}.py": file for k in "cde"}).stdout
    lines = logged(tmp_path)
    assert sorted(line for line in lines if line.startswith("made")) == ["made a", "made b"] and len(lines) == 17


def test_those_that_take_longest_go_first_and_unknown_ones_before_them(suite: Suite, tmp_path: Path) -> None:
    files = {"test_a.py": "def test_it(): pass", "test_b.py": "def test_it(): pass\ndef test_more(): pass"}
    files |= {"test_c.py": "import time\ndef test_it(): time.sleep(0.5)", "test_d.py": files["test_a.py"]}
    table = tmp_path / "seconds.json"
    table.write_text(json.dumps({"test_a.py": 0.3, "test_b.py": 0.2, "test_c.py": 0.5}), encoding="utf-8")
    suite(files, "--renew", cores=1)
    order = dict.fromkeys(line.partition("::")[0] for line in logged(tmp_path))
    assert list(order) == ["test_d.py", "test_c.py", "test_b.py", "test_a.py"]
    renewed = json.loads(table.read_text(encoding="utf-8"))
    assert sorted(renewed) == sorted(files) and renewed["test_c.py"] >= 0.5 > renewed["test_a.py"]


def test_files_of_few_seconds_share_a_process(suite: Suite, tmp_path: Path) -> None:
    log = "import os\nfrom pathlib import Path\ndef test_it(): Path(f'{os.getpid()}.pid').touch()\n"
    files = {f"test_{name}.py": log for name in "abcd"}
    seconds = {"test_a.py": 11.0, "test_b.py": 5.0, "test_c.py": 4.0, "test_d.py": 2.0}
    (tmp_path / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")
    assert "4 passed" in suite(files).stdout and len(list(tmp_path.glob("*.pid"))) == 3


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("how", "to"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)])
def test_an_interrupt_ends_all_processes(tmp_path: Path, how: signal.Signals, to: Callable) -> None:
    slow = "import os, time\nfrom pathlib import Path\ndef test_it():\n    Path(f'{os.getpid()}.pid').touch()\n"
    slow += "    time.sleep(100)"
    given = command(tmp_path, {"test_a.py": slow, "test_b.py": slow}, (), 2)
    running = subprocess.Popen(**given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        to(running.pid, how)
        said, _ = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert running.returncode == 2 and "KeyboardInterrupt" in said and len(pids) == 2
    assert not any(map(alive, pids))


WORKS = """
import subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor
import pytest

CODE = "import time; t = time.process_time()\\nwhile time.process_time() < t + 0.6: pass"

@pytest.fixture
def slow():
    exec(CODE)

def test_setup(slow): pass
def test_call(): subprocess.run([sys.executable, "-c", CODE])
def test_waits(): time.sleep(0.6)

@pytest.fixture(scope="module")
def worker():
    with ProcessPoolExecutor(1) as pool:
        yield pool

def test_worker(worker): worker.submit(exec, CODE).result()
def test_ends_it(worker): pass
"""


@pytest.mark.parametrize("files", [["test_a.py"], ["test_a.py", "test_b.py"]], ids=["here", "in processes"])
def test_a_test_that_takes_too_long_fails(suite: Suite, files: list[str]) -> None:
    """In its own process it has to work; waiting is not counted."""
    done = suite({"test_a.py": WORKS, "test_b.py": "def test_good(): pass"}, "-o", "limit=0.3", *files)
    assert done.returncode == 1 and "3 errors" in done.stdout
    failed = re.findall(r"^ERROR test_a.py::(\w+) - (.*)$", done.stdout, re.MULTILINE)
    assert [name for name, _ in failed] == ["test_setup", "test_call", "test_worker"]
    assert all(re.fullmatch(r"took \d\.\d s of processor time; a test may take 0\.3", why) for _, why in failed)
    assert "errors" not in suite({"test_a.py": WORKS, "test_b.py": "def test_good(): pass"}, *files).stdout


def test_the_limit_is_two_minutes(pytestconfig: pytest.Config) -> None:
    """The slowest tests take half a minute on a quiet machine, and a minute on a slow one."""
    assert float(pytestconfig.getini("limit")) == 120


def test_filters_of_warnings_hold_in_all_processes(suite: Suite) -> None:
    warns = "import warnings\n\ndef test_warns():\n    warnings.warn('a note', UserWarning)\n"
    files = {"test_a.py": warns, "test_b.py": warns}
    assert suite(files).returncode == 0
    assert suite(files, "-W", "error::UserWarning").returncode == 1


def test_the_quick_tests_and_those_that_are_left_out_are_there() -> None:
    """And few are left out."""
    collected: list[str] = []
    every = SimpleNamespace(pytest_collection_finish=lambda session: collected.extend(x.nodeid for x in session.items))
    assert pytest.main(["--collect-only", "--release", "--assert=plain", str(ROOT / "tests")], plugins=[every]) == 0
    assert not [line for line in release.listed() if not any(release.is_listed(test, {line}) for test in collected)]
    left_out = {test for test in collected if release.is_listed(test, release.listed())}
    assert 0 < len(left_out) < len(collected) / 7
    quick = set((ROOT / "tests" / "quick.txt").read_text(encoding="utf-8").splitlines())
    known = {name for test in collected for name in (test, test.partition("[")[0], test.partition("::")[0])}
    assert quick <= known - left_out


@pytest.mark.parametrize(
    ("args", "all_tests", "kept"),
    [(["tests"], False, ["b"]), (["tests"], True, ["a", "b"]), (["tests/suite/test_processes.py"], False, ["a", "b"])],
)
def test_tests_are_left_out_unless_they_are_named(
    args: list[str], all_tests: bool, kept: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(release, "listed", lambda: {"test_x.py::*[a]"})
    left: list = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left.extend(items))
    items = [SimpleNamespace(nodeid=f"test_x.py::test_it[{name}]") for name in "ab"]
    config = SimpleNamespace(args=args, getoption=lambda name: all_tests, hook=hook)
    release.pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    assert [item.nodeid[-2] for item in items] == kept and len(left) == 2 - len(kept)

"""Shared by the scripts: workers that take turns, ratios, and results as Markdown.

Each package runs in its own process, and they take turns, A B C A B C ..., so that other load on the machine affects
all alike. See README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "workers"))

from cases import Case  # noqa: E402
from protocol import timed  # noqa: E402, F401 (for the scripts)

OURS, SGMCMCJAX, BLACKJAX, NUMPYRO = "sgmcmc", "SGMCMCJax", "blackjax", "numpyro"
PACKAGES = (OURS, SGMCMCJAX, BLACKJAX)
WORKERS = {OURS: "ours.py", SGMCMCJAX: "sgmcmcjax_worker.py", BLACKJAX: "blackjax_worker.py"}

N_LOGISTIC = 581_012
LOGISTIC = {
    50: Case("logistic", N_LOGISTIC, 50, 20_000, 1e-6),
    500: Case("logistic", N_LOGISTIC, 500, 5000, 1e-6),
    5000: Case("logistic", N_LOGISTIC, 5000, 600, 1e-6),
}
HOUSE_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}  # of matplotlib
FEWEST_ITERATIONS, FEWEST_REPETITIONS = 200, 7

Samples = list[float]  # one for each repetition


@dataclass(frozen=True)
class Check:
    """A result derived from the measurements: a ratio, or a plain number."""

    label: str
    value: float
    of_medians: float | None = None


@dataclass
class Section:
    """A part of the results."""

    title: str
    text: str
    unit: str
    measured: Mapping[str, Samples]
    checks: list[Check] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    """The settings of the command line."""

    repetitions: int
    quick: bool

    def case(self, case: Case) -> Case:
        """The case as it is run."""
        return replace(case, iterations=max(FEWEST_ITERATIONS, case.iterations // 5)) if self.quick else case


class Worker:
    """A process that runs one package; a context manager."""

    def __init__(self, package: str) -> None:
        command = [interpreter(package), str(HERE / "workers" / WORKERS[package])]
        self._package = package
        self._messages = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by __exit__)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
            env=quiet_environment(),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._messages.close()

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send a request and wait for the reply."""
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            self._messages.seek(0)
            raise RuntimeError(f"The worker of {self._package} failed to {do} {arguments}:\n{self._messages.read()}")
        return json.loads(reply)

    def arm(self, name: str, case: Case, **options: Any) -> Callable[[], float]:
        """A function that measures one repetition, in microseconds per iteration and chain."""
        self.ask("prepare", name=name, case=asdict(case), **options)
        return lambda: self.ask("time", name=name)


def interpreter(package: str) -> str:
    """The Python that has the package."""
    if package == OURS:
        return sys.executable
    folder = Path(os.environ.get("SGMCMC_BENCH_ENVIRONMENTS", HERE / "environments"))
    python = folder / package.lower() / "bin" / "python"
    if not python.exists():
        sys.exit(f"There is no {python}: run {HERE / 'make_environments.sh'} first.")
    return str(python)


def run_worker(package: str, script: str, *given: Any, timeout: float | None = None) -> dict[str, Any]:
    """What a script of workers/ printed last, from a run in the environment of its package."""
    command = [interpreter(package), HERE / "workers" / script, *given]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=quiet_environment(),
        check=False,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout.splitlines()[-1])


def quiet_environment() -> dict[str, str]:
    """The environment variables of the workers."""
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}


def interleave(arms: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, Samples]:
    """Run the arms in turns, after one turn that does not count."""
    measured: dict[str, Samples] = {label: [] for label in arms}
    for turn in range(repetitions + 1):
        for label, arm in arms.items():
            sample = arm()
            if turn > 0:
                measured[label].append(sample)
    return measured


def compare(label: str, ours: Samples, other: Samples, other_times: float = 1.0) -> Check:
    """The ratio of ours to other: the median over the repetitions of the ratio within a repetition."""
    pairs = zip(ours, other, strict=True)
    return Check(
        label,
        statistics.median(a / (other_times * b) for a, b in pairs),
        statistics.median(ours) / (other_times * statistics.median(other)),
    )


def render(section: Section) -> str:
    """A section as Markdown: what was measured, then the ratios."""
    lines = [f"## {section.title}", "", section.text, "", f"| {section.unit} | median | min |", "|---|---:|---:|"]
    for label, sample in section.measured.items():
        lines.append(f"| {label} | {number(statistics.median(sample))} | {number(min(sample))} |")
    if section.checks:
        lines += ["", "| | ratio | ratio of medians |", "|---|---:|---:|"]
        for check in section.checks:
            of_medians = "" if check.of_medians is None else number(check.of_medians)
            lines.append(f"| {check.label} | {number(check.value)} | {of_medians} |")
    return "\n".join(lines) + "\n"


def read(file: Path) -> dict[str, Any]:
    """The results so far."""
    return json.loads(file.read_text()) if file.exists() else {}


def write(file: Path, kept: Mapping[str, Any]) -> None:
    """Write problems with their rows, a line for each row."""
    parts = []
    for name, problem in kept.items():
        rows = ",\n".join(f"  {json.dumps(label)}: {json.dumps(row)}" for label, row in problem["rows"].items())
        told = json.dumps({key: value for key, value in problem.items() if key != "rows"})
        parts.append(f'{json.dumps(name)}: {told[:-1]}, "rows": {{\n{rows}}}}}')
    file.write_text("{" + ",\n".join(parts) + "}\n")


def number(x: float) -> str:
    """Three significant digits."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def machine() -> str:
    """The machine, as Markdown."""
    model = platform.processor() or platform.machine()
    try:
        lscpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
        model = next(line.split(":", 1)[1].strip() for line in lscpu.splitlines() if line.startswith("Model name"))
    except (OSError, subprocess.CalledProcessError, StopIteration):
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{model}, {usable} usable cores, {system}"


def versions(packages: Sequence[str]) -> str:
    """The versions of the packages, as Markdown."""
    lines = []
    for package in packages:
        with Worker(package) as worker:
            found = worker.ask("versions")
        lines.append(f"- {package}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    return "\n".join(lines)


Cases = Mapping[str, Callable[[Settings], list[Section]]]


def common_parser(description: str, cases: Cases, output: str) -> argparse.ArgumentParser:
    """The options of every script."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", default=",".join(cases), help=f"of {','.join(cases)}; default all")
    parser.add_argument("--repetitions", type=int, default=9, help=f"at least {FEWEST_REPETITIONS}; default 9")
    parser.add_argument("--quick", action="store_true", help="3 short repetitions, to check that everything works")
    parser.add_argument("--output", type=Path, default=HERE / output)
    return parser


def parse(parser: argparse.ArgumentParser, cases: Cases) -> argparse.Namespace:
    """The arguments, checked; `cases` split."""
    arguments = parser.parse_args()
    arguments.cases = arguments.cases.split(",")
    if unknown := set(arguments.cases) - set(cases):
        parser.error(f"there are no cases {', '.join(sorted(unknown))}")
    if arguments.repetitions < FEWEST_REPETITIONS:
        parser.error(f"--repetitions must be at least {FEWEST_REPETITIONS}, or use --quick")
    return arguments


def publish(title: str, arguments: argparse.Namespace, cases: Cases, packages: Sequence[str]) -> None:
    """Run the requested cases, print each when it is done, and write all to the output."""
    settings = Settings(3 if arguments.quick else arguments.repetitions, arguments.quick)
    command = " ".join([f"python benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    parts = [
        f"# {title}",
        f"{datetime.date.today()}, by `{command}`: {settings.repetitions} repetitions. "
        f"Load of the machine at the start: {os.getloadavg()[0]:.2f}.",
        *(["**A quick run: it shows that everything works, not how fast it is.**"] if settings.quick else []),
        machine() + ".",
        versions(packages),
        "A ratio is the median over the repetitions of the ratio within a repetition. README.md describes the "
        "measurements.",
    ]
    for name in arguments.cases:
        for section in cases[name](settings):
            text = render(section)
            print(text, flush=True)
            parts.append(text.rstrip())
    arguments.output.write_text("\n\n".join(parts) + "\n")

"""Time sgmcmc against SGMCMCJax and blackjax, and its samplers against each other; writes RESULTS.md.

Each package runs in a process of its own, and they take turns: A B C A B C ..., so that what else the machine does
hits all alike. See README.md.
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
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "workers"))

from cases import Case  # noqa: E402

OURS, SGMCMCJAX, BLACKJAX = "sgmcmc", "SGMCMCJax", "blackjax"
PACKAGES = (OURS, SGMCMCJAX, BLACKJAX)
WORKERS = {OURS: "ours.py", SGMCMCJAX: "sgmcmcjax_worker.py", BLACKJAX: "blackjax_worker.py"}
IMPORTS = {
    "tensorflow": (OURS, "import tensorflow"),
    OURS: (OURS, "import sgmcmc"),
    SGMCMCJAX: (SGMCMCJAX, "from sgmcmcjax.samplers import build_sgld_sampler"),
    BLACKJAX: (BLACKJAX, "import blackjax"),
}

N_LOGISTIC = 581_012
LOGISTIC = {
    50: Case("logistic", N_LOGISTIC, 50, 20_000, 1e-6),
    500: Case("logistic", N_LOGISTIC, 500, 5000, 1e-6),
    5000: Case("logistic", N_LOGISTIC, 5000, 600, 1e-6),
}
MIXTURE = Case("mixture", 1000, 100, 30_000, 5e-3)
NETWORK = Case("network", 55_000, 500, 200, 1e-5)
SIZES = (10**4, 10**5, 10**6, 10**7)
LEAPS = 5  # of sghmc, the default
FEWEST_ITERATIONS, FEWEST_REPETITIONS = 200, 7

Samples = list[float]  # one for each repetition


@dataclass(frozen=True)
class Check:
    """Something that has a goal: a ratio, or a plain number."""

    label: str
    value: float
    of_medians: float | None = None
    goal: float | None = None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if self.value <= self.goal else "**missed**"


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
    """What the command line asks for."""

    repetitions: int
    quick: bool
    largest: int

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
        """Something to measure: a function that runs one repetition and returns microseconds per iteration."""
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


def compare(label: str, ours: Samples, other: Samples, goal: float | None = None, other_times: float = 1.0) -> Check:
    """The ratio of ours to other: the median over the repetitions of the ratio within a repetition."""
    pairs = zip(ours, other, strict=True)
    return Check(
        label,
        statistics.median(a / (other_times * b) for a, b in pairs),
        statistics.median(ours) / (other_times * statistics.median(other)),
        goal,
    )


def against_peers(settings: Settings, title: str, case: Case, goals: tuple[float, float]) -> Section:
    """One case in all three packages, with replacement, as the others know no other way."""
    case = settings.case(case)
    with ExitStack() as stack:
        workers = {package: stack.enter_context(Worker(package)) for package in PACKAGES}
        arms = {
            package: worker.arm("sgld", case, **({"subsampling": "withReplacement"} if package == OURS else {}))
            for package, worker in workers.items()
        }
        measured = interleave(arms, settings.repetitions)
    checks = [
        compare(f"{OURS} / {peer}", measured[OURS], measured[peer], goal)
        for peer, goal in zip((SGMCMCJAX, BLACKJAX), goals, strict=True)
    ]
    text = f"N = {case.n_data:,}, n = {case.n}, {case.iterations:,} iterations in a repetition."
    return Section(title, text, "µs per iteration", measured, checks)


def logistic(settings: Settings) -> list[Section]:
    goals = {50: (1.0, 0.45), 500: (0.95, 0.55), 5000: (0.65, 0.55)}
    return [against_peers(settings, f"Logistic regression, n = {n}", LOGISTIC[n], goals[n]) for n in goals]


def mixture(settings: Settings) -> list[Section]:
    return [against_peers(settings, "Two-dimensional Gaussian mixture", MIXTURE, (0.65, 0.27))]


def network(settings: Settings) -> list[Section]:
    return [against_peers(settings, "Softmax network 784-100-10", NETWORK, (0.8, 0.85))]


def startup(settings: Settings) -> list[Section]:
    imports: dict[str, Samples] = {label: [] for label in IMPORTS}
    for turn in range(3 if settings.quick else 6):
        for label, (package, statement) in IMPORTS.items():
            seconds = import_seconds(package, statement)
            if turn > 0:  # the first turn reads the files from disk
                imports[label].append(seconds)
    data: dict[str, Samples] = {package: [] for package in PACKAGES}
    first: dict[str, Samples] = {package: [] for package in PACKAGES}
    for _ in range(1 if settings.quick else 3):
        for package in PACKAGES:
            with Worker(package) as worker:
                reply = worker.ask("first_call", case=asdict(LOGISTIC[500]))
            data[package].append(reply["data"])
            first[package].append(reply["first"])
    return [
        Section(
            "Import",
            "Each in a fresh interpreter, the files in the disk cache.",
            "s",
            imports,
            [compare("sgmcmc / tensorflow", imports[OURS], imports["tensorflow"])],
        ),
        Section(
            "Handing over the data",
            f"The logistic model, N = {N_LOGISTIC:,}: {OURS} checks and packs the data; the others copy them to JAX. "
            "The first use of TensorFlow or JAX falls into this time.",
            "s",
            data,
        ),
        Section(
            "First call",
            "The logistic model, n = 500, in a fresh process, from data handed over to the first 10 draws: trace, "
            "compile and run. SGMCMCJax and blackjax compile again for every new number of iterations.",
            "s",
            first,
            [
                compare(f"{OURS} / {peer}", first[OURS], first[peer], goal)
                for peer, goal in ((SGMCMCJAX, 0.25), (BLACKJAX, 0.4))
            ],
        ),
    ]


def import_seconds(package: str, statement: str) -> float:
    """How long an import takes in a fresh interpreter."""
    code = f"import time; started = time.perf_counter(); {statement}; print(time.perf_counter() - started)"
    done = subprocess.run(
        [interpreter(package), "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        env=quiet_environment(),
    )
    return float(done.stdout.split()[-1])


def own(settings: Settings) -> list[Section]:
    with Worker(OURS) as worker:
        samplers = own_samplers(settings, worker)
    with Worker(OURS) as worker:
        steps_and_bar = [own_steps(settings, worker), own_bar(settings, worker)]
    return [samplers, *steps_and_bar, own_memory(settings)]


def own_samplers(settings: Settings, worker: Worker) -> Section:
    arms = {}
    for n, full_case in LOGISTIC.items():
        case = settings.case(full_case)
        for label, subsampling in (("without", "uniform"), ("with", "withReplacement")):
            arms[f"sgld {label} replacement, n = {n}"] = worker.arm(f"{label} {n}", case, subsampling=subsampling)
    case = settings.case(LOGISTIC[500])
    for method, iterations in (("sghmc", case.iterations // LEAPS), ("sgnht", None), ("sgldcv", None)):
        of_method = replace(case, iterations=iterations or case.iterations)
        arms[f"{method}, n = 500"] = worker.arm(method, of_method, method=method)
    measured = interleave(arms, settings.repetitions)
    sgld = measured["sgld without replacement, n = 500"]
    replacement = [
        compare(
            f"without / with replacement, n = {n}",
            measured[f"sgld without replacement, n = {n}"],
            measured[f"sgld with replacement, n = {n}"],
            1.3,
        )
        for n in LOGISTIC
    ]
    return Section(
        "Samplers of sgmcmc",
        "The logistic model. Without replacement, the default, unless said otherwise.",
        "µs per iteration",
        measured,
        [
            *replacement,
            compare(f"sghmc / ({LEAPS} x sgld)", measured["sghmc, n = 500"], sgld, 1.1, other_times=LEAPS),
            compare("sgnht / sgld", measured["sgnht, n = 500"], sgld, 1.2),
            compare("sgldcv / sgld", measured["sgldcv, n = 500"], sgld, 2.2),
        ],
    )


def own_steps(settings: Settings, worker: Worker) -> Section:
    case = settings.case(LOGISTIC[500])
    measured = interleave(
        {
            "one call": worker.arm("one call", case),
            "sgmcmcStep, nSteps = 1": worker.arm("step 1", replace(case, iterations=1000), steps_per_call=1),
            "sgmcmcStep, nSteps = 100": worker.arm("step 100", case, steps_per_call=100),
        },
        settings.repetitions,
    )
    one_call, by_one, by_hundred = measured.values()
    return Section(
        "Step by step",
        "sgld, the logistic model, n = 500.",
        "µs per iteration",
        measured,
        [
            Check("µs per call of sgmcmcStep, nSteps = 1", statistics.median(by_one), goal=200),
            compare("sgmcmcStep, nSteps = 100 / one call", by_hundred, one_call, 1.5),
        ],
    )


def own_bar(settings: Settings, worker: Worker) -> Section:
    case = replace(LOGISTIC[500], iterations=5000 if settings.quick else 20_000)
    measured = interleave(
        {f"bar {word}": worker.arm(f"bar {word}", case, bar=bar) for word, bar in (("off", False), ("on", True))},
        settings.repetitions,
    )
    return Section(
        "Progress bar",
        f"sgld, the logistic model, n = 500, {case.iterations:,} iterations.",
        "µs per iteration",
        measured,
        [compare("bar on / off", measured["bar on"], measured["bar off"], 1.02)],
    )


def own_memory(settings: Settings) -> Section:
    case = replace(LOGISTIC[500], iterations=10_000 if settings.quick else 100_000)
    with Worker(OURS) as worker:
        size = worker.ask("memory", case=asdict(case))
    grown = size["peak"] - size["before"] - size["dataset"]
    rows = {
        "the process before, with TensorFlow and its compiler": size["before"],
        "the user's dataset": size["dataset"],
        "the draws": size["draws"],
        "the peak of the process": size["peak"],
        "what sgmcmc adds: peak less before less the user's dataset": grown,
    }
    return Section(
        "Memory",
        f"sgld in one call, the logistic model, N = {case.n_data:,}, {case.iterations:,} iterations.",
        "MB",
        {label: [n_bytes / 1e6] for label, n_bytes in rows.items()},
        [Check("what sgmcmc adds / (dataset + draws)", grown / (size["dataset"] + size["draws"]))],
    )


def size(settings: Settings) -> list[Section]:
    sizes = [n_data for n_data in SIZES if n_data <= settings.largest]
    case = settings.case(replace(LOGISTIC[500], stepsize=1e-8))
    with Worker(OURS) as worker:
        arms = {f"N = {n_data:,}": worker.arm(str(n_data), replace(case, n_data=n_data)) for n_data in sizes}
        measured = interleave(arms, settings.repetitions)
    smallest, *others = measured
    return [
        Section(
            "Cost and the number of observations",
            "sgld without replacement, the logistic model, n = 500.",
            "µs per iteration",
            measured,
            [compare(f"{label} / {smallest}", measured[label], measured[smallest]) for label in others],
        )
    ]


CASES: dict[str, Callable[[Settings], list[Section]]] = {
    "logistic": logistic,
    "mixture": mixture,
    "network": network,
    "startup": startup,
    "own": own,
    "size": size,
}


def render(section: Section) -> str:
    """A section as Markdown: what was measured, then the ratios."""
    lines = [f"## {section.title}", "", section.text, "", f"| {section.unit} | median | min |", "|---|---:|---:|"]
    for label, sample in section.measured.items():
        lines.append(f"| {label} | {number(statistics.median(sample))} | {number(min(sample))} |")
    if section.checks:
        lines += ["", "| | ratio | ratio of medians | goal | |", "|---|---:|---:|---:|---|"]
        for check in section.checks:
            of_medians = "" if check.of_medians is None else number(check.of_medians)
            goal = "" if check.goal is None else f"≤ {check.goal:g}"
            lines.append(f"| {check.label} | {number(check.value)} | {of_medians} | {goal} | {check.verdict} |")
    return "\n".join(lines) + "\n"


def number(x: float) -> str:
    """Three significant digits."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def machine() -> str:
    """What this was run on, as Markdown."""
    model = platform.processor() or platform.machine()
    try:
        lscpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
        model = next(line.split(":", 1)[1].strip() for line in lscpu.splitlines() if line.startswith("Model name"))
    except (OSError, subprocess.CalledProcessError, StopIteration):
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{model}, {usable} usable cores, {system}"


def versions(cases: Sequence[str]) -> str:
    """The packages that took part, as Markdown."""
    packages = PACKAGES if set(cases) - {"own", "size"} else (OURS,)
    lines = []
    for package in packages:
        with Worker(package) as worker:
            found = worker.ask("versions")
        lines.append(f"- {package}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {','.join(CASES)}; default all")
    parser.add_argument("--repetitions", type=int, default=9, help=f"at least {FEWEST_REPETITIONS}; default 9")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="largest N of the case size (10**7 takes 5 GB)")
    parser.add_argument("--quick", action="store_true", help="3 short repetitions, to see that all works")
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    arguments = parser.parse_args()
    arguments.cases = arguments.cases.split(",")
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"there are no cases {', '.join(sorted(unknown))}")
    if arguments.repetitions < FEWEST_REPETITIONS:
        parser.error(f"--repetitions must be at least {FEWEST_REPETITIONS}, or use --quick")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    settings = Settings(3 if arguments.quick else arguments.repetitions, arguments.quick, arguments.largest)
    command = "python benchmarks/speed.py " + " ".join(sys.argv[1:])
    parts = [
        "# Speed",
        f"{datetime.date.today()}, by `{command.strip()}`: {settings.repetitions} repetitions. "
        f"Load of the machine at the start: {os.getloadavg()[0]:.2f}.",
        *(["**A quick run, which shows that all works and not how fast.**"] if settings.quick else []),
        machine() + ".",
        versions(arguments.cases),
        "A ratio is the median over the repetitions of the ratio within a repetition. README.md says what is measured.",
    ]
    for name in arguments.cases:
        for section in CASES[name](settings):
            text = render(section)
            print(text, flush=True)
            parts.append(text.rstrip())
    arguments.output.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()

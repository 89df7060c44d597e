"""Time sgmcmc against SGMCMCJax and blackjax, and its samplers against each other; writes RESULTS.md.

See README.md.
"""

from __future__ import annotations

import statistics
import subprocess
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial

from harness import (
    BLACKJAX,
    LOGISTIC,
    N_LOGISTIC,
    OURS,
    PACKAGES,
    SGMCMCJAX,
    Case,
    Cases,
    Check,
    Samples,
    Section,
    Settings,
    Worker,
    common_parser,
    compare,
    interleave,
    interpreter,
    parse,
    publish,
    quiet_environment,
)

IMPORTS = {
    "tensorflow": (OURS, "import tensorflow"),
    OURS: (OURS, "import sgmcmc"),
    SGMCMCJAX: (SGMCMCJAX, "from sgmcmcjax.samplers import build_sgld_sampler"),
    BLACKJAX: (BLACKJAX, "import blackjax"),
}

MIXTURE = Case("mixture", 1000, 100, 30_000, 5e-3)
WIDE = Case("wide", 1000, 2, 20_000, 1e-4)
NETWORK = Case("network", 55_000, 500, 200, 1e-5)
SIZES = (10**4, 10**5, 10**6, 10**7)
LEAPS = 5  # of sghmc, the default


def against_peers(settings: Settings, title: str, case: Case) -> Section:
    """One case in all three packages, with replacement, the only way of the others."""
    case = settings.case(case)
    with ExitStack() as stack:
        workers = {package: stack.enter_context(Worker(package)) for package in PACKAGES}
        arms = {
            package: worker.arm("sgld", case, **({"subsampling": "withReplacement"} if package == OURS else {}))
            for package, worker in workers.items()
        }
        measured = interleave(arms, settings.repetitions)
    checks = [compare(f"{OURS} / {peer}", measured[OURS], measured[peer]) for peer in (SGMCMCJAX, BLACKJAX)]
    text = f"N = {case.n_data:,}, n = {case.n}, {case.iterations:,} iterations per repetition."
    return Section(title, text, "µs per iteration", measured, checks)


def logistic(settings: Settings) -> list[Section]:
    return [against_peers(settings, f"Logistic regression, n = {n}", case) for n, case in LOGISTIC.items()]


def mixture(settings: Settings) -> list[Section]:
    return [against_peers(settings, "Two-dimensional Gaussian mixture", MIXTURE)]


def network(settings: Settings) -> list[Section]:
    return [against_peers(settings, "Softmax network 784-100-10", NETWORK)]


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
            "Each in a fresh interpreter, with the files in the disk cache.",
            "s",
            imports,
            [compare("sgmcmc / tensorflow", imports[OURS], imports["tensorflow"])],
        ),
        Section(
            "Handing over the data",
            f"The logistic model, N = {N_LOGISTIC:,}: {OURS} checks and packs the data; the others copy them to JAX. "
            "The time includes the first use of TensorFlow or JAX.",
            "s",
            data,
        ),
        Section(
            "First call",
            "The logistic model, n = 500, in a fresh process, after the data are handed over, up to the first 10 "
            "draws: tracing, compilation and run. SGMCMCJax and blackjax recompile for every new number of iterations.",
            "s",
            first,
            [compare(f"{OURS} / {peer}", first[OURS], first[peer]) for peer in (SGMCMCJAX, BLACKJAX)],
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
        leaps = own_leaps(settings, worker)
    with Worker(OURS) as worker:
        steps_and_bar = [own_steps(settings, worker), own_bar(settings, worker)]
    return [samplers, leaps, *steps_and_bar, own_memory(settings)]


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
        )
        for n in LOGISTIC
    ]
    return Section(
        "Samplers of sgmcmc",
        "The logistic model, without replacement (the default) unless stated otherwise.",
        "µs per iteration",
        measured,
        [
            *replacement,
            compare(f"sghmc / ({LEAPS} x sgld)", measured["sghmc, n = 500"], sgld, other_times=LEAPS),
            compare("sgnht / sgld", measured["sgnht, n = 500"], sgld),
            compare("sgldcv / sgld", measured["sgldcv, n = 500"], sgld),
        ],
    )


def own_leaps(settings: Settings, worker: Worker) -> Section:
    case = settings.case(WIDE)
    arms = {
        "sgld": worker.arm("wide sgld", case),
        f"sghmc, L = {LEAPS}": worker.arm(
            "wide sghmc", replace(case, iterations=case.iterations // LEAPS), method="sghmc"
        ),
    }
    measured = interleave(arms, settings.repetitions)
    sgld, sghmc = measured.values()
    return Section(
        "Many parameters and few observations",
        "The mean of 2000 normal variables, n = 2: the cost is that of the noise.",
        "µs per iteration",
        measured,
        [compare(f"sghmc / ({LEAPS} x sgld)", sghmc, sgld, other_times=LEAPS)],
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
            Check("µs per call of sgmcmcStep, nSteps = 1", statistics.median(by_one)),
            compare("sgmcmcStep, nSteps = 100 / one call", by_hundred, one_call),
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
        [compare("bar on / off", measured["bar on"], measured["bar off"])],
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
        "added by sgmcmc: peak minus before minus the user's dataset": grown,
    }
    return Section(
        "Memory",
        f"sgld in one call, the logistic model, N = {case.n_data:,}, {case.iterations:,} iterations.",
        "MB",
        {label: [n_bytes / 1e6] for label, n_bytes in rows.items()},
        [Check("added by sgmcmc / (dataset + draws)", grown / (size["dataset"] + size["draws"]))],
    )


def size(settings: Settings, largest: int = max(SIZES)) -> list[Section]:
    sizes = [n_data for n_data in SIZES if n_data <= largest]
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


CASES: Cases = {
    "logistic": logistic,
    "mixture": mixture,
    "network": network,
    "startup": startup,
    "own": own,
    "size": size,
}


def main() -> None:
    parser = common_parser(__doc__.splitlines()[0], CASES, "RESULTS.md")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="largest N of the case size (10**7 takes 5 GB)")
    arguments = parse(parser, CASES)
    packages = PACKAGES if set(arguments.cases) - {"own", "size"} else (OURS,)
    publish("Speed", arguments, {**CASES, "size": partial(size, largest=arguments.largest)}, packages)


if __name__ == "__main__":
    main()

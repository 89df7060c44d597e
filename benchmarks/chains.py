"""Time many chains in one call against SGMCMCJax and blackjax under jax.vmap, and the cost of features.

Writes RESULTS_CHAINS.md. See README.md.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from harness import (
    BLACKJAX,
    LOGISTIC,
    OURS,
    PACKAGES,
    SGMCMCJAX,
    Case,
    Cases,
    Section,
    Settings,
    Worker,
    common_parser,
    compare,
    interleave,
    parse,
    publish,
)

CHAINS, SEPARATELY = (4, 16, 64), 16
SIZES = (50, 500)
LENGTH = 4  # a repetition makes this many times the updates of one of speed.py, divided among the chains
REPLACEMENT = {"subsampling": "withReplacement"}  # the only way of the other packages
UNIT = "µs per iteration and chain"


@dataclass(frozen=True)
class Switch:
    """A choice in sgmcmc: the worker's options with it on and off, and the labels of the two."""

    title: str
    text: str
    on: str
    off: str
    options_on: dict[str, Any]
    options_off: dict[str, Any]
    chains: tuple[int | None, ...] = (None, SEPARATELY)

    def __call__(self, settings: Settings) -> list[Section]:
        return [self.section(settings, n) for n in SIZES]

    def section(self, settings: Settings, n: int) -> Section:
        pairs = {name(n_chains): case_of(settings, n, n_chains) for n_chains in self.chains}
        with Worker(OURS) as worker:
            arms = {
                f"{label}, {state}": worker.arm(f"{label}, {state}", case, **REPLACEMENT, **options)
                for label, case in pairs.items()
                for state, options in ((self.on, self.options_on), (self.off, self.options_off))
            }
            measured = interleave(arms, settings.repetitions)
        checks = [
            compare(
                f"{self.on} / {self.off}, {label}",
                measured[f"{label}, {self.on}"],
                measured[f"{label}, {self.off}"],
            )
            for label in pairs
        ]
        return Section(f"{self.title}, n = {n}", self.text, UNIT, measured, checks)


def name(n_chains: int | None) -> str:
    return "one chain" if n_chains is None else f"{n_chains} chains"


def case_of(settings: Settings, n: int, n_chains: int | None) -> Case:
    """The logistic model of speed.py, with the same number of updates for any number of chains."""
    case = LOGISTIC[n]
    return settings.case(replace(case, iterations=LENGTH * case.iterations // (n_chains or 1), n_chains=n_chains))


def peers(settings: Settings) -> list[Section]:
    return [against_peers(settings, n) for n in SIZES]


def against_peers(settings: Settings, n: int) -> Section:
    singles = f"{SEPARATELY} runs of one chain"
    cases = {name(n_chains): (case_of(settings, n, n_chains), {}) for n_chains in CHAINS}
    cases[singles] = (case_of(settings, n, SEPARATELY), {"separately": True})
    with ExitStack() as stack:
        workers = {package: stack.enter_context(Worker(package)) for package in PACKAGES}
        arms = {
            f"{package}, {label}": worker.arm(label, case, **options, **(REPLACEMENT if package == OURS else {}))
            for label, (case, options) in cases.items()
            for package, worker in workers.items()
        }
        measured = interleave(arms, settings.repetitions)

    together = name(SEPARATELY)
    checks = [
        compare(
            f"{OURS} / {peer}, {label}",
            measured[f"{OURS}, {label}"],
            measured[f"{peer}, {label}"],
        )
        for label in cases
        for peer in (SGMCMCJAX, BLACKJAX)
    ]
    checks += [
        compare(
            f"{package}: {together} / {singles}", measured[f"{package}, {together}"], measured[f"{package}, {singles}"]
        )
        for package in PACKAGES
    ]
    checks += [
        compare(
            f"{OURS}, {together} / {peer}, {singles}", measured[f"{OURS}, {together}"], measured[f"{peer}, {singles}"]
        )
        for peer in (SGMCMCJAX, BLACKJAX)
    ]
    lengths = ", ".join(f"{case.iterations:,} iterations of {label}" for label, (case, _) in cases.items())
    text = f"Logistic regression, N = {LOGISTIC[n].n_data:,}, n = {n}; per repetition {lengths}."
    return Section(f"Many chains, n = {n}", text, UNIT, measured, checks)


CASES: Cases = {
    "peers": peers,
    "shared": Switch(
        title="One shared minibatch",
        text="sgld, with one minibatch per iteration for all chains, or one for each chain.",
        on="shared",
        off="own minibatches",
        options_on={"sharedMinibatch": True},
        options_off={},
        chains=CHAINS,
    ),
    "progress": Switch(
        title="Progress",
        text="sgld, verbose = True: the progress bar, with an estimate of the log posterior.",
        on="bar",
        off="no bar",
        options_on={"bar": True},
        options_off={},
    ),
    "storage": Switch(
        title="Storage of draws",
        text="sgld, with draws on disk (the time includes opening, filling and closing the store) or in memory.",
        on="zarr",
        off="memory",
        options_on={"store": True},
        options_off={},
    ),
    "estimates": Switch(
        title="Log posterior estimates",
        text="sgld with its estimates of the log posterior, as usual, or without them.",
        on="estimates",
        off="none",
        options_on={},
        options_off={"estimates": False},
    ),
}


def main() -> None:
    arguments = parse(common_parser(__doc__.splitlines()[0], CASES, "RESULTS_CHAINS.md"), CASES)
    publish("Many chains", arguments, CASES, PACKAGES if "peers" in arguments.cases else (OURS,))


if __name__ == "__main__":
    main()

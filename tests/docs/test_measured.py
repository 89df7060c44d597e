"""Every measured number on the first pages stands in a stored result, with the script that made it and its date."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
README, INDEX, COMPARISON = "README.md", "docs/index.md", "docs/comparison.md"
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
NUMBER = re.compile(r"(?<![\w.])\d[\d,.]*\d%?|(?<![\w.])\d%?")


class Claim(NamedTuple):
    """A sentence with a gap for each measured number, and the numbers as the stored result has them."""

    pages: tuple[str, ...]
    sentence: str
    stored: str
    script: str
    numbers: Callable[[str], list[str]]

    @property
    def text(self) -> str:
        """The sentence as it should be on the pages."""
        return self.sentence.format(*self.numbers(read(self.stored)))


def read(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def prose(page: str) -> str:
    """The text of a page without code blocks, tables and addresses, on one line."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.DOTALL | re.MULTILINE)
    text = "\n".join(line for line in text.splitlines() if not re.match(r"\||\[\w+\]: ", line))
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"\s+", " ", text))


def printed(stored: str) -> str:
    """What a vignette printed."""
    return "\n".join(cell["printed"] for cell in json.loads(stored)["cells"])


def speeds(stored: str) -> tuple[list[float], list[float]]:
    """Effective draws, seconds and draws per second of sgldcv and of NUTS, as the first vignette printed them."""
    ours, nuts = (
        [float(x) for x in re.search(rf"^{name}.*?((?:\s+[\d.]+){{3}})$", printed(stored), re.MULTILINE)[1].split()]
        for name in ("sgldcv", "NUTS")
    )
    return ours, nuts


def seconds(stored: str) -> list[str]:
    return [f"{speeds(stored)[0][1]:.0f}"]


def draws(stored: str) -> list[str]:
    return [f"{speeds(stored)[0][0]:,.0f}"]


def times_nuts(stored: str) -> list[str]:
    """Rounded down to tens."""
    ours, nuts = speeds(stored)
    return [f"{ours[2] / nuts[2] // 10 * 10:.0f}"]


def worst_ratio(stored: str) -> list[str]:
    """The largest error of a standard deviation, in whole percent, rounded up."""
    ratios = [
        float(x) for x in re.findall(r"^beta\[\d+\](?:\s+-?[\d.]+){5}\s+([\d.]+)$", printed(stored), re.MULTILINE)
    ]
    assert len(ratios) == 20
    return [f"{np.ceil(100 * np.abs(np.array(ratios) - 1).max()):.0f}"]


def covered(stored: str) -> list[str]:
    return list(re.search(r"inside: (\d+) of (\d+)", printed(stored)).groups())


def covertype(row: str, *columns: str) -> Callable[[str], list[str]]:
    """Of a row of accuracy.json."""
    formats = {"seconds": "{:.0f}", "r_hat": "{:.3f}", "expected": "{:.0%}"}
    return lambda stored: [formats[name].format(json.loads(stored)["covertype"]["rows"][row][name]) for name in columns]


def of_effective_draws(clock: str, row: str, other: str) -> Callable[[str], list[str]]:
    """Effective draws for each second, relative to another row of accuracy.json."""

    def numbers(stored: str) -> list[str]:
        rows = json.loads(stored)["covertype"]["rows"]
        ours, theirs = (rows[name]["ess"] / rows[name][clock] for name in (row, other))
        return [f"{ours / theirs:.1f}"]

    return numbers


def ratios(label: str, places: slice = slice(None), digits: int = 1) -> Callable[[str], list[str]]:
    """The smallest and the largest of the ratios with this label."""

    def numbers(stored: str) -> list[str]:
        found = [float(x) for x in re.findall(rf"^\| {re.escape(label)} \| ([\d.]+) \|", stored, re.MULTILINE)][places]
        return [f"{x:.{digits}f}" for x in ((min(found), max(found)) if len(found) > 1 else found)]

    return numbers


def worst_of_ten(stored: str) -> list[str]:
    """The smallest and the largest of the errors of the worst element, in whole percent."""
    found = [float(x) for x in re.findall(r"\| \+([\d.]+)% ± ", stored)]
    assert len(found) == 10
    return [f"{min(found):.0f}", f"{max(found):.0f}"]


def expected_of_ten(stored: str) -> list[str]:
    """The error expected before the runs, in whole percent, if it is the same for all."""
    found = {f"{float(x):.0f}" for x in re.findall(r"\| \+([\d.]+)% \| \+", stored)}
    assert len(found) == 1
    return list(found)


def on_disk(stored: str) -> list[str]:
    """Of the logistic regression on the largest file: gigabytes, seconds in all, and megabytes."""
    rows = re.findall(r"^\| \| 10\^8 \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| (\d+) \|", stored, re.MULTILINE)
    size, before, chains, memory = map(float, rows[0])
    return [f"{size:.0f}", f"{before + chains:.0f}", f"{memory:.0f}"]


VIGNETTE = ("vignettes/outputs/gettingStarted.json", "docs/vignetteOutputs.py gettingStarted")
ACCURACY = ("benchmarks/accuracy.json", "benchmarks/accuracy.py")
AUTOMATIC = ("benchmarks/AUTOMATIC.md", "benchmarks/automatic.py")
SPEED, ONE_CORE = ((f"benchmarks/{name}.md", "benchmarks/speed.py") for name in ("RESULTS", "RESULTS_ONE_CORE"))
NUTS = "NUTS, given mode and curvature"  # a row of ACCURACY
LOGISTIC = slice(3)  # the first three of the ratios are of logistic regressions

CLAIMS = [
    Claim((README,), "No standard deviation is more than {}% off the exact one,", *VIGNETTE, worst_ratio),
    Claim((README,), "{} of {} intervals contain the true coefficient.", *VIGNETTE, covered),
    Claim((README,), "`sgldcv` takes {} seconds, compilation included.", *VIGNETTE, seconds),
    Claim((README,), "Its {} effective draws are", *VIGNETTE, draws),
    Claim((README, INDEX), "more than {} times as many per second as NUTS makes with all rows.", *VIGNETTE, times_nuts),
    Claim((INDEX,), "**A million rows in {} seconds.**", *VIGNETTE, seconds),
    Claim((INDEX,), "four chains with {} effective draws together", *VIGNETTE, draws),
    Claim(
        (INDEX,),
        "the worst standard deviation was {}% to {}% too large.",
        *AUTOMATIC,
        worst_of_ten,
    ),
    Claim(
        (INDEX,),
        "the package expected about {}%.",
        *AUTOMATIC,
        expected_of_ten,
    ),
    Claim((INDEX,), "standard deviations {} too large here", *ACCURACY, covertype("sghmccv", "expected")),
    Claim(
        (INDEX,),
        "takes `sgldcv` {} seconds, with an R-hat of {}.",
        *ACCURACY,
        covertype("sgldcv", "seconds", "r_hat"),
    ),
    Claim(
        (INDEX,),
        "It makes {} times as many effective draws per second,",
        *ACCURACY,
        of_effective_draws("seconds", "sgldcv", NUTS),
    ),
    Claim(
        (INDEX,),
        "and {} times as many per second of processor time,",
        *ACCURACY,
        of_effective_draws("work", "sgldcv", NUTS),
    ),
    Claim(
        (INDEX,),
        "preferential subsampling makes {} times as many effective draws per second",
        *ACCURACY,
        of_effective_draws("seconds", "sgldcv, preferential", "sgldcv"),
    ),
    Claim((INDEX,), "it takes {} times as long on two cores,", *SPEED, ratios("N = 10,000,000 / N = 10,000")),
    Claim((INDEX,), "and {} times as long on one.", *ONE_CORE, ratios("N = 10,000,000 / N = 10,000")),
    Claim((INDEX,), "takes {} to {} times as long as in blackjax", *SPEED, ratios("sgmcmc / blackjax", LOGISTIC, 2)),
    Claim((INDEX,), "{} to {} times as long as in SGMCMCJax", *SPEED, ratios("sgmcmc / SGMCMCJax", LOGISTIC, 2)),
    Claim((INDEX,), "on one core {} to {} times.", *ONE_CORE, ratios("sgmcmc / SGMCMCJax", LOGISTIC, 1)),
    Claim(
        (INDEX,),
        "From a file of {} GB, four chains of 10,000 iterations take {} seconds in all, and {} MB of memory",
        "docs/guide/dataOnDisk.md",
        "benchmarks/data_on_disk.py",
        on_disk,
    ),
]

# Numbers that are not measured: settings, sizes of data and models, versions, and exact values.
GIVEN = {
    README: {"2", "10,000", "1%", "100", "5%", "500", "1,000", "20", "3.11", "3.13", "2.0"},
    INDEX: {"2", "2.0", "5", "500", "10", "10,000", "1%", "100", "5%", "20", "55", "397,125", "1.01"},
    COMPARISON: set(),
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.sentence[:40])
def test_measured_numbers_stand_in_a_stored_result(claim):
    for page in claim.pages:
        assert claim.text in prose(page)


def test_the_table_on_covertype_stands_in_the_stored_result():
    rows, page = json.loads(read(ACCURACY[0]))["covertype"]["rows"], read(INDEX)
    names = {
        "`sgldcv`": "sgldcv",
        "`sgldcv` with `preferential()`": "sgldcv, preferential",
        "`sghmccv`": "sghmccv",
        "`sgnhtcv`": "sgnhtcv",
        "NUTS of blackjax, given mode and curvature": NUTS,
    }
    for name, label in names.items():
        row = rows[label]
        cells = (
            f"{row['mean']:.2f} ± {row['mean_error']:.2f}",
            f"{row['sd']:+.1%} ± {row['sd_error']:.1%}",
            f"{row['r_hat']:.3f}",
            f"{row['ess']:,.0f}",
            f"{row['seconds']:.0f}",
        )
        assert f"| {name} | {' | '.join(cells)} |" in page


@pytest.mark.parametrize(("stored", "script"), sorted({(claim.stored, claim.script) for claim in CLAIMS}))
def test_stored_results_have_a_script_and_a_date(stored, script):
    assert DATE.search(read(stored))
    assert script.split("/")[-1] in read(stored) + read("benchmarks/README.md")
    assert (ROOT / script.split()[0]).exists()


@pytest.mark.parametrize("page", GIVEN)
def test_no_other_number_is_measured(page):
    text = prose(page)
    for claim in CLAIMS:
        text = text.replace(claim.text, "")
    found = set(NUMBER.findall(text))
    assert {number for number in found if not re.fullmatch(r"(19|20)\d\d", number)} <= GIVEN[page]

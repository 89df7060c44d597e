"""Everything automatic on fourteen posteriors of posteriordb, against its reference draws and NUTS.

    python benchmarks/posteriordb.py --database FOLDER             # half an hour
    python benchmarks/posteriordb.py --database FOLDER --only earnings-earn_height --samplers "sgldcv;NUTS"
    python benchmarks/posteriordb.py                               # remake only the page and the picture

FOLDER is a clone of https://github.com/stan-dev/posteriordb, or what `posteriordb_problems.py` says. The results are
stored in posteriordb.json, from which POSTERIORDB.md and figures/posteriordb.png are made.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from harness import NUMPYRO, machine, read, run_worker, timed, write
from posteriordb_problems import POSTERIORS, Data, Moments, Posterior, by_element, load
from posteriordb_report import KEPT, report

import sgmcmc
from sgmcmc.draws.convergence import diagnostics

SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgldcv": ("sgldcv", {}),
    "sghmccv": ("sghmccv", {}),
    "baoab, cv": ("baoab", {"gradient": sgmcmc.controlVariates()}),
    "sgnht": ("sgnht", {}),
}
NUTS = "NUTS"
ESS, SECONDS = 1000, 300


def against(truth: Moments, elements: Data) -> dict[str, Any]:
    """Errors of the draws [C, T] of all elements, in standard deviations of the reference, and effective draws."""
    x = np.stack([elements[name].astype(float) for name in truth.mean])
    mean, sd = (np.array(list(moments.values())) for moments in (truth.mean, truth.sd))
    told = diagnostics(x)
    return {
        "shift": ((x.mean(axis=(1, 2)) - mean) / sd).round(4).tolist(),
        "shift_error": (told["mcse_mean"] / sd).round(4).tolist(),
        "ratio": (x.std(axis=(1, 2), ddof=1) / sd).round(4).tolist(),
        "ratio_error": np.hypot(told["mcse_sd"] / sd, (2 * truth.draws) ** -0.5).round(4).tolist(),
        "ess": round(float(min(told["ess_bulk"].min(), told["ess_tail"].min()))),
        "r_hat": round(float(told["r_hat"].max()), 4),
    }


def rounded(times: dict[str, float]) -> dict[str, float]:
    return {clock: round(taken, 2) for clock, taken in times.items()}


def ours(label: str, posterior: Posterior, truth: Moments) -> dict[str, Any]:
    """A run of sgmcmc with everything automatic."""
    name, options = SAMPLERS[label]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with timed() as spent:
                out = getattr(sgmcmc, name)(
                    posterior.log_lik,
                    posterior.dataset,
                    posterior.params,
                    logPrior=posterior.log_prior,
                    transforms=posterior.transforms,
                    integers=posterior.integers,
                    minibatchSize="auto",
                    nIters="auto",
                    ess=ESS,
                    maxSeconds=SECONDS,
                    seed=1,
                    verbose=False,
                    **options,
                )
        except (ValueError, sgmcmc.DivergenceError, sgmcmc.ModeSearchError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}
        check = out.check(verbose=False)
    draws = {parameter: np.asarray(out[parameter]) for parameter in posterior.params}
    return against(truth, by_element(posterior, draws)) | {
        **rounded(spent),
        "n": out.settings["minibatchSize"],
        "iterations": out.settings["nIters"],
        "expected": round(float(out.settings["expected"]["error"]), 4),
        "verdict": check.verdict,
        "note": check.note,
        "warnings": [str(one.message) for one in caught if issubclass(one.category, UserWarning)],
    }


def nuts(name: str, posterior: Posterior, truth: Moments) -> dict[str, Any]:
    """A run of NumPyro's NUTS in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **posterior.dataset)
        settings = {"posterior": name, "ess": ESS, "seconds": SECONDS}
        try:
            told = run_worker(NUMPYRO, "posteriordb_nuts.py", given, found, json.dumps(settings))
        except RuntimeError as error:
            return {"failed": str(error).splitlines()[-1]}
        draws = {parameter: x for parameter, x in np.load(found).items() if parameter in posterior.params}
    row = against(truth, by_element(posterior, draws))
    return row | rounded({clock: told[clock] for clock in ("seconds", "work")}) | {"divergences": told["divergences"]}


def measure(folder: Path, name: str, samplers: list[str]) -> None:
    """Run the samplers on a posterior, and store the results."""
    posterior, truth = load(folder, name)
    for label in samplers:
        row = nuts(name, posterior, truth) if label == NUTS else ours(label, posterior, truth)
        row |= {"date": str(datetime.date.today()), "machine": machine()}
        kept = read(KEPT)
        found = kept.setdefault(name, {"rows": {}})
        found |= {"N": posterior.size, "elements": list(truth.mean), "draws": truth.draws}
        found["rows"][label] = row
        print(name, label, json.dumps(row), flush=True)
        write(KEPT, {one: kept[one] for one in POSTERIORS if one in kept})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", type=Path)
    parser.add_argument("--only", default=",".join(POSTERIORS), help="posteriors, separated by commas")
    parser.add_argument("--samplers", default=";".join([*SAMPLERS, NUTS]), help="separated by semicolons")
    arguments = parser.parse_args()
    if arguments.database:
        for name in arguments.only.split(","):
            measure(arguments.database, name, arguments.samplers.split(";"))
    report(read(KEPT))


if __name__ == "__main__":
    main()

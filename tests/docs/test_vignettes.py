"""Every vignette runs from start to end, draws its figure, and finds what it should."""

import importlib.util
import json
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
VIGNETTES = sorted((ROOT / "vignettes").glob("*.py"))


@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_its_cells(vignette):
    """Otherwise, run `python docs/vignetteOutputs.py NAME`."""
    stored = ROOT / "vignettes" / "outputs" / f"{vignette.stem}.json"
    spec = importlib.util.spec_from_file_location("vignetteOutputs", ROOT / "docs" / "vignetteOutputs.py")
    outputs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(outputs)
    cells = json.loads(stored.read_text(encoding="utf-8"))["cells"]
    assert [outputs.meaning(cell["code"]) for cell in cells] == [
        outputs.meaning(code) for code, _ in outputs.cells_of(vignette)
    ]
    assert sum(cell["figure"] for cell in cells) == 1


def getting_started(found):
    compared, settings = found["compared"], found["out"].settings
    assert compared["off by (sd)"].abs().max() < 0.25
    assert (compared["ratio"] - 1).abs().max() < 0.15
    assert settings["expected"]["error"] < 0.05 and found["summary"]["r_hat"].max() < 1.02
    assert found["covered"].sum() >= 16  # of 20; fewer have probability 3e-3
    assert found["worth"] > 0.9 * len(found["z"])
    spread = found["of_nuts"].std(axis=(0, 1)) / found["exact_sd"]
    assert abs(np.sqrt((spread**2).mean()) - 1) < 0.25  # 40 draws of each of 20 coefficients


def intervals(found):
    assert abs(found["losses"].iloc[0] - found["losses"].iloc[1]) < 0.02  # sgldcv, scikit-learn; chance has 0.66
    assert 0.6 < found["ratio"].median() < 1.3  # of the sd to that of the Laplace approximation


def mv_gauss(found):
    exact, sgld, sgldcv = (found["table"].loc[name].to_numpy() for name in ("exact", "sgld", "sgldcv"))
    assert np.abs(sgldcv[:2] - exact[:2]).max() < 0.003  # the posterior sd is 0.01
    assert np.abs(sgldcv[2:] - 1).max() < 0.25
    assert sgld[2] > 1.5  # too wide, as the formula says


def gauss_mixture(found):
    table = found["table"]
    assert np.abs(found["exact_mean"].mean(axis=(0, 1)) - found["x"].mean(axis=0)).max() < 0.005  # the prior is weak
    assert abs((found["exact_difference"].sum(axis=-1) > 0).mean() - 0.5) < 0.15  # by symmetry
    assert (table.loc[["sgld", "sgldcv"], "sd of mean"] - 1).abs().max() < 0.3
    assert table.loc["sgnht, a = 0.01", "sd of difference"] < 0.5  # too cold, as the text says


def logistic_regression(found):
    table, best = found["table"], found["best"]
    assert best < 0.55 and (table["mean"] - best).abs().max() < 0.01
    assert table.loc["sgldcv", "mean"] < table.loc["sgld", "mean"]


def nn(found):
    assert found["averaged"] < np.mean(found["single"]) < 1.0
    assert found["wrong"] < 0.1
    assert found["comparison"]["log loss"].max() < 1.0  # chance has log 10


def porting_from_r(found):
    assert (
        abs(found["draws"].std() / found["here"] - 1) < 0.1
    )  # the distribution of this package, not that of R's refresh
    assert abs(found["in_r"] / found["here"] - 1) > 0.1


def tuning(found):
    table = found["temperature"]
    assert table["sghmc"].iloc[-1] > 3 > 1.3 > table["sghmccv"].iloc[-1]
    assert found["sd_of"](found["half"]) < found["sd_of"](found["with_cv"][10])


def huge_chains(found):
    np.testing.assert_allclose(found["collected"]["loss"], found["by_hand"]["losses"], rtol=1e-4)
    assert found["predictive"] < found["collected"]["loss"].mean()
    np.testing.assert_array_equal(found["both"]["weights"].values, found["everything"]["weights"])


def variance_reduction(found):
    noise, iterations = found["noise"], found["found"]["iterations per draw"]
    both = "control variates, preferential"
    assert (noise["the least possible"] < noise[both]).all()
    assert noise[both].iloc[0] < 0.2 * noise["control variates"].iloc[0] < 1e-3 * noise["plain"].iloc[0]
    assert noise["without a floor"].iloc[-1] > 2 * noise[both].iloc[-1]
    assert iterations[both] < 0.5 * iterations["control variates"] < 0.1 * iterations["plain"]
    assert found["measured"]["SVRG"].iloc[-1] < 0.2 * found["measured"]["control variates"].iloc[-1]
    assert found["sizes"][0] > 10 * found["average"]  # far from the mode, and near it
    assert (found["zv"].varianceFactor["beta"] < 0.5).all()


def dynamics(found):
    noisy, cycles = found["noisy"], found["cycles"]["share of the higher mode"]
    assert noisy["variance of mu"]["sgnht"] > 1.3 and noisy["of gamma"]["sgnht"] < 0.7
    assert (noisy.loc["ccadl", ["variance of mu", "of gamma"]] - 1).abs().max() < 0.2
    thermostats = found["thermostats"].iloc[-1]
    assert thermostats["sgnht"] < 0.85 < 0.9 < thermostats["badodab"] < 1.1
    assert found["exact_steps"]["sgld"].iloc[-1] > 3 and (found["exact_steps"]["baoab"] - 1).abs().max() < 0.2
    assert found["noisy_steps"]["baoab, alpha = 0.3"].iloc[-1] > 2 * found["noisy_steps"]["sgld"].iloc[-1]
    assert found["preconditioned"]["psgld"].iloc[0] > 1.1
    assert cycles["constant, small"] > 0.9 > 0.8 > cycles["cyclical"] > 0.4


def topics(found):
    assert found["cosine"].mean() > 0.9
    assert found["by_number"].idxmin() == 10 and found["by_number"][10] < 13  # of 25 words
    assert found["along"]["scir"].iloc[-1] < found["along"]["sgrld"].iloc[-1]


def dirichlet_process(found):
    assert found["rand"] > 0.9
    assert found["together"] > 0.8 > 0.1 > found["apart"]
    assert abs(found["table"].loc["gibbs", "log predictive"] - found["best"]) < 0.2
    assert found["table"].loc["gibbs", "components"] < 12


def simplex(found):
    table = found["table"]
    assert table.loc["exact draws", ["observed", "not observed"]].max() < 0.06
    assert table.loc["scir, h = 0.1", "not observed"] < 0.1
    assert table.loc[["sgrld, h = 1e-5", "sgrld, h = 1e-3"], "not observed"].min() > 0.3
    assert abs(found["draws"].mean() - found["exact_mean"]) < 3 * found["exact_sd"]  # it begins at 18
    assert 0.4 < found["draws"].std() / found["exact_sd"] < 2
    compared = found["compared"]
    error = (compared["mean"] - compared["exact mean"]).abs()
    assert (error < compared["exact sd"]).all()
    assert (compared["sd"] / compared["exact sd"] - 1).iloc[:2].abs().max() < 0.3


def scales(found):
    compared, share = found["compared"], found["everything"]["share"]
    assert ((compared["mean"] - compared["exact mean"]).abs() < 0.2 * compared["exact sd"]).all()
    assert (compared["sd"] / compared["exact sd"] - 1).abs().max() < 0.15
    assert abs(share.mean() - found["exact_share"].mean()) < 0.2 * found["exact_share"].std()
    assert abs(share.std() / found["exact_share"].std() - 1) < 0.15
    assert found["wrong"] < 0.12 and found["loss"] < 0.25  # chance has 0.66


def keras_network(found):
    scores = found["scores"]["log_loss"]
    assert scores["posterior, four chains of ubu"] < 0.13  # chance has 0.66
    assert scores["one network, 100 epochs"] > scores["ensemble of five, 100 epochs"]
    assert 5e-6 < found["stepsize"] < 5e-4


def robust_steps(found):
    control_variates = found["automatic"].loc["control variates"]
    assert (control_variates[["sd of a", "sd of b"]] - 1).abs().max(axis=None) < 0.12
    ten_times = found["table"].xs(10, level=2)
    assert not (ten_times.loc[("control variates", "sgld"), "sd of b"] < 2)  # it may diverge, but later
    assert 1.3 < ten_times.loc[("control variates", "barker"), "sd of b"] < 1.9
    assert abs(found["arrived"]["barker"]["b"][-1] - 0.3) < 0.05 and found["arrived"]["sgld"]["b"][-1] < -5


def volatility(found):
    compared = found["compared"]
    assert compared["off by (sd)"].abs().max() < 0.3
    assert (compared["sd"] / compared["exact sd"] - 1).abs().max() < 0.2
    assert found["counts"].sum() == len(found["returns"]) and 4 <= found["below"].sum() <= 14  # of 502 days


CHECKS = {
    "gettingStarted": getting_started,
    "intervals": intervals,
    "mvGauss": mv_gauss,
    "gaussMixture": gauss_mixture,
    "logisticRegression": logistic_regression,
    "kerasNetwork": keras_network,
    "nn": nn,
    "portingFromR": porting_from_r,
    "tuning": tuning,
    "hugeChains": huge_chains,
    "varianceReduction": variance_reduction,
    "dynamics": dynamics,
    "topics": topics,
    "dirichletProcess": dirichlet_process,
    "simplex": simplex,
    "robustSteps": robust_steps,
    "scales": scales,
    "volatility": volatility,
}


@pytest.mark.parametrize("vignette", VIGNETTES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:the (kinetic temperature|variance) of:UserWarning")  # of too large a stepsize
def test_vignette(vignette, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SGMCMC_VIGNETTES", "short")
    with plt.rc_context():
        found = runpy.run_path(str(vignette), run_name="__main__")
        plt.close("all")
    (drawn,) = tmp_path.glob("*.png")
    assert drawn.stem == vignette.stem
    figure = drawn.read_bytes()
    assert figure.startswith(b"\x89PNG") and len(figure) > 10_000
    CHECKS[vignette.stem](found)

"""Fourteen posteriors of posteriordb, each as a user of sgmcmc would write it, and their reference draws.

The database is read from a clone of https://github.com/stan-dev/posteriordb, or from a folder that has `NAME.json` with
the reference moments of a posterior and `DATA.npz` with its data, under the names that Stan's model gives them.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Data = dict[str, np.ndarray]


class Moments(NamedTuple):
    """Of the reference draws, for each element by Stan's name."""

    mean: dict[str, float]
    sd: dict[str, float]
    draws: int


@dataclass(frozen=True)
class Posterior:
    """The arguments of a sampler, and how its draws are named in Stan's model."""

    log_lik: Callable
    dataset: Data
    params: dict[str, Any]
    log_prior: Callable | None = None
    transforms: dict[str, Any] = field(default_factory=lambda: {"sigma": "positive"})
    integers: Sequence[str] = ()
    in_stan: Mapping[str, str] = field(default_factory=dict)  # where it is another
    derived: Callable[[Data], Data] | None = None  # parameters that Stan's model derives from others

    @property
    def size(self) -> int:
        """The number of observations."""
        return len(next(iter(self.dataset.values())))


def regression(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.linalg.matvec(dataset["X"], params["beta"])
    return -0.5 * ((dataset["y"] - mean) / params["sigma"]) ** 2 - tf.math.log(params["sigma"])


def with_intercept(params: dict, dataset: dict) -> tf.Tensor:
    mean = params["alpha"] + tf.linalg.matvec(dataset["X"], params["beta"])
    return -0.5 * ((dataset["y"] - mean) / params["sigma"]) ** 2 - tf.math.log(params["sigma"])


def line(params: dict, dataset: dict) -> tf.Tensor:
    mean = params["alpha"] + params["beta"] * dataset["x"]
    return -0.5 * ((dataset["y"] - mean) / params["sigma"]) ** 2 - tf.math.log(params["sigma"])


def log_t(x: tf.Tensor, df: float, scale: float) -> tf.Tensor:
    return -0.5 * (df + 1) * tf.math.log1p((x / scale) ** 2 / df)


def half_cauchy_sigma(params: dict) -> tf.Tensor:
    return log_t(params["sigma"], 1.0, 2.5)


def on(*columns: Any, y: np.ndarray, log_prior: Callable | None = None) -> Posterior:
    """A regression of y on 1 and these columns, from coefficients of zero and a standard deviation of one."""
    X = np.column_stack([np.ones(len(y)), *columns]).astype(float)
    start = {"beta": np.zeros(X.shape[1]), "sigma": 1.0}
    return Posterior(regression, {"X": X, "y": y.astype(float)}, start, log_prior)


def earn_height(d: Data) -> Posterior:
    return on(d["height"], y=d["earn"])


def logearn_interaction(d: Data) -> Posterior:
    return on(d["height"], d["male"], d["height"] * d["male"], y=np.log(d["earn"]))


def kidscore_momhs(d: Data) -> Posterior:
    return on(d["mom_hs"], y=d["kid_score"], log_prior=half_cauchy_sigma)


def kidscore_interaction(d: Data) -> Posterior:
    return on(d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"], y=d["kid_score"], log_prior=half_cauchy_sigma)


def kidscore_mom_work(d: Data) -> Posterior:
    return on(*(d["mom_work"] == level for level in (2, 3, 4)), y=d["kid_score"])


def mesquite(d: Data) -> Posterior:
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    return on(*(d[name] for name in names), y=d["weight"])


def nes(d: Data) -> Posterior:
    ages = [d["age_discrete"] == level for level in (2, 3, 4)]
    return on(d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"], y=d["partyid7"])


def blr(d: Data) -> Posterior:
    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * (tf.reduce_sum(params["beta"] ** 2) + params["sigma"] ** 2) / 10.0**2

    start = {"beta": np.zeros(d["X"].shape[1]), "sigma": 1.0}
    return Posterior(regression, {"X": d["X"], "y": d["y"]}, start, log_prior)


def kilpisjarvi(d: Data) -> Posterior:
    centre, sd = ({name: float(d[f"{which}{name}"]) for name in ("alpha", "beta")} for which in ("pmu", "ps"))

    def log_prior(params: dict) -> tf.Tensor:
        return tf.add_n([-0.5 * ((params[name] - centre[name]) / sd[name]) ** 2 for name in ("alpha", "beta")])

    return Posterior(
        line, {"x": d["x"].astype(float), "y": d["y"]}, {"alpha": 0.0, "beta": 0.0, "sigma": 1.0}, log_prior
    )


def diamonds(d: Data) -> Posterior:
    centred = d["X"][:, 1:] - d["X"][:, 1:].mean(axis=0)

    def log_prior(params: dict) -> tf.Tensor:
        of_beta = -0.5 * tf.reduce_sum(params["beta"] ** 2)
        return of_beta + log_t(params["alpha"] - 8.0, 3.0, 10.0) + log_t(params["sigma"], 3.0, 10.0)

    start = {"alpha": 0.0, "beta": np.zeros(centred.shape[1]), "sigma": 1.0}
    names = {"alpha": "Intercept", "beta": "b"}
    return Posterior(with_intercept, {"X": centred, "y": d["Y"]}, start, log_prior, in_stan=names)


def ark(d: Data) -> Posterior:
    y, lags = d["y"], int(d["K"])
    X = np.column_stack([y[lags - k : len(y) - k] for k in range(1, lags + 1)])

    def log_prior(params: dict) -> tf.Tensor:
        of_mean = -0.5 * (params["alpha"] ** 2 + tf.reduce_sum(params["beta"] ** 2)) / 10.0**2
        return of_mean + half_cauchy_sigma(params)

    start = {"alpha": 0.0, "beta": np.zeros(lags), "sigma": 1.0}
    return Posterior(with_intercept, {"X": X, "y": y[lags:]}, start, log_prior)


def eight_schools(d: Data) -> Posterior:
    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        effect = params["mu"] + params["tau"] * tf.gather(params["theta_trans"], dataset["school"])
        return -0.5 * ((dataset["y"] - effect) / dataset["sigma"]) ** 2

    def log_prior(params: dict) -> tf.Tensor:
        of_theta = -0.5 * tf.reduce_sum(params["theta_trans"] ** 2)
        return of_theta - 0.5 * (params["mu"] / 5.0) ** 2 + log_t(params["tau"], 1.0, 5.0)

    def derived(draws: Data) -> Data:
        theta = draws["mu"][..., None] + draws["tau"][..., None] * draws["theta_trans"]
        return {"theta": theta, "mu": draws["mu"], "tau": draws["tau"]}

    data = {"y": d["y"].astype(float), "sigma": d["sigma"].astype(float), "school": np.arange(len(d["y"]))}
    start = {"theta_trans": np.zeros(len(d["y"])), "mu": 0.0, "tau": 1.0}
    return Posterior(log_lik, data, start, log_prior, {"tau": "positive"}, ["school"], derived=derived)


def low_dim_gauss_mix(d: Data) -> Posterior:
    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        z = (dataset["y"][:, None] - params["mu"]) / params["sigma"]
        weights = tf.stack([tf.math.log(params["theta"]), tf.math.log1p(-params["theta"])])
        return tf.reduce_logsumexp(weights - 0.5 * z**2 - tf.math.log(params["sigma"]), axis=1)

    def log_prior(params: dict) -> tf.Tensor:
        of_both = -0.5 * (tf.reduce_sum(params["mu"] ** 2) + tf.reduce_sum(params["sigma"] ** 2)) / 2.0**2
        return of_both + 4.0 * (tf.math.log(params["theta"]) + tf.math.log1p(-params["theta"]))

    start = {"mu": np.array([-1.0, 1.0]), "sigma": np.ones(2), "theta": 0.5}
    transforms = {"mu": "ordered", "sigma": "positive", "theta": "unit"}
    return Posterior(log_lik, {"y": d["y"]}, start, log_prior, transforms)


POSTERIORS: dict[str, Callable[[Data], Posterior]] = {
    "earnings-earn_height": earn_height,
    "earnings-logearn_interaction": logearn_interaction,
    "kidiq-kidscore_momhs": kidscore_momhs,
    "kidiq-kidscore_interaction": kidscore_interaction,
    "kidiq_with_mom_work-kidscore_mom_work": kidscore_mom_work,
    "mesquite-mesquite": mesquite,
    "nes1972-nes": nes,
    "nes2000-nes": nes,
    "sblrc-blr": blr,
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "diamonds-diamonds": diamonds,
    "arK-arK": ark,
    "low_dim_gauss_mix-low_dim_gauss_mix": low_dim_gauss_mix,
    "eight_schools-eight_schools_noncentered": eight_schools,
}


def load(folder: Path, name: str) -> tuple[Posterior, Moments]:
    """A posterior and the moments of its reference draws."""
    clone = folder / "posterior_database"
    data_name = name.rsplit("-", 1)[0]
    if clone.is_dir():
        data = {key: np.asarray(x) for key, x in unzipped(clone / "data" / "data" / f"{data_name}.json.zip").items()}
        chains = unzipped(clone / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip")
        pooled = {element: np.concatenate([chain[element] for chain in chains]) for element in chains[0]}
        moments = Moments(
            {element: float(x.mean()) for element, x in pooled.items()},
            {element: float(x.std(ddof=1)) for element, x in pooled.items()},
            len(next(iter(pooled.values()))),
        )
    else:
        data = dict(np.load(folder / f"{data_name}.npz"))
        kept = json.loads((folder / f"{name}.json").read_text())
        mean, sd = ({element: row[which] for element, row in kept["reference"].items()} for which in ("mean", "sd"))
        moments = Moments(mean, sd, kept["n_draws"])
    return POSTERIORS[name](data), moments


def unzipped(file: Path) -> Any:
    """The contents of a JSON file in an archive of its own."""
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def by_element(posterior: Posterior, draws: Data) -> Data:
    """Draws [C, T] of each element, by Stan's name."""
    found = {}
    for name, x in (posterior.derived(draws) if posterior.derived else draws).items():
        stan = posterior.in_stan.get(name, name)
        if x.ndim == 2:
            found[stan] = x
        else:
            found |= {f"{stan}[{k + 1}]": x[:, :, k] for k in range(x.shape[2])}
    return found

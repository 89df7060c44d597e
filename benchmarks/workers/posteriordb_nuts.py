"""NUTS of NumPyro on a posterior of posteriordb: four chains until an effective sample size is reached.

    python posteriordb_nuts.py dataset.npz draws.npz '{"posterior": "sblrc-blr", "ess": 1000, "seconds": 300}'

The models are written as users of NumPyro would write them, in double precision as in Stan. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax import numpy as jnp
from numpyro import sample
from numpyro.distributions import constraints
from numpyro.infer import NUTS
from numpyro_nuts import until

Data = dict[str, Array]
HALF_CAUCHY = dist.HalfCauchy(2.5)


def flat(size: int) -> dist.Distribution:
    return dist.ImproperUniform(constraints.real, (size,), ()).to_event(1)


def regression(d: Data, of_beta: dist.Distribution, of_sigma: dist.Distribution) -> None:
    beta, sigma = sample("beta", of_beta), sample("sigma", of_sigma)
    sample("y", dist.Normal(d["X"] @ beta, sigma), obs=d["y"])


def flat_regression(d: Data) -> None:
    regression(d, flat(d["X"].shape[1]), dist.ImproperUniform(constraints.positive, (), ()))


def kidscore(d: Data) -> None:
    regression(d, flat(d["X"].shape[1]), HALF_CAUCHY)


def blr(d: Data) -> None:
    regression(d, dist.Normal(0, 10).expand([d["X"].shape[1]]).to_event(1), dist.HalfNormal(10))


def kilpisjarvi(d: Data) -> None:
    alpha, beta = (
        sample("alpha", dist.Normal(9.31290322580645, 100)),
        sample("beta", dist.Normal(0, 0.0333333333333333)),
    )
    sigma = sample("sigma", dist.ImproperUniform(constraints.positive, (), ()))
    sample("y", dist.Normal(alpha + beta * d["x"], sigma), obs=d["y"])


def diamonds(d: Data) -> None:
    alpha = sample("alpha", dist.StudentT(3, 8, 10))
    beta = sample("beta", dist.Normal(0, 1).expand([d["X"].shape[1]]).to_event(1))
    sigma = sample("sigma", dist.FoldedDistribution(dist.StudentT(3, 0, 10)))
    sample("y", dist.Normal(alpha + d["X"] @ beta, sigma), obs=d["y"])


def ark(d: Data) -> None:
    alpha = sample("alpha", dist.Normal(0, 10))
    beta = sample("beta", dist.Normal(0, 10).expand([d["X"].shape[1]]).to_event(1))
    sample("y", dist.Normal(alpha + d["X"] @ beta, sample("sigma", HALF_CAUCHY)), obs=d["y"])


def eight_schools(d: Data) -> None:
    theta_trans = sample("theta_trans", dist.Normal(0, 1).expand([len(d["y"])]).to_event(1))
    mu, tau = sample("mu", dist.Normal(0, 5)), sample("tau", dist.HalfCauchy(5))
    sample("y", dist.Normal(mu + tau * theta_trans, d["sigma"]), obs=d["y"])


def low_dim_gauss_mix(d: Data) -> None:
    mu = sample("mu", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
    numpyro.factor("of_mu", dist.Normal(0, 2).log_prob(mu).sum())
    sigma = sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = sample("theta", dist.Beta(5, 5))
    parts = dist.Categorical(jnp.stack([theta, 1 - theta]))
    sample("y", dist.MixtureSameFamily(parts, dist.Normal(mu, sigma)), obs=d["y"])


MODELS = {
    "earn_height": flat_regression,
    "logearn_interaction": flat_regression,
    "kidscore_momhs": kidscore,
    "kidscore_interaction": kidscore,
    "kidscore_mom_work": flat_regression,
    "mesquite": flat_regression,
    "nes": flat_regression,
    "blr": blr,
    "kilpisjarvi": kilpisjarvi,
    "diamonds": diamonds,
    "arK": ark,
    "low_dim_gauss_mix": low_dim_gauss_mix,
    "eight_schools_noncentered": eight_schools,
}


def main(path: str, output: str, settings: dict) -> None:
    numpyro.enable_x64()
    data = {name: jnp.asarray(x) for name, x in np.load(path).items()}
    draws, seen = until(NUTS(MODELS[settings["posterior"].rsplit("-", 1)[1]]), settings, data)
    np.savez(output, **draws)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))

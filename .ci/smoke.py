"""Whether an installed package works. Run it outside the checkout: `python -I smoke.py VERSION CHECKOUT`."""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import tensorflow as tf

import sgmcmc

expected, checkout = sys.argv[1:]
package = Path(sgmcmc.__file__).resolve().parent
assert not package.is_relative_to(checkout), f"{package} is the checkout, not what was installed"
assert sgmcmc.__version__ == version("sgmcmc") == expected, f"{sgmcmc.__version__} is not {expected}"
assert (package / "py.typed").is_file(), "py.typed is missing: type checkers would ignore the hints"
assert (Path(sys.prefix) / "share" / "sgmcmc" / "README.md").is_file(), "the licence of the data is missing"
assert [sgmcmc.getDataset(name)["X"].shape[1] for name in ("breastCancer", "digits", "wine")] == [30, 64, 13]

dataset = {"x": np.random.default_rng(1).normal(3.0, 1.0, size=10_000)}


def log_lik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


out = sgmcmc.sgld(log_lik, dataset, {"theta": 3.0}, 1e-5, nIters=100, seed=1, verbose=False)
assert out["theta"].shape == (100,) and np.isfinite(out["theta"]).all()

out = sgmcmc.sgldcv(log_lik, dataset, {"theta": 0.0}, nIters=2000, nChains=4, seed=1, verbose=False)
assert abs(out["theta"].mean() - dataset["x"].mean()) < 0.003, out.summary()
assert abs(out["theta"].std() / 0.01 - 1) < 0.2, out.summary()  # exact: 0.01, to which the stepsize may add 5%
print(f"sgmcmc {expected} works with Python {sys.version.split()[0]} and TensorFlow {tf.__version__}.")

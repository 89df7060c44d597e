"""The comparison of a posterior with two normal distributions at its mode."""

from __future__ import annotations

import numpy as np

from sgmcmc.laplace.normality import pareto_k
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.sandwich import HALF, of_prior, sandwich
from sgmcmc.laplace.whitening import MOST_DENSE, curvature, whitening
from sgmcmc.output.compared import Compared


def compared(posterior: Posterior, mode: np.ndarray, seed: int, verbose: bool) -> Compared:
    """The comparison at this mode, [D]; nothing for so many elements that there are no matrices of them."""
    if posterior.size > MOST_DENSE:
        return Compared()
    white = whitening(curvature(posterior, mode, seed), posterior.model.dtype)
    k = pareto_k(posterior, mode, white, seed, verbose)
    sds = sandwich(posterior, mode, white, seed).sds
    return Compared(k, posterior.arrays(sds), of_prior(posterior, mode, white)[0] < HALF)

"""Functions of draws: variance reduction, combination of parts, scores, and distances from the posterior."""

from sgmcmc.diagnostics.combine import combine
from sgmcmc.diagnostics.full_gradients import fullGradients
from sgmcmc.diagnostics.gaussian import gaussianKL
from sgmcmc.diagnostics.lipschitz import lipschitzLinear, lipschitzLogistic
from sgmcmc.diagnostics.pseudo_variance import pseudoVariance
from sgmcmc.diagnostics.scores import classScores, logLoss
from sgmcmc.diagnostics.stein import ksd
from sgmcmc.diagnostics.zero_variance import ZeroVariance, zvControlVariates

__all__ = [
    "ZeroVariance",
    "classScores",
    "combine",
    "fullGradients",
    "gaussianKL",
    "ksd",
    "lipschitzLinear",
    "lipschitzLogistic",
    "logLoss",
    "pseudoVariance",
    "zvControlVariates",
]

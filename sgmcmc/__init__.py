"""Stochastic gradient MCMC: scalable Bayesian inference from a log likelihood and a log prior in TensorFlow."""

from sgmcmc.core.errors import DivergenceError, ModeSearchError
from sgmcmc.core.schedules import polynomial
from sgmcmc.samplers.sghmc import sghmc, sghmccv, sghmccvSetup, sghmcSetup
from sgmcmc.samplers.sgld import sgld, sgldcv, sgldcvSetup, sgldSetup
from sgmcmc.samplers.sgnht import sgnht, sgnhtcv, sgnhtcvSetup, sgnhtSetup
from sgmcmc.samplers.stepwise import getParams, initSess, sgmcmcStep

__version__ = "0.1.0"

__all__ = [
    "DivergenceError",
    "ModeSearchError",
    "getParams",
    "initSess",
    "polynomial",
    "sghmc",
    "sghmcSetup",
    "sghmccv",
    "sghmccvSetup",
    "sgld",
    "sgldSetup",
    "sgldcv",
    "sgldcvSetup",
    "sgmcmcStep",
    "sgnht",
    "sgnhtSetup",
    "sgnhtcv",
    "sgnhtcvSetup",
]

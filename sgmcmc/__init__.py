"""Stochastic gradient MCMC: scalable Bayesian inference from a log likelihood and a log prior in TensorFlow."""

import os
import sys

if "tensorflow" not in sys.modules:  # whose log would stand between a user and the first result
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from sgmcmc import diagnostics as diagnostics
from sgmcmc import models as models
from sgmcmc.arguments.data import shards
from sgmcmc.arguments.gradient import controlVariates, saga, svrg
from sgmcmc.arguments.minibatch import adaptive, preferential
from sgmcmc.arguments.transforms import interval
from sgmcmc.bridges.from_keras import KerasNetwork, fromKeras
from sgmcmc.bridges.from_parquet import fromParquet
from sgmcmc.bridges.from_tfp import fromTfp
from sgmcmc.core.errors import DivergenceError, ModeSearchError, NoRoomError
from sgmcmc.core.schedules import cyclical, polynomial
from sgmcmc.dataset.groups import groups
from sgmcmc.dataset.windows import windows
from sgmcmc.datasets import getDataset
from sgmcmc.draws.draws import Draws
from sgmcmc.draws.plots import plotRunning, plotTrace
from sgmcmc.draws.plots_distributions import plotMarginals, plotPairs
from sgmcmc.dynamics import Dynamics, Given, Stationary
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.kernel import Transition
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Batch
from sgmcmc.models.dp.dp_mixture import dpMixture
from sgmcmc.models.lda.lda import lda
from sgmcmc.samplers.badodab import badodab, badodabSetup
from sgmcmc.samplers.baoab import baoab, baoabSetup
from sgmcmc.samplers.barker import barker, barkerSetup
from sgmcmc.samplers.ccadl import ccadl, ccadlSetup
from sgmcmc.samplers.psgld import psgld, psgldSetup
from sgmcmc.samplers.samadams import samadams, samadamsSetup
from sgmcmc.samplers.sample import sample, sampleSetup
from sgmcmc.samplers.scir import scir, scirSetup
from sgmcmc.samplers.sghmc import sghmc, sghmccv, sghmccvSetup, sghmcSetup
from sgmcmc.samplers.sgld import sgld, sgldcv, sgldcvSetup, sgldSetup
from sgmcmc.samplers.sgnht import sgnht, sgnhtcv, sgnhtcvSetup, sgnhtSetup
from sgmcmc.samplers.sgrld import sgrld, sgrldSetup
from sgmcmc.samplers.sgzigzag import sgzigzag, sgzigzagSetup
from sgmcmc.samplers.stepwise import getParams, initSess, restoreSess, saveSess, sgmcmcStep
from sgmcmc.samplers.ubu import ubu, ubuSetup
from sgmcmc.storage import Reducer
from sgmcmc.storage.reducers import runningCovariance, runningMean
from sgmcmc.tuning.stepsizes import checkStepsize
from sgmcmc.tuning.temperatures import checkTemperature
from sgmcmc.tuning.train import train
from sgmcmc.tuning.tune import tune
from sgmcmc.tuning.tuned import Tuned

__version__ = "0.2.0"

__all__ = [
    "Batch",
    "DivergenceError",
    "Draws",
    "Dynamics",
    "Estimate",
    "Given",
    "Gradient",
    "KerasNetwork",
    "Minibatch",
    "ModeSearchError",
    "NoRoomError",
    "Reducer",
    "Stationary",
    "Transition",
    "Tuned",
    "adaptive",
    "badodab",
    "badodabSetup",
    "baoab",
    "baoabSetup",
    "barker",
    "barkerSetup",
    "ccadl",
    "ccadlSetup",
    "checkStepsize",
    "checkTemperature",
    "controlVariates",
    "cyclical",
    "dpMixture",
    "fromKeras",
    "fromParquet",
    "fromTfp",
    "getDataset",
    "getParams",
    "groups",
    "initSess",
    "interval",
    "lda",
    "plotMarginals",
    "plotPairs",
    "plotRunning",
    "plotTrace",
    "polynomial",
    "preferential",
    "psgld",
    "psgldSetup",
    "restoreSess",
    "runningCovariance",
    "runningMean",
    "saga",
    "samadams",
    "samadamsSetup",
    "sample",
    "sampleSetup",
    "saveSess",
    "scir",
    "scirSetup",
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
    "sgrld",
    "sgrldSetup",
    "sgzigzag",
    "sgzigzagSetup",
    "shards",
    "svrg",
    "train",
    "tune",
    "ubu",
    "ubuSetup",
    "windows",
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "diagnostics", "models"])

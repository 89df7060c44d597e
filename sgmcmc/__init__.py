"""Stochastic gradient MCMC: scalable Bayesian inference from a log likelihood and a log prior in TensorFlow."""

import os
import sys

if "tensorflow" not in sys.modules:  # whose log would stand between a user and the first result
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from sgmcmc import diagnostics as diagnostics
from sgmcmc import models as models
from sgmcmc.core.errors import DivergenceError, ModeSearchError, NoRoomError
from sgmcmc.core.schedules import cyclical, polynomial
from sgmcmc.core.types import Batch, Dynamics, Estimate, Given, Gradient, Minibatch, Reducer, Stationary, Transition
from sgmcmc.models.dp.dp_mixture import dpMixture
from sgmcmc.models.lda.lda import lda
from sgmcmc.output.draws import Draws
from sgmcmc.output.plots import plotRunning, plotTrace
from sgmcmc.output.plots_distributions import plotMarginals, plotPairs
from sgmcmc.output.tuned import Tuned
from sgmcmc.samplers.badodab import badodab, badodabSetup
from sgmcmc.samplers.baoab import baoab, baoabSetup
from sgmcmc.samplers.barker import barker, barkerSetup
from sgmcmc.samplers.ccadl import ccadl, ccadlSetup
from sgmcmc.samplers.datasets import getDataset
from sgmcmc.samplers.estimators import controlVariates, saga, svrg
from sgmcmc.samplers.from_keras import KerasNetwork, fromKeras
from sgmcmc.samplers.from_parquet import fromParquet
from sgmcmc.samplers.from_tfp import fromTfp
from sgmcmc.samplers.psgld import psgld, psgldSetup
from sgmcmc.samplers.reducers import runningCovariance, runningMean
from sgmcmc.samplers.samadams import samadams, samadamsSetup
from sgmcmc.samplers.sample import sample, sampleSetup
from sgmcmc.samplers.scir import scir, scirSetup
from sgmcmc.samplers.sghmc import sghmc, sghmccv, sghmccvSetup, sghmcSetup
from sgmcmc.samplers.sgld import sgld, sgldcv, sgldcvSetup, sgldSetup
from sgmcmc.samplers.sgnht import sgnht, sgnhtcv, sgnhtcvSetup, sgnhtSetup
from sgmcmc.samplers.sgrld import sgrld, sgrldSetup
from sgmcmc.samplers.sgzigzag import sgzigzag, sgzigzagSetup
from sgmcmc.samplers.shards import shards
from sgmcmc.samplers.stepsizes import checkStepsize
from sgmcmc.samplers.stepwise import getParams, initSess, restoreSess, saveSess, sgmcmcStep
from sgmcmc.samplers.subsampling import adaptive, preferential
from sgmcmc.samplers.temperatures import checkTemperature
from sgmcmc.samplers.train import train
from sgmcmc.samplers.transforms import interval
from sgmcmc.samplers.tune import tune
from sgmcmc.samplers.ubu import ubu, ubuSetup

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
]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "diagnostics", "models"])

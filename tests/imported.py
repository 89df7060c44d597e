"""What every process of tests finds imported. Its words about the machine are TensorFlow's own, and are not shown."""

# ruff: noqa: F401
import os
import sys

_shown = os.dup(2)
_silence = os.open(os.devnull, os.O_WRONLY)
os.dup2(_silence, 2)
try:
    import arviz_stats
    import matplotlib.pyplot
    import pandas
    import pytest
    import scipy.stats
    import sklearn.linear_model
    import tensorflow
    import tensorflow_probability
    import xarray
    import zarr

    import sgmcmc
    import sgmcmc.diagnostics
    import sgmcmc.models
finally:
    sys.stderr.flush()
    os.dup2(_shown, 2)
    os.close(_silence)
    os.close(_shown)

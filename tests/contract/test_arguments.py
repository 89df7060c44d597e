"""Every bad argument is refused by name, before anything is compiled, in one sentence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


GENERATOR = tf.random.Generator.from_seed(1)


@tf.function
def nested(x: tf.Tensor) -> tf.Tensor:
    return tf.numpy_function(np.square, [x], tf.float32)


GOOD = {
    "logLik": log_lik,
    "dataset": {"x": np.linspace(-1, 1, 1000)},
    "params": {"theta": 0.0},
    "stepsize": 1e-4,
}
MODE = {"optStepsize": 1e-4}

SPIKE = {"inclusion": {"theta": 0.5}}

BAD: list[tuple[str, str, dict[str, Any], str]] = [
    # function, what is bad, arguments, the sentence
    ("sgldcv", "a proportion that rounds to 0", {"minibatchSize": 1e-5},
     "minibatchSize of sgldcv must be an integer in [1, N] or a proportion in (0, 1) of N = 1000 observations; "
     "got 1e-05, which rounds to 0 observations."),
    ("sgld", "minibatchSize 0", {"minibatchSize": 0}, "minibatchSize of sgld must be an integer in [1, N]"),
    ("sgld", "minibatchSize above N", {"minibatchSize": 1001}, "N = 1000 observations; got 1001."),
    ("sgld", "minibatchSize NaN", {"minibatchSize": float("nan")}, "observations; got nan."),
    ("sgld", "minibatchSize 10.5", {"minibatchSize": 10.5}, "observations; got 10.5."),
    ("sgld", "minibatchSize True", {"minibatchSize": True}, "observations; got True."),
    ("sgld", "minibatchSize negative", {"minibatchSize": -5}, "observations; got -5."),
    ("sgld", "minibatchSize a string", {"minibatchSize": "10"}, "observations; got '10'."),
    ("sgld", "wrong keys in stepsize", {"stepsize": {"beta": 1e-4}},
     "stepsize of sgld must have the keys of params, ['theta']; got keys ['beta']."),
    ("sgld", "extra keys in stepsize", {"stepsize": {"theta": 1e-4, "beta": 1e-4}},
     "stepsize of sgld must have the keys of params, ['theta']; got keys ['beta', 'theta']."),
    ("sgld", "negative stepsize", {"stepsize": -1e-4},
     "stepsize of sgld must be a positive number or a schedule such as polynomial(h, a, b); got -0.0001."),
    ("sgld", "stepsize of a parameter 0", {"stepsize": {"theta": 0}}, "stepsize['theta'] of sgld must be a positive"),
    ("sgld", "stepsize NaN", {"stepsize": float("nan")}, "stepsize of sgld must be a positive number"),
    ("sgld", "a stepsize that float32 makes 0", {"stepsize": 1e-50},
     "stepsize of sgld must be from 1.18e-38 to 3.4e+38, the range of float32 (or use dtype='float64'); "
     "got 1e-50."),
    ("sgld", "a stepsize that float32 makes infinite", {"stepsize": {"theta": 1e39}},
     "stepsize['theta'] of sgld must be from 1.18e-38 to 3.4e+38"),
    ("sgld", "a stepsize beyond float64", {"stepsize": 1e-320, "dtype": "float64"},
     "stepsize of sgld must be from 2.23e-308 to 1.8e+308, the range of float64; got 1e-320."),
    ("sghmc", "alpha below float32", {"alpha": 1e-40}, "alpha of sghmc must be from 1.18e-38"),
    ("sgnht", "a below float32", {"a": 1e-40}, "a of sgnht must be from 1.18e-38"),
    ("sgldcv", "optStepsize below float32", {"optStepsize": 1e-46}, "optStepsize of sgldcv must be from 1.18e-38"),
    ("sgld", "a standard deviation of starts below float32", {"nChains": 2, "starts": 1e-46},
     "starts of sgld must be from 1.18e-38"),
    ("sgld", "a stepsize beyond all floats", {"stepsize": 10**400}, "stepsize of sgld must be a positive number"),
    ("sgld", "a class as subsampling", {"subsampling": sgmcmc.preferential},
     "or a function (N, n) -> Minibatch; got the class preferential, without brackets."),
    ("sgld", "no subsampling", {"subsampling": None}, "or a function (N, n) -> Minibatch; got None."),
    ("sgld", "a temperature without an inverse", {"temperature": 1e-300},
     "temperature of sgld must be from 1.18e-38"),
    ("sgld", "a stepsize for what gibbs moves",
     {"params": {"theta": 0.0, "scale": 1.0}, "stepsize": {"theta": 1e-4, "scale": 1e-4},
      "gibbs": lambda params, dataset, seed: {"scale": tf.ones([])}},
     "stepsize of sgld must have the keys of params that gibbs does not move, ['theta']; got keys "
     "['scale', 'theta']."),
    ("sgld", "a long stepsize", {"stepsize": np.ones(1000)},
     "stepsize of sgld must be a positive number or a schedule such as polynomial(h, a, b); got an array of shape "
     "(1000,)."),
    ("sgld", "stepsize a string", {"stepsize": "small"}, "got 'small'."),
    ("sgld", "entries of different lengths", {"dataset": {"x": np.zeros(10), "y": np.zeros(9)}},
     "dataset of sgld must have entries of the same length, the number of observations; got {'x': 10, 'y': 9}."),
    ("sgld", "no entries", {"dataset": {}}, "dataset of sgld must be a dict with at least one entry"),
    ("sgld", "no observations", {"dataset": {"x": []}},
     "dataset of sgld must have at least one observation; got {'x': 0}."),
    ("sgld", "dataset an array", {"dataset": np.zeros(3)}, "dataset of sgld must be a dict"),
    ("sgld", "an entry without observations axis", {"dataset": {"x": 1.0}},
     "dataset['x'] of sgld must have its observations on the first axis; got the single number 1.0."),
    ("sgld", "an object array", {"dataset": {"x": np.array([1, None])}},
     "dataset['x'] of sgld must be an array of real numbers; got dtype object."),
    ("sgld", "strings", {"dataset": {"x": ["a", "b"]}}, "dataset['x'] of sgld must be an array of real numbers"),
    ("sgld", "ragged lists", {"dataset": {"x": [[1.0], [1.0, 2.0]]}}, "dataset['x'] of sgld must be an array"),
    ("sgld", "complex numbers", {"dataset": {"x": np.array([1j])}}, "got dtype complex128."),
    ("sgld", "masked values", {"dataset": {"x": np.ma.masked_greater(np.arange(10.0), 6.0)}},
     "dataset['x'] of sgld must be an array without masked values; got 3 masked. Leave these observations out, or "
     "fill in the values with the method filled."),
    ("sgld", "masked values in a list", {"dataset": {"x": [np.ma.array([1.0, 2.0], mask=[False, True])] * 5}},
     "dataset['x'] of sgld must be an array without masked values; got 5 masked."),
    ("sgld", "a masked start", {"params": {"theta": np.ma.array([0.0, 1.0], mask=[True, False])}},
     "params['theta'] of sgld must be an array without masked values; got 1 masked."),
    ("sgld", "masked weights", {"subsampling": np.ma.array(np.ones(1000), mask=np.arange(1000) == 3)},
     "subsampling of sgld must be an array without masked values; got 1 masked."),
    ("sgld", "masked starts", {"nChains": 2, "starts": {"theta": np.ma.array([0.0, 1.0], mask=[True, False])}},
     "starts['theta'] of sgld must be an array without masked values; got 1 masked."),
    ("sgld", "a masked number", {"stepsize": np.ma.array(1e-4, mask=True)}, "stepsize of sgld must be a positive"),
    ("sgld", "a sparse matrix", {"dataset": {"x": scipy.sparse.eye(5, format="csr")}},
     "dataset['x'] of sgld must be an array of real numbers; got a csr_matrix of shape (5, 5). Make it dense (toarray, "
     "tf.sparse.to_dense) if that fits into memory; otherwise pass the positions and the values of the nonzero entries "
     "as two arrays with a row for each observation, and name the positions in integers."),
    ("sgld", "words in a data frame",
     {"dataset": {"x": pd.DataFrame({"a": [1.0], "b": ["one"]}).astype({"b": object})}},
     "dataset['x'] of sgld must be an array of real numbers; got a DataFrame of shape (1, 2) with columns "
     "{'b': 'object'}, which must be left out or coded as numbers."),
    ("sgld", "a tf.data.Dataset", {"dataset": tf.data.Dataset.range(3)},
     "since minibatches are drawn at random; got a tf.data.Dataset, which can only be read in order."),
    ("sgld", "an entry that is a tf.data.Dataset", {"dataset": {"x": tf.data.Dataset.range(3)}},
     "dataset['x'] of sgld must be an array; got a tf.data.Dataset, which can only be read once"),
    ("sgld", "NaN in the data", {"dataset": {"x": np.array([0.0, np.nan])}},
     "dataset['x'] of sgld must be finite in float32; got nan at index (1,), a missing value"),
    ("sgld", "overflow in the data", {"dataset": {"x": np.array([0.0, 1e300])}}, "got inf at index (1,)."),
    ("sgld", "integers too large for float32", {"dataset": {"x": np.array([0, 2**24 + 1])}},
     "dataset['x'] of sgld must hold integers that float32 represents exactly, up to 16777216 (or name it in "
     "integers=, or use dtype='float64'); got values up to 16777217."),
    ("sgld", "integers names no entry", {"integers": ["z"]}, "integers of sgld must list names in dataset, ['x']"),
    ("sgld", "integers a string", {"integers": "x"}, "integers of sgld must list names in dataset, ['x']; got 'x'."),
    ("sgld", "integers not a collection", {"integers": 5}, "must list names in dataset, ['x']; got 5."),
    ("sgld", "integers of floats", {"integers": ["x"]},
     "dataset['x'] of sgld must have an integer type, since it is named in integers; got dtype float64."),
    ("sgld", "logLik not callable", {"logLik": 3.0},
     "logLik of sgld must be a function of (params, dataset); got 3.0."),
    ("sgld", "logPrior not callable", {"logPrior": 3.0}, "logPrior of sgld must be None, a function of params"),
    ("sgld", "logLik of a wrong shape", {"logLik": lambda p, d: tf.tile(d["x"] - p["theta"], [2])},
     "logLik of sgld must return a scalar, the sum over the observations, or a vector with one term for each; "
     "got shape (20,) for a minibatch of n = 10 observations."),
    ("sgld", "logLik of an unknown length", {"logLik": lambda p, d: tf.boolean_mask(d["x"], d["x"] > 0) * p["theta"]},
     "or a vector with one term for each; got shape (None,) for a minibatch of n = 10 observations."),
    ("sgld", "logPrior of an unknown length",
     {"logPrior": lambda p: tf.boolean_mask(tf.fill([2], p["theta"]), tf.fill([2], p["theta"]) > 0)},
     "logPrior of sgld must return a scalar; got shape (None,)."),
    ("sgld", "logLik of minibatches only", {"logLik": lambda p, d: tf.reshape(d["x"], [10]) - p["theta"]},
     "logLik of sgld must take any number of observations, not only the n = 10 of a minibatch; on"),
    ("sgld", "logLik that takes the minibatch for the data",
     {"logLik": lambda p, d: tf.reshape(d["x"], [1000]) - p["theta"]}, "{x: float32[10]} it raised ValueError"),
    ("sgld", "indices that are floats",
     {"dataset": {"x": np.linspace(-1, 1, 20), "group": np.arange(20) % 2}, "params": {"theta": [0.0, 0.0]},
      "logLik": lambda p, d: d["x"] - tf.gather(p["theta"], d["group"]), "minibatchSize": 5},
     "int64. Name index entries of dataset in integers, such as integers=['group']."),
    ("sgld", "positions that are floats",
     {"dataset": {"group": [0, 1]}, "params": {"theta": [0.0, 0.0]}, "minibatchSize": 1,
      "logLik": lambda p, d: p["theta"][d["group"]]},
     "Name index entries of dataset in integers, such as integers=['group']."),
    ("sgld", "a matrix times a vector by @",
     {"dataset": {"x": np.ones((20, 2))}, "params": {"theta": [0.0, 0.0]}, "logLik": lambda p, d: d["x"] @ p["theta"],
      "minibatchSize": 5},
     "Multiply a matrix and a vector with tf.linalg.matvec(X, b); @ and tf.matmul multiply two matrices."),
    ("sgld", "a loop of Python over a tensor", {"logLik": lambda p, d: sum(x * p["theta"] for x in tf.range(3.0))},
     "OperatorNotAllowedInGraphError: Iterating over a symbolic `tf.Tensor` is not allowed. Decorate it with @tf.func"),
    ("sgldcv", "a mean with a stepsize that is found",
     {"stepsize": "auto", "logLik": lambda p, d: -tf.reduce_mean((d["x"] - p["theta"]) ** 2)},
     "logLik of sgldcv looks like a mean over the observations: its gradient does not change if each of 11"),
    ("sgldcv", "lags within logLik",
     {"stepsize": "auto", "logLik": lambda p, d: -tf.reduce_sum((d["x"][1:] - p["theta"] * d["x"][:-1]) ** 2)},
     "make observations of rows that belong together by groups, and of a time series by windows. A Cox partial"),
    ("sgld", "constants of float64", {"logLik": lambda p, d: tf.constant(1.0, tf.float64) * p["theta"]},
     "argument 'x'. A constant in it is float64: make it float32, with tf.constant(..., tf.float32), or use dtype="),
    ("sgld", "constants of float32",
     {"dtype": "float64", "logLik": lambda p, d: tf.ones([]) * p["theta"]},
     "argument 'x'. A constant in it is float32: make it float64, with tf.constant(..., tf.float64)."),
    ("sgld", "logLik of a wrong type", {"logLik": lambda p, d: tf.cast(tf.reduce_sum(d["x"] * p["theta"]), tf.float64)},
     "logLik of sgld must return float32; got float64. A constant in it is float64: make it float32, with"),
    ("sgld", "random numbers in logLik", {"logLik": lambda p, d: p["theta"] * tf.random.normal([])},
     "logLik of sgld must not draw random numbers by itself, since seed would not govern them and the run could not be "
     "repeated; got RandomStandardNormal. Draw them before the run, as an entry of dataset, or use "
     "tf.random.stateless_normal and similar functions."),
    ("sgld", "random numbers in a branch",
     {"logLik": lambda p, d: p["theta"] * tf.cond(d["x"][0] > 0, lambda: GENERATOR.normal([]), lambda: 1.0)},
     "logLik of sgld must not draw random numbers by itself, since seed would not govern them and the run could not be "
     "repeated; got RngReadAndSkip."),
    ("sgldcv", "dropout in logPrior", {"logPrior": lambda p: tf.nn.dropout(p["theta"], 0.5)},
     "logPrior of sgldcv must not draw random numbers by itself"),
    ("sample", "random numbers in a rule",
     {"dynamics": sgmcmc.Dynamics(lambda theta, memory, given: (theta + tf.random.normal([]), memory))},
     "dynamics of sample must not draw random numbers by itself, since seed would not govern them and the run could "
     "not be repeated; got RandomStandardNormal. Use given.noise, which holds standard normal draws."),
    ("sgld", "py_function", {"logLik": lambda p, d: p["theta"] * tf.py_function(float, [d["x"][0]], tf.float32)},
     "logLik of sgld must use TensorFlow operations only; got EagerPyFunc, a call of Python (tf.py_function, "
     "tf.numpy_function), which can be neither compiled nor mapped over chains."),
    ("sgld", "numpy_function", {"logLik": lambda p, d: nested(p["theta"])},
     "logLik of sgld must use TensorFlow operations only; got PyFunc, a call of Python"),
    ("sgld", "types that clash in logLik", {"logLik": lambda p, d: tf.constant(1.0, tf.float64) * p["theta"]},
     "logLik of sgld must be a function in TensorFlow operations of float32 tensors; on {theta: float32[]}, "
     "{x: float32[10]} it raised"),
    ("sgld", "logLik that misspells a name", {"logLik": lambda p, d: p["tehta"]}, "it raised KeyError: 'tehta'"),
    ("sgld", "logPrior of a wrong shape", {"logPrior": lambda p: tf.stack([p["theta"]] * 2)},
     "logPrior of sgld must return a scalar; got shape (2,)."),
    ("sgld", "a parameter that is not used", {"params": {"theta": 0.0, "beta": 0.0}},
     "params of sgld must have a gradient in logLik or logPrior; got none for ['beta'], which"),
    ("sgld", "no parameters", {"params": {}}, "params of sgld must be a dict with at least one entry"),
    ("sgld", "a start that is not finite", {"params": {"theta": [0.0, np.inf]}},
     "params['theta'] of sgld must be finite in float32; got inf at index (1,)."),
    ("sgld", "a start beyond float32", {"params": {"theta": 1e300}},
     "params['theta'] of sgld must be finite in float32; got inf at index ()."),
    ("sgld", "a schedule that fails", {"stepsize": sgmcmc.polynomial},
     "stepsize of sgld must be a positive number or a schedule such as polynomial(h, a, b), in TensorFlow operations "
     "of the iteration; it raised TypeError"),
    ("sgld", "a schedule that branches in Python", {"stepsize": {"theta": lambda t: 1e-3 if t < 1000 else 1e-4}},
     "stepsize['theta'] of sgld must be a positive number or a schedule such as polynomial(h, a, b), in TensorFlow "
     "operations of the iteration; it raised OperatorNotAllowedInGraphError"),
    ("sgld", "a schedule that begins at 0", {"stepsize": lambda t: 1e-6 * t}, "got a schedule that begins with 0.0."),
    ("sgld", "an empty parameter", {"params": {"theta": []}}, "must have at least one element; got shape (0,)."),
    ("sgld", "nIters 0", {"nIters": 0}, "nIters of sgld must be an integer of at least 1; got 0."),
    ("sgld", "nIters fractional", {"nIters": 10.5}, "nIters of sgld must be an integer of at least 1; got 10.5."),
    ("sgld", "seed negative", {"seed": -1}, "seed of sgld must be None or an integer from 0 to 2**64 - 1; got -1."),
    ("sgld", "seed fractional", {"seed": 1.5}, "got 1.5."),
    ("sgld", "a float seed that stands for several integers", {"seed": 2.0**53},
     "seed of sgld must be None or an integer from 0 to 2**64 - 1; got 9007199254740992.0."),
    ("sgld", "a float64 array in a distribution",
     {"logPrior": lambda p: tfp.distributions.WishartTriL(3.0, np.eye(1)).log_prob(tf.ones([1, 1]) * p["theta"])},
     "A constant in it is float64: make it float32, with tf.constant(..., tf.float32), or use dtype='float64' for all"),
    ("sgld", "dtype unknown", {"dtype": "float16"}, "dtype of sgld must be 'float32' or 'float64'; got 'float16'."),
    ("sgld", "verbose a string", {"verbose": "no"}, "verbose of sgld must be True or False; got 'no'."),
    ("sgld", "subsampling unknown", {"subsampling": "bootstrap"},
     "'symmetric', preferential(), N positive weights or a function (N, n) -> Minibatch; got 'bootstrap'."),
    ("sgld", "too few weights", {"subsampling": np.ones(10)},
     "subsampling of sgld must give one weight for each of 1000 observations; got (10,)."),
    ("sgld", "a weight of 0", {"subsampling": np.arange(1000)},
     "subsampling of sgld must give positive finite weights; got a smallest weight of 0.0."),
    ("sgld", "nChains 0", {"nChains": 0}, "nChains of sgld must be an integer of at least 1; got 0."),
    ("sgld", "starts without nChains", {"starts": 0.1}, "starts of sgld must come with nChains; got nChains=None."),
    ("sgld", "starts negative", {"nChains": 2, "starts": -1},
     "a standard deviation, a list of params, or a dict of arrays with nChains on the first axis; got -1."),
    ("sgld", "no starts", {"starts": []}, "starts of sgld must have at least one entry; got []."),
    ("sgld", "starts of other parameters", {"starts": [{"theta": 0.0}, {"beta": 0.0}]},
     "starts[1] of sgld must have the keys of params, ['theta']; got keys ['beta']."),
    ("sgld", "starts of another shape", {"starts": [{"theta": [0.0]}]},
     "starts[0]['theta'] of sgld must have the shape () of params; got (1,)."),
    ("sgld", "other starts than chains", {"nChains": 3, "starts": [{"theta": 0.0}]},
     "starts of sgld must have an entry for each of 3 chains; got 1."),
    ("sgld", "wrong keys in starts", {"nChains": 2, "starts": {"beta": [0, 1]}},
     "starts of sgld must have the keys of params, ['theta']; got keys ['beta']."),
    ("sgld", "too few starts", {"nChains": 3, "starts": {"theta": [0.0, 1.0]}},
     "starts['theta'] of sgld must have shape (3,), one start for each chain; got (2,)."),
    ("sgld", "thin 0", {"thin": 0}, "thin of sgld must be an integer of at least 1; got 0."),
    ("sgld", "thin beyond nIters", {"nIters": 10, "thin": 11},
     "thin of sgld must be at most the 10 iterations after burnIn; got 11."),
    ("sgld", "burnIn of all iterations", {"nIters": 10, "burnIn": 10},
     "burnIn of sgld must be less than nIters = 10; got 10."),
    ("sghmc", "more leaps than random numbers", {"nIters": 10**9, "L": 5, "burnIn": 10**9},  # burnIn, so as not to run
     "nIters of sghmc must make fewer than 2**32 steps in all, or random numbers would repeat; got 1000000000 "
     "iterations of 5."),
    ("sghmc", "alpha above 1", {"alpha": 1.5}, "alpha of sghmc must be a number in (0, 1]; got 1.5."),
    ("sghmc", "alpha 0", {"alpha": 0.0}, "alpha of sghmc must be a number in (0, 1]; got 0.0."),
    ("sghmc", "wrong keys in alpha", {"alpha": {"beta": 0.1}}, "alpha of sghmc must have the keys of params"),
    ("sghmc", "L 0", {"L": 0}, "L of sghmc must be an integer of at least 2, since each iteration draws a"),
    ("sghmc", "L 1", {"L": 1}, "in a single leap no gradient moves the position; got 1."),
    ("sgnht", "a negative", {"a": -0.01}, "a of sgnht must be a positive number below 0.5, since chains"),
    ("sghmc", "betaHat unknown", {"betaHat": "one"}, "betaHat of sghmc must be one of ['zero', 'fisher']; got 'one'."),
    ("ccadl", "covariance unknown", {"covariance": "dense"},
     "covariance of ccadl must be one of ['diag', 'full']; got 'dense'."),
    ("ccadl", "covariance too large",
     {"covariance": "full", "params": {"theta": np.zeros(1001)},
      "logLik": lambda params, dataset: -tf.reduce_sum((dataset["x"] - tf.reduce_mean(params["theta"])) ** 2)},
     "covariance of ccadl must be 'diag' where an entry of params has more than 1000 elements"),
    ("ccadl", "reshuffled", {"subsampling": "reshuffled", "minibatchSize": 10},
     "subsampling of ccadl must draw each minibatch afresh if the gradient noise is estimated"),
    ("ccadl", "a single observation", {"minibatchSize": 1},
     "minibatchSize of ccadl must be at least 2, to estimate the gradient noise; got 1."),
    ("ubu", "alpha 1", {"alpha": 1.0}, "alpha of ubu must be a number between 0 and 1; got 1.0."),
    ("baoab", "alpha 0", {"alpha": 0.0}, "alpha of baoab must be a number in (0, 1]; got 0.0."),
    ("badodab", "a 0", {"a": 0.0}, "a of badodab must be a positive number; got 0.0."),
    ("barker", "covariance full", {"covariance": "full"}, "covariance of barker must be None or 'diag'; got 'full'."),
    ("barker", "corrected, no stepsize", {"covariance": "diag", "stepsize": "auto"},
     "stepsize of barker must be a number with covariance='diag', since the correlation of the noise between elements"),
    ("barker", "exploring", {"stepsize": sgmcmc.cyclical(1e-3, 10, explorationFraction=0.5)},
     "stepsize of barker must have explorationFraction=0 for a sampler that does not climb without noise"),
    ("sgzigzag", "inclusion of all", {"inclusion": 0.5},
     "inclusion of sgzigzag must be None or a dict with some of ['theta']; got"),
    ("sgzigzag", "inclusion of another", {"inclusion": {"beta": 0.5}},
     "inclusion of sgzigzag must be None or a dict with some of ['theta']"),
    ("sgzigzag", "inclusion 1", {"inclusion": {"theta": 1.0}},
     "inclusion['theta'] of sgzigzag must be a number between 0 and 1, or an array of such numbers; got 1.0."),
    ("sgzigzag", "inclusion of another shape", {"inclusion": {"theta": [0.5, 0.5]}},
     "inclusion['theta'] of sgzigzag must be a number or have the shape of the parameter, (); got shape (2,)."),
    ("sgzigzag", "inclusion, no logPrior", SPIKE,
     "logPrior of sgzigzag must be a log density of 'theta', which inclusion names, that is finite at 0 and "
     "integrable; got None."),
    ("sgzigzag", "inclusion, no stepsize", SPIKE | {"stepsize": "auto"},
     "stepsize of sgzigzag must be a number with inclusion, for which 'auto' finds no mode; got 'auto'."),
    ("sgzigzag", "inclusion, preconditioner", SPIKE | {"preconditioner": "dense"},
     "preconditioner of sgzigzag must be None with inclusion"),
    ("sgzigzag", "inclusion, tempered", SPIKE | {"temperature": 0.5},
     "temperature of sgzigzag must be 1 with inclusion, whose atoms are not tempered; got 0.5."),
    ("sgzigzag", "inclusion, transformed", SPIKE | {"transforms": {"theta": "positive"}, "params": {"theta": 1.0}},
     "transforms of sgzigzag must leave out ['theta'], which inclusion names"),
    ("sgzigzag", "exploring", {"stepsize": sgmcmc.cyclical(1e-3, 10, explorationFraction=0.5)},
     "stepsize of sgzigzag must have explorationFraction=0 for a sampler that does not climb without noise"),
    ("samadams", "m above 1", {"m": 2.0}, "m of samadams must be a number in (0, 1]; got 2.0."),
    ("samadams", "M below 1", {"M": 0.5}, "M of samadams must be a number of at least 1; got 0.5."),
    ("samadams", "no stepsize", {"stepsize": "auto"}, "stepsize of samadams must be a number for Dynamics without"),
    ("psgld", "beta 1", {"beta": 1.0}, "beta of psgld must be a number from 0 to below 1; got 1.0."),
    ("psgld", "delta 0", {"delta": 0.0}, "delta of psgld must be a positive number; got 0.0."),
    ("psgld", "adapt 0", {"adapt": 0}, "adapt of psgld must be an integer of at least 1; got 0."),
    ("psgld", "no stepsize", {"stepsize": "auto"},
     "stepsize of psgld must be a number for Dynamics without `stationary`, from which 'auto' computes the variance"),
    ("sgldcv", "optimizer unknown", MODE | {"optimizer": "lbfgs"},
     "optimizer of sgldcv must be one of ['adam', 'sgd']; got 'lbfgs'."),
    ("sgldcv", "optimizer a list", MODE | {"optimizer": ["sgd"]}, "must be one of ['adam', 'sgd']; got ['sgd']."),
    ("sgldcv", "optStepsize 0", {"optStepsize": 0}, "optStepsize of sgldcv must be a positive number; got 0."),
    ("sghmccv", "nItersOpt negative", MODE | {"nItersOpt": -1},
     "nItersOpt of sghmccv must be an integer of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "what", "arguments", "sentence"), BAD, ids=[f"{b[0]}: {b[1]}" for b in BAD])
def test_bad_arguments_are_named(function: str, what: str, arguments: dict, sentence: str) -> None:
    mode = MODE if function.endswith("cv") else {}
    with pytest.raises(ValueError) as refused:
        getattr(sgmcmc, function)(**GOOD | mode | {"verbose": False} | arguments)
    assert sentence in str(refused.value)


def test_good_arguments_pass() -> None:
    """Without a word; among them what is like something that is refused or warned of."""
    good = [
        {},
        {"dataset": {"x": np.ma.array(np.arange(1000.0))}},  # nothing is masked
        {"logLik": lambda p, d: p["theta"] * tf.reduce_sum(d["x"]) * tf.random.stateless_normal([], [1, 2])},
        {"stepsize": 1e-50, "dtype": "float64"},
        {"nChains": 2, "starts": 0},
        {"stepsize": 1e-10, "params": {"theta": 1e3}, "dtype": "float64"},
        {"stepsize": 1e-6, "params": {"theta": 1e3}},
        {"dataset": {"x": 1.7e9 + np.linspace(0.0, 86_400.0, 1000)}, "dtype": "float64"},
        {"dataset": {"x": np.linspace(2000.0, 2020.0, 1000)}},
        {"dataset": {"x": 2.0**24 - np.arange(1000.0)}},  # held exactly
        {"dataset": {"x": np.full(1000, 1 / 3)}},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for arguments in good:
            sgmcmc.sgldSetup(**GOOD | arguments)
        sgmcmc.sgldcvSetup(**GOOD, **MODE)


TIMES = 1.7e9 + np.linspace(0.0, 86_400.0, 1000)
WARNED: dict[str, tuple[dict[str, Any], str]] = {
    "steps that float32 rounds away": (
        {"stepsize": 1e-10, "params": {"theta": -1e3}},
        "params['theta'] is at 1000, where float32 has a resolution of 6.1e-05, but the noise of a step has sd 1e-05: "
        "sgld will hardly move it. To fix this, use dtype='float64', or shift the parameter to be near 0.",
    ),
    "a schedule": (
        {"stepsize": sgmcmc.polynomial(1e-10, 1.0, 0.0), "params": {"theta": 1e3}}, "params['theta'] is at 1000",
    ),
    "starts": (
        {"stepsize": 1e-10, "nChains": 2, "starts": {"theta": [0.0, 1e3]}}, "params['theta'] is at 1000",
    ),
    "even float64": (
        {"stepsize": 1e-10, "params": {"theta": 1e12}, "dtype": "float64"},
        "To fix this, shift the parameter to be near 0.",
    ),
    "times": (
        {"dataset": {"x": TIMES}},
        "dataset['x'] of sgld loses the differences between observations: float32 rounds it by up to 62, and its range "
        "is 8.6e+04; subtract its mean first, or use dtype='float64'.",
    ),
    "a column of times": ({"dataset": {"x": np.stack([np.ones(1000), TIMES], axis=1)}}, "dataset['x'][:, 1] of sgld"),
}  # fmt: skip


@pytest.mark.parametrize("what", WARNED)
def test_what_rounding_takes_away_is_warned_of(what: str) -> None:
    """Once, in the user's own line, whether they set up or run."""
    arguments, sentence = WARNED[what]
    one_call = [lambda **k: sgmcmc.sgld(**k, nIters=1, verbose=False)] if what == "times" else []
    for call in (sgmcmc.sgldSetup, *one_call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(**GOOD | arguments)
        assert len(caught) == 1 and sentence in str(caught[0].message)
        assert Path(caught[0].filename) == Path(__file__)


def test_a_seed_may_be_a_whole_float() -> None:
    sampler = sgmcmc.sgldSetup(**GOOD, seed=13.0)
    assert sampler.seed == 13 and isinstance(sampler.seed, int)


def test_positions_are_not_skipped_as_in_r() -> None:
    with pytest.raises(TypeError, match=r"sgld\(\) multiple values for argument 'logPrior'"):
        sgmcmc.sgld(log_lik, GOOD["dataset"], GOOD["params"], 1e-4, 100, logPrior=lambda params: 0.0)


def test_a_search_that_diverges_names_the_other_optimizer() -> None:
    with pytest.raises(sgmcmc.ModeSearchError, match=r"or decrease it, or use optimizer='adam'"):
        sgmcmc.sgldcv(**GOOD, optStepsize=0.1, verbose=False, nItersOpt=200, seed=1)


def test_errors_of_the_users_function_are_chained() -> None:
    with pytest.raises(ValueError) as refused:
        sgmcmc.sgldSetup(**GOOD | {"logLik": lambda p, d: p["tehta"]})
    assert isinstance(refused.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("h", "a", "b"),
    [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, -1.0), (float("inf"), 1, 1), ("a", 1, 1), (1.0, None, 1.0)],
)
def test_bad_schedules_are_named(h: float, a: float, b: float) -> None:
    with pytest.raises(ValueError, match="of polynomial must be finite and"):
        sgmcmc.polynomial(h, a, b)


@pytest.mark.parametrize(("h", "length", "share"), [("a", 10, 0.0), (1.0, "a", 0.0), (1.0, 10, "a"), (1.0, True, 0.0)])
def test_bad_cycles_are_named(h: Any, length: Any, share: Any) -> None:
    with pytest.raises(ValueError, match="of cyclical must be"):
        sgmcmc.cyclical(h, length, share)


@pytest.mark.parametrize(("n_chains", "bytes_of_each"), [(10**11, 1), (10**9, 90), (10**7, 9000)])
def test_chains_that_do_not_fit_into_memory_are_refused_at_once(
    n_chains: int, bytes_of_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions alone would fit, but not the minibatches of an iteration."""
    x, free = np.zeros((2000, 2)), n_chains * bytes_of_each

    class Memory:
        available = free

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    monkeypatch.setattr("psutil.virtual_memory", Memory)
    given = {"minibatchSize": 1000 if bytes_of_each > 1000 else 10, "verbose": False, "nChains": n_chains}
    with pytest.raises(MemoryError, match=f"nChains of sgld must fit into memory; got {n_chains}, which need"):
        sgmcmc.sgld(log_lik, {"x": x}, {"theta": [0.0, 0.0]}, 1e-6, **given)


def test_the_stepwise_functions_know_their_own() -> None:
    sampler, other = sgmcmc.sgldSetup(**GOOD), sgmcmc.sgldSetup(**GOOD)
    sess = sgmcmc.initSess(sampler)
    with pytest.raises(ValueError, match="sess of sgmcmcStep must be the latest result of initSess"):
        sgmcmc.sgmcmcStep(other, sess)
    for stale in (sess, None):
        sgmcmc.initSess(sampler)
        with pytest.raises(ValueError, match="sess of getParams must be the latest result of initSess"):
            sgmcmc.getParams(sampler, stale)
    sess = sgmcmc.initSess(sampler)
    with pytest.raises(ValueError, match="sgmcmc of initSess must be the result of a Setup function"):
        sgmcmc.initSess(log_lik)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="nSteps of sgmcmcStep must be an integer of at least 1"):
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=bad)

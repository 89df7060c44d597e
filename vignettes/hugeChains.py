"""
Chains too large to store
=========================

A chain of 100,000 draws of a model with a million parameters takes 400 GB. You rarely
need all of it. You need means and variances, a prediction, or a loss along the chain.
This vignette computes them from the same chain in four ways: step by step, with
`collect`, with `reduce`, and with `storage` on disk, in a run that is stopped and
resumed. The model is small, so that everything can be compared. For a large model the
code would be the same.

Run it from anywhere, with ``python vignettes/hugeChains.py``. It takes two to three
minutes.
"""

# sphinx_gallery_start_ignore
import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import tempfile
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf

from sgmcmc import (
    Reducer,
    getDataset,
    getParams,
    initSess,
    restoreSess,
    saveSess,
    sgld,
    sgldSetup,
    sgmcmcStep,
)

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore
temporary = tempfile.TemporaryDirectory()  # for what is stored; removed at the end
FOLDER = Path(temporary.name)

# %%
# The model
# ---------
# Softmax regression predicts which digit an image of 8 x 8 pixels shows. It has a
# weight for each pixel and digit, and an intercept for each digit, 650 parameters in
# all. The data come with the package; a fifth of them are held out.

digits = getDataset("digits")
order = np.random.default_rng(1).permutation(len(digits["y"]))
held_out, training = np.split(order, [len(order) // 5])
pixels, labels = digits["X"] / 16.0, digits["y"]
dataset = {"X": pixels[training], "y": labels[training]}
params = {"intercept": np.zeros(10), "weights": np.zeros((64, 10))}


def logLik(params, dataset):
    scores = params["intercept"] + tf.matmul(dataset["X"], params["weights"])
    return -tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(dataset["y"], scores)
    )


def logPrior(params):
    squares = [tf.reduce_sum(params[name] ** 2) for name in ("weights", "intercept")]
    return -0.5 * (squares[0] + squares[1])


# %%
# All runs below share these arguments, including the seed. So they make the same chain,
# and differ only in what they keep.

N_ITERS, BURN_IN = (2_000, 500) if SHORT else (40_000, 4_000)
model = (logLik, dataset, params)
settings = {
    "stepsize": 4e-3,
    "logPrior": logPrior,
    "minibatchSize": 100,
    "integers": ["y"],
    "seed": 1,
}
run = {"nIters": N_ITERS, "burnIn": BURN_IN, "verbose": False}

costs = {}


def timed(label, function, stored):
    """What `function` returns; its time and what `stored` says go into a table."""
    start = time.perf_counter()
    result = function()
    costs[label] = {
        "seconds": time.perf_counter() - start,
        "MB kept": stored(result) / 1e6,
    }
    return result


def size(arrays):
    return sum(np.asarray(array).nbytes for array in arrays.values())


def on_disk(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


# %%
# Everything in memory
# --------------------
# For comparison, the default keeps all draws in memory.

everything = timed("all in memory", lambda: sgld(*model, **settings, **run), size)
print(everything)

# %%
# 1. Step by step
# ---------------
# You write the loop. Between steps you can inspect the chain, stop it, or change it.
# ``sampler.params`` are TensorFlow variables, so your own function can read them in
# place: here it computes the log loss on the held-out images. Each step is a call from
# Python. Several steps in one call, with ``nSteps``, take less time, so this loop looks
# at every twentieth draw only.

X_test = tf.constant(pixels[held_out], tf.float32)
y_test = tf.constant(labels[held_out])


def log_loss(params):
    scores = params["intercept"] + tf.matmul(X_test, params["weights"])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(y_test, scores)
    )


EVERY = 20
sampler = sgldSetup(*model, **settings)


def step_by_step():
    sess = initSess(sampler, verbose=False)
    sgmcmcStep(sampler, sess, nSteps=BURN_IN)
    mean, losses = np.zeros((64, 10)), []
    for k in range(1, (N_ITERS - BURN_IN) // EVERY + 1):
        sgmcmcStep(sampler, sess, nSteps=EVERY)
        mean += (getParams(sampler, sess)["weights"] - mean) / k
        losses.append(float(log_loss(sampler.params)))
    return {"mean": mean, "losses": np.array(losses)}


by_hand = timed("step by step", step_by_step, size)

# %%
# `saveSess` writes such a chain to a file. `restoreSess` continues it, even in another
# process.

sess = initSess(sampler, verbose=False)
sgmcmcStep(sampler, sess, nSteps=100)
saveSess(sampler, sess, FOLDER / "chain.sess")
sess = restoreSess(sampler, FOLDER / "chain.sess")
sgmcmcStep(sampler, sess, nSteps=BURN_IN + 1 - 100)
print(
    "the first draw after the burn-in:",
    bool((getParams(sampler, sess)["weights"] == everything["weights"][0]).all()),
)

# %%
# 2. collect
# ----------
# `collect` stores a function of the parameters in their place. The function is compiled
# with the loop, and evaluated for the draws that are stored. ``thin`` selects the same
# draws as the loop above, so the losses are the same up to rounding.

collected = timed(
    "collect",
    lambda: sgld(
        *model,
        **settings,
        **run,
        thin=EVERY,
        collect=lambda params: {"loss": log_loss(params)},
    ),
    size,
)
print(
    "largest difference of the losses:",
    np.abs(collected["loss"] - by_hand["losses"]).max(),
)

# %%
# 3. reduce
# ---------
# A reducer is a running sum, whose memory does not grow with the chain. `runningMean`
# and `runningCovariance` come with the package. But the covariance of 640 weights is a
# matrix of 640 x 640, and what matters is the prediction. So we write our own
# `Reducer`. It computes the mean and the variance of each weight, and for each held-out
# image the probabilities of the digits, averaged over the posterior. A reducer has
# three functions: the first makes the initial sums, the second adds a draw, and the
# third turns the sums into the result.


def begin(draw):
    zeros = tf.zeros_like(draw["weights"])
    return {
        "count": 0.0,
        "mean": zeros,
        "squares": zeros,
        "probabilities": tf.zeros([len(held_out), 10]),
    }


def add(sums, draw):
    count = sums["count"] + 1.0
    before = draw["weights"] - sums["mean"]
    mean = sums["mean"] + before / count
    probabilities = tf.nn.softmax(
        draw["intercept"] + tf.matmul(X_test, draw["weights"])
    )
    return {
        "count": count,
        "mean": mean,
        "squares": sums["squares"] + before * (draw["weights"] - mean),
        "probabilities": sums["probabilities"]
        + (probabilities - sums["probabilities"]) / count,
    }


def end(sums):
    sd = np.sqrt(sums["squares"] / (sums["count"] - 1.0))
    return {"mean": sums["mean"], "sd": sd, "probabilities": sums["probabilities"]}


reduced = timed(
    "reduce",
    lambda: sgld(*model, **settings, **run, reduce=Reducer(begin, add, end)).reduced[
        "draws"
    ],
    size,
)
print(
    "mean, largest difference:",
    np.abs(reduced["mean"] - everything["weights"].mean(axis=0)).max(),
)
print(
    "sd, largest difference:  ",
    np.abs(reduced["sd"] - everything["weights"].std(axis=0, ddof=1)).max(),
)

# %%
# The averaged prediction is better than that of a single draw.

predictive = -np.log(
    reduced["probabilities"][np.arange(len(held_out)), labels[held_out]]
).mean()
print(
    f"held-out log loss: {collected['loss'].mean():.4f} on average over single draws, "
    f"{predictive:.4f} averaged"
)

# %%
# 4. storage, and a run that is resumed
# -------------------------------------
# A Zarr store on disk receives all draws during the run. So they take a few megabytes
# of memory, however long the run is. If the run is interrupted, by you or by a power
# failure, ``resume=True`` continues it from its store. Here a smaller `nIters` stops it
# halfway. The draws are bit for bit those of an uninterrupted run.

store = FOLDER / "chain.zarr"
half = run | {"nIters": N_ITERS // 2}
first = timed(
    "storage, first half",
    lambda: sgld(*model, **settings, **half, storage=store),
    lambda _: on_disk(store),
)
both = timed(
    "storage, resumed",
    lambda: sgld(*model, **settings, **run, storage=store, resume=True),
    lambda _: on_disk(store),
)
print(f"{len(first.iterations)} draws, then {len(both.iterations)}")
print(
    "equal to the run in one piece:",
    bool((both["weights"].values == everything["weights"]).all()),
)

# %%
# The result looks the same as before, but its arrays are read from disk when they are
# used. Other programs can read the store while it is being written:
# ``xarray.open_datatree("chain.zarr", engine="zarr")`` opens it as a tree that ArviZ
# accepts.

print(type(both["weights"]).__name__, both["weights"].shape)
last = both["weights"][-1000:].values  # reads the last thousand draws, no more
print("mean of the last thousand:", last.mean())

# %%
# Costs
# -----
# The times include compilation, about a second for each run.

print(pd.DataFrame(costs).T.round(2).to_string())

# %%
# The picture
# -----------
# Left, the loss of single draws along the chain, from `collect`. The dashed line is the
# loss of the prediction averaged over the posterior, which is better than that of
# almost any single draw. Right, from `reduce`, the means of the weights of three digits
# and their standard deviations. Pixels at the left and right edges are nearly always
# blank. So the data contain little information about their weights, which nearly keep
# their prior, with mean 0 and standard deviation 1.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure = plt.figure(figsize=(9, 4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1])

ax = left.subplots()
ax.plot(
    collected.iterations,
    collected["loss"],
    color="#4477aa",
    linewidth=0.5,
    label="loss of a single draw",
)
ax.axhline(
    predictive,
    color="black",
    linewidth=1,
    linestyle="--",
    label="loss of the averaged prediction",
)
ax.set(xlabel="iteration", ylabel="held-out log loss", xlim=(BURN_IN, N_ITERS))
ax.xaxis.set_major_locator(plt.MaxNLocator(5))
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

axes = right.subplots(2, 3)
for row, (label, values, limits, colours) in enumerate(
    [
        ("mean of the weights", reduced["mean"], (-2, 2), "RdBu_r"),
        ("sd of the weights", reduced["sd"], (0, 1.1), "viridis"),
    ]
):
    for ax, digit in zip(axes[row], (0, 3, 8), strict=True):
        image = ax.imshow(
            values[:, digit].reshape(8, 8), cmap=colours, vmin=limits[0], vmax=limits[1]
        )
        ax.set(xticks=[], yticks=[], title=f"digit {digit}")
        ax.spines[:].set_visible(False)
    axes[row, 0].set_ylabel(label)
    right.colorbar(image, ax=axes[row], shrink=0.8)

# sphinx_gallery_start_ignore
figure.savefig("hugeChains.png", dpi=150)
# sphinx_gallery_end_ignore

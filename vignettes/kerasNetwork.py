r"""
From a Keras model to calibrated predictions
============================================

A network that is trained until it explains its data is certain of its predictions, even
where they are wrong. The usual remedy is early stopping, which needs held-out data to
decide when. Here a Keras model becomes a posterior, and the predictions are averaged
over draws from it: there is nothing to stop, and the probabilities are calibrated.

Run it from anywhere, with ``python vignettes/kerasNetwork.py``. It takes about two
minutes. With ``SGMCMC_VIGNETTES=short`` in the environment it is shorter, for the
tests.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import keras
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import softmax

from sgmcmc import checkTemperature, fromKeras, getDataset, train, ubu
from sgmcmc.diagnostics import classScores

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# The data and the model
# ----------------------
# The data are thirty measurements of a biopsy, and whether the tumour is malignant.
# Half of the 569 patients are held out.

cancer = getDataset("breastCancer")
order = np.random.default_rng(0).permutation(len(cancer["y"]))
training, held_out = order[:284], order[284:]
centre, scale = cancer["X"][training].mean(axis=0), cancer["X"][training].std(axis=0)
X = ((cancer["X"] - centre) / scale).astype(np.float32)
y = cancer["y"].astype(np.int32)


def network(seed):
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input([30]),
            layers.Dense(20, activation="relu"),
            layers.Dense(20, activation="relu"),
            layers.Dense(2),
        ]
    )


# %%
# From the model to draws
# -----------------------
# `fromKeras` makes the arguments that every sampler takes: the weights are the
# parameters, and each has the prior N(0, 1). `train` climbs to a mode of the posterior
# from each of four untrained networks. `checkTemperature` finds the largest stepsize at
# which the chain has the right temperature. `ubu` then draws from the posterior, by
# underdamped Langevin dynamics of order two, here with minibatches that are used
# forwards and then backwards.

posterior = fromKeras(
    network(0), {"X": X[training], "y": y[training]}, "categorical", prior=1.0
)
starts = train(
    **posterior,
    starts=posterior.initial(4, seed=1),
    minibatchSize=100,
    nIters=500 if SHORT else 3_000,
    seed=1,
    verbose=False,
)
chain = {"minibatchSize": 100, "subsampling": "symmetric", "seed": 1, "verbose": False}
temperatures = checkTemperature(
    ubu, **{**posterior, "params": starts[0]}, nIters=500 if SHORT else 2_000, **chain
)
stepsize = temperatures.attrs["stepsize"]
print(f"stepsize: {stepsize:.1e}")

out = ubu(
    **posterior,
    stepsize=stepsize,
    starts=starts,
    nIters=3_000 if SHORT else 60_000,
    burnIn=1_000 if SHORT else 12_000,
    thin=20 if SHORT else 30,
    **chain,
)

# %%
# From draws to predictions
# -------------------------
# `predict` averages the probabilities over all draws. R-hat is not meaningful for the
# weights themselves: the units of a layer are exchangeable, so each chain may have them
# in a different order. The predictions do not depend on this order, and they are what
# matters. (R-hat is NaN where all draws give a probability of 0 or 1.)

predicted = out.predict(posterior.outputs, {"X": X[held_out]}, diagnostics=True)
r_hat, ess = predicted["r_hat"][:, 1], predicted["ess_bulk"][:, 1]
print(
    f"R-hat of the predictions: median {np.nanmedian(r_hat):.3f}, above 1.1 for "
    f"{np.mean(r_hat > 1.1):.0%}; effective draws: median {np.nanmedian(ess):.0f}"
)

# %%
# How good are they?
# ------------------
# We compare them with five networks that Keras trains with Adam, after 3 to 300 epochs,
# and with the average of the five, a deep ensemble. The log loss is the mean of -log
# (predicted probability of the true class). The Brier score is the mean squared
# distance of the probabilities from the truth. The calibration error is the difference
# between the probability of the likeliest class and the frequency with which it is
# right, over ten bins.

EPOCHS = np.array([3, 10, 30, 100] if SHORT else [3, 10, 20, 30, 50, 100, 200, 300])
trained = [network(seed) for seed in range(5)]
fits = np.zeros((len(EPOCHS), 5, len(held_out), 2))
for member, model in enumerate(trained):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    for k, epochs in enumerate(np.diff(EPOCHS, prepend=0)):
        model.fit(X[training], y[training], batch_size=32, epochs=epochs, verbose=0)
        logits = model.predict(X[held_out], verbose=0).astype(float)
        fits[k, member] = softmax(logits, axis=1)

methods = {"posterior, four chains of ubu": predicted["mean"]}
for k in (list(EPOCHS).index(30), -1):
    methods[f"one network, {EPOCHS[k]} epochs"] = fits[k, 0]
    methods[f"ensemble of five, {EPOCHS[k]} epochs"] = fits[k].mean(axis=0)
scores = pd.DataFrame(
    {name: classScores(p, y[held_out]) for name, p in methods.items()}
)
scores = scores.loc[["accuracy", "log_loss", "brier", "calibration_error"]].T
print(scores.astype(float).round(3).to_string())

# %%
# There are only 285 held-out patients, so differences of the log loss come with their
# standard errors. The posterior is better than the network and the ensemble trained to
# the end. An ensemble that is stopped in time is as good. But choosing when to stop
# takes held-out patients, and the posterior learned from the training patients alone.


def losses(p):
    return -np.log(np.maximum(p[np.arange(len(p)), y[held_out]], 1e-12))


of_posterior = losses(predicted["mean"])
print("log loss more than the posterior's, and its standard error")
for name, p in list(methods.items())[1:]:
    more = losses(p) - of_posterior
    print(f"{name:30} {more.mean():6.3f} {more.std() / len(more) ** 0.5:6.3f}")

# %%
# The picture
# -----------
# Left, the log loss of the networks, which get worse when they are trained longer.
# Right, the patients about whom the posterior is least certain: its probability that
# the tumour is malignant, and that of one network after 300 epochs, which is certain
# about nearly all of them, and wrong about some.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), width_ratios=[1, 1.25], layout="constrained"
)
by_network = np.array([[losses(p).mean() for p in of_epoch] for of_epoch in fits])
lines = left.plot(EPOCHS, by_network, color="#bbbbbb", linewidth=1)
lines[0].set_label("one network")
left.plot(
    EPOCHS,
    [losses(p.mean(axis=0)).mean() for p in fits],
    color="#4477aa",
    label="ensemble of five",
)
left.axhline(of_posterior.mean(), color="#aa3377", linestyle="--", label="posterior")
left.set(xscale="log", xlabel="epochs", ylabel="log loss, held out", ylim=(0, 0.5))
left.legend(frameon=False)

malignant = predicted["mean"][:, 1]
unsure = np.argsort(np.abs(malignant - 0.5))[:40]
unsure = unsure[np.argsort(malignant[unsure])]
rows = np.arange(len(unsure))
for truth, colour in ((1, "#cc3311"), (0, "#0077bb")):
    of = y[held_out][unsure] == truth
    name = "malignant" if truth else "benign"
    right.plot(rows[of], malignant[unsure][of], "o", color=colour, ms=4, label=name)
right.plot(rows, fits[-1, 0][unsure, 1], "x", color="black", ms=4, label="one network")
right.set(xlabel="held-out patients, the least sure", ylabel="P(malignant)", xticks=[])
right.legend(frameon=False, loc="lower right")

# sphinx_gallery_start_ignore
figure.savefig("kerasNetwork.png", dpi=200)
# sphinx_gallery_end_ignore

# %%
# What can go wrong
# -----------------
# - *The chains start untrained.* From random weights they need far longer than this to
#   reach a mode, and a stepsize found there does not suit the mode.
# - *The prior is unsuitable.* N(0, 1) on each weight suits standardised inputs and a
#   few tens of units. It determines how certain the predictions are, so compare two or
#   three values of `prior` by the log loss on a validation set, as you would for a
#   penalty.
# - *The chains are too short.* With a third of the iterations, R-hat was above 1.1 in
#   7% of the predictions, though the scores were nearly the same.
# - *The posterior may not be the best.* With many observations for each weight, a
#   longer fit may give better predictions than chains with the same number of
#   gradients: ``benchmarks/NETWORKS.md`` has such a case.

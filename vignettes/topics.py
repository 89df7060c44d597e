"""
Topics of documents
===================

Latent Dirichlet allocation finds the topics of each document, and the words of each
topic. ``lda`` samples from its posterior with minibatches of documents, so the cost of
an iteration does not depend on the number of documents. Here we simulate documents from
known topics, and compare the result with the truth. We then ask how many topics there
are, and compare the two samplers that ``lda`` can use.

Run it from anywhere, with ``python vignettes/topics.py``. It takes about two minutes.
"""

# sphinx_gallery_start_ignore
import os

import matplotlib

matplotlib.use("Agg")  # draw to a file, with or without a display
# sphinx_gallery_end_ignore

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from sgmcmc import lda

SHORT = False  # whether to run less
# sphinx_gallery_start_ignore
SHORT = os.environ.get("SGMCMC_VIGNETTES") == "short"  # for the tests
# sphinx_gallery_end_ignore

# %%
# Documents that are pictures
# ---------------------------
# In a classical example, the 25 words are the pixels of a picture, and the 10 topics
# are its five rows and five columns, each a uniform distribution over 5 words
# (Griffiths and Steyvers 2004). A document has 100 tokens and few topics, so it is a
# mixture of bars. The words are named by row and column, such as "b4".

SIDE, N_TOPICS, N_TOKENS = 5, 10, 100
N = 600 if SHORT else 2_000
places = np.arange(SIDE**2).reshape(SIDE, SIDE)
truth = np.zeros((N_TOPICS, SIDE**2))
for k, bar in enumerate([*places, *places.T]):
    truth[k, bar] = 1 / SIDE
vocabulary = [f"{row}{column}" for row in "abcde" for column in range(1, SIDE + 1)]


def simulate(n, seed):
    """The counts of the words in n documents, and their distributions over topics."""
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(N_TOPICS, 0.1), n)
    counts = [
        rng.multinomial(N_TOKENS, probabilities) for probabilities in theta @ truth
    ]
    return sparse.csr_array(np.array(counts)), theta


docs, _ = simulate(N, 1)
held_out, theta_held_out = simulate(100 if SHORT else 200, 2)
print(f"{docs.shape[0]} documents, {docs.sum()} tokens of {docs.shape[1]} words")

# %%
# The topics
# ----------
# ``lda`` needs the matrix of counts and the number of topics. scikit-learn's
# ``CountVectorizer`` makes such a matrix from texts. Each iteration uses enough
# documents for some thousands of tokens, here 200 documents. The second half of the
# iterations is kept, thinned to 20 draws.

given = {"vocabulary": vocabulary, "verbose": False, "seed": 1}
N_ITERS = 60 if SHORT else 300
topics = lda(docs, N_TOPICS, nIters=N_ITERS, **given)
print(topics)
print(
    topics.topWords(5).pivot(index="topic", columns="rank", values="word").to_string()
)

# %%
# Every topic is a row or a column: its words share a letter or a digit. The order of
# the topics is arbitrary, so each is matched with the most similar true topic.


def matched(found):
    """The number of the topic found for each true one, and the cosines between them."""
    lengths = np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(found, axis=1)
    cosine = truth @ found.T / lengths
    rows, columns = linear_sum_assignment(-cosine)
    return columns, cosine[rows, columns]


order, cosine = matched(topics.components)
print(
    f"cosine with the true topic: {cosine.min():.3f} at least, "
    f"{cosine.mean():.3f} on average"
)

# %%
# These are means over draws. The column ``sd`` is the standard deviation of the draws.
# Minibatch noise makes it larger than that of the posterior.

print(topics.topWords(3).head(6).round(3).to_string(index=False))

# %%
# The topics of new documents
# ---------------------------
# ``transform`` gives the posterior mean of each document's distribution over topics.

shares = topics.transform(held_out)[:, order]
error = np.abs(shares - theta_held_out).mean()
main = (shares.argmax(axis=1) == theta_held_out.argmax(axis=1)).mean()
print(
    f"mean absolute error of a share: {error:.3f}; the main topic is right in "
    f"{main:.0%}"
)

# %%
# How many topics
# ---------------
# Half of the tokens of a held-out document determine its topics, and these predict the
# other half. ``perplexity`` is one over the geometric mean of the predicted
# probabilities. Without topics it is nearly 25, the number of words. If there are too
# few topics, some must be two bars at once. Too many topics do little harm, because
# documents need not use all of them.

numbers = (5, 10) if SHORT else (5, 8, 10, 15)
fits = {
    k: topics if k == N_TOPICS else lda(docs, k, nIters=N_ITERS, **given)
    for k in numbers
}
by_number = pd.Series({k: fit.perplexity(held_out) for k, fit in fits.items()})
by_number = by_number.rename_axis("topics").rename("perplexity")
print(by_number.round(2).to_string())

# %%
# How topics form under two samplers
# ----------------------------------
# The topics can be drawn by ``scir`` or by ``sgrld``. The first draws its transition
# exactly. The second makes Euler steps, whose error is largest where probabilities are
# near 0, as for 20 of the 25 words in each topic here. ``perDraw`` gives the perplexity
# of each draw alone, here from the first iteration on.

along = {}
for method in ("scir", "sgrld"):
    chain = lda(
        docs,
        N_TOPICS,
        nIters=N_ITERS,
        burnIn=0,
        thin=N_ITERS // 20,
        method=method,
        **given,
    )
    perplexity = chain.perplexity(held_out, perDraw=True)
    along[method] = pd.Series(perplexity, index=chain.draws.iterations)
    outside = chain.draws["topics"][-1][matched(chain.draws["topics"][-1])[0]][
        truth == 0
    ].mean()
    print(
        f"{method}: last perplexity {perplexity[-1]:.2f}, "
        f"mean of a word outside {outside:.5f}"
    )
along = pd.DataFrame(along).rename_axis("iteration")

# %%
# The picture
# -----------
# Above: ten of the documents, the true topics and the topics found. Below: the held-out
# perplexity, by the number of topics and along the chains.

plt.rcParams.update(
    {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
blue, red = "#4477aa", "#cc6677"
figure = plt.figure(figsize=(8, 5), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1, 1])
grid = above.subplots(3, N_TOPICS)
rows = {
    "documents": docs[:N_TOPICS].toarray(),
    "true": truth,
    "found": topics.components[order],
}
for axes, (title, pictures) in zip(grid, rows.items(), strict=True):
    for ax, picture in zip(axes, pictures, strict=True):
        ax.imshow(np.reshape(picture, (SIDE, SIDE)), cmap="Blues", vmin=0)
        ax.set(xticks=[], yticks=[])
        ax.spines[["top", "right"]].set_visible(True)
    axes[0].set_ylabel(title)

left, right = below.subplots(1, 2)
left.plot(by_number.index, by_number, "o-", color=blue, markersize=4, linewidth=1)
left.axvline(N_TOPICS, color="0.8", linewidth=1, zorder=0)
left.set(xlabel="topics", ylabel="held-out perplexity")
for method, colour in (("scir", blue), ("sgrld", red)):
    right.plot(
        along.index,
        along[method],
        "o-",
        color=colour,
        markersize=3,
        linewidth=1,
        label=method,
    )
right.set(xlabel="iteration", ylabel="held-out perplexity of a draw", yscale="log")
right.yaxis.set_major_formatter("{x:g}")
right.yaxis.set_minor_formatter("{x:g}")
right.legend(frameon=False)

# sphinx_gallery_start_ignore
figure.savefig("topics.png", dpi=150)
# sphinx_gallery_end_ignore

"""lda: Gibbs assignments and perplexity against enumeration, topics that are known, and what is refused.

Tests of chance have fixed seeds, and say how often a right program would fail with another seed.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse, stats
from scipy.optimize import linear_sum_assignment

from sgmcmc import Draws, lda
from sgmcmc.models import Topics
from sgmcmc.models.lda.assignments import drawn, expected, grouped, in_pieces
from sgmcmc.models.lda.documents import checked_documents, halves, tokens
from sgmcmc.models.lda.lda import documents_of_a_minibatch, iterations

PRIOR = 0.4
PHI = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4]])
WORDS = ((0, 0, 2), (1, 2))  # two documents; no word of one is also looked at in the other


def given_words(words, phi, prior):
    """E[theta | words] and, for each token, P(z = k | words), over all assignments."""
    n_topics = len(phi)
    total, theta, each = 0.0, np.zeros(n_topics), np.zeros((len(words), n_topics))
    for z in itertools.product(range(n_topics), repeat=len(words)):
        n = np.bincount(z, minlength=n_topics)
        weight = math.prod(phi[k, w] for k, w in zip(z, words, strict=True)) * math.prod(
            math.gamma(prior + m) / math.gamma(prior) for m in n
        )
        total += weight
        theta += weight * (n + prior) / (len(words) + n_topics * prior)
        each[np.arange(len(words)), z] += weight
    return theta / total, each / total


@tf.function(jit_compile=True, autograph=False)
def gibbs(words, phi, prior, seed):
    return expected(words, phi, prior, 40, seed)


COPIES, REPEATS = 100, 30


@pytest.fixture(scope="module")
def z_scores():
    """How many standard errors means over many documents are from their expectations, at a prior."""
    rows = np.full((2 * COPIES, 3), -1, np.int32)
    rows[:COPIES], rows[COPIES:, :2] = WORDS[0], np.array(WORDS[1]) + 4
    phi = tf.constant(np.hstack([PHI, PHI]), tf.float32)  # the second document has words of its own

    def of(prior):
        found = []
        for k in range(REPEATS):
            one = gibbs(tf.constant(rows), phi, tf.constant(prior), tf.constant([3, k]))
            shares = one.shares.numpy().reshape(2, COPIES, 2).mean(axis=1)[:, 0]
            found.append(np.concatenate([shares, one.counts.numpy()[0] / COPIES]))
        exact = [given_words(words, PHI, PRIOR) for words in WORDS]
        counts = np.zeros(8)
        for d, words in enumerate(WORDS):
            np.add.at(counts, np.array(words) + 4 * d, exact[d][1][:, 0])
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(REPEATS)
        looked_at = error > 0
        expectation = np.concatenate([[exact[0][0][0], exact[1][0][0]], counts])
        np.testing.assert_array_equal(mean[~looked_at], expectation[~looked_at])  # words that do not occur
        return (mean - expectation)[looked_at] / error[looked_at]

    return of


def test_assignments_are_those_of_the_exact_distribution(z_scores):
    """6 t statistics with 29 degrees of freedom: one exceeds 5.5 in 4 of 100,000 seeds."""
    z = z_scores(PRIOR)
    assert len(z) == 6 and np.abs(z).max() < 5.5


def test_assignments_of_another_prior_are_told_apart(z_scores):
    assert np.abs(z_scores(1.5 * PRIOR)).max() > 11


OWN, SHARED = [2.0, 0.0, 1.0, 0.0, 3.0, 1.0, 0.5], [1.0, 1.0, 3.0, 0.0, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("times", [1, 3])  # one group has all 7 categories; 8 groups have 21
def test_categories_are_drawn_in_proportion_to_their_weights(times):
    """Chi-square tests of 5 and 15 categories: the p of one is below 1e-5 in 1 of 100,000 seeds."""
    own, shared, n = np.tile(OWN, times), np.tile(SHARED, times), 20_000
    own[-2:] *= times  # so that not all groups have the same weight
    u = np.random.default_rng(1).random((2, n // 2), np.float32)
    of_words, of_rows = (
        grouped(tf.constant(np.stack(two), tf.float32)) for two in ((own[::-1], own), (shared, shared))
    )
    words = tf.ones([2, n // 2], tf.int32)
    counts = np.bincount(drawn(of_words, words, of_rows, tf.constant(u)).numpy().ravel(), minlength=len(own))
    weights = own * shared
    assert len(counts) == len(own) and (counts[weights == 0] == 0).all()
    p = weights[weights > 0] / weights.sum()
    assert stats.chisquare(counts[weights > 0], n * p).pvalue > 1e-5


@pytest.mark.parametrize("u", [0.0, 1.0])
@pytest.mark.parametrize("allowed", [(2, 4), (9, 12), (9, 17), (18, 21)])
def test_categories_without_weight_are_not_drawn_by_the_least_and_the_largest_number(u, allowed):
    """With 8 groups by number modulo 8: of different groups, and of one group."""
    weights = np.zeros((1, 23), np.float32)
    weights[0, allowed] = 1.0, 2.0
    words, of_row = tf.zeros([1, 1], tf.int32), grouped(tf.ones([1, 23]))
    got = drawn(grouped(tf.constant(weights)), words, of_row, tf.fill([1, 1], u))
    assert grouped(tf.constant(weights)).shape == (1, 3, 8)
    order = sorted(allowed, key=lambda k: (k % 8, k))
    assert int(got[0, 0]) == order[0 if u == 0 else 1]


def test_pieces_have_every_token_once():
    rng = np.random.default_rng(2)
    rows = np.full((20, 70), -1, np.int32)
    for row in rows:
        n = rng.integers(0, 71)
        row[:n] = rng.integers(0, 50, n)
    pieces = in_pieces(tf.constant(rows), 2**11)
    words, documents = (x.numpy()[: int(pieces.n_used)] for x in (pieces.words, pieces.documents))
    assert words.shape[1] == 4
    for d, row in enumerate(rows):
        assert sorted(w for w in words[documents == d].ravel() if w >= 0) == sorted(row[row >= 0])


def test_a_word_that_no_topic_has_is_assigned_by_the_others():
    words = tf.constant([[0, 0, 0, 0, 3]])
    phi = tf.constant([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    found = gibbs(words, phi, tf.constant(0.1), tf.constant([1, 2]))
    assert np.isfinite(found.counts).all() and float(found.counts[0, 3]) > 0.8
    np.testing.assert_allclose(tf.reduce_sum(found.counts, axis=0), [4, 0, 0, 1])


def test_halves_part_the_tokens_at_random():
    counts = checked_documents(np.array([[5, 0, 2], [0, 1, 0], [1, 2, 1]]), "lda")
    parts = [halves(counts, seed) for seed in range(60)]
    for seen, rest in parts:
        np.testing.assert_array_equal((seen + rest).toarray(), counts.toarray())
        assert list(seen.sum(axis=1)) == [3, 0, 2]
    seen = np.mean([first.toarray()[0, 0] for first, _ in parts])
    assert abs(seen - 15 / 7) < 0.45  # 5 standard errors
    np.testing.assert_array_equal(halves(counts, 7)[0].toarray(), parts[7][0].toarray())


def drawn_topics(phi, n_chains=None, **settings):
    phi = np.asarray(phi, np.float32)
    groups = {"posterior": {"topics": phi[None] if n_chains is None else phi}}
    draws = Draws(
        groups, nChains=n_chains, iterations=np.arange(1, phi.shape[-3] + 1), settings={"sampler": "lda", "seed": 1}
    )
    return Topics(draws, PRIOR, **settings)


OTHER = np.array([[0.4, 0.4, 0.1, 0.1], [0.2, 0.1, 0.2, 0.5]])


@pytest.fixture(scope="module")
def docs():
    """Many copies of a few short documents, so that Monte Carlo errors are small."""
    return np.repeat([[2, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1], [1, 1, 2, 0]], 100, axis=0)


def test_transform_gives_the_exact_expectation(docs):
    topics = drawn_topics([PHI, OTHER])
    shares = topics.transform(docs, sweeps=400)
    assert shares.shape == (400, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(shares, topics.transform(sparse.csc_matrix(docs), sweeps=400))
    for one, found in zip(docs[::100], shares.reshape(4, 100, 2), strict=True):
        words = np.repeat(np.arange(4), one)
        exact = np.mean([given_words(words, phi, PRIOR)[0] for phi in (PHI, OTHER)], axis=0)
        assert np.abs(found.mean(axis=0) - exact).max() < 0.02  # more than 5 standard errors


def test_perplexity_is_the_exact_one(docs):
    topics = drawn_topics([PHI, OTHER])
    seen, rest = halves(checked_documents(docs, "perplexity"), 1)
    by_draw = []
    for phi in (PHI, OTHER):
        known = {}
        by_draw.append([])
        for first, second in zip(seen.toarray(), rest.toarray(), strict=True):
            words = tuple(np.repeat(np.arange(4), first))
            theta = known.setdefault(words, given_words(words, phi, PRIOR)[0])
            by_draw[-1] += list((theta @ phi)[np.repeat(np.arange(4), second)])
    probabilities = np.array(by_draw)
    exact = np.exp(-np.log(probabilities).mean(axis=1))
    np.testing.assert_allclose(topics.perplexity(docs, sweeps=400, perDraw=True), exact, rtol=0.005)
    averaged = np.exp(-np.log(probabilities.mean(axis=0)).mean())
    assert topics.perplexity(docs, sweeps=400) == pytest.approx(averaged, rel=0.005)
    assert averaged < exact.min()


def test_perplexity_of_the_uniform_distribution_is_the_number_of_words(docs):
    assert drawn_topics(np.full((1, 3, 4), 0.25)).perplexity(docs, sweeps=2) == pytest.approx(4)


def test_perplexity_is_infinite_where_a_word_is_impossible():
    never = drawn_topics([[[1.0, 0.0], [1.0, 0.0]]])
    assert never.perplexity([[0, 3], [3, 0]], sweeps=2) == np.inf


def bars():
    """Topics that are the rows and columns of a 3 x 3 picture."""
    grid = np.arange(9).reshape(3, 3)
    phi = np.zeros((6, 9))
    for k, line in enumerate([*grid, *grid.T]):
        phi[k, line] = 1 / 3
    return phi


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(6, 0.1), n)
    return np.array([rng.multinomial(40, p) for p in theta @ bars()])


@pytest.fixture(scope="module")
def corpus():
    return simulated(500, 1)


SETTINGS = {"minibatchSize": 50, "verbose": False, "seed": 2}


@pytest.fixture(scope="module")
def fitted(corpus):
    """The topics of a method, found once."""
    words = [f"w{j}" for j in range(9)]

    @cache
    def found(method):
        return lda(sparse.csr_array(corpus), 6, nIters=400, method=method, vocabulary=words, **SETTINGS)

    return found


@pytest.mark.parametrize("method", ["scir", "sgrld"])
def test_topics_that_are_known_are_found(fitted, method):
    found, truth = fitted(method).components, bars()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    cosine = (found @ truth.T) / np.linalg.norm(found, axis=1)[:, None] / np.linalg.norm(truth, axis=1)
    matched = cosine[linear_sum_assignment(-cosine)]
    assert matched.min() > (0.98 if method == "scir" else 0.9)


def test_held_out_perplexity_is_near_that_of_the_truth(fitted):
    held_out = simulated(100, 2)
    truth = Topics(drawn_topics(bars()[None]).draws, 0.1).perplexity(held_out)
    assert fitted("scir").perplexity(held_out) < 1.03 * truth
    assert truth < 0.8 * 9


def test_what_a_run_has(fitted):
    topics = fitted("scir")
    assert topics.draws["topics"].shape == (20, 6, 9) and topics.draws.iterations[0] == 210
    assert topics.timings["total"] > 0 and "6 topics of 9 words" in repr(topics)
    table = topics.topWords(3)
    assert list(table.columns) == ["topic", "rank", "word", "probability", "sd"] and len(table) == 18
    first = table[table["topic"] == 0]
    assert first["probability"].is_monotonic_decreasing and (table["sd"] > 0).all()
    best = topics.components[0].argmax()
    assert first["word"].iloc[0] == f"w{best}"
    draws = topics.draws["topics"][:, 0, best].astype(float)
    np.testing.assert_allclose(first[["probability", "sd"]].iloc[0], [draws.mean(), draws.std(ddof=1)], rtol=1e-5)


def test_a_picture(fitted):
    axes = fitted("scir").plot([4, 1], n=3)
    assert [ax.get_title("left") for ax in axes] == ["topic 4", "topic 1"]
    assert len(axes[0].patches) == 3
    assert fitted("scir").plot(n=2).shape == (6,)


SHORT = {"stepsize": 0.1, "nIters": 4, "burnIn": 0, "thin": 1, **SETTINGS}


@pytest.fixture(scope="module")
def short(corpus):
    return lda(corpus, 6, **SHORT)


def test_chains(corpus, short):
    both = lda(corpus, 6, nChains=2, **SHORT)
    assert both.components.shape == (2, 6, 9) and both.draws["topics"].shape == (2, 4, 6, 9)
    np.testing.assert_allclose(both.draws["topics"][0], short.draws["topics"], atol=1e-5)
    assert both.transform(corpus[:5], sweeps=2).shape == (2, 5, 6)
    assert both.perplexity(corpus[:5], sweeps=2, perDraw=True).shape == (2, 4)
    assert not both.topWords(1, chain=0).equals(both.topWords(1, chain=1))


def test_a_store_that_is_resumed(corpus, short, tmp_path):
    lda(corpus, 6, storage=tmp_path / "topics.zarr", **SHORT | {"nIters": 2})
    rest = lda(corpus, 6, storage=tmp_path / "topics.zarr", resume=True, **SHORT)
    np.testing.assert_array_equal(rest.draws["topics"], short.draws["topics"])
    for other in ({"method": "sgrld"}, {"docTopicPrior": 0.2}, {"sweeps": 19}):
        with pytest.raises(ValueError, match=rf"^{next(iter(other))} of lda must be what it was"):
            lda(corpus, 6, storage=tmp_path / "topics.zarr", resume=True, **SHORT, **other)
    again = Topics(Draws.load(tmp_path / "topics.zarr"), docTopicPrior=0.1)
    np.testing.assert_allclose(again.components, short.components)


@pytest.mark.parametrize(
    ("documents", "tokens_of_each", "size", "n_iterations"),
    [(20_000, 26, 631, 96), (20_000, 500, 200, 300), (500, 40, 410, 61), (100, 10, 100, 1000), (3, 10**7, 3, 3)],
)
def test_sizes_follow_the_corpus(documents, tokens_of_each, size, n_iterations):
    """16,384 tokens and 200 documents at least; three passes, and a million tokens or 1,000 iterations."""
    n_tokens = documents * tokens_of_each
    assert documents_of_a_minibatch(None, documents, n_tokens) == size
    assert iterations(size, documents, n_tokens) == n_iterations


def test_sizes_that_nobody_chose():
    docs = simulated(300, 3)
    chosen = lda(docs, 6, sweeps=2, verbose=False, seed=2)
    assert chosen.draws.settings["minibatchSize"] == 300 and chosen.draws.iterations[-1] == 84
    assert (
        lda(docs, 6, nIters=2, minibatchSize=0.5, sweeps=2, verbose=False, seed=2).draws.settings["minibatchSize"]
        == 150
    )


def test_a_pandas_frame_or_floats_will_do():
    pandas = pytest.importorskip("pandas")
    counts = np.array([[1, 0, 2], [0, 3, 0]])
    for docs in (pandas.DataFrame(counts), counts.astype(float), sparse.coo_matrix(counts), counts.tolist()):
        np.testing.assert_array_equal(checked_documents(docs, "lda").toarray(), counts)
    np.testing.assert_array_equal(tokens(checked_documents(counts, "lda")), [[0, 2, 2], [1, 1, 1]])
    doubled = sparse.coo_array(([1, 2, 0], ([0, 0, 1], [1, 1, 0])), shape=(1 + 1, 2))
    doubled.data[2] = 1
    np.testing.assert_array_equal(checked_documents(doubled, "lda").toarray(), [[0, 3], [1, 0]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
def test_tokens_one_by_one_are_summed_in_no_small_type(dtype):
    places = (np.repeat([0, 1], 300), np.zeros(600, int))
    listed = sparse.coo_array((np.ones(600, dtype), places), shape=(2, 1))
    np.testing.assert_array_equal(checked_documents(listed, "lda").toarray(), [[300], [300]])


def test_a_word_that_occurs_more_often_than_float32_can_count():
    """2^21 tokens in 10 sweeps are more than 2^24; all have the only topic with this word."""
    words = tf.zeros([2, 2**20], tf.int32)
    phi = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    counts = tf.function(expected, jit_compile=True, autograph=False)(words, phi, 0.1, 20, tf.constant([1, 2])).counts
    np.testing.assert_array_equal(counts, [[2**21, 0], [0, 0]])


GOOD = [[1, 2], [3, 0]]
BAD_DOCS = {
    "negative": ([[1, -2], [3, 0]], r"docs of lda must hold counts, .* got -2 of word 1 in document 0"),
    "too many": ([[1e19, 1], [1, 1]], r"from 0 to 2\*\*31 - 1; got 1e\+19 of word 0 in document 0"),
    "half": ([[1, 0.5], [3, 0]], r"docs of lda must hold counts, .* got 0.5 of word 1 in document 0"),
    "nan": ([[1, np.nan], [3, 0]], r"docs of lda must hold counts, .* got nan of word 1 in document 0"),
    "infinite": (sparse.csr_array([[1.0, np.inf]] * 2), r"must hold counts, .* got inf of word 1 in document 0"),
    "empty": ([[1, 2], [0, 0], [1, 0], [0, 0]], r"at least one word in each document; got 2 empty, of index 1, 3"),
    "one document": ([[1, 2]], r"at least 2, and a column for each word; got an array of shape \(1, 2\)"),
    "a vector": ([1, 2], r"docs of lda must be a matrix of counts.* got an array of shape \(2,\)"),
    "cube": (np.ones((2, 2, 2)), r"docs of lda must be a matrix of counts.* got an array of shape \(2, 2, 2\)"),
    "texts": ([["a", "b"], ["c", "d"]], r"docs of lda must be an array of real numbers"),
    "complex": (sparse.csr_array([[1j, 1], [1, 1]]), r"docs of lda must be a matrix of counts.* complex128"),
    "no words": (np.ones((3, 0)), r"a column for each word; got an array of shape \(3, 0\)"),
}


@pytest.mark.parametrize("case", BAD_DOCS)
def test_documents_that_are_refused(case):
    docs, message = BAD_DOCS[case]
    with pytest.raises(ValueError, match=message):
        lda(docs, 2)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("nTopics", 1),
        ("nTopics", 2.5),
        ("nTopics", "3"),
        ("docTopicPrior", 0),
        ("docTopicPrior", np.nan),
        ("docTopicPrior", [0.1, 0.2]),
        ("topicWordPrior", -0.1),
        ("topicWordPrior", None),
        ("stepsize", 0),
        ("stepsize", "auto"),
        ("minibatchSize", 0),
        ("minibatchSize", 1.5),
        ("nIters", 0),
        ("seed", -1),
        ("method", "gibbs"),
        ("method", ["scir"]),
        ("sweeps", 1),
        ("vocabulary", ["a", "b", "c"]),
        ("burnIn", 1000),
        ("burnIn", "half"),
        ("thin", 0),
        ("nChains", 0),
        ("storage", 3),
        ("storage", "topics.csv"),
        ("resume", 1),
    ],
)
def test_arguments_that_are_refused(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} of lda must "):
        lda(**{"docs": GOOD, "nTopics": 2, argument: value})


def test_resume_needs_the_seed(tmp_path):
    with pytest.raises(ValueError, match=r"^seed of lda must be that of the run in storage"):
        lda(GOOD, 2, storage=tmp_path / "topics.zarr", resume=True)


@pytest.mark.parametrize("of", ["transform", "perplexity"])
def test_documents_with_other_words_are_refused(of, docs):
    with pytest.raises(ValueError, match=rf"^docs of {of} must have a column for each of the 4 words .* got 3 columns"):
        getattr(drawn_topics([PHI]), of)(docs[:, :3])
    with pytest.raises(ValueError, match=rf"^docs of {of} must have at least one word in each document; got 1 empty"):
        getattr(drawn_topics([PHI]), of)([[0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("of", "arguments", "message"),
    [
        ("transform", {"sweeps": 0}, "sweeps of transform must be an integer of at least 1"),
        ("perplexity", {"seed": 1.5}, "seed of perplexity must be"),
        ("perplexity", {"perDraw": 1}, "perDraw of perplexity must be True or False"),
    ],
)
def test_arguments_of_methods_that_are_refused(of, arguments, message, docs):
    with pytest.raises(ValueError, match=rf"^{message}"):
        getattr(drawn_topics([PHI]), of)(docs, **arguments)


def test_arguments_of_tables_and_pictures_that_are_refused():
    topics = drawn_topics([PHI])
    for arguments, message in (
        ({"n": 5}, "n of topWords must be at most the 4 words; got 5"),
        ({"n": 0}, "n of topWords must be an integer of at least 1"),
        ({"chain": 1}, "chain of topWords must be the number of a chain, 0 to 0; got 1"),
    ):
        with pytest.raises(ValueError, match=rf"^{message}"):
            topics.topWords(**{"n": 2} | arguments)
    for chosen in ([2], [0.5], [], "all"):
        with pytest.raises(ValueError, match=r"^topics of plot must be numbers of topics, 0 to 1"):
            topics.plot(chosen, n=2)


def test_topics_are_made_of_draws_of_topics():
    with pytest.raises(ValueError, match=r"^draws of Topics must be Draws"):
        Topics({"topics": PHI[None]}, 0.1)
    draws = drawn_topics([PHI]).draws
    with pytest.raises(ValueError, match=r"^draws of Topics must be Draws with at least one draw"):
        Topics(draws[:0], 0.1)
    with pytest.raises(ValueError, match=r"^docTopicPrior of Topics must be a positive number"):
        Topics(draws, 0.0)
    with pytest.raises(ValueError, match=r"^vocabulary of Topics must have a word for each of the 4 columns"):
        Topics(draws, 0.1, ["a"])

"""The plots show the draws: lines, densities, labels and limits are compared with the arrays."""

import sys
import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sgmcmc import Draws, plotMarginals, plotPairs, plotRunning, plotTrace
from sgmcmc.draws.drawing import density, effective_size, highest_density_levels, joint_density

FUNCTIONS = [plotTrace, plotRunning, plotMarginals, plotPairs]


@pytest.fixture(autouse=True)
def figures():
    before = dict(matplotlib.rcParams)
    yield
    for number in plt.get_fignums():  # whatever cannot be drawn fails here
        plt.figure(number).canvas.draw()
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert dict(matplotlib.rcParams) == before


def drawn(n_chains=None, n=400, thin=1, burn_in=0, n_elements=3):
    rng = np.random.default_rng(1)
    c = n_chains or 1
    posterior = {
        "beta": rng.normal([[[0.0, 5.0, -2.0][:n_elements]]], [1.0, 0.5, 2.0][:n_elements], (c, n, n_elements)),
        "sigma": rng.gamma(3.0, size=(c, n)).astype(np.float32),
    }
    groups = {"posterior": posterior, "sample_stats": {"lp": rng.normal(-100.0, 3.0, (c, n))}}
    iterations = burn_in + thin * np.arange(1, n + 1)
    return Draws(groups, nChains=n_chains, iterations=iterations, settings={"sampler": "sgld", "seed": 1})


def titles(axes):
    return [ax.get_title("left") for ax in axes]


def normal(x, mean=0.0, sd=1.0):
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def shaded(ax):
    patches = [patch for patch in ax.patches if patch.get_label() == "burn-in"]
    return [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in patches]


# ------------------------------------------------------------------------------------------------------------- trace


def test_trace_shows_the_log_posterior_and_every_element():
    out = drawn()
    axes = plotTrace(out)
    assert titles(axes) == ["log posterior", "beta[0]", "beta[1]", "beta[2]", "sigma"]
    expected = [out.logPosterior, *out["beta"].T, out["sigma"]]
    for ax, values in zip(axes, expected, strict=True):
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 401))
        np.testing.assert_array_equal(line.get_ydata(), values)
        assert ax.get_xlim() == (0, 400)
    assert axes[-1].get_xlabel() == "iteration"


def test_trace_shows_every_chain_in_a_colour_of_its_own():
    out = drawn(4)
    (ax,) = plotTrace(out, "beta[1]", logPosterior=False)
    assert len({line.get_color() for line in ax.lines}) == 4
    for line, chain in zip(ax.lines, out["beta"], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), chain[:, 1])
    (legend,) = ax.figure.legends
    assert [text.get_text() for text in legend.texts] == ["chain 1", "chain 2", "chain 3", "chain 4"]


def test_trace_of_many_chains_has_no_legend_of_them():
    (ax,) = plotTrace(drawn(20), "sigma", logPosterior=False)
    assert len(ax.lines) == 20
    assert len({tuple(line.get_color()) for line in ax.lines}) == 20
    assert not ax.figure.legends


def test_trace_counts_iterations_as_the_run_did():
    (ax,) = plotTrace(drawn(thin=10, burn_in=500), "sigma", burnIn=1500, logPosterior=False)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), 500 + 10 * np.arange(1, 401))
    assert ax.get_xlim() == (500, 4500)
    assert shaded(ax) == [(500, 1500)]


def test_trace_shades_nothing_that_is_not_shown():
    assert shaded(plotTrace(drawn(burn_in=500), burnIn=500)[0]) == []
    assert shaded(plotTrace(drawn())[0]) == []


def test_trace_of_a_plain_dict_with_a_matrix():
    chain = np.arange(60.0).reshape(10, 2, 3)
    axes = plotTrace({"W": chain}, ["W[1, 2]", "W[0]", "W[-1,0]"])
    assert titles(axes) == ["W[1, 2]", "W[0, 0]", "W[0, 1]", "W[0, 2]", "W[1, 0]"]
    for ax, values in zip(axes, [chain[:, 1, 2], *chain[:, 0].T, chain[:, 1, 0]], strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), values)


def test_a_name_with_brackets_is_found_first():
    (ax,) = plotTrace({"theta[0]": np.ones(5), "theta": np.zeros((5, 2))}, "theta[0]")
    assert ax.lines[0].get_ydata().tolist() == [1.0] * 5


def test_long_chains_keep_their_extremes():
    values = np.random.default_rng(0).normal(size=100_001)
    values[[777, 55_555]] = [50.0, -40.0]
    (ax,) = plotTrace({"x": values})
    x, y = ax.lines[0].get_data()
    assert len(x) <= 3100
    np.testing.assert_array_equal(y, values[x - 1])
    assert (x[0], x[-1], y.max(), y.min()) == (1, 100_001, 50.0, -40.0)
    assert (np.diff(x) > 0).all()


def test_too_many_elements_share_the_panels_and_it_is_said():
    chain = {"W": np.zeros((5, 300, 200)), "b": np.zeros((5, 100)), "s": np.zeros(5)}
    axes = plotTrace(chain)
    assert titles(axes) == ["W[0, 0]", "W[0, 1]", "W[0, 2]", "W[0, 3]", "b[0]", "b[1]", "b[2]", "s"]
    assert axes[0].get_title("right") == "8 of 60,101 elements"
    assert len(plotTrace(chain, maxPanels=3)) == 3
    named = plotTrace(chain, [f"b[{i}]" for i in range(10)])
    assert len(named) == 10
    assert named[0].get_title("right") == ""


def test_labels_leave_out_powers_of_ten():
    rng = np.random.default_rng(0)
    axes = plotTrace({"big": 3e8 + 1e6 * rng.normal(size=50), "small": 1e-6 * rng.normal(size=50), "x": np.arange(50)})
    assert titles(axes) == [r"big ($\times 10^{8}$)", r"small ($\times 10^{-6}$)", "x"]
    for ax, factor in zip(axes, (1e8, 1e-6, 1.0), strict=True):
        for tick, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True):
            assert float(label.get_text().replace("\N{MINUS SIGN}", "-")) * factor == pytest.approx(tick, abs=1e-12)


def test_own_axes_are_drawn_into_and_counted():
    figure, own = plt.subplots(2)
    axes = plotTrace(drawn(), "sigma", axes=own)
    assert list(axes) == list(own)
    assert all(ax.spines["top"].get_visible() for ax in own)
    assert not figure.legends
    with pytest.raises(ValueError, match=r"axes of plotTrace must be 4 Axes, one for each panel; got 2\."):
        plotTrace(drawn(), "beta", axes=own)
    with pytest.raises(ValueError, match="axes of plotMarginals must be 1 Axes, one for each panel; got 'ax'"):
        plotMarginals(drawn(), "sigma", axes="ax")


def test_draws_on_disk_are_read_by_the_element():
    import xarray

    out = drawn(2)
    groups = {
        group: {name: xarray.DataArray(array) for name, array in members.items()}
        for group, members in out.groups.items()
    }
    lazy = Draws(groups, nChains=2, iterations=out.iterations, settings=out.settings)
    axes = plotTrace(lazy, ["beta[2]", "sigma"])
    np.testing.assert_array_equal(axes[1].lines[1].get_ydata(), out["beta"][1, :, 2])
    np.testing.assert_array_equal(axes[2].lines[0].get_ydata(), out["sigma"][0])
    single = Draws(groups, nChains=None, iterations=out.iterations, settings=out.settings)
    assert len(plotPairs(single, "beta")) == 3


# ----------------------------------------------------------------------------------------------------------- running


def test_running_mean_begins_after_the_burn_in():
    values = np.random.default_rng(0).normal(size=(2, 1000)) + 5.0
    ax = plotRunning(values, burnIn=200)
    assert shaded(ax) == [(0, 200)]
    pale, first, _, second = ax.lines
    np.testing.assert_allclose(pale.get_ydata(), np.cumsum(values[0, :200]) / np.arange(1, 201))
    np.testing.assert_array_equal(pale.get_xdata(), np.arange(1, 201))
    for line, chain in ((first, values[0]), (second, values[1])):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(201, 1001))
        np.testing.assert_allclose(line.get_ydata(), np.cumsum(chain[200:]) / np.arange(1, 801))
    assert [text.get_text() for text in ax.figure.legends[0].texts] == ["chain 1", "chain 2", "burn-in"]


def test_running_mean_of_draws_counts_their_iterations():
    out = drawn(2, thin=5, burn_in=100)
    ax = plotRunning(out, "beta[1]", burnIn=600)
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), out.iterations[100:])
    assert ax.lines[1].get_ydata()[-1] == pytest.approx(out["beta"][0, 100:, 1].mean())
    assert shaded(ax) == [(100, 600)]
    assert ax.get_ylabel() == "running mean of beta[1]"


def test_running_mean_of_plain_values():
    values = np.arange(10.0)
    ax = plotRunning(values, iterations=np.arange(0, 100, 10))
    np.testing.assert_allclose(ax.lines[0].get_data(), [np.arange(0, 100, 10), values / 2])
    assert plotRunning({"loss": values}).get_ylabel() == "running mean of loss"
    assert ax.figure.legends == []


def test_limits_of_the_running_mean_are_those_of_the_settled_part():
    values = np.concatenate([np.full(100, 1000.0), np.random.default_rng(0).normal(size=900)])
    low, high = plotRunning(values, burnIn=100).get_ylim()
    means = np.cumsum(values[100:]) / np.arange(1, 901)
    assert low < means[9:].min() < means[9:].max() < high < 3.0


def test_samplers_are_compared_in_one_axes():
    values = np.random.default_rng(0).normal(size=(2, 500))
    ax = plotRunning(values, burnIn=50, label="sgld", reference=0.25)
    assert plotRunning(values + 1, burnIn=50, label="sgldcv", ax=ax) is ax
    assert {text.get_text() for text in ax.get_legend().texts} == {"burn-in", "sgld", "reference", "sgldcv"}
    assert len(shaded(ax)) == 1
    assert ax.lines[0].get_color() == ax.lines[3].get_color() != ax.lines[5].get_color() == ax.lines[8].get_color()
    (reference,) = (line for line in ax.lines if line.get_label() == "reference")
    assert list(reference.get_ydata()) == [0.25, 0.25]
    low, high = ax.get_ylim()
    assert low < 0.25 < 1.0 < high


# ------------------------------------------------------------------------------------------------------------ density


def test_density_is_that_of_the_draws():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(1, 50_000))
    found = density(values)
    step = found.grid[1] - found.grid[0]
    assert found.pooled.sum() * step == pytest.approx(1.0)
    np.testing.assert_allclose(found.pooled, normal(found.grid, 3.0, 2.0), atol=0.01)
    assert (found.grid * found.pooled).sum() * step == pytest.approx(values.mean(), abs=step)


def test_density_ignores_how_the_chain_wanders():
    rng = np.random.default_rng(0)
    slow = np.zeros(20_000)
    for t in range(1, len(slow)):
        slow[t] = 0.99 * slow[t - 1] + np.sqrt(1 - 0.99**2) * rng.normal()
    sizes = effective_size(np.stack([slow, rng.normal(size=20_000), np.full(20_000, 2.0)]))
    assert sizes[0] < 1000  # exact: 20,000 * (1 - 0.99) / (1 + 0.99) = 100; short batches see less
    assert sizes[1] > 10_000
    assert sizes[2] == 20_000
    curve = density(slow[None]).pooled
    assert (np.diff(np.sign(np.diff(curve))) < 0).sum() <= 3  # few peaks


def test_joint_density_keeps_the_ridge_and_its_regions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 20_000))
    y = 10 * (0.95 * x + np.sqrt(1 - 0.95**2) * rng.normal(size=x.shape))
    along, up, heights = joint_density(x, y)
    cell = (along[1] - along[0]) * (up[1] - up[0])
    assert heights.sum() * cell == pytest.approx(1.0)
    u, v = np.meshgrid(along, up)
    assert (heights * u * v).sum() * cell == pytest.approx(9.5, rel=0.05)
    assert heights.max() == pytest.approx(1 / (2 * np.pi * 10 * np.sqrt(1 - 0.95**2)), rel=0.1)
    for share, level in zip((0.95, 0.5), highest_density_levels(heights, (0.95, 0.5)), strict=True):
        assert heights[heights >= level].sum() * cell == pytest.approx(share, abs=0.01)


def test_marginals_show_every_chain_and_all_together():
    out = drawn(3, n=2000)
    axes = plotMarginals(out)
    assert [ax.get_xlabel() for ax in axes] == ["beta[0]", "beta[1]", "beta[2]", "sigma"]
    for ax, values in zip(axes, [*np.moveaxis(out["beta"], -1, 0), out["sigma"]], strict=True):
        assert len(ax.lines) == 3
        for line, chain in zip(ax.lines, values, strict=True):
            x, y = line.get_data()
            assert np.trapezoid(y, x) == pytest.approx(1.0, abs=1e-3)
            assert np.trapezoid(x * y, x) == pytest.approx(chain.mean(), abs=0.02)
        (area,) = ax.collections
        corners = area.get_paths()[0].vertices
        assert corners[:, 1].max() == pytest.approx(density(values.astype(float)).pooled.max())
        assert ax.get_ylim()[0] == 0


def test_marginals_beside_normal_and_callable_references():
    out = drawn(n=2000)
    axes = plotMarginals(out, reference={"beta": ([0.0, 5.0, -2.0], [1.0, 0.5, 2.0]), "sigma": lambda x: 0 * x + 0.1})
    for ax, mean, sd in zip(axes, [0.0, 5.0, -2.0], [1.0, 0.5, 2.0], strict=False):
        x, y = ax.lines[-1].get_data()
        np.testing.assert_allclose(y, normal(x, mean, sd))
        assert x[0] <= mean - 3.5 * sd < mean + 3.5 * sd <= x[-1]
    np.testing.assert_allclose(axes[3].lines[-1].get_ydata(), 0.1)
    assert [text.get_text() for text in axes[0].figure.legends[0].texts] == ["reference"]


def test_marginals_beside_other_draws():
    rng = np.random.default_rng(0)
    other = rng.normal([10.0, 20.0, 30.0], 1.0, size=(3000, 3))
    for reference in ({"beta": other}, {"beta[1]": other[:, 1]}):
        first, second = plotMarginals(drawn(), ["beta[0]", "beta[1]"], reference=reference)
        x, y = second.lines[-1].get_data()
        assert np.trapezoid(x * y, x) == pytest.approx(20.0, abs=0.1)
        assert len(first.lines) == (2 if "beta" in reference else 1)
    same = plotMarginals(drawn(), "beta", reference=drawn(4, n=1000))
    assert all(len(ax.lines) == 2 for ax in same)


def test_an_element_goes_before_its_parameter_in_a_reference():
    axes = plotMarginals(drawn(), "beta", reference={"beta": (0.0, 1.0), "beta[2]": (7.0, 1.0)})
    peaks = [ax.lines[-1].get_xdata()[ax.lines[-1].get_ydata().argmax()] for ax in axes]
    np.testing.assert_allclose(peaks, [0.0, 0.0, 7.0], atol=0.05)


def test_a_histogram_is_a_density():
    out = drawn(4)
    (ax,) = plotMarginals(out, "sigma", kind="histogram")
    (steps,) = ax.patches
    heights, edges, _ = steps.get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1.0)
    np.testing.assert_allclose([edges[0], edges[-1]], [out["sigma"].min(), out["sigma"].max()])


@pytest.mark.parametrize("n_chains", [None, 3])
def test_constants_and_single_draws_are_shown(n_chains):
    out = drawn(n_chains, n=1)
    plotTrace(out)
    plotMarginals(out, reference={"sigma": (1.0, 1.0)})
    plotPairs(out)
    constant = {"a": np.full(50, 3.0), "b": np.arange(50.0)}
    first, _ = plotMarginals(constant)
    assert list(first.lines[0].get_xdata()) == [3.0, 3.0]
    plotPairs(constant, reference=constant)


# -------------------------------------------------------------------------------------------------------------- pairs


def test_pairs_fill_the_lower_triangle():
    axes = plotPairs(drawn(4))
    assert axes.shape == (4, 4)
    visible = np.array([[ax.get_visible() for ax in row] for row in axes])
    np.testing.assert_array_equal(visible, np.tril(np.ones((4, 4), bool)))
    assert [ax.get_xlabel() for ax in axes[-1]] == ["beta[0]", "beta[1]", "beta[2]", "sigma"]
    assert [ax.get_ylabel() for ax in axes[1:, 0]] == ["beta[1]", "beta[2]", "sigma"]
    for i in range(4):
        assert len({ax.get_xlim() for ax in axes[i:, i]}) == 1
        assert len({ax.get_ylim() for ax in axes[i, :i]}) <= 1


def test_pairs_draw_the_regions_of_highest_density():
    out = drawn(4, n=2000)
    axes = plotPairs(out, ["beta[0]", "beta[1]"])
    (regions,) = axes[1, 0].collections
    _, _, heights = joint_density(out["beta"][..., 0], out["beta"][..., 1])
    np.testing.assert_allclose(regions.levels[:-1], highest_density_levels(heights, (0.95, 0.8, 0.5)))
    outer = np.concatenate([path.vertices for path in regions.get_paths()])
    expected = np.sqrt(-2 * np.log(0.05))  # of a standard normal pair
    assert outer[:, 0].max() == pytest.approx(expected, rel=0.15)
    assert outer[:, 1].max() == pytest.approx(5.0 + 0.5 * expected, rel=0.1)


def test_pairs_as_dots_in_the_colours_of_chains():
    out = drawn(4, n=5000)
    axes = plotPairs(out, "beta", kind="scatter")
    clouds = axes[2, 0].lines
    assert len({line.get_color() for line in clouds}) == 4
    assert sum(len(line.get_xdata()) for line in clouds) == 2000
    for line, chain in zip(clouds, out["beta"], strict=True):
        np.testing.assert_array_equal(line.get_data(), chain[::10, [0, 2]].T)


def test_pairs_beside_other_draws():
    out = drawn()
    axes = plotPairs(out, "beta", reference={"beta": out["beta"] + 1.0, "beta[2]": (0.0, 1.0)})
    assert [len(axes[i, j].collections) for i, j in ((1, 0), (2, 0), (2, 1))] == [2, 1, 1]
    assert all(len(axes[i, i].lines) == 2 for i in range(3))
    outline = np.concatenate([path.vertices for path in axes[1, 0].collections[1].get_paths()])
    np.testing.assert_allclose(outline.mean(axis=0), [1.0, 6.0], atol=0.3)
    dotted = plotPairs(out, "beta", reference={"beta": out["beta"]}, kind="scatter")
    assert [len(dotted[i, j].collections) for i, j in ((1, 0), (2, 0), (2, 1))] == [1, 1, 1]
    assert axes[1, 0].get_xlim()[1] > out["beta"][:, 0].max()


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("plot", FUNCTIONS)
def test_names_must_be_known(plot):
    with pytest.raises(ValueError, match=f"^names of {plot.__name__} must be among 'beta', 'sigma', or their"):
        plot(drawn(), "gamma")
    with pytest.raises(
        ValueError, match=rf"^names of {plot.__name__} must lie within the shape of 'beta', \(3,\); got"
    ):
        plot(drawn(), "beta[3]")
    with pytest.raises(ValueError, match=r"must lie within the shape of 'sigma', \(\); got 'sigma\[0\]'"):
        plot(drawn(), "sigma[0]")


@pytest.mark.parametrize("plot", FUNCTIONS)
def test_draws_must_be_draws(plot):
    argument = "values" if plot is plotRunning else "draws"
    with pytest.raises(ValueError, match=f"^{argument} of {plot.__name__} must hold arrays with equally many draws"):
        plot({"a": np.zeros(3), "b": np.zeros(4)})
    with pytest.raises(ValueError, match=f"^{argument} of {plot.__name__} must be finite; got nan in 'a'"):
        plot({"a": np.array([1.0, np.nan])})
    with pytest.raises(ValueError, match=f"^{argument} of {plot.__name__} must be .* for 'a'"):
        plot({"a": np.array(["x"])})
    with pytest.raises(ValueError, match=f"^{argument} of {plot.__name__} must hold at least one draw"):
        plot({"a": np.zeros(0)})
    with pytest.raises(ValueError, match=f"^{argument} of {plot.__name__} must be"):
        plot("draws")
    empty = Draws({"posterior": {}}, nChains=None, iterations=np.arange(1, 4), settings={"sampler": "sgld", "seed": 1})
    with pytest.raises(ValueError, match=f"^{plot.__name__} needs draws, but none are stored, since reduce="):
        plot(empty)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": 3}, "names of plotTrace must be a name such as"),
        ({"names": []}, "names of plotTrace must be a name such as"),
        ({"names": [3]}, "names of plotTrace must be among"),
        ({"burnIn": -1}, "burnIn of plotTrace must be a number of iterations"),
        ({"burnIn": True}, "burnIn of plotTrace must be a number of iterations"),
        ({"maxPanels": 0}, "maxPanels of plotTrace must be an integer of at least 1; got 0"),
    ],
)
def test_trace_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        plotTrace(drawn(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": drawn()}, r"name of plotRunning must stand for one of 4 numbers, as 'beta\[0\]' does; got none"),
        ({"values": drawn(), "name": "beta"}, "name of plotRunning must stand for one of 3 numbers"),
        ({"values": drawn(), "name": ["sigma"]}, "name of plotRunning must be one such as"),
        ({"values": np.zeros((2, 3, 4))}, "values of plotRunning must be .*; got float64 of shape"),
        ({"values": np.zeros(3), "name": "x"}, "name of plotRunning must be left out"),
        ({"values": np.zeros(3), "burnIn": 3}, "burnIn of plotRunning must be below the last iteration, 3; got 3"),
        ({"values": np.zeros(3), "iterations": [3, 2, 1]}, "iterations of plotRunning must be 3 increasing integers"),
        ({"values": np.zeros(3), "reference": "0"}, "reference of plotRunning must be a number; got '0'"),
        ({"values": np.zeros(3), "ax": [1]}, "ax of plotRunning must be a single Axes"),
    ],
)
def test_running_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        plotRunning(**arguments)


@pytest.mark.parametrize("plot", [plotMarginals, plotPairs])
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (3, "must be a dict of draws"),
        ({"gamma": (0, 1)}, "must be among 'beta', 'sigma'"),
        ({"beta": np.zeros((5, 2))}, r"must be finite draws \(T, 3\), \(mean, sd\) or a density for 'beta\[0\]'"),
        ({"sigma": np.zeros((5, 2))}, r"must be finite draws \(T,\)"),
        ({"beta": np.full((5, 3), np.inf)}, "must be finite draws"),
        ({"beta": (0.0, -1.0)}, r"must be \(mean, sd\) with a positive sd"),
        ({"beta": (0.0, 1.0, 2.0)}, r"must be \(mean, sd\) with a positive sd"),
        ({"sigma": lambda x: 1.0}, "must give one density for each of 512 points of 'sigma'; got an array of shape"),
        (drawn(n_elements=2), r"must be of the shape of draws, \(3,\) for 'beta'; got \(2,\)"),
    ],
)
def test_references_are_checked(plot, reference, message):
    with pytest.raises(ValueError, match=f"reference of {plot.__name__} {message}"):
        plot(drawn(), reference=reference)


def test_kinds_are_checked_and_pairs_need_two():
    with pytest.raises(ValueError, match=r"kind of plotMarginals must be 'density' or 'histogram'; got 'kde'\."):
        plotMarginals(drawn(), kind="kde")
    with pytest.raises(ValueError, match=r"kind of plotPairs must be 'contours' or 'scatter'; got None\."):
        plotPairs(drawn(), kind=None)
    with pytest.raises(ValueError, match="names of plotPairs must stand for at least two numbers; got 'sigma' only"):
        plotPairs(drawn(), "sigma")


@pytest.mark.parametrize("plot", FUNCTIONS)
def test_without_matplotlib_it_is_said_how_to_get_it(plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=f"^{plot.__name__} needs matplotlib: pip install matplotlib$"):
        plot(drawn(), "sigma")

from __future__ import annotations

import copy
from typing import Any

import pytest

from tasks.reporting.figures import calibration_figures, headed, panel_grid, slice_figure
from tests.tasks.tracking.conftest import Story, story

__all__ = ["story"]  # the fixture


def texts(figure: Any) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(lambda item: hasattr(item, "get_text")))


def maxima(story: Story) -> Any:
    return story.calibration.path.with_name(story.calibration.document["outputs"][0]["uri"])


def test_every_figure_of_a_calibration_draws_without_a_warning_or_a_display(story: Story, tmp_path: Any) -> None:
    figures = calibration_figures(story.calibration.document, maxima(story))
    assert set(figures) == {"roc", "scores", "slices-topic"}
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png")


def test_the_roc_names_each_threshold_and_passes_through_the_deployed_point(story: Story) -> None:
    figure = calibration_figures(story.calibration.document, maxima(story))["roc"]
    row = story.calibration.document["result"]["categories"]["hate"]
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("hate"))
    curve = {(round(x, 9), round(y, 9)) for line in axes.lines for x, y in zip(*line.get_data(), strict=True)}
    apparent = row["apparent"]
    assert (round(1 - apparent["specificity"], 9), round(apparent["sensitivity"], 9)) in curve
    assert f"threshold {row['threshold']:.3g}" in texts(figure)


def test_many_slices_show_the_largest_and_say_so(story: Story) -> None:
    result = copy.deepcopy(story.calibration.document["result"])
    one = result["slices"]["topic"]["work"]
    values = {f"v{i:03}": {**one, "n_traces": i} for i in range(200)}
    figure = slice_figure(result, "topic", values)
    assert "the 30 largest of 200 values" in texts(figure)


@pytest.mark.parametrize("name", ["$home", "a$b^{x", "\x1b[31mred"])
def test_an_untrusted_name_is_shown_and_not_interpreted(name: str, story: Story, tmp_path: Any) -> None:
    result = copy.deepcopy(story.calibration.document["result"])
    slice_figure(result, name, {name: result["slices"]["topic"]["work"]}).savefig(tmp_path / "x.png")


def test_a_slice_without_traces_of_a_class_has_no_rate(story: Story) -> None:
    result = copy.deepcopy(story.calibration.document["result"])
    row = copy.deepcopy(result["slices"]["topic"]["work"])
    row["composite"] |= {"n_positive": 0, "true_positives": 0, "sensitivity": None}
    assert "no such traces" in texts(slice_figure(result, "topic", {"work": row}))


@pytest.mark.parametrize("panels", [1, 2, 3])
@pytest.mark.parametrize("words", [3, 30, 60])
def test_a_legend_of_any_length_stays_in_the_figure_and_above_the_panels(panels: int, words: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure, axes = panel_grid(panels, height=2.9)
    headed(figure, "A title", "Markings " * words)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legend = figure.texts[-1].get_window_extent(canvas.get_renderer())
    assert legend.x1 <= figure.bbox.width
    assert legend.y0 >= max(panel.get_window_extent().y1 for panel in axes)
    assert figure.texts[-1].get_text().split() == ["Markings"] * words

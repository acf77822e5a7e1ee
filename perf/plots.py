"""Plots as SVG: the same figures always give the same file, and labels stay text."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

type Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 8.0, 4.0  # inches, at 72 points each
mpl.rcParams.update({"svg.hashsalt": "ironauth", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10})


def bars(path: Path, title: str, values: Mapping[str, float], *, unit: str) -> None:
    """Draw one horizontal bar for each value, in the order given, with its figure beside it."""
    figure, axes = _canvas(title, height=1.2 + 0.45 * len(values))
    drawn = axes.barh(list(values), list(values.values()), color="#2f6f9f")
    axes.bar_label(drawn, labels=[f"{value:,.4g}" for value in values.values()], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(unit)
    _save(figure, path)


def lines(
    path: Path, title: str, series: Mapping[str, Points], *, x: str, y: str, log_x: bool = False, log_y: bool = False
) -> None:
    """Draw each series as a line through its points; ``x`` and ``y`` name the axes with their units."""
    figure, axes = _canvas(title)
    for (label, points), mark in zip(series.items(), "os^Dvx*+" * len(series), strict=False):
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        axes.plot(xs, ys, label=label, marker=mark if len(points) < 40 else "", markersize=4, linewidth=1.5)
    _axes(axes, x, y, log_x=log_x, log_y=log_y)
    if len(series) > 1:
        axes.legend(frameon=False)
    _save(figure, path)


def _canvas(title: str, height: float = _HEIGHT) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _axes(axes: Axes, x: str, y: str, *, log_x: bool, log_y: bool) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})

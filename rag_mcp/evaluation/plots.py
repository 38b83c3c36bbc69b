"""Small charts as inline SVG: pure functions from numbers to markup, coloured by the page's own style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["curves", "histograms", "reliability_diagram"]

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 40
_ROW = 74
_HISTOGRAM_BINS = 25
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def histograms(groups: Mapping[str, Sequence[float]], *, marks: Mapping[str, float] | None = None) -> str:
    """One row a group over a shared axis 0..1; bars are shares of the group. ``marks`` are dashed vertical lines."""
    top = _TOP + 12
    height = top + _ROW * len(groups) + _BOTTOM
    base = height - _BOTTOM
    parts = [_x_axis(base, "score")]
    for row, (name, values) in enumerate(groups.items()):
        parts.append(_histogram_row(name, values, row, top + _ROW * (row + 1)))
    for name, place in (marks or {}).items():
        parts.append(f'<line class="mark" x1="{_x(place)}" x2="{_x(place)}" y1="{_TOP}" y2="{base}"/>')
        parts.append(f'<text class="small" x="{_x(place) + 4}" y="{_TOP + 2}">{escape(name)}: {place:.2f}</text>')
    return _svg(height, "Score distribution by kind of question", parts)


def _histogram_row(name: str, values: Sequence[float], row: int, floor: float) -> str:
    counts = [0] * _HISTOGRAM_BINS
    for value in values:
        counts[min(max(int(value * _HISTOGRAM_BINS), 0), _HISTOGRAM_BINS - 1)] += 1
    tallest = max(counts) or 1
    room = _ROW - 26
    bars = []
    for index, count in enumerate(counts):
        if count:
            left, right = _x(index / _HISTOGRAM_BINS), _x((index + 1) / _HISTOGRAM_BINS)
            tall = room * count / tallest
            low, high = index / _HISTOGRAM_BINS, (index + 1) / _HISTOGRAM_BINS
            title = f"{low:.2f} to {high:.2f}: {count} of {len(values)}"
            bars.append(
                f'<rect class="s{row % 6}" x="{left + 1}" y="{floor - tall:.1f}" width="{right - left - 2:.1f}" '
                f'height="{tall:.1f}"><title>{title}</title></rect>'
            )
    label = f'<text class="label" x="{_x(1)}" y="{floor - room - 6}" text-anchor="end">{escape(name)} ({len(values)})</text>'
    return f'{label}<line class="axis" x1="{_LEFT}" x2="{_x(1)}" y1="{floor}" y2="{floor}"/>{"".join(bars)}'


def curves(series: Mapping[str, Sequence[tuple[float, float]]], *, x_name: str, y_name: str, title: str) -> str:
    """Lines over 0..1 x 0..1, named in a legend below."""
    parts = [_grid(x_name, y_name)]
    for index, points in enumerate(series.values()):
        path = " ".join(f"{_x(x)},{_y(y)}" for x, y in points)
        parts.append(f'<polyline class="line t{index % 6}" points="{path}"/>')
    legend = "".join(
        f'<li><span class="swatch b{index % 6}"></span>{escape(name)}</li>' for index, name in enumerate(series)
    )
    return f'{_svg(_HEIGHT, title, parts)}<ul class="legend">{legend}</ul>'


def reliability_diagram(bins: Sequence[Mapping[str, Any]]) -> str:
    """Mean score against share relevant by bin; the area of a dot is its share of questions. The diagonal is ideal."""
    total = sum(one["count"] for one in bins) or 1
    filled = [one for one in bins if one["count"]]
    parts = [
        _grid("mean score of the first result", "share relevant"),
        f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>',
        '<polyline class="line t0" points="'
        + " ".join(f"{_x(one['mean_score'])},{_y(one['share_relevant'])}" for one in filled)
        + '"/>',
    ]
    for one in filled:
        radius = 3 + 16 * (one["count"] / total) ** 0.5
        title = f"{one['count']} questions: mean score {one['mean_score']:.3f}, relevant {one['share_relevant']:.3f}"
        parts.append(
            f'<circle class="dot" cx="{_x(one["mean_score"])}" cy="{_y(one["share_relevant"])}" r="{radius:.1f}">'
            f"<title>{title}</title></circle>"
        )
    return _svg(_HEIGHT, "Reliability: score against share relevant", parts)


def _grid(x_name: str, y_name: str) -> str:
    lines = "".join(
        f'<line class="grid" x1="{_x(0)}" x2="{_x(1)}" y1="{_y(tick)}" y2="{_y(tick)}"/>'
        f'<text class="tick" x="{_LEFT - 6}" y="{_y(tick) + 4}" text-anchor="end">{tick:.1f}</text>'
        for tick in _TICKS
    )
    middle = (_y(0) + _y(1)) / 2
    name = f'<text class="small" transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>'
    return lines + name + _x_axis(_HEIGHT - _BOTTOM, x_name)


def _x_axis(base: float, name: str) -> str:
    ticks = "".join(
        f'<text class="tick" x="{_x(tick)}" y="{base + 16}" text-anchor="middle">{tick:.1f}</text>' for tick in _TICKS
    )
    return f'{ticks}<text class="small" x="{_x(0.5)}" y="{base + 33}" text-anchor="middle">{escape(name)}</text>'


def _svg(height: float, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _x(share: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0), 1)


def _y(share: float) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(max(share, 0.0), 1.0), 1)

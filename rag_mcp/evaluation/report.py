"""One self-contained HTML file from a report's JSON: tables, charts and every question, without any network access.

Questions and passages are untrusted: they reach the page escaped, or as JSON that only ever becomes text nodes, and a
content security policy lets no script run but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from rag_mcp.evaluation.compare import Comparison
from rag_mcp.evaluation.metrics import METRICS
from rag_mcp.evaluation.plots import curves, histograms, reliability_diagram
from rag_mcp.evaluation.tables import number, probability

__all__ = ["gate_charts", "render"]


def render(
    report: Mapping[str, Any], *, title: str = "Retrieval evaluation", comparison: Comparison | None = None
) -> str:
    """Return the page for ``EvalReport.as_json()``, or for a report read back from its file."""
    style, script = _asset("report.css"), _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    body = "".join(
        [
            _heading(report, title),
            _ranking(report),
            *(_gate(report, mode, is_open=index == 0) for index, mode in enumerate(report["modes"])),
            _comparison(comparison) if comparison else "",
            _latency(report),
            _questions(),
        ]
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>{body}</main>"
        f'<script type="application/json" id="data">{_embedded(report)}</script><script>{script}</script></body></html>\n'
    )


def _asset(name: str) -> str:
    return files("rag_mcp.evaluation").joinpath("assets", name).read_text(encoding="utf-8")


def _embedded(report: Mapping[str, Any]) -> str:
    text = json.dumps({"modes": list(report["modes"]), "rows": report["rows"]}, ensure_ascii=False, allow_nan=False)
    # "<" would let a question close the script element; the two separators end a line in old script parsers.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    note = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{note}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _heading(report: Mapping[str, Any], title: str) -> str:
    source = report["provenance"] or {}
    versions = ", ".join(f"{name} {version}" for name, version in (source.get("versions") or {}).items())
    facts = {
        "Questions": f"{report['questions']} ({report['answerable']} answerable)",
        "Chunks": number(report["chunks"], 0),
        "Corpus": source.get("corpus"),
        "Corpus digest": (source.get("corpus_digest") or "")[:16],
        "Embedder": source.get("embedder"),
        "Date": source.get("date"),
        "Versions": versions,
    }
    items = "".join(
        f"<div><dt>{name}</dt><dd>{escape(str(value))}</dd></div>" for name, value in facts.items() if value
    )
    return f"<h1>{escape(title)}</h1><dl>{items}</dl>{_warnings(report)}"


def _warnings(report: Mapping[str, Any]) -> str:
    notes = [f"{note[:1].upper()}{note[1:]}." for note in report.get("notes", ())]
    for mode, table in report["modes"].items():
        if table["degraded"]:
            notes.append(f"{mode}: {table['degraded']} answers were degraded (a search branch had failed).")
        if table["errors"]:
            notes.append(f"{mode}: {table['errors']} questions were refused by the search.")
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def _ranking(report: Mapping[str, Any]) -> str:
    rows = [
        [mode, *(_with_interval(table[name], table["ci"][name]) for name in METRICS)]
        for mode, table in report["modes"].items()
    ]
    return (
        "<section><h2>Ranking</h2>"
        + _table(["mode", *METRICS], rows, caption="Mean over answerable questions, with 95 % bootstrap intervals.")
        + _difficulties(report)
        + '<p class="note">File level (hit, MRR, nDCG with log2 discount) reads the results as a list of distinct files; '
        "chunk level asks whether a passage overlaps the quoted range.</p></section>"
    )


def _difficulties(report: Mapping[str, Any]) -> str:
    rows = [
        [f"{mode}, {difficulty}", str(means["questions"]), *(number(means[name]) for name in METRICS)]
        for mode, table in report["modes"].items()
        for difficulty, means in table["by_difficulty"].items()
    ]
    return _table(["difficulty", "questions", *METRICS], rows) if rows else ""


def _with_interval(value: float | None, ci: Mapping[str, float] | None) -> str:
    bounds = f" <small>{number(ci['low'])} to {number(ci['high'])}</small>" if ci else ""
    return f"{number(value)}{bounds}"


def _gate(report: Mapping[str, Any], mode: str, *, is_open: bool) -> str:
    gate = report["modes"][mode]["gate"]
    return (
        f"<section><details{' open' if is_open else ''}><summary><h2>Gate, {escape(mode)}</h2></summary>"
        + _gate_table(gate)
        + f'<p class="note">Calibration error (10 bins) {number(gate["ece"])}, Brier score {number(gate["brier"])}.</p>'
        + '<div class="plots">'
        + "".join(_figure(caption, chart) for caption, chart in gate_charts(report, mode))
        + "</div></details></section>"
    )


def gate_charts(report: Mapping[str, Any], mode: str) -> list[tuple[str, str]]:
    """What each chart shows, and the chart as SVG, whose words are escaped."""
    gate = report["modes"][mode]["gate"]
    return [
        ("Best score, in and out of scope", histograms(_groups(report, mode), marks=_marks(gate))),
        ("If the threshold stood elsewhere", _sweep(gate)),
        ("Is the score a probability?", reliability_diagram(gate["reliability"])),
    ]


def _gate_table(gate: Mapping[str, Any]) -> str:
    ci, at_95 = gate["ci"], gate["at_95"]
    rows = [
        [
            "answerable: answered",
            _with_interval(gate["answered"], ci["answered"]),
            number(at_95["answered"]) if at_95 else "–",
            _with_interval(gate["auroc"], ci["auroc"]),
        ]
    ]
    for kind, share in gate["withheld"].items():
        rows.append(
            [
                f"{kind}: withheld",
                _with_interval(share, ci["withheld"][kind]),
                number(at_95["withheld"].get(kind)) if at_95 else "–",
                _with_interval(gate["auroc_by_kind"].get(kind), ci["auroc_by_kind"].get(kind)),
            ]
        )
    return _table(["kind", "share, strict", "share with 95 % answered", "AUROC against answerable"], rows)


def _groups(report: Mapping[str, Any], mode: str) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = {}
    for row in report["rows"]:
        groups.setdefault(row["negkind"] or "answerable", []).append(row["modes"][mode]["best_score"])
    return dict(sorted(groups.items(), key=lambda item: (item[0] != "answerable", item[0])))


def _marks(gate: Mapping[str, Any]) -> dict[str, float]:
    return {"95 % answered": gate["at_95"]["threshold"]} if gate["at_95"] else {}


def _sweep(gate: Mapping[str, Any]) -> str:
    points = gate["sweep"]
    series = {
        "answerable: answered": [(one["threshold"], one["answered"]) for one in points if one["answered"] is not None]
    }
    for kind in gate["withheld"]:
        series[f"{kind}: withheld"] = [(one["threshold"], one["withheld"][kind]) for one in points]
    return curves(series, x_name="threshold on the best score", y_name="share of questions", title="Threshold sweep")


def _figure(caption: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{chart}</figure>"


def _latency(report: Mapping[str, Any]) -> str:
    tables = report["modes"].items()
    longest = max((table["latency_ms"]["p95"] for _, table in tables), default=0) or 1
    rows = []
    for mode, table in tables:
        p50, p95 = table["latency_ms"]["p50"], table["latency_ms"]["p95"]
        bar = (
            f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="s0 faint" width="{100 * p95 / longest:.1f}" height="8"/>'
            f'<rect class="s0" width="{100 * p50 / longest:.1f}" height="8"/></svg>'
        )
        rows.append([mode, number(p50, 1), number(p95, 1), bar])
    return f"<section><h2>Latency</h2>{_table(['mode', 'p50 ms', 'p95 ms', ''], rows)}</section>"


def _comparison(comparison: Comparison) -> str:
    rows = [
        [
            f"{mode}, {name}",
            number(one.old),
            number(one.new),
            f"{one.mean:+.3f} <small>{one.low:+.3f} to {one.high:+.3f}</small>",
            probability(one.p_value),
            str(one.n),
        ]
        for mode, table in comparison.differences.items()
        for name, one in table.items()
    ]
    notes = "".join(f'<p class="warning">{escape(note)}</p>' for note in comparison.notes)
    return (
        f"<section><h2>Against the earlier run</h2>{notes}"
        f'<p class="note">{comparison.shared} questions shared; {comparison.only_old} only in the earlier run, '
        f"{comparison.only_new} only in this one. p: randomisation test on the paired differences.</p>"
        + _table(["measure", "earlier", "this", "difference", "p", "questions"], rows)
        + _changes(comparison)
        + "</section>"
    )


def _changes(comparison: Comparison) -> str:
    rows = [
        [change.question, escape(change.mode), escape(change.measure), number(change.old), number(change.new)]
        for change in comparison.changes
    ]
    table = _table(["question", "mode", "measure", "earlier", "this"], rows)
    return f"<details><summary><h3>Questions that changed most</h3></summary>{table}</details>" if rows else ""


def _questions() -> str:
    return (
        '<section id="questions"><h2>Questions</h2><form class="filters" id="filters">'
        '<label>Mode <select id="mode"></select></label><label>Kind <select id="kind"></select></label>'
        '<label>Verdict <select id="verdict"></select></label>'
        '<label>Contains <input id="contains" type="search" autocomplete="off"></label>'
        '<output id="count"></output></form><div class="wide"><table id="rows"><thead></thead><tbody></tbody></table></div>'
        '<button type="button" id="more" hidden>Show more</button>'
        "<noscript>The list of questions needs JavaScript; everything above does not.</noscript></section>"
    )

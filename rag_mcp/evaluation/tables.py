"""Reports as markdown tables, for the terminal and the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_mcp.evaluation.compare import Comparison
from rag_mcp.evaluation.metrics import METRICS

__all__ = ["comparison_table", "mode_table", "number", "probability", "sets_table"]


def number(value: float | None, digits: int = 3) -> str:
    """Fixed digits; a dash for what was not measured."""
    return "–" if value is None else f"{value:.{digits}f}"


def probability(p: float) -> str:
    """A p-value as it may be quoted."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def mode_table(report: Mapping[str, Any]) -> str:
    """One report: ranking by mode, with 95 % intervals."""
    rows = [
        [mode, *(_with_interval(table[name], table["ci"][name]) for name in METRICS)]
        for mode, table in report["modes"].items()
    ]
    return _markdown(["mode", *METRICS], rows)


def sets_table(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Many reports: one row a set and mode; gate and latency of that mode."""
    header = ["set", "mode", *METRICS, "answered", "withheld", "AUROC", "ECE", "p50 ms", "p95 ms"]
    rows = [
        [name, mode, *(number(table[metric]) for metric in METRICS), *_gate_cells(table)]
        for name, report in reports.items()
        for mode, table in report["modes"].items()
    ]
    return _markdown(header, rows)


def comparison_table(comparison: Comparison) -> str:
    """Per mode and measure: old, new, difference with 95 % interval, p-value."""
    rows = [
        [
            mode,
            name,
            number(one.old),
            number(one.new),
            f"{one.mean:+.3f} ({one.low:+.3f} to {one.high:+.3f})",
            probability(one.p_value),
            str(one.n),
        ]
        for mode, table in comparison.differences.items()
        for name, one in table.items()
    ]
    return _markdown(["mode", "measure", "old", "new", "difference (95 %)", "p", "questions"], rows)


def _with_interval(value: float | None, ci: Mapping[str, float] | None) -> str:
    return number(value) if ci is None else f"{number(value)} ({number(ci['low'])} to {number(ci['high'])})"


def _gate_cells(table: Mapping[str, Any]) -> list[str]:
    gate, latency = table["gate"], table["latency_ms"]
    withheld = ", ".join(f"{kind} {number(share)}" for kind, share in gate["withheld"].items()) or "–"
    return [
        number(gate["answered"]),
        withheld,
        number(gate["auroc"]),
        number(gate["ece"]),
        number(latency["p50"], 1),
        number(latency["p95"], 1),
    ]

"""Evaluation, for auditors: the latest report that lies in the store's place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_mcp.config import Config
from rag_mcp.errors import RagMcpError
from rag_mcp.server.page.view import Asked, Payload, Shown
from rag_mcp.server.tools import error_payload
from rag_mcp.stores.embedded.place import store_root

__all__ = ["REPORT", "show_evaluation"]

REPORT = "evaluation.json"
_DAMAGED = {"type": "report_invalid", "message": "The report lacks something; make it again with rag-mcp eval --json."}


def show_evaluation(asked: Asked) -> Shown:
    corpora = asked.config.corpora or {"": asked.config}
    reports = {name: found for name, config in corpora.items() if (found := _report(config)) is not None}
    return Shown("evaluation.html", {"reports": reports, "file": REPORT})


def _report(config: Config) -> Payload | None:
    """What is shown of the report, or its problem; None where there is none."""
    path = store_root(config) / REPORT
    if not path.is_file():
        return None
    from rag_mcp.evaluation.compare import read_report

    try:
        return _shown(read_report(path))
    except RagMcpError as error:
        return {"problem": error_payload(error)["error"]}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {"problem": _DAMAGED}


def _shown(report: Mapping[str, Any]) -> Payload:
    from rag_mcp.evaluation.metrics import METRICS
    from rag_mcp.evaluation.report import gate_charts
    from rag_mcp.evaluation.tables import number

    modes = {
        mode: {
            "metrics": [number(table[name]) for name in METRICS],
            "answered": number(table["gate"]["answered"]),
            "withheld": number(table["gate"]["withheld_all"]),
            "p50": number(table["latency_ms"]["p50"], 1),
            "p95": number(table["latency_ms"]["p95"], 1),
        }
        for mode, table in report["modes"].items()
    }
    source = report["provenance"] or {}
    return {
        "metrics": METRICS,
        "modes": modes,
        "questions": report["questions"],
        "answerable": report["answerable"],
        "date": source.get("date"),
        "embedder": source.get("embedder"),
        "notes": report.get("notes", ()),
        "charts": gate_charts(report, next(iter(report["modes"]))),
    }

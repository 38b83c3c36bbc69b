"""Compares two reports question by question: what changed, and whether it is more than chance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rag_mcp.errors import InvalidArgument
from rag_mcp.evaluation.metrics import METRICS, Difference, paired_difference
from rag_mcp.evaluation.runner import FORMAT

__all__ = ["Change", "Comparison", "ReportInvalid", "check_report", "compare", "read_report"]

_MOST_CHANGED = 10


class ReportInvalid(InvalidArgument):
    """A file that is no evaluation report, or two reports that can't be compared."""

    def __init__(self, message: str) -> None:
        super().__init__("report", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One question in one mode whose nDCG@10 (answerable) or withholding (unanswerable) moved by ``delta``."""

    mode: str
    id: str
    question: str
    measure: str
    old: float
    new: float

    @property
    def delta(self) -> float:
        return self.new - self.old


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``differences`` is mode -> measure -> difference; higher is better for every measure.

    ``changes`` are the ten questions that moved most, for each mode and measure.
    """

    differences: Mapping[str, Mapping[str, Difference]]
    changes: tuple[Change, ...]
    shared: int
    only_old: int
    only_new: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "differences": {
                mode: {name: asdict(one) for name, one in table.items()} for mode, table in self.differences.items()
            },
            "changes": [asdict(change) | {"delta": change.delta} for change in self.changes],
            "shared": self.shared,
            "only_old": self.only_old,
            "only_new": self.only_new,
            "notes": list(self.notes),
        }


def read_report(path: Path) -> dict[str, Any]:
    """Read a report's JSON. Raises ReportInvalid when it is none."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportInvalid(f"{path} can't be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise ReportInvalid(f"{path} is not JSON ({error}).") from error
    return check_report(report, name=str(path))


def check_report(report: object, *, name: str) -> dict[str, Any]:
    """The report itself. Raises ReportInvalid when it is none of this format."""
    if not isinstance(report, dict) or not isinstance(report.get("rows"), list) or not report.get("modes"):
        raise ReportInvalid(f"{name} is not an evaluation report; make one with rag-mcp eval --json.")
    if report.get("format") != FORMAT:
        raise ReportInvalid(f"{name} has format {report.get('format')!r}, this version reads {FORMAT}; run it again.")
    return report


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    """Compare over the questions (by id and text) and modes both hold. Raises ReportInvalid when they share none."""
    before, after = _by_question(old), _by_question(new)
    shared = [key for key in after if key in before]
    modes = [mode for mode in new["modes"] if mode in old["modes"]]
    if not shared or not modes:
        raise ReportInvalid("the two reports share no question or no mode; compare runs of the same question file.")
    pairs = {mode: [(before[key], after[key], mode) for key in shared] for mode in modes}
    return Comparison(
        differences={mode: _differences(rows) for mode, rows in pairs.items()},
        changes=_changes([row for rows in pairs.values() for row in rows]),
        shared=len(shared),
        only_old=len(before) - len(shared),
        only_new=len(after) - len(shared),
        notes=tuple(_notes(old, new)),
    )


_Pair = tuple[Mapping[str, Any], Mapping[str, Any], str]


def _by_question(report: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["id"], row["question"]): row for row in report["rows"]}


def _differences(rows: list[_Pair]) -> dict[str, Difference]:
    columns: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in (*METRICS, "answered")}
    for before, after, mode in rows:
        was, now = _measures(before, mode), _measures(after, mode)
        for name in now:
            if name in was:
                old_column, new_column = columns.setdefault(name, ([], []))
                old_column.append(was[name])
                new_column.append(now[name])
    return {name: paired_difference(*column) for name, column in columns.items() if column[0]}


def _measures(row: Mapping[str, Any], mode: str) -> dict[str, float]:
    answer = row["modes"][mode]
    if row["answerable"]:
        return {**answer["metrics"], "answered": float(answer["answered"])}
    return {f"withheld {row['negkind']}": float(not answer["answered"])}


def _changes(rows: list[_Pair]) -> tuple[Change, ...]:
    changes = []
    for before, after, mode in rows:
        measure = "ndcg@10" if after["answerable"] else f"withheld {after['negkind']}"
        was, now = _measures(before, mode), _measures(after, mode)
        if measure in was and measure in now and was[measure] != now[measure]:
            changes.append(
                Change(
                    mode=mode,
                    id=after["id"],
                    question=after["question"],
                    measure=measure,
                    old=was[measure],
                    new=now[measure],
                )
            )
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in sorted(changes, key=lambda change: (-abs(change.delta), change.id)):
        groups.setdefault((change.mode, change.measure), []).append(change)
    # Withholding moves by 0 or 1: in one list it would crowd out every change of ranking.
    return tuple(change for key in sorted(groups) for change in groups[key][:_MOST_CHANGED])


def _notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before, after = old.get("provenance") or {}, new.get("provenance") or {}
    for key, name in (("corpus_digest", "corpus"), ("embedder", "embedder")):
        if before.get(key) != after.get(key):
            yield f"The two runs used a different {name}."
    if old.get("k") != new.get("k"):
        yield f"The two runs asked for a different number of passages ({old.get('k')} and {new.get('k')})."

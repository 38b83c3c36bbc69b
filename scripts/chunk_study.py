"""Measures chunk sizes and heading context on question sets: python3 scripts/chunk_study.py --all DIR --cache STORES.

Each variant has a store of its own for each set, made once; what was measured is kept in STORES/measured.json, so the
study can be made in pieces (``--sets``, ``--variants``). Prints one row a variant of all that is measured: passages,
processor time of the ingest, bytes of the stores, and nDCG@10 (files) / chunk hit@5 of hybrid mode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.evaluation.measure import measure_questions  # noqa: E402
from rag_mcp.ingest import parse  # noqa: E402
from rag_mcp.ingest.context import Context  # noqa: E402
from rag_mcp.knowledge import KnowledgeBase  # noqa: E402
from rag_mcp.models import Mode  # noqa: E402
from rag_mcp.text.embedded import embedded_text  # noqa: E402
from rag_mcp.text.limits import ChunkLimits  # noqa: E402

VARIANTS = {
    "254/200": (ChunkLimits(max_tokens=254), True),
    "254/140": (ChunkLimits(max_tokens=254, soft_tokens=140, min_tokens=30), True),
    "128/100": (ChunkLimits(max_tokens=128, soft_tokens=100, min_tokens=20), True),
    "254/250": (ChunkLimits(max_tokens=254, soft_tokens=250, min_tokens=40), True),
    "254/200 without title and headings": (ChunkLimits(max_tokens=254), False),
}


def bare_text(title, heading_path, shown, *, limits=None) -> str:
    """The passage alone."""
    return shown.strip()


def measure(variant: str, folder: Path, store: Path) -> dict[str, float | None]:
    """Ingest ``folder`` into a new store with the sizes of ``variant``, and ask its questions."""
    limits, with_headings = VARIANTS[variant]
    Context.chunk_limits = property(lambda run: limits)
    parse.embedded_text = embedded_text if with_headings else bare_text
    config = Config.load({}, corpus_root=folder / "corpus", db_path=store, profile="auditor")
    base = KnowledgeBase.open(config)
    base.warm_up()
    started = time.process_time()
    passages = base.ingest().store_count
    seconds = time.process_time() - started
    base.close()
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    made = measure_questions(config, folder / "queries.jsonl", modes=[Mode.HYBRID], date="2000-01-01").as_json()
    ranking = made["modes"]["hybrid"]
    return {
        "passages": passages,
        "seconds": seconds,
        "bytes": size,
        "ndcg@10": ranking["ndcg@10"],
        "chunk_hit@5": ranking["chunk_hit@5"],
    }


def table(measured: dict[str, dict[str, dict[str, float | None]]]) -> str:
    """A row for each variant measured on as many sets as any."""
    most = max(map(len, measured.values()))
    whole = {variant: of for variant, of in measured.items() if len(of) == most}
    sets = sorted(next(iter(whole.values())))
    columns = ["max/soft tokens", "passages", "ingest, CPU s", "MB", *sets, "mean nDCG@10", "mean chunk hit@5"]
    lines = ["| " + " | ".join(columns) + " |", "| --- " * len(columns) + "|"]
    for variant, of in whole.items():
        totals = [sum(of[name][key] for name in sets) for key in ("passages", "seconds", "bytes")]
        cells = [f"{totals[0]:,}", f"{totals[1]:.0f}", f"{totals[2] / 1e6:.0f}", *(_cell(of[name]) for name in sets)]
        for key in ("ndcg@10", "chunk_hit@5"):
            known = [one for name in sets if (one := of[name][key]) is not None]
            cells.append(f"{statistics.mean(known):.4f}" if known else "–")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(of: dict[str, float | None]) -> str:
    return " / ".join(f"{of[key]:.3f}" for key in ("ndcg@10", "chunk_hit@5") if of[key] is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", help="folder names (default: all)")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args()
    record = options.cache / "measured.json"
    measured = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for variant in options.variants:
        for folder in sorted(path.parent for path in options.all.glob("*/queries.jsonl")):
            known = measured.setdefault(variant, {})
            if folder.name in known or not (options.sets is None or folder.name in options.sets):
                continue
            print(f"{variant}, {folder.name} …", file=sys.stderr, flush=True)
            known[folder.name] = measure(variant, folder, options.cache / variant.replace("/", "-") / folder.name)
            options.cache.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(table({variant: of for variant, of in measured.items() if of}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

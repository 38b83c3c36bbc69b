"""Measures chunk sizes and heading context on question sets: python3 scripts/chunk_study.py --all DIR --cache STORES.

Each variant has a store of its own. Prints one row a variant: passages, mean nDCG@10 (files) and chunk hit@5 over the
sets, hybrid mode.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rag_mcp.config import Config  # noqa: E402 - after the path, so that a checkout works uninstalled
from rag_mcp.evaluation.measure import measure_questions  # noqa: E402
from rag_mcp.ingest import parse  # noqa: E402
from rag_mcp.ingest.context import Context  # noqa: E402
from rag_mcp.models import Mode  # noqa: E402
from rag_mcp.text.embedded import embedded_text  # noqa: E402
from rag_mcp.text.limits import ChunkLimits  # noqa: E402

VARIANTS = {
    "254/200 (shipped)": (ChunkLimits(max_tokens=254), True),
    "128/100": (ChunkLimits(max_tokens=128, soft_tokens=100, min_tokens=20), True),
    "254/140": (ChunkLimits(max_tokens=254, soft_tokens=140, min_tokens=30), True),
    "254/250": (ChunkLimits(max_tokens=254, soft_tokens=250, min_tokens=40), True),
    "254/200 without title and headings": (ChunkLimits(max_tokens=254), False),
}


def bare_text(title, heading_path, shown, *, limits=None) -> str:
    """The passage alone."""
    return shown.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=["claude_docs", "ray_docs_a", "chunkeval_a", "clapnq_a"])
    options = parser.parse_args()
    print(
        "| max/soft tokens | passages | "
        + " | ".join(f"{name} nDCG@10 / chunk hit@5" for name in options.sets)
        + " | mean |"
    )
    print("| --- " * (len(options.sets) + 3) + "|")
    for number, (name, (limits, with_headings)) in enumerate(VARIANTS.items()):
        Context.chunk_limits = property(lambda run, limits=limits: limits)
        parse.embedded_text = embedded_text if with_headings else bare_text
        cells, means, passages = [], [], 0
        for folder in options.sets:
            base = options.all / folder
            store = options.cache / f"{number}" / folder
            config = Config.load({}, corpus_root=base / "corpus", db_path=store, profile="auditor")
            made = measure_questions(config, base / "queries.jsonl", modes=[Mode.HYBRID], date="2000-01-01").as_json()
            metrics = made["modes"]["hybrid"]
            passages += made["chunks"]
            hit = metrics["chunk_hit@5"]
            cells.append(f"{metrics['ndcg@10']:.3f} / {hit:.3f}" if hit is not None else f"{metrics['ndcg@10']:.3f}")
            means.append(metrics["ndcg@10"])
        print(f"| {name} | {passages} | {' | '.join(cells)} | {statistics.mean(means):.4f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

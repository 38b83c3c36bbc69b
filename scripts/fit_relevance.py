"""Fits the relevance model on public question sets and writes rag_mcp/data/relevance.json.

    python3 scripts/fit_relevance.py --all DIR --cache STORES [--embedder minilm] [--dry-run]

DIR holds set folders (queries.jsonl, corpus/); STORES gets one store a set. The result is deterministic: questions are
split in two by a hash of their id, weights and thresholds are fitted on one half, every printed figure is of the other.

Ranking weights: coordinate search from the starting formula (cosine + 0.5 term share + 0.3 BM25 share) over a small grid,
maximising mean nDCG@10 (files), chunk hit@5 and the share of off-topic questions withheld at 95 % answered, every set
with equal weight. Probability: Platt scaling (Platt 1999) of the score of the first result, sets with equal weight.

A set whose questions have a ``question_en`` beside their own is asked in English as well: with a model that knows several
languages, its candidates fit the head for passages in another language than the question.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - after the path, so that a checkout works uninstalled

from rag_mcp.config import Config, environment  # noqa: E402
from rag_mcp.embedders import open_embedder  # noqa: E402
from rag_mcp.evaluation import Question, read_questions  # noqa: E402
from rag_mcp.evaluation.gate import calibration_error  # noqa: E402
from rag_mcp.evaluation.logistic import fit_line  # noqa: E402
from rag_mcp.evaluation.metrics import ndcg_of_ranks  # noqa: E402
from rag_mcp.knowledge import KnowledgeBase  # noqa: E402
from rag_mcp.models import Mode, SourceClass  # noqa: E402
from rag_mcp.requests import SearchRequest  # noqa: E402
from rag_mcp.search.answer import gather  # noqa: E402
from rag_mcp.search.generation import OpenGeneration  # noqa: E402
from rag_mcp.search.relevance import ABROAD, Scale, load_model, size_bonus  # noqa: E402
from rag_mcp.stores.embedded.generations import GenerationStore  # noqa: E402

TARGET = ROOT / "rag_mcp" / "data" / "relevance.json"
OFF_TOPIC = ("other-product", "absent-article")
COLUMNS = ("cosine", "term_share", "bm25_share", "title_share", "exact")
START = {"term_share": 0.5, "bm25_share": 0.3, "title_share": 0.1, "exact": 0.03}
START_TRUST = {"low": 0.4, "high": 0.75, "floor": 0.4}
GRID = {
    "term_share": (0.3, 0.4, 0.5, 0.6, 0.8),
    "bm25_share": (0.1, 0.2, 0.3, 0.5, 0.7),
    "title_share": (0.0, 0.05, 0.1, 0.15),
    "floor": (0.2, 0.3, 0.4, 0.5),
    "low": (0.35, 0.4, 0.45),
    "high": (0.7, 0.75, 0.8),
}
# Where a model's cosines lie, set by hand: passages of nothing in common reach 0.72 to 0.80 with multilingual-e5-small.
SCALES = {"multilingual-e5-small": {"low": 0.7, "high": 1.0}}
# Names are the only words that two languages share. Of questions in another language 93 of 100 are to be answered: no
# threshold tells them from absent articles well, and the fifth mean more withheld than this costs.
ABROAD_TERMS = 0.3
ABROAD_ANSWERED = 0.93
# The weight of an exact identifier is set by hand: the sets hold too few to fit it.
ANSWERED = 0.95
HIGH_PRECISION = 0.85
# The level from which an answer is shown keeps 95 of 100 answerable questions in three of four sets.
MEDIUM_SETS = 0.25
# With this model questions off the topic score nearer to answers: a little more is asked, at a cost on two sets.
MEDIUM_SETS_OF = {"multilingual-e5-small": 0.29}


@dataclass
class SetData:
    """One set: a row a candidate. ``question``, ``file`` number questions and files; ``in_file`` and ``in_range`` say
    whether the candidate's file, and its passage, answer (range 0.5: not known)."""

    name: str
    question: np.ndarray
    file: np.ndarray
    values: np.ndarray
    familiarity: np.ndarray
    rrf: np.ndarray
    in_file: np.ndarray
    in_range: np.ndarray
    answerable: np.ndarray
    kind: list[str]
    relevant: np.ndarray
    fit: np.ndarray
    passages: int
    abroad: bool = False


def collect(folder: Path, store: Path, embedder_name: str) -> tuple[list[SetData], str]:
    """Ingest the set if needed and gather the evidence of every question, in English too where the set has that; and the
    name the embedder gives itself."""
    model = {"RAG_MCP_MODEL_DIR": environment().get("RAG_MCP_MODEL_DIR", "")}
    config = Config.load(model, corpus_root=folder / "corpus", db_path=store, embedder=embedder_name, profile="auditor")
    with closing(KnowledgeBase.open(config)) as base:
        base.ingest()
    lines = (folder / "queries.jsonl").read_bytes().splitlines()
    english = {str(raw["id"]): raw.get("question_en") for raw in map(json.loads, filter(None, lines))}
    questions = read_questions(folder / "queries.jsonl")
    embedder = open_embedder(config)
    model = load_model(embedder.name)
    opened = OpenGeneration(GenerationStore(store).open(), scratch=None)
    opened.load_vectors()
    view = opened.view(lambda: embedder, wait_s=60)

    classes = tuple(SourceClass)
    passages, scale = opened.keywords.size(classes), Scale(**SCALES.get(embedder.name, {}))

    def asked(name: str, questions: Sequence[Question]) -> SetData:
        return gathered(
            name, questions, lambda text: gather(SearchRequest(query=text), classes, view, model), passages, scale
        )

    sets = [asked(folder.name, questions)]
    abroad = [replace(question, text=english[question.id]) for question in questions if english.get(question.id)]
    sets += [replace(asked(f"{folder.name} in English", abroad), abroad=True)] if abroad else []
    opened.retire()
    return sets, embedder.name


def gathered(
    name: str, questions: Sequence[Question], ask: Callable[[str], tuple], passages: int, scale: Scale
) -> SetData:
    """The evidence of every question, and what it is to be judged by."""
    rows, files, familiarities = [], {}, []
    for number, question in enumerate(questions):
        found, familiarity = ask(question.text)
        familiarities.append(familiarity)
        for candidate in found:
            chunk = candidate.chunk
            ranges = [r for r in question.ranges if r[0] == chunk.source]
            inside = any(r[1] < chunk.end and chunk.start < r[2] for r in ranges)
            hit = chunk.source in question.sources
            raw = candidate.evidence
            file = files.setdefault(chunk.source, len(files))
            features = [
                0.0 if raw.cosine is None else scale.of(raw.cosine),
                *(candidate.features[name] for name in COLUMNS[1:]),
            ]
            rows.append((number, file, *features, candidate.rrf, hit, inside if ranges else 0.5 * hit))
    table = np.array(rows)
    return SetData(
        name=name,
        question=table[:, 0].astype(int),
        file=table[:, 1].astype(int),
        values=table[:, 2:7],
        familiarity=np.array(familiarities),
        rrf=table[:, 7],
        in_file=table[:, 8] > 0,
        in_range=table[:, 9],
        answerable=np.array([q.answerable for q in questions]),
        kind=[q.negkind or "" for q in questions],
        relevant=np.array([len(q.sources) for q in questions]),
        passages=passages,
        fit=np.array([hashlib.sha256(q.id.encode()).digest()[0] % 2 == 0 for q in questions]),
    )


def trust_in_cosines(data: SetData, parameters: dict[str, float]) -> np.ndarray:
    """How far the cosines of each question count: as far as it is familiar."""
    share = (data.familiarity - parameters["low"]) / (parameters["high"] - parameters["low"])
    return np.clip(share, parameters["floor"], 1.0)


def score(data: SetData, parameters: dict[str, float]) -> np.ndarray:
    """The linear score of every candidate; a cosine counts as far as the question is familiar."""
    trust = trust_in_cosines(data, parameters)[data.question]
    weights = np.array([1.0, *(parameters[name] for name in COLUMNS[1:])])
    values = data.values.copy()
    values[:, 0] *= trust
    return values @ weights


def best_by_question(data: SetData, scores: np.ndarray) -> np.ndarray:
    best = np.full(len(data.answerable), -9.0)
    np.maximum.at(best, data.question, scores)
    return best


def ndcg(data: SetData, scores: np.ndarray, chosen: np.ndarray) -> float:
    """Mean nDCG@10 of files over the answerable questions chosen."""
    table = np.full((len(data.answerable), data.file.max() + 1), -np.inf)
    np.maximum.at(table, (data.question, data.file), scores)
    ranks: list[list[int]] = [[] for _ in data.answerable]
    hits = np.unique(np.stack([data.question[data.in_file], data.file[data.in_file]]), axis=1)
    for question, file in hits.T:
        ranks[question].append(1 + int((table[question] > table[question, file]).sum()))
    use = np.flatnonzero(data.answerable & chosen)
    return float(np.mean([ndcg_of_ranks(ranks[i], data.relevant[i]) for i in use])) if len(use) else float("nan")


def chunk_hit(data: SetData, scores: np.ndarray, chosen: np.ndarray, depth: int = 5) -> float:
    order = np.lexsort((-scores, data.question))
    question = data.question[order]
    starts = np.r_[0, np.flatnonzero(np.diff(question)) + 1]
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    hit = np.zeros(len(data.answerable), dtype=bool)
    hit[question[(place < depth) & (data.in_range[order] == 1)]] = True
    ranged = np.zeros(len(data.answerable), dtype=bool)
    ranged[data.question[(data.in_range == 1) | ((data.in_range == 0) & data.in_file)]] = True
    use = data.answerable & chosen & ranged
    return float(hit[use].mean()) if use.any() else float("nan")


def withheld(data: SetData, best: np.ndarray, chosen: np.ndarray, kinds: tuple[str, ...]) -> float:
    """Share of unanswerable questions below the score that still answers 95 of 100 answerable ones."""
    asked = best[data.answerable & chosen]
    others = best[np.array([kind in kinds for kind in data.kind]) & chosen]
    return float((others < np.quantile(asked, 1 - ANSWERED)).mean()) if len(others) else float("nan")


def objective(sets: list[SetData], parameters: dict[str, float]) -> float:
    total = 0.0
    for data in sets:
        scores = score(data, parameters)
        parts = [ndcg(data, scores, data.fit), 0.2 * chunk_hit(data, scores, data.fit)]
        parts.append(0.3 * min(0.97, withheld(data, best_by_question(data, scores), data.fit, OFF_TOPIC)))
        total += float(np.nansum(parts))
    return total / len(sets)


def search_weights(sets: list[SetData]) -> dict[str, float]:
    """Two rounds of coordinate search; a step must gain more than noise."""
    best = {**START, **START_TRUST}
    value = objective(sets, best)
    for _ in range(2):
        for name, choices in GRID.items():
            for choice in choices:
                trial = {**best, name: choice}
                reached = objective(sets, trial)
                if reached > value + 5e-4:
                    best, value = trial, reached
                    print(f"  {reached:.4f}  {name} = {choice}")
    return best


def fitted_prior(sets: list[SetData], parameters: dict[str, float]) -> float:
    """The everyday cosine that brings the scores of unfamiliar questions level with the others' at 95 % answered."""
    levels: dict[bool, list[float]] = {True: [], False: []}
    gaps = []
    for data in sets:
        trust = trust_in_cosines(data, parameters)
        use = data.answerable & data.fit
        level = float(np.quantile(best_by_question(data, score(data, parameters))[use], 1 - ANSWERED))
        foreign = bool(trust[use].mean() < 0.8)
        levels[foreign].append(level)
        if foreign:
            # About two thirds of the words of an answerable question are found.
            gaps.append(float(1 - trust[use].mean()) * 2 / 3)
    if not gaps:
        return 0.45
    return float(np.clip((np.median(levels[False]) - np.mean(levels[True])) / np.mean(gaps), 0.0, 0.8))


def first_results(sets: list[SetData], scorer, part: str) -> tuple[np.ndarray, ...]:
    """(score of the first result, whether its file answers, weight that makes every set count the same)."""
    tops, right, weight = [], [], []
    for data in sets:
        scores = scorer(data)
        order = np.lexsort((-scores, data.question))
        _, first = np.unique(data.question[order], return_index=True)
        rows = order[first]
        questions = data.question[rows]
        chosen = data.fit[questions] == (part == "fit")
        tops.append(scores[rows][chosen])
        right.append(data.in_file[rows][chosen] & data.answerable[questions][chosen])
        weight.append(np.full(chosen.sum(), 1.0 / max(1, chosen.sum())))
    return tuple(np.concatenate(part) for part in (tops, right, weight))


def head(sets: list[SetData], weights: dict[str, float], scorer, medium_sets: float = MEDIUM_SETS) -> dict[str, object]:
    """Scale the weights to log odds and set the thresholds, all on the fitting half."""
    tops, right, weight = first_results(sets, scorer, "fit")
    slope, intercept = fit_line(tops.tolist(), right.tolist(), weight.tolist())

    def log_odds(values: np.ndarray) -> np.ndarray:
        return slope * values + intercept

    def probability(values: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-values))

    medium = []
    for data in sets:
        use = data.answerable & data.fit
        # A handful of questions says nothing about a tail of one in twenty.
        if use.sum() >= 30:
            best = best_by_question(data, scorer(data))[use]
            medium.append(float(np.quantile(probability(log_odds(best) + size_bonus(data.passages)), 1 - ANSWERED)))
    p = probability(log_odds(tops))
    reached = (t for t in np.arange(0.5, 1.0, 0.01) if _precision(p >= t, right, weight) >= HIGH_PRECISION)
    high = next(reached, 0.95)
    held = first_results(sets, scorer, "held")
    return {
        "intercept": round(intercept, 4),
        "weights": {name: round(slope * value, 4) for name, value in weights.items()},
        "thresholds": {"high": round(float(high), 3), "medium": round(float(np.quantile(medium, medium_sets)), 3)},
        "ece_held_out": round(_held_out_error(probability(log_odds(held[0])), held[1], held[2]), 4),
    }


def abroad_head(sets: list[SetData], hybrid: dict[str, object]) -> dict[str, object]:
    """The head for passages in another language: its level medium is the hybrid head's."""

    def scorer(data: SetData) -> np.ndarray:
        return data.values[:, 0] + ABROAD_TERMS * data.values[:, 1]

    tops, right, weight = first_results(sets, scorer, "fit")
    slope, _ = fit_line(tops.tolist(), right.tolist(), weight.tolist())
    medium = float(hybrid["thresholds"]["medium"])
    intercepts = []
    for data in sets:
        best = best_by_question(data, scorer(data))[data.answerable & data.fit]
        wanted = float(np.log(medium / (1 - medium))) - size_bonus(data.passages)
        intercepts.append(wanted - slope * float(np.quantile(best, 1 - ABROAD_ANSWERED)))
    weights = {"cosine": slope, "term_share": slope * ABROAD_TERMS}
    return {
        "intercept": round(float(np.median(intercepts)), 4),
        "weights": {name: round(value, 4) for name, value in weights.items()},
    }


def _held_out_error(p: np.ndarray, right: np.ndarray, weight: np.ndarray) -> float:
    return calibration_error(list(zip(p.tolist(), right.tolist(), strict=True)), weight.tolist())


def _precision(chosen: np.ndarray, right: np.ndarray, weight: np.ndarray) -> float:
    """Weighted share of right ones among the chosen; 0 for too few to tell."""
    return float(np.average(right[chosen], weights=weight[chosen])) if chosen.sum() >= 20 else 0.0


def report(sets: list[SetData], scorers: dict[str, object], part: str) -> dict[str, dict[str, object]]:
    """nDCG@10 of every scorer, and gate figures of the last, on one half."""
    table: dict[str, dict[str, object]] = {}
    for data in sets:
        chosen = data.fit == (part == "fit")
        row: dict[str, object] = {name: round(ndcg(data, scorer(data), chosen), 4) for name, scorer in scorers.items()}
        last = list(scorers.values())[-1]
        row["chunk_hit@5"] = round(chunk_hit(data, last(data), chosen), 4)
        for kind in sorted(set(data.kind) - {""}):
            row[f"withheld {kind}"] = round(withheld(data, best_by_question(data, last(data)), chosen, (kind,)), 3)
        table[data.name] = row
    return table


def scorers_for(parameters: dict[str, float]) -> dict[str, object]:
    def convex(data: SetData) -> np.ndarray:
        parts = []
        for column in (0, 2):
            values = data.values[:, column]
            low, high = np.full(len(data.answerable), np.inf), np.full(len(data.answerable), -np.inf)
            np.minimum.at(low, data.question, values)
            np.maximum.at(high, data.question, values)
            span = np.maximum(high - low, 1e-9)[data.question]
            parts.append((values - low[data.question]) / span)
        return 0.5 * parts[0] + 0.5 * parts[1]

    return {
        "vectors": lambda data: data.values[:, 0],
        "keywords": lambda data: data.values[:, 2],
        "rrf": lambda data: data.rrf,
        "convex": convex,
        "start formula": lambda data: data.values[:, 0] + 0.5 * data.values[:, 1] + 0.3 * data.values[:, 2],
        "fitted": lambda data: score(data, parameters),
    }


def fit(every: list[SetData], embedder: str) -> dict[str, object]:
    sets = [data for data in every if not data.abroad]
    parameters = search_weights(sets)
    prior = fitted_prior(sets, parameters)
    weights = {"cosine": 1.0, **{name: parameters[name] for name in COLUMNS[1:]}}

    def hybrid(data: SetData) -> np.ndarray:
        trust = trust_in_cosines(data, parameters)[data.question]
        return score(data, parameters) + (1 - trust) * prior * data.values[:, 1]

    def keywords(data: SetData) -> np.ndarray:
        return data.values[:, 1:] @ np.array([parameters[name] for name in COLUMNS[1:]])

    def vectors(data: SetData) -> np.ndarray:
        trust = trust_in_cosines(data, parameters)[data.question]
        return data.values[:, 0] * trust

    heads = {
        Mode.HYBRID.value: head(sets, weights, hybrid, MEDIUM_SETS_OF.get(embedder, MEDIUM_SETS)),
        Mode.FTS.value: head(sets, {name: parameters[name] for name in COLUMNS[1:]}, keywords),
        Mode.VECTOR.value: head(sets, {"cosine": 1.0}, vectors),
    }
    scale = SCALES.get(embedder)
    if scale and (abroad := [data for data in every if data.abroad]):
        heads[ABROAD] = abroad_head(abroad, heads[Mode.HYBRID.value])
    held = report(sets, scorers_for(parameters), "held")
    print_table(held)
    return {
        "provenance": {
            "script": "scripts/fit_relevance.py",
            "date": datetime.now(UTC).date().isoformat(),
            "embedder": embedder,
            "sets": {data.name: {"questions": len(data.answerable), "fitted": int(data.fit.sum())} for data in sets},
            "held_out": held,
        },
        "trust": {**{name: parameters[name] for name in ("low", "high", "floor")}, "prior": round(prior, 3)},
        **({"scale": scale} if scale else {}),
        "heads": heads,
    }


def with_heads(shipped: dict[str, dict], fitted: dict[str, dict], modes: Sequence[str]) -> dict[str, object]:
    """The shipped model with the fitted heads of ``modes``, and in its provenance the day of each."""
    heads = {mode: fitted["heads"][mode] for mode in modes}
    days = dict.fromkeys(modes, fitted["provenance"]["date"])
    provenance = {**shipped["provenance"], "heads": {**shipped["provenance"].get("heads", {}), **days}}
    return {**shipped, "provenance": provenance, "heads": {**shipped["heads"], **heads}}


def markdown(provenance: dict[str, object]) -> str:
    """The held-out figures as a markdown table with a row of means."""
    held = provenance["held_out"]
    methods = ("vectors", "keywords", "rrf", "convex", "start formula", "fitted")
    lines = ["| set (held-out half) | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 1) + "|"]
    for name, row in held.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[method]:.3f}" for method in methods) + " |")
    means = [float(np.mean([row[method] for row in held.values()])) for method in methods]
    return "\n".join([*lines, "| mean | " + " | ".join(f"{mean:.4f}" for mean in means) + " |"])


def print_table(table: dict[str, dict[str, object]]) -> None:
    for name, row in table.items():
        print(f"{name:14s} " + "  ".join(f"{key} {value}" for key, value in row.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--embedder", default="minilm-int8")
    parser.add_argument("--heads", nargs="*", choices=[*Mode], help="write these alone (default: the whole model)")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the held-out table of the shipped model, and end")
    options = parser.parse_args()
    if options.show:
        print(markdown(json.loads(TARGET.read_text(encoding="utf-8"))["models"][options.embedder]["provenance"]))
        return 0
    if options.all is None or options.cache is None:
        parser.error("--all and --cache are needed to fit")
    folders = [path.parent for path in sorted(options.all.glob("*/queries.jsonl"))]
    sets, embedder = [], options.embedder
    for folder in folders:
        print(f"{folder.name} …", file=sys.stderr, flush=True)
        found, embedder = collect(folder, options.cache / f"{folder.name}.{options.embedder}", options.embedder)
        sets += found
    model = fit(sets, embedder)
    print(json.dumps({key: model[key] for key in ("trust", "heads")}, indent=1))
    if not options.dry_run:
        whole = json.loads(TARGET.read_text(encoding="utf-8"))
        whole["models"][embedder] = (
            with_heads(whole["models"][embedder], model, options.heads) if options.heads else model
        )
        TARGET.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Looking after a store: ``status``, ``verify``, ``rollback``, ``doctor`` and ``gaps``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import FAILED, LISTED, LISTED_JSON, say, say_json
from rag_mcp.cli.query import opened
from rag_mcp.cli.several import one_of, over_each
from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.text.sanitize import one_line

__all__ = ["doctor", "gaps", "rollback", "status", "verify"]


def status(
    db: params.Db = None,
    corpus: params.Corpus = None,
    profile: params.Profile = None,
    policy: params.Policy = None,
    collection: params.Collection = None,
    only: params.Only = None,
    as_json: params.Json = False,
) -> None:
    """Say what the store holds and how it is. Exits with 1 when there is none."""
    config = Config.load(db_path=db, corpus_root=corpus, profile=profile, policy_path=policy, collection=collection)
    over_each(config, only, lambda one: _status(one, as_json=as_json), as_json=as_json)


def _status(config: Config, *, as_json: bool) -> int:
    from rag_mcp.knowledge import KnowledgeBase
    from rag_mcp.server.tools import answer_payload

    with opened(KnowledgeBase, config) as base:
        base.warm_up()  # what is reported is how it is, not that it is still loading
        payload = answer_payload(base.status(), show_paths=True)
        if payload["generation"] is None:
            say(f"Looked at {base.store_root.absolute()}.", err=True)
    if as_json:
        say_json(payload)
    else:
        _print_status(payload)
    return FAILED if payload["generation"] is None else 0


def _print_status(payload: Mapping[str, Any]) -> None:
    """The payload of rag_status in words: a line each, and nothing that is empty."""
    state = "healthy" if payload["healthy"] else f"not healthy: {payload['degraded_reason'] or 'see the notes'}"
    lines = [state, f"profile: {payload['profile']}"]
    if payload["generation"] is not None:
        lines.append(f"generation: {payload['generation']}, indexed at {payload['indexed_at']}")
        lines.append(f"last looked at: {payload['integrity'].get('last_checked_at') or 'not known'}")
        lines.append(f"embedder: {payload['embedder']}")
    # What a series repeats is stored once and counts in each of its files.
    lines += [f"{name}: {each['files']} files, {each['chunks']} chunks" for name, each in payload["inventory"].items()]
    for told, by, what in (("skipped", "reason", "left out"), ("notices", "text", "notes on files")):
        total = payload[f"{told}_total"]
        lines += [f"{what}: {total}"] if total else []
        lines += [f"  {count} x {kind}" for kind, count in payload[f"{told}_by_{by}"].items() if count > 1]
        lines += [f"  {each['source']}: {each[by]}" for each in payload[told]]
        lines += [f"  and {total - len(payload[told])} more"] if total > len(payload[told]) else []
    lines += [f"Note: {note}" for note in payload["notes"]]
    for line in lines:
        typer.echo(one_line(line))


def verify(
    db: params.Db = None,
    corpus: params.Corpus = None,
    collection: params.Collection = None,
    only: params.Only = None,
    as_json: params.Json = False,
) -> None:
    """Check every byte, id, record and vector of the live generation. Exits with 1 when something differs."""
    config = Config.load(db_path=db, corpus_root=corpus, collection=collection)
    over_each(config, only, lambda one: _verify(one, as_json=as_json), as_json=as_json)


def _verify(config: Config, *, as_json: bool) -> int:
    from rag_mcp.stores.embedded.absent import live_generation
    from rag_mcp.stores.embedded.generations import GenerationStore
    from rag_mcp.stores.embedded.place import store_root
    from rag_mcp.stores.embedded.verify import verify_store

    store = GenerationStore(store_root(config))
    live_generation(store, config)
    number, problems = verify_store(store, scratch=config.scratch_dir)
    if as_json:
        say_json(
            {
                "ok": not problems,
                "generation": number,
                "problems": problems[:LISTED_JSON],
                "problems_total": len(problems),
            }
        )
    else:
        for problem in problems[:LISTED]:
            typer.echo(one_line(problem))
        if len(problems) > LISTED:
            typer.echo(f"… and {len(problems) - LISTED:,} more")
        typer.echo(f"generation {number}: {'clean' if not problems else f'{len(problems)} problems'}")
    return FAILED if problems else 0


def rollback(
    number: Annotated[int | None, typer.Argument(help="Generation to go back to (default: the one before).")] = None,
    db: params.Db = None,
    corpus: params.Corpus = None,
    collection: params.Collection = None,
    only: params.Only = None,
    restore_deleted: Annotated[
        bool,
        typer.Option(
            "--restore-deleted",
            help="Show again what was deleted from the corpus since, until the next rollback or ingest.",
        ),
    ] = False,
) -> None:
    """Serve an older generation again. The next ingest starts from it.

    What its owner has withdrawn since (access: none, a secret, a rule of the policy or an ignore file, another class)
    stays withdrawn, and so does what was deleted, unless asked for. Even then a document stays hidden whose name or text is
    still in the corpus folder, in a place that is not indexed too: its owner may only have moved it out of sight.
    """
    from rag_mcp.maintenance import roll_back

    config = one_of(Config.load(db_path=db, corpus_root=corpus, collection=collection), only)
    done = roll_back(config, number, restore_deleted=restore_deleted)
    typer.echo(f"generation {done.number} is live")
    if done.withheld:
        typer.echo(f"Withdrawn since, so not shown as it was: {_some(done.withheld)}. An ingest decides anew.")
    if done.gone:
        typer.echo(f"Deleted since, so not shown: {_some(done.gone)}. --restore-deleted shows what is nowhere else.")
    if done.shown:
        typer.echo(f"Deleted since, and shown until the next rollback or ingest: {_some(done.shown)}.")
    for refused in done.refused[:LISTED]:
        typer.echo(one_line(f"Not shown again: {refused.source}: {refused.reason}."))
    if len(done.refused) > LISTED:
        typer.echo(f"… and {len(done.refused) - LISTED:,} more")


def _some(names: Sequence[str], *, shown: int = 5) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(one_line, names[:shown])) + more


def doctor(
    db: params.Db = None,
    corpus: params.Corpus = None,
    policy: params.Policy = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    only: params.Only = None,
    fix: Annotated[bool, typer.Option("--fix", help="Rebuild a damaged generation and sweep leftovers.")] = False,
    as_json: params.Json = False,
) -> None:
    """Look at everything that can be wrong here and say what to do. Exits with 1 when something is."""
    config = Config.load(db_path=db, corpus_root=corpus, policy_path=policy, embedder=embedder, collection=collection)
    over_each(config, only, lambda one: _doctor(one, fix=fix, as_json=as_json), as_json=as_json)


def _doctor(config: Config, *, fix: bool, as_json: bool) -> int:
    from rag_mcp.maintenance import examine, repair

    if fix:
        for line in repair(config):
            say(line)
    findings = examine(config)
    if as_json:
        say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.ok else 'BAD '} {finding.what}: {one_line(finding.detail)}")
    return 0 if all(finding.ok for finding in findings) else FAILED


def gaps(
    file: Annotated[Path | None, typer.Argument(help="The gap log (RAG_MCP_GAP_LOG).", **params.PATH)] = None,
    as_json: params.Json = False,
) -> None:
    """Group the questions that found nothing, most frequent first."""
    from rag_mcp.search.gaps import group_gaps, read_gaps

    path = file or Config.load().gap_log
    if path is None:
        raise ConfigError("No gap log: name the file, or set RAG_MCP_GAP_LOG.")
    groups = group_gaps(read_gaps(path))
    if as_json:
        say_json([asdict(group) for group in groups])
        return
    for group in groups:
        typer.echo(f"{group.count} x  {one_line(group.questions[0])}  (last {one_line(group.last_at)})")
        for question in group.questions[1:]:
            typer.echo(f"       {one_line(question)}")

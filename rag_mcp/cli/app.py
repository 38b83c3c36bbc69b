"""The ``rag-mcp`` command: parses, calls KnowledgeBase and its neighbours, prints. Nothing else prints.

Without a command it is the MCP server on stdio. Exit codes: 0 done or nothing to do, 1 failed, 2 usage, 3 another run
holds the lock, 4 done but files were left out and --strict was given, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rag_mcp import __version__
from rag_mcp.config import SETTINGS, Config, environment
from rag_mcp.errors import InvalidArgument, RagMcpError, StoreAbsent, StoreLocked

if TYPE_CHECKING:
    from rich.console import Console

    from rag_mcp.evaluation import EvalReport
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.knowledge import KnowledgeBase
    from rag_mcp.models import IngestSummary, SearchResponse
    from rag_mcp.server.hosts import Host, WriteResult

__all__ = ["app", "main"]

FAILED, USAGE, LOCKED, STRICT, INTERRUPTED = 1, 2, 3, 4, 130

# Files that a report names: for people, and as JSON.
_TOLD, _TOLD_JSON = 20, 1_000
# Other places of a passage that an answer names.
_PLACES = 5

app = typer.Typer(
    name="rag-mcp",
    help="Answers questions from a folder of markdown, with cited passages, all on this machine. "
    "Without a command: the MCP server on stdio.",
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# What the parser raises for words it can't use: its class is public only as the base of this one.
_UsageError: Any = typer.BadParameter.__base__


def _path(text: str | Path) -> Path:
    """What a path on the command line stands for; quotes and schedulers keep a shell from looking."""
    from rag_mcp.errors import ConfigError
    from rag_mcp.places import expanded

    try:
        return expanded("it", str(text), environment())
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


_PATH: Any = {"parser": _path}


def _option(variable: str, **more: Any) -> Any:
    setting = SETTINGS[variable]
    return typer.Option(setting.option, help=f"{setting.help} ({variable}).", **more)


_Folder = Annotated[
    Path | None,
    typer.Argument(help=f"{SETTINGS['RAG_MCP_CORPUS_ROOT'].help} (RAG_MCP_CORPUS_ROOT).", **_PATH),
]
_Corpus = Annotated[Path | None, _option("RAG_MCP_CORPUS_ROOT", **_PATH)]
_Db = Annotated[Path | None, _option("RAG_MCP_DB_PATH", **_PATH)]
_Embedder = Annotated[str | None, _option("RAG_MCP_EMBEDDER")]
_Collection = Annotated[str | None, _option("RAG_MCP_COLLECTION")]
_Profile = Annotated[str | None, _option("RAG_MCP_CLIENT_PROFILE")]
_Policy = Annotated[Path | None, _option("RAG_MCP_POLICY", **_PATH)]
_Exclude = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN", help="Path or gitignore pattern to leave out; repeatable.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    as_json = _wants_json(sys.argv[1:])
    try:
        code = app(standalone_mode=False)
    except RagMcpError as error:
        _fail(error, as_json=as_json)
    except _UsageError as error:
        error.show()
        if as_json:
            _say_json(_failure(InvalidArgument.code, error.format_message()))
        sys.exit(USAGE)
    except Exception as error:
        if as_json:
            _say_json(_failure("internal_error", f"{type(error).__name__}: {error}"))
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: RagMcpError, *, as_json: bool) -> NoReturn:
    from rag_mcp.text.sanitize import one_line

    text = error.for_operator if isinstance(error, StoreAbsent) else str(error)
    _say(f"rag-mcp: {one_line(text)}", err=True)
    if as_json:
        _say_json(_failure(error.code, text))
    if isinstance(error, StoreLocked):
        sys.exit(LOCKED)
    sys.exit(USAGE if isinstance(error, InvalidArgument) else FAILED)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the caller reads JSON from stdout, told from the bare words: they may be what is wrong. ``eval --json``
    names a file."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options and options[0] != "eval"


def _failure(kind: str, message: str) -> dict[str, object]:
    return {"ok": False, "error": {"type": kind, "message": message}}


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"rag-mcp {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        from rag_mcp.server.mcp import main as run_server

        sys.exit(run_server())


def _say(text: str, *, err: bool = False) -> None:
    """Print words that may quote a file's name or content, or what the caller typed."""
    from rag_mcp.text.sanitize import terminal_safe

    typer.echo(terminal_safe(text), err=err)


def _say_json(value: object) -> None:
    from rag_mcp.text.sanitize import json_safe

    typer.echo(json_safe(json.dumps(value, ensure_ascii=False)))


def _config(**flags: object) -> Config:
    return Config.load(**flags)


def _console(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, emoji=False, markup=False, soft_wrap=True)


# --- ingest ----------------------------------------------------------------------------------------------------------


@app.command()
def ingest(
    corpus: _Folder = None,
    db: _Db = None,
    embedder: _Embedder = None,
    collection: _Collection = None,
    policy: _Policy = None,
    exclude: _Exclude = None,
    full: Annotated[bool, typer.Option("--full", help="Build everything anew; known vectors are used again.")] = False,
    clean: Annotated[bool, typer.Option("--clean", help="As --full, and drop all older generations.")] = False,
    re_embed: Annotated[bool, typer.Option("--re-embed", help="As --full, and compute every vector anew.")] = False,
    rehash: Annotated[bool, typer.Option("--rehash", help="Read every file instead of trusting its times.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 4 when a file was left out for a fault, or an --exclude met nothing."),
    ] = False,
    no_snapshot_dedupe: Annotated[
        bool, typer.Option("--no-snapshot-dedupe", help="Index every snapshot of a dated series whole.")
    ] = False,
    allow_shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="Accept that nearly all files are gone.")
    ] = False,
    handoff_mirror_dir: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="Folder whose handoff files have doc_class handoff; repeatable."),
    ] = None,
    handoff_mirror_basename: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="File name that is a handoff there; repeatable.")
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over a store made from another folder, as after a move.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print one line.")] = False,
    as_json: _Json = False,
) -> None:
    """Bring the store in step with a folder. Cheap when nothing changed: run it as often as you like."""
    from rag_mcp.ingest.options import IngestOptions

    defaults = IngestOptions()
    options = IngestOptions(
        exclude=tuple(exclude or ()),
        full=full,
        clean=clean,
        re_embed=re_embed,
        rehash=rehash,
        strict=strict,
        snapshot_dedupe=not no_snapshot_dedupe,
        allow_shrink=allow_shrink,
        adopt=adopt,
        dry_run=dry_run,
        handoff_dirs=tuple(handoff_mirror_dir or defaults.handoff_dirs),
        handoff_basenames=tuple(handoff_mirror_basename or defaults.handoff_basenames),
    )
    config = _config(corpus_root=corpus, db_path=db, embedder=embedder, collection=collection, policy_path=policy)
    _run_ingest(config, options, quiet=quiet, as_json=as_json)


def _run_ingest(config: Config, options: IngestOptions, *, quiet: bool, as_json: bool) -> None:
    from rag_mcp.ingest.run import run_ingest

    with _interruptible(config), _progress(enabled=not (quiet or as_json)) as report:
        summary = run_ingest(config, options, progress=report)
    _print_summary(summary, options, quiet=quiet, as_json=as_json)
    if options.strict and (summary.skipped or summary.unmet):
        raise typer.Exit(STRICT)


@contextlib.contextmanager
def _interruptible(config: Config) -> Iterator[None]:
    """Say on Ctrl-C what was kept: nothing is lost by it, which nobody could know."""
    try:
        yield
    except KeyboardInterrupt:
        from rag_mcp.stores.embedded.generations import GenerationStore
        from rag_mcp.stores.embedded.place import store_root

        live = GenerationStore(store_root(config)).current()
        state = f"generation {live} is live" if live is not None else "nothing has been published yet"
        _say(f"rag-mcp: stopped; {state}, and vectors computed so far are kept for the next run", err=True)
        sys.exit(INTERRUPTED)


class _Progress:
    """A bar on stderr, only on a terminal; made when the first work is reported, so an idle run loads nothing."""

    _LABELS = {"read": "Reading files", "embed": "Embedding passages", "write": "Writing the index"}

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled and sys.stderr.isatty()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Callable[[str, int, int], None]:
        return self._report

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _report(self, stage: str, done: int, total: int) -> None:
        if not self._enabled:
            return
        if self._bar is None:
            self._bar = self._made()
            self._bar.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(self._LABELS[stage], total=total)
        self._bar.update(self._tasks[stage], completed=done, total=total)

    @staticmethod
    def _made() -> Any:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        class Rate(TextColumn):
            def render(self, task: Any) -> Any:
                from rich.text import Text

                speed = task.finished_speed or task.speed
                return Text(f"{speed:.0f}/s" if speed else "")

        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(""),
            TimeRemainingColumn(),
            console=_console(err=True),
            transient=True,
        )


def _progress(*, enabled: bool) -> _Progress:
    return _Progress(enabled)


def summary_payload(summary: IngestSummary) -> dict[str, object]:
    """The summary as JSON has it: totals of all, and files by name up to a limit."""
    from rag_mcp.text.tally import tally

    skipped, notices = (tally(items, most=_TOLD_JSON) for items in (_skips(summary), _notices(summary)))
    return {
        **asdict(replace(summary, skipped=(), notices=())),
        "skipped": [{"source": source, "reason": reason} for source, reason in skipped.examples],
        "skipped_by_reason": dict(skipped.by_kind),
        "notices": [{"source": source, "text": text} for source, text in notices.examples],
        "notices_total": notices.total,
        "notices_by_text": dict(notices.by_kind),
    }


def _print_summary(summary: IngestSummary, options: IngestOptions, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        _say_json({"ok": True, "dry_run": options.dry_run, **summary_payload(summary)})
        return
    state = f"generation {summary.generation}" if summary.generation is not None else "no generation"
    line = (
        f"{'would change' if options.dry_run else 'done'}: {summary.files_seen} files seen, "
        f"{summary.files_ingested} ingested, {summary.files_deleted} gone, {summary.files_skipped} left out; chunks "
        f"+{summary.chunks_added} -{summary.chunks_deleted} ~{summary.chunks_updated}, "
        f"{summary.chunks_embedded} embedded, {summary.store_count} in store; {state}; {summary.elapsed_s:.2f} s"
    )
    typer.echo(line)
    from rag_mcp.text.sanitize import one_line

    if quiet:
        for source, text in _notices(summary):
            if source.startswith("--exclude "):  # what was to be hidden and is not can't go unsaid
                _say(f"{one_line(source)}: {one_line(text)}", err=True)
        return
    if summary.rebuilt_because:
        typer.echo(f"Built anew: {one_line(summary.rebuilt_because)}.")
    for reason, count in summary.excluded.items():
        typer.echo(f"Not part of the corpus: {count} ({reason}).")
    _print_tally("Left out", _skips(summary))
    _print_tally("Note", _notices(summary))


def _skips(summary: IngestSummary) -> list[tuple[str, str]]:
    return [(item.source, item.reason) for item in summary.skipped]


def _notices(summary: IngestSummary) -> list[tuple[str, str]]:
    return [(item.source, item.text) for item in summary.notices]


def _print_tally(label: str, items: list[tuple[str, str]]) -> None:
    from rag_mcp.text.sanitize import one_line
    from rag_mcp.text.tally import tally

    told = tally(items, most=_TOLD)
    for source, text in told.examples:
        typer.echo(f"{label}: {one_line(source)}: {one_line(text)}")
    if told.total > len(told.examples):
        typer.echo(f"{label}: {told.total:,} in all ({one_line(told.kinds)}); --json names up to {_TOLD_JSON:,}.")


# --- query -----------------------------------------------------------------------------------------------------------


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="The question.")],
    db: _Db = None,
    corpus: _Corpus = None,
    k: Annotated[str | None, typer.Option("-k", help="How many passages, 1 to 20 (default 5).")] = None,
    mode: Annotated[str | None, typer.Option(help="hybrid, fts or vector.")] = None,
    source_class: Annotated[
        str | None, typer.Option("--source-class", help="all, code, docs, decisions, config or memory.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    doc_class: Annotated[str | None, typer.Option("--doc-class", help="note or handoff.")] = None,
    confidence: Annotated[str | None, typer.Option(help="strict or normal.")] = None,
    as_of: Annotated[str | None, typer.Option("--as-of", help="State of dated series on this day, YYYY-MM-DD.")] = None,
    max_chars: Annotated[str | None, typer.Option("--max-chars", help="Budget for all passages.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each hit came to its place.")] = False,
    profile: _Profile = None,
    policy: _Policy = None,
    embedder: _Embedder = None,
    collection: _Collection = None,
    as_json: _Json = False,
) -> None:
    """Ask one question."""
    from rag_mcp.models import Mode
    from rag_mcp.server.tools import parse_search, search_payload

    arguments = {
        "query": text,
        "k": k,
        "mode": mode,
        "source_class": source_class,
        "project": project,
        "doc_class": doc_class,
        "confidence": confidence,
        "as_of": as_of,
        "max_chars": max_chars,
        "explain": explain,
    }
    request = parse_search(arguments)
    with _knowledge(db, corpus, profile, policy, embedder, collection) as base:
        if request.mode is not Mode.FTS:
            base.warm_up()  # nobody asks again a moment later: wait for the model, however long it takes
        response = base.search(request)
    if as_json:
        _say_json(search_payload(response, show_paths=True))
        return
    _print_answer(response)


class _knowledge:  # noqa: N801  # used like contextlib's lower-case managers
    """A KnowledgeBase for one command."""

    def __init__(
        self,
        db: Path | None,
        corpus: Path | None,
        profile: str | None,
        policy: Path | None,
        embedder: str | None,
        collection: str | None,
    ) -> None:
        self._config = _config(
            db_path=db,
            corpus_root=corpus,
            profile=profile,
            policy_path=policy,
            embedder=embedder,
            collection=collection,
        )

    def __enter__(self) -> KnowledgeBase:
        from rag_mcp.knowledge import KnowledgeBase, doubtful_settings

        for text in doubtful_settings(self._config):
            _say(f"rag-mcp: {text}", err=True)
        self._base = KnowledgeBase.open(self._config)
        return self._base

    def __exit__(self, *_: object) -> None:
        self._base.close()


def _print_answer(response: SearchResponse) -> None:
    from rich.text import Text

    from rag_mcp.text.sanitize import one_line, terminal_safe

    console = _console()
    if response.degraded:
        console.print(Text(f"Degraded: {one_line(response.degraded_reason or '')}", style="yellow"))
    if response.not_in_documents:
        console.print(Text(f"In no document: {one_line(', '.join(response.not_in_documents))}", style="yellow"))
    if response.status != "OK":
        console.print(Text(f"{response.status} ({response.reason})", style="bold"))
        return
    for number, result in enumerate(response.results, start=1):
        cited = result.citation
        head = f"{number}. {cited.source}:{cited.line_start}-{cited.line_end}"
        console.print(Text(one_line(head), style="bold cyan"))
        about = " > ".join(cited.heading_path) or cited.title
        note = f"   {one_line(about)}  [{result.confidence}, {result.score:.2f}]"
        if cited.snapshot_date:
            note += f"  as of {', '.join((cited.snapshot_date, *cited.also_unchanged_on))}"
        console.print(Text(note, style="dim"))
        # Every line of a passage is prefixed, so that a passage can't look like another result.
        for line in terminal_safe(result.text or "(left out: the answer's budget is spent)").splitlines():
            console.print(Text(f"   | {line}"))
        for place in result.also_in[:_PLACES]:
            where = f"{place.source}:{place.line_start}-{place.line_end}  {' > '.join(place.heading_path)}".rstrip()
            console.print(Text(f"   same text in {one_line(where)}", style="dim"))
        if len(result.also_in) > _PLACES:
            console.print(Text(f"   and in {len(result.also_in) - _PLACES} more places", style="dim"))
        if result.explain:
            console.print(Text(f"   {json.dumps(dict(result.explain))}", style="dim"))
        console.print()


# --- looking after the store -----------------------------------------------------------------------------------------


@app.command()
def status(
    db: _Db = None,
    corpus: _Corpus = None,
    profile: _Profile = None,
    policy: _Policy = None,
    collection: _Collection = None,
    as_json: _Json = False,
) -> None:
    """Say what the store holds and how it is. Exits with 1 when there is none."""
    from rag_mcp.server.tools import status_payload

    with _knowledge(db, corpus, profile, policy, None, collection) as base:
        base.warm_up()  # what is reported is how it is, not that it is still loading
        payload = status_payload(base.status(), show_paths=True)
        if payload["generation"] is None:
            _say(f"Looked at {base.store_root.absolute()}.", err=True)
    if as_json:
        _say_json(payload)
    else:
        _print_status(payload)
    if payload["generation"] is None:
        raise typer.Exit(1)


def _print_status(payload: Mapping[str, Any]) -> None:
    """The payload of rag_status in words: a line each, and nothing that is empty."""
    from rag_mcp.text.sanitize import one_line

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


@app.command()
def verify(db: _Db = None, corpus: _Corpus = None, collection: _Collection = None, as_json: _Json = False) -> None:
    """Check every byte, id, record and vector of the live generation. Exits with 1 when something differs."""
    from rag_mcp.stores.embedded.absent import live_generation
    from rag_mcp.stores.embedded.generations import GenerationStore
    from rag_mcp.stores.embedded.place import store_root
    from rag_mcp.stores.embedded.verify import verify_store
    from rag_mcp.text.sanitize import one_line

    config = _config(db_path=db, corpus_root=corpus, collection=collection)
    store = GenerationStore(store_root(config))
    live_generation(store, config)
    number, problems = verify_store(store, scratch=config.scratch_dir)
    if as_json:
        _say_json(
            {
                "ok": not problems,
                "generation": number,
                "problems": problems[:_TOLD_JSON],
                "problems_total": len(problems),
            }
        )
    else:
        for problem in problems[:_TOLD]:
            typer.echo(one_line(problem))
        if len(problems) > _TOLD:
            typer.echo(f"… and {len(problems) - _TOLD:,} more")
        typer.echo(f"generation {number}: {'clean' if not problems else f'{len(problems)} problems'}")
    if problems:
        raise typer.Exit(FAILED)


@app.command()
def rollback(
    number: Annotated[int | None, typer.Argument(help="Generation to go back to (default: the one before).")] = None,
    db: _Db = None,
    corpus: _Corpus = None,
    collection: _Collection = None,
    restore_deleted: Annotated[
        bool, typer.Option("--restore-deleted", help="Show again what has been deleted from the corpus since.")
    ] = False,
) -> None:
    """Serve an older generation again. The next ingest starts from it.

    What its owner has withdrawn since (access: none, a secret, a rule of the policy or an ignore file, another class)
    stays withdrawn, and so does what was deleted, unless asked for.
    """
    from rag_mcp.maintenance import roll_back

    config = _config(db_path=db, corpus_root=corpus, collection=collection)
    done = roll_back(config, number, restore_deleted=restore_deleted)
    typer.echo(f"generation {done.number} is live")
    if done.withheld:
        typer.echo(f"Withdrawn since, so not shown as it was: {_some(done.withheld)}. An ingest decides anew.")
    if done.gone:
        typer.echo(f"Deleted since, so not shown: {_some(done.gone)}. --restore-deleted shows them.")


def _some(names: Sequence[str], *, shown: int = 5) -> str:
    from rag_mcp.text.sanitize import one_line

    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(one_line, names[:shown])) + more


@app.command()
def doctor(
    db: _Db = None,
    corpus: _Corpus = None,
    policy: _Policy = None,
    embedder: _Embedder = None,
    collection: _Collection = None,
    fix: Annotated[bool, typer.Option("--fix", help="Rebuild a damaged generation and sweep leftovers.")] = False,
    as_json: _Json = False,
) -> None:
    """Look at everything that can be wrong here and say what to do. Exits with 1 when something is."""
    from rag_mcp.maintenance import examine, repair
    from rag_mcp.text.sanitize import one_line

    config = _config(db_path=db, corpus_root=corpus, policy_path=policy, embedder=embedder, collection=collection)
    if fix:
        for line in repair(config):
            _say(line)
    findings = examine(config)
    if as_json:
        _say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.ok else 'BAD '} {finding.what}: {one_line(finding.detail)}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FAILED)


@app.command()
def watch(
    corpus: _Folder = None,
    db: _Db = None,
    embedder: _Embedder = None,
    collection: _Collection = None,
    policy: _Policy = None,
    exclude: _Exclude = None,
    debounce: Annotated[float, typer.Option(help="Seconds of quiet before a run.")] = 2.0,
) -> None:
    """Ingest whenever the folder changes, until interrupted."""
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.ingest.run import run_ingest
    from rag_mcp.ingest.watch import LOOK_EVERY_S, watch_corpus
    from rag_mcp.stores.embedded.place import store_folder

    config = _config(corpus_root=corpus, db_path=db, embedder=embedder, collection=collection, policy_path=policy)
    options = IngestOptions(exclude=tuple(exclude or ()))

    shown: object = None

    def run() -> IngestSummary:
        nonlocal shown
        summary = run_ingest(config, options)
        report = (summary.skipped, summary.notices, summary.excluded)
        if summary.published or report != shown:
            _print_summary(summary, options, quiet=report == shown, as_json=False)
        shown = report
        return summary

    _say(
        f"watching {config.corpus_root}: a run after every change, and every {LOOK_EVERY_S / 60:.0f} minutes; "
        f"the store is {store_folder(config)}; Ctrl-C ends it"
    )
    with _interruptible(config):
        watch_corpus(config, run, debounce_s=debounce, say=lambda text: _say(f"rag-mcp: {text}", err=True))


@app.command()
def gaps(
    file: Annotated[Path | None, typer.Argument(help="The gap log (RAG_MCP_GAP_LOG).", **_PATH)] = None,
    as_json: _Json = False,
) -> None:
    """Group the questions that found nothing, most frequent first."""
    from rag_mcp.errors import ConfigError
    from rag_mcp.search.gaps import group_gaps, read_gaps
    from rag_mcp.text.sanitize import one_line

    path = file or _config().gap_log
    if path is None:
        raise ConfigError("No gap log: name the file, or set RAG_MCP_GAP_LOG.")
    groups = group_gaps(read_gaps(path))
    if as_json:
        _say_json([asdict(group) for group in groups])
        return
    for group in groups:
        typer.echo(f"{group.count} x  {one_line(group.questions[0])}  (last {one_line(group.last_at)})")
        for question in group.questions[1:]:
            typer.echo(f"       {one_line(question)}")


# --- measuring -------------------------------------------------------------------------------------------------------


@app.command("eval")
def evaluate(
    questions: Annotated[Path, typer.Argument(help="Questions, one JSON object a line.", **_PATH)],
    corpus: _Corpus = None,
    db: _Db = None,
    modes: Annotated[
        str, typer.Option(help="Comma-separated; the first one's gate is reported.")
    ] = "hybrid,fts,vector",
    embedder: _Embedder = None,
    policy: _Policy = None,
    profile: _Profile = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON here.", **_PATH)] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the report as one HTML page here.", **_PATH)
    ] = None,
    compare_with: Annotated[
        Path | None, typer.Option("--compare", help="JSON of an older run to compare with.", **_PATH)
    ] = None,
) -> None:
    """Measure ranking, gate and latency on questions with known answers."""
    from rag_mcp.evaluation import compare, read_report, render
    from rag_mcp.evaluation.tables import comparison_table, mode_table

    config = _config(corpus_root=corpus, db_path=db, embedder=embedder, policy_path=policy, profile=profile)
    old = read_report(compare_with) if compare_with is not None else None
    made = _measured(config, questions, modes).as_json()
    comparison = compare(old, made) if old is not None else None
    if json_file is not None:
        _write_private(json_file, json.dumps(made, ensure_ascii=False, indent=1))
    if report is not None:
        _write_private(report, render(made, comparison=comparison))
    _say(mode_table(made))
    _print_notes(made["notes"])
    if comparison is not None:
        _say(comparison_table(comparison))


def _write_private(path: Path, text: str) -> None:
    """Questions and names of files stand in it, so a new file is its owner's alone; a link is the caller's own."""
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(text)


def _print_notes(notes: Sequence[str]) -> None:
    from rag_mcp.text.sanitize import one_line

    for note in notes:
        _say(f"Note: {one_line(note)}", err=True)


def _measured(config: Config, questions: Path, modes: str, *, calibrated: bool = True) -> EvalReport:
    from datetime import UTC, datetime

    from rag_mcp.evaluation.measure import measure_questions
    from rag_mcp.models import Mode

    known = [mode.value for mode in Mode]
    names = [name.strip() for name in modes.split(",") if name.strip()]
    if not names or any(name not in known for name in names):
        raise InvalidArgument("modes", f"is {modes!r}.", allowed=known)
    today = datetime.now(UTC).date().isoformat()
    return measure_questions(config, questions, modes=[Mode(name) for name in names], date=today, calibrated=calibrated)


@app.command()
def calibrate(
    questions: Annotated[Path, typer.Argument(help="Questions, one JSON object a line, answerable and not.", **_PATH)],
    corpus: _Corpus = None,
    db: _Db = None,
    embedder: _Embedder = None,
    policy: _Policy = None,
    profile: _Profile = None,
    collection: _Collection = None,
    answered: Annotated[float, typer.Option(help="Share of answerable questions to keep answering.")] = 0.95,
) -> None:
    """Fit the levels of confidence to your own corpus and keep them with the store."""
    from rag_mcp.evaluation.calibration import fit_calibration
    from rag_mcp.evaluation.runner import scored_questions
    from rag_mcp.maintenance import store_calibration
    from rag_mcp.models import Mode
    from rag_mcp.search.relevance import Calibration, Thresholds

    config = _config(
        corpus_root=corpus,
        db_path=db,
        embedder=embedder,
        policy_path=policy,
        profile=profile,
        collection=collection,
    )
    made = _measured(config, questions, "hybrid,fts,vector", calibrated=False)
    _print_notes(made.notes)
    fitted = {}
    for mode in Mode:
        points, levels = fit_calibration(scored_questions(made, mode), answered_target=answered)
        fitted[mode] = Calibration(Thresholds(high=levels.high, medium=levels.medium), points)
        typer.echo(f"{mode.value}: medium from {levels.medium:.3f}, high from {levels.high:.3f}")
    store_calibration(config, fitted, {"questions": len(made.questions) - len(made.unplaced), "answered": answered})


# --- hosts -----------------------------------------------------------------------------------------------------------


@app.command("client-config")
def client_config(
    host: Annotated[
        str, typer.Option(help="claude-desktop, claude-code, cursor, vscode, zed, codex or generic.")
    ] = "generic",
    db: _Db = None,
    corpus: _Corpus = None,
    embedder: _Embedder = None,
    profile: _Profile = None,
    policy: _Policy = None,
    collection: _Collection = None,
    write: Annotated[bool, typer.Option("--write", help="Merge it into the host's file, after a backup.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="The host's file, if it is not where it usually is.", **_PATH)
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the entry (default: after the folder).")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over an entry of that --name, whatever store it is for.")
    ] = False,
) -> None:
    """Print the block that registers this server with a host program. Every store gets an entry of its own."""
    from rag_mcp.server.hosts import Host, client_block, parse_host, planned, render_block, server_env, write_config

    config = _config(
        db_path=db,
        corpus_root=corpus,
        embedder=embedder,
        profile=profile,
        policy_path=policy,
        collection=collection,
    )
    known = parse_host(host)
    server: dict[str, Any] = {"command": sys.executable, "args": ("-m", "rag_mcp"), "env": server_env(config)}
    block = client_block(known, **server, name=name)
    words = _access_in_words(config)
    if write:
        path = file or _host_file(known)
        _print_written(write_config(path, known, block, name=name, replace=replace))
    else:
        if name is None and (file is not None or known is not Host.GENERIC):
            with contextlib.suppress(RagMcpError):  # a preview needs no file; --write says what is wrong with it
                block = client_block(known, **server, name=planned(file or _host_file(known), known, block)[0].name)
        typer.echo(render_block(known, block), nl=False)
    _say(words, err=True)
    _say_if_absent(config)


def _say_if_absent(config: Config) -> None:
    """On stderr, that a server of this configuration has nothing to answer from yet; never a failure."""
    from rag_mcp.stores.embedded.absent import live_generation
    from rag_mcp.stores.embedded.generations import GenerationStore
    from rag_mcp.stores.embedded.place import store_root

    try:
        live_generation(GenerationStore(store_root(config)), config)
    except StoreAbsent as error:
        _print_notes([error.for_operator])
    except RagMcpError:
        pass  # there is something, and `doctor` says what is wrong with it


def _host_file(host: Host) -> Path:
    """The file to write, and on stderr why it is this one where that is not certain."""
    from rag_mcp.server.hosts import find_place

    place = find_place(host, platform=sys.platform, home=Path.home(), env=environment())
    if place.why:
        _say(f"{place.path} is used: {place.why}. Use --file if another one is read.", err=True)
    return place.path


def _access_in_words(config: Config) -> str:
    from rag_mcp.access.policy import load_policy
    from rag_mcp.access.profiles import profile_in_words, profile_problem, resolve_profile

    policy = load_policy(config.policy_path)
    problem = profile_problem(config.profile, policy)
    words = f"Access: {profile_in_words(resolve_profile(config.profile, policy))}."
    return f"{words} {problem}" if problem else words


def _print_written(result: WriteResult) -> None:
    made = result.registration
    done = ("added" if made.new else "changed") if result.changed else "already so"
    _say(f"{result.path}: {made.name}: {done}")
    if result.backup is not None:
        _say(f"backup: {result.backup}")
    for change in made.changed:
        _say(f"was set before: {change}")
    if made.kept:
        _say(f"kept: {', '.join(made.kept)}")
    for other in made.others:
        _say(f"left as it is: {other}")

"""``ingest`` and ``watch``: bring the store in step, and say what was done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_mcp.cli import params
from rag_mcp.cli.output import INTERRUPTED, LISTED, LISTED_JSON, STRICT, console_on, say, say_json
from rag_mcp.cli.runlog import LOG_BYTES, LOG_KEEP, RunLog, end_when_stdin_closes, ending_after, logged
from rag_mcp.cli.several import one_of, over_each
from rag_mcp.config import SETTINGS, Config, environment
from rag_mcp.errors import InvalidArgument
from rag_mcp.stores.embedded.place import corpora_of
from rag_mcp.text.sanitize import one_line

if TYPE_CHECKING:
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.models import IngestSummary

__all__ = ["ingest", "print_summary", "run_with_progress", "summary_payload", "watch"]


# Options of this command alone.
_Full = Annotated[bool, typer.Option("--full", help="Build everything anew; known vectors are used again.")]
_Clean = Annotated[bool, typer.Option("--clean", help="As --full, and drop all older generations.")]
_ReEmbed = Annotated[bool, typer.Option("--re-embed", help="As --full, and compute every vector anew.")]
_Rehash = Annotated[bool, typer.Option("--rehash", help="Read every file instead of trusting its times.")]
_Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with 4 when a file was left out for a fault, or an --exclude met nothing."),
]
_NoSnapshotDedupe = Annotated[
    bool, typer.Option("--no-snapshot-dedupe", help="Index every snapshot of a dated series whole.")
]
_AllowShrink = Annotated[bool, typer.Option("--allow-shrink", help="Accept that nearly all files are gone.")]
_HandoffMirrorDir = Annotated[
    list[str] | None,
    typer.Option(metavar="DIR", help="Folder whose handoff files have doc_class handoff; repeatable."),
]
_HandoffMirrorBasename = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="File name that is a handoff there; repeatable.")
]
_Adopt = Annotated[bool, typer.Option("--adopt", help="Take over a store made from another folder, as after a move.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]
_Setting = Annotated[
    list[str] | None, typer.Option(metavar="RAG_MCP_X=VALUE", help="A setting, for this run; repeatable.")
]
_Log = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="For schedulers: add a line on the run to FILE and print errors only. Another run at work is no failure.",
        **params.PATH,
    ),
]
_LogBytes = Annotated[int, typer.Option("--log-bytes", min=1, metavar="N", help="Size at which the log is set aside.")]
_LogKeep = Annotated[int, typer.Option("--log-keep", min=0, max=99, metavar="N", help="Logs set aside to keep.")]
_Timeout = Annotated[
    float | None, typer.Option(min=0.001, metavar="SECONDS", help="End a run that takes longer, with 1.")
]
_EndWithStdin = Annotated[bool, typer.Option("--end-with-stdin", hidden=True)]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one line.")]


def ingest(
    corpus: params.Folder = None,
    db: params.Db = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    policy: params.Policy = None,
    only: params.Only = None,
    exclude: params.Exclude = None,
    full: _Full = False,
    clean: _Clean = False,
    re_embed: _ReEmbed = False,
    rehash: _Rehash = False,
    strict: _Strict = False,
    no_snapshot_dedupe: _NoSnapshotDedupe = False,
    allow_shrink: _AllowShrink = False,
    handoff_mirror_dir: _HandoffMirrorDir = None,
    handoff_mirror_basename: _HandoffMirrorBasename = None,
    adopt: _Adopt = False,
    dry_run: _DryRun = False,
    setting: _Setting = None,
    log: _Log = None,
    log_bytes: _LogBytes = LOG_BYTES,
    log_keep: _LogKeep = LOG_KEEP,
    timeout: _Timeout = None,
    end_with_stdin: _EndWithStdin = False,
    quiet: _Quiet = False,
    as_json: params.Json = False,
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
    config = Config.load(
        {**environment(), **_settings(setting or ())},
        corpus_root=corpus,
        db_path=db,
        embedder=embedder,
        collection=collection,
        policy_path=policy,
    )
    record = None if log is None else _checked(RunLog(log.absolute(), log_bytes, log_keep), config)
    if end_with_stdin:
        end_when_stdin_closes()
    work = partial(_run_ingest, options=options, record=record, quiet=quiet, as_json=as_json)
    with ending_after(timeout, record):
        over_each(config, only, work, as_json=as_json, heading=record is None)


def _checked(record: RunLog, config: Config) -> RunLog:
    """Before any corpus is touched. Raises ConfigError."""
    record.check(corpora_of(config).values() or [config])
    return record


def _run_ingest(config: Config, *, options: IngestOptions, record: RunLog | None, quiet: bool, as_json: bool) -> int:
    def run() -> tuple[int, IngestSummary]:
        summary = run_with_progress(config, options, enabled=not (quiet or as_json))
        print_summary(summary, options, quiet=quiet, as_json=as_json, said=record is not None)
        if summary.published and not (quiet or as_json or record is not None):
            _say_relevance(config, summary)
        return STRICT if options.strict and (summary.skipped or summary.unmet) else 0, summary

    return run()[0] if record is None else logged(record, run)


def _say_relevance(config: Config, summary: IngestSummary) -> None:
    """Say so when no levels are shipped for the embedder, and what stands in for them."""
    from rag_mcp.embedders.bounds import is_known
    from rag_mcp.search.calibrated import relevance_in_words
    from rag_mcp.stores.embedded.generations import GenerationStore
    from rag_mcp.stores.embedded.place import store_root

    store = GenerationStore(store_root(config))
    info = store.info(summary.generation or 0)
    if not is_known(str(info.identity.get("embedder_name", ""))):
        _, words = relevance_in_words(store.root, info.identity, info.notes)
        say(f"Relevance: {one_line(words)}.")


def _settings(given: Iterable[str]) -> dict[str, str]:
    pairs = dict(each.partition("=")[::2] for each in given)
    unknown = sorted(pairs.keys() - SETTINGS.keys())
    if unknown:
        raise InvalidArgument("setting", f"{unknown[0]!r} is not known.", allowed=list(SETTINGS))
    return pairs


def run_with_progress(config: Config, options: IngestOptions, *, enabled: bool) -> IngestSummary:
    from rag_mcp.ingest.run import run_ingest

    with _interruptible(config), _Progress(enabled) as report:
        return run_ingest(config, options, progress=report)


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
        say(f"rag-mcp: stopped; {state}, and vectors computed so far are kept for the next run", err=True)
        sys.exit(INTERRUPTED)


class _Progress:
    """A bar on stderr, only on a terminal; made when the first work is reported, so an idle run loads nothing."""

    _LABELS = {"read": "Reading files", "embed": "Embedding passages", "write": "Writing the index"}

    def __init__(self, enabled: bool) -> None:
        # Without a console (pythonw on Windows) there is no stderr.
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
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
            console=console_on(err=True),
            transient=True,
        )


def summary_payload(summary: IngestSummary) -> dict[str, object]:
    """The summary as JSON has it: totals of all, and files by name up to a limit."""
    from rag_mcp.text.tally import tally

    skipped, notices = (tally(items, most=LISTED_JSON) for items in (_skips(summary), _notices(summary)))
    return {
        **asdict(replace(summary, skipped=(), notices=())),
        "skipped": [{"source": source, "reason": reason} for source, reason in skipped.examples],
        "skipped_by_reason": dict(skipped.by_kind),
        "notices": [{"source": source, "text": text} for source, text in notices.examples],
        "notices_total": notices.total,
        "notices_by_text": dict(notices.by_kind),
    }


def print_summary(
    summary: IngestSummary, options: IngestOptions, *, quiet: bool, as_json: bool, said: bool = False
) -> None:
    """``said``: it stands in a log, and only what can't go unsaid is left."""
    if as_json:
        say_json({"ok": True, "dry_run": options.dry_run, **summary_payload(summary)})
        return
    state = f"generation {summary.generation}" if summary.generation is not None else "no generation"
    line = (
        f"{'would change' if options.dry_run else 'done'}: {summary.files_seen} files seen, "
        f"{summary.files_ingested} ingested, {summary.files_deleted} gone, {summary.files_skipped} left out; chunks "
        f"+{summary.chunks_added} -{summary.chunks_deleted} ~{summary.chunks_updated}, "
        f"{summary.chunks_embedded} embedded, {summary.store_count} in store; {state}; {summary.elapsed_s:.2f} s"
    )
    if not said:
        typer.echo(line)
    if quiet or said:
        for source, text in _notices(summary):
            if source.startswith("--exclude "):  # what was to be hidden and is not can't go unsaid
                say(f"{one_line(source)}: {one_line(text)}", err=True)
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
    from rag_mcp.text.tally import tally

    told = tally(items, most=LISTED)
    for source, text in told.examples:
        typer.echo(f"{label}: {one_line(source)}: {one_line(text)}")
    if told.total > len(told.examples):
        typer.echo(f"{label}: {told.total:,} in all ({one_line(told.kinds)}); --json names up to {LISTED_JSON:,}.")


def watch(
    corpus: params.Folder = None,
    db: params.Db = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    policy: params.Policy = None,
    only: params.Only = None,
    exclude: params.Exclude = None,
    debounce: Annotated[float, typer.Option(help="Seconds of quiet before a run.")] = 2.0,
) -> None:
    """Ingest whenever the folder changes, until interrupted."""
    from rag_mcp.ingest.options import IngestOptions
    from rag_mcp.ingest.run import run_ingest
    from rag_mcp.ingest.watch import LOOK_EVERY_S, watch_corpus
    from rag_mcp.stores.embedded.place import store_folder

    config = Config.load(corpus_root=corpus, db_path=db, embedder=embedder, collection=collection, policy_path=policy)
    config = one_of(config, only)
    options = IngestOptions(exclude=tuple(exclude or ()))

    shown: object = None

    def run() -> IngestSummary:
        nonlocal shown
        summary = run_ingest(config, options)
        report = (summary.skipped, summary.notices, summary.excluded)
        if summary.published or report != shown:
            print_summary(summary, options, quiet=report == shown, as_json=False)
        shown = report
        return summary

    say(
        f"watching {config.corpus_root}: a run after every change, and every {LOOK_EVERY_S / 60:.0f} minutes; "
        f"the store is {store_folder(config)}; Ctrl-C ends it"
    )
    with _interruptible(config):
        watch_corpus(config, run, debounce_s=debounce, say=lambda text: say(f"rag-mcp: {text}", err=True))

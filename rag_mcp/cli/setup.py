"""``setup``: index a folder, register it with hosts and schedule its ingest, in one go; ``--remove`` undoes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from rag_mcp.cli import params
from rag_mcp.cli.ingest import print_summary, run_with_progress
from rag_mcp.cli.output import FAILED, report, say
from rag_mcp.cli.several import over_each
from rag_mcp.config import Config, environment
from rag_mcp.errors import InvalidArgument, RagMcpError
from rag_mcp.intervals import Interval
from rag_mcp.places import written_out
from rag_mcp.server.hosts import Host, find_place, parse_host
from rag_mcp.server.http.life import life_of, state_folder
from rag_mcp.setup.record import Record, Setup, locked_record, missing_folders, read_record
from rag_mcp.setup.run import (
    Machine,
    add_host,
    add_schedule,
    add_service,
    job_of,
    log_of,
    new_setup,
    remove,
    service_of,
    stores_of,
    turn_off,
)
from rag_mcp.setup.schedule import Scheduler
from rag_mcp.setup.service import MANAGERS
from rag_mcp.setup.system import find_scheduler
from rag_mcp.stores.embedded.owner import read_owner
from rag_mcp.text.sanitize import terminal_safe

__all__ = ["setup"]


def setup(
    corpus: params.Folder = None,
    db: params.Db = None,
    embedder: params.Embedder = None,
    collection: params.Collection = None,
    profile: params.Profile = None,
    policy: params.Policy = None,
    exclude: params.Exclude = None,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Host to register with (default: those found here); repeatable."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the entry (default: after the folder).")] = None,
    every: Annotated[str, typer.Option(metavar="5m", help="How often to ingest: 1m to 24h.")] = "5m",
    schedule: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="systemd, cron, launchd, task-scheduler, server (RAG_MCP_REFRESH) or none (default: what is here).",
        ),
    ] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep one warm server running for all hosts (systemd or launchd).")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: yes to all.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Undo it: files are what they were before.")] = False,
    keep_store: Annotated[bool, typer.Option("--keep-store", help="With --remove: leave the store.")] = False,
) -> None:
    """Set a folder up in one go: ingest it, register it with hosts, and ingest it again on a schedule.

    Says what it will do and asks; says what it did and how to undo it.
    """
    config = Config.load(
        corpus_root=corpus, db_path=db, embedder=embedder, collection=collection, profile=profile, policy_path=policy
    )
    if remove:
        _remove(config, yes=yes, keep_store=keep_store)
    else:
        _set_up(config, _Plan(tuple(exclude or ()), host, name, _interval(every), schedule, serve), yes=yes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was asked for; without ``hosts`` all that are here, without a ``schedule`` what this system has."""

    exclude: tuple[str, ...]
    hosts: Sequence[str] | None
    name: str | None
    every: Interval
    schedule: str
    serve: bool


def _interval(text: str) -> Interval:
    try:
        return Interval.parse(text)
    except ValueError as error:
        raise InvalidArgument("--every", f"{error}.") from error


def _machine() -> Machine:
    home, env = Path.home(), environment()
    state = state_folder(sys.platform, home, env)
    return Machine(sys.platform, home, env, state, getattr(os, "getuid", int)())


# --- set up ----------------------------------------------------------------------------------------------------------


def _set_up(config: Config, plan: _Plan, *, yes: bool) -> None:
    machine = _machine()
    scheduler = _scheduler(plan.schedule, plan.exclude)
    new = new_setup(config, scheduler, plan.every, plan.exclude)
    job_of(config, new, machine).check(scheduler)
    if plan.serve:
        new = replace(new, manager=_manager(scheduler), life=str(life_of(config, machine.env).folder))
        service_of(config, new, machine).check()
    say(f"Index {new.corpus} into {', '.join(stores_of(config))}.")
    hosts = [(host, path) for host, path in _host_files(plan.hosts) if _agreed(f"Register it in {path}?", yes=yes)]
    if scheduler is not Scheduler.NONE and not _agreed(f"Ingest it every {plan.every} ({scheduler})?", yes=yes):
        new = replace(new, scheduler=Scheduler.NONE.value)
    if new.manager and not _agreed(f"Keep one warm server running for all hosts ({new.manager})?", yes=yes):
        new = replace(new, manager="", life="")
    new, made = _ingested(config, new)
    with locked_record(machine.state) as record:
        old = record.setups.get(new.label)
        if old is not None:
            record = turn_off(record, old, machine, strict=False)
            new = replace(new, stores={**old.stores, **new.stores})
        failed = _registered(record.with_setup(new).with_folders(made), new, config, hosts, plan.name, machine)
    say(f"Undo it with: {_undo(config, new)}")
    if failed:
        raise typer.Exit(FAILED)


def _scheduler(kind: str, exclude: Sequence[str]) -> Scheduler:
    try:
        chosen = Scheduler(kind) if kind else find_scheduler(sys.platform)
    except ValueError as error:
        raise InvalidArgument("--schedule", f"{kind!r} is not known.", allowed=list(Scheduler)) from error
    if chosen is Scheduler.SERVER and exclude:
        raise InvalidArgument(
            "--schedule", "a server ingests by its settings alone: write what --exclude names into .ragignore instead."
        )
    return chosen


def _manager(scheduler: Scheduler) -> str:
    """What keeps a user's server running: what was chosen for the schedule, if it can, or what is here."""
    found = scheduler if scheduler in MANAGERS else find_scheduler(sys.platform)
    if found not in MANAGERS:
        raise InvalidArgument(
            "--serve",
            "wants systemd or launchd, and neither answers here. Hosts start a server themselves by: rag-mcp connect",
        )
    return found.value


def _host_files(names: Sequence[str] | None) -> Iterator[tuple[Host, Path]]:
    """The hosts that were named, or those that are here, each with its file."""
    for host in map(parse_host, names) if names else (each for each in Host if each is not Host.GENERIC):
        try:
            place = find_place(host, platform=sys.platform, home=Path.home(), env=environment())
        except InvalidArgument:
            if names:
                raise
            continue
        if names or place.path.exists() or (place.path.parent != Path.home() and place.path.parent.is_dir()):
            if place.why:
                say(f"{place.path} is used: {place.why}.", err=True)
            yield host, place.path


def _ingested(config: Config, new: Setup) -> tuple[Setup, tuple[str, ...]]:
    """Ingest; returns ``new`` with the stores that were made, and the folders made for them."""
    from rag_mcp.ingest.options import IngestOptions

    options = IngestOptions(exclude=new.exclude)
    missing = [path for path in stores_of(config).values() if not os.path.lexists(path)]
    made = tuple(dict.fromkeys(folder for path in missing for folder in missing_folders(path.parent)))

    def work(one: Config) -> int:
        print_summary(run_with_progress(one, options, enabled=True), options, quiet=False, as_json=False)
        return 0

    over_each(config, None, work, as_json=False)
    owners = {str(path): read_owner(path) for path in missing}
    return replace(new, stores={path: owner.store_id for path, owner in owners.items() if owner}), made


def _registered(
    record: Record, new: Setup, config: Config, hosts: Sequence[tuple[Host, Path]], name: str | None, machine: Machine
) -> bool:
    """Do the rest, each on its own; returns whether something failed."""
    record.save()
    failed = False
    for host, path in hosts:
        try:
            record, entry = add_host(record, new, host, path, config, name)
            say(f"{path}: {entry}")
        except RagMcpError as error:
            failed = bool(report(error, as_json=False))
    if new.scheduler not in (Scheduler.NONE, Scheduler.SERVER):
        try:
            record = add_schedule(record, new, job_of(config, new, machine), machine)
            say(f"{new.scheduler}: {new.label}, every {new.every}; its log is {log_of(machine, new)}")
        except RagMcpError as error:
            failed = bool(report(error, as_json=False))
    if new.manager:
        try:
            add_service(record, new, service_of(config, new, machine), machine)
            say(f"{new.manager}: a warm server; where it is: rag-mcp serve --status")
        except RagMcpError as error:
            failed = bool(report(error, as_json=False))
    if Scheduler.SYSTEMD in (new.scheduler, new.manager):
        say("It runs while you are logged in; `loginctl enable-linger` has it run always.")
    if not hosts:
        say("No host was registered: rag-mcp client-config prints the block for any.")
    return failed


def _undo(config: Config, new: Setup) -> str:
    words = ["rag-mcp", "setup", "--remove", new.corpus]
    words += ["--db", str(config.db_path.absolute())] if config.db_path is not None else []
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


# --- undone ----------------------------------------------------------------------------------------------------------


def _remove(config: Config, *, yes: bool, keep_store: bool) -> None:
    machine = _machine()
    old = _chosen(read_record(machine.state), config)
    stores = bool(old.stores) and not keep_store
    stores = stores and _agreed(f"Delete {', '.join(old.stores)} too, which was made for it?", yes=yes)
    with locked_record(machine.state) as record:
        failed = remove(record, record.setups.get(old.label, old), machine, stores=stores, said=say)
    for error in failed:
        report(error, as_json=False)
    if failed:
        say("The rest is undone; run it again when that is set right.", err=True)
        raise typer.Exit(FAILED)
    say("Undone." if stores or not old.stores else f"Undone; {', '.join(old.stores)} is left.")


def _chosen(record: Record, config: Config) -> Setup:
    """Raises InvalidArgument when it is not one."""
    corpus = written_out(config.roots) or (config.corpus_root and os.path.abspath(config.corpus_root))
    db = config.db_path and os.path.abspath(config.db_path)
    found = [
        each
        for each in record.setups.values()
        if (not corpus or os.path.realpath(each.corpus) == os.path.realpath(corpus))
        and (not db or os.path.realpath(each.db) == os.path.realpath(db))
        and config.collection in (each.collection, Config().collection)
    ]
    if len(found) != 1:
        said = "several were set up; say which, with --db too." if found else "no such folder was set up."
        known = [f"{each.corpus} --db {each.db}" for each in record.setups.values()]
        raise InvalidArgument("corpus", said, allowed=known)
    return found[0]


def _agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    try:
        return typer.confirm(terminal_safe(question), default=True)
    except typer.Abort as error:
        raise InvalidArgument("--yes", "there is nobody to ask; give it to say yes to all.") from error

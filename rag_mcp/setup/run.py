"""Set a folder up, and undo it: first it is recorded what will be done, then it is done; undoing goes the other way.

So a process that is killed leaves at worst a record of what was not done, and removing that changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError, InvalidArgument, RagMcpError, StoreError
from rag_mcp.intervals import Interval
from rag_mcp.places import written_out
from rag_mcp.server.hostfile import put_server
from rag_mcp.server.hosts import Host, client_block, section_of, server_env
from rag_mcp.server.http.life import Life
from rag_mcp.server.refresh import ingest_arguments
from rag_mcp.server.registration import register
from rag_mcp.setup.record import Record, Setup, missing_folders, remove_folders
from rag_mcp.setup.schedule import Commands, Job, Scheduler, commands, cron_lines, files
from rag_mcp.setup.service import Service, service_commands, service_file
from rag_mcp.setup.shared import CRONTAB, OWN, Entry, Shared, changed
from rag_mcp.setup.system import read_place, run_all, scheduler_folder, write_place
from rag_mcp.stores.embedded.files import remove_tree
from rag_mcp.stores.embedded.generations import GenerationStore
from rag_mcp.stores.embedded.logfile import older_logs
from rag_mcp.stores.embedded.owner import read_owner
from rag_mcp.stores.embedded.place import corpora_of, store_folder, store_root

__all__ = [
    "Machine",
    "add_host",
    "add_schedule",
    "add_service",
    "job_of",
    "log_of",
    "new_setup",
    "remove",
    "service_of",
    "stores_of",
    "turn_off",
]

_TIMEOUT_S = 7200
LOG_KEEP = 3
_STOP_WAIT_S = 15.0
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
_BY_ITSELF = (OWN, CRONTAB)


@dataclass(frozen=True, slots=True)
class Machine:
    """The system as set-up sees it; ``platform`` as ``sys.platform`` has it."""

    platform: str
    home: Path
    env: Mapping[str, str]
    state: Path
    user: int = 0

    def folder(self, scheduler: Scheduler) -> Path:
        return scheduler_folder(scheduler, home=self.home, env=self.env, state=self.state)


# --- what is to be done ----------------------------------------------------------------------------------------------


def new_setup(config: Config, scheduler: Scheduler, every: Interval, exclude: Sequence[str]) -> Setup:
    """Raises ConfigError or InvalidArgument when no folder, or no store for it, is known."""
    if config.roots:
        corpus, name = written_out(config.roots), "-".join(config.roots)
        db = "" if config.db_path is None else os.path.abspath(config.db_path)
    elif config.corpus_root is not None:
        corpus, name = os.path.abspath(config.corpus_root), config.corpus_root.absolute().name
        db = os.path.abspath(store_folder(config))
    else:
        raise InvalidArgument("corpus", "name the folder of documents to set up.")
    mark = blake2b("\n".join((corpus, db, config.collection)).encode("utf-8", "surrogateescape"), digest_size=4)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].rstrip("-")
    label = "-".join(filter(None, ("rag-mcp", slug, mark.hexdigest())))
    return Setup(corpus, db, label, scheduler.value, str(every), config.collection, tuple(exclude))


def log_of(machine: Machine, setup: Setup) -> Path:
    return machine.state / f"{setup.label}.log"


def job_of(config: Config, setup: Setup, machine: Machine) -> Job:
    """What the scheduler is to run: the ordinary ingest, with every setting of now, in a folder of no meaning."""
    python = Path(sys.executable)
    if machine.platform == "win32" and (windowless := python.with_name("pythonw.exe")).is_file():
        python = windowless
    # -P: what lies in the folder that a scheduler starts in is not imported.
    words = [str(python), "-P", "-m", "rag_mcp", *ingest_arguments(config)]
    for pattern in setup.exclude:
        words += ["--exclude", pattern]
    words += ["--log", str(log_of(machine, setup)), "--timeout", str(_TIMEOUT_S)]
    return Job(setup.label, f"rag-mcp ingest of {setup.corpus}", tuple(words), Interval.parse(setup.every))


def service_of(config: Config, setup: Setup, machine: Machine) -> Service:
    """What the manager of services is to keep running: a server for this user's own hosts, and for whoever holds a token."""
    env = {
        name: value for name, value in server_env(_served(config, setup)).items() if name != "RAG_MCP_CLIENT_PROFILE"
    }
    # A manager starts with few variables, and a server has to be found where the others look for it.
    env |= {name: machine.env[name] for name in _FOLDERS if machine.env.get(name)}
    words = (sys.executable, "-P", "-m", "rag_mcp", "serve", "--on-demand")
    return Service(service_label(setup), f"rag-mcp server of {setup.corpus}", words, env)


def service_label(setup: Setup) -> str:
    return f"{setup.label}-server"


def _served(config: Config, setup: Setup) -> Config:
    """The settings of a server; one that is to ingest is told so."""
    by_server = Scheduler(setup.scheduler) is Scheduler.SERVER
    return replace(config, refresh=Interval.parse(setup.every)) if by_server else config


def stores_of(config: Config) -> dict[str, Path]:
    """The store of each corpus, by its path."""
    return {
        str(root): root for root in (store_root(each).absolute() for each in corpora_of(config).values() or [config])
    }


# --- done ------------------------------------------------------------------------------------------------------------


def add_host(
    record: Record, setup: Setup, host: Host, path: Path, config: Config, name: str | None
) -> tuple[Record, str]:
    """Put the entry of ``setup`` into a host's file; returns its name there. Raises ConfigError or InvalidArgument."""
    place = os.path.realpath(path)  # a linked configuration stays a link
    words = ("-m", "rag_mcp", *(("connect",) if setup.manager else ()))
    block = client_block(host, command=sys.executable, args=words, env=server_env(_served(config, setup)))
    (server,) = block[section_of(host)].values()
    with _by_hand(place):
        choose = partial(register, entry=server, name=name)
        registration, _ = put_server(host, read_place(place) or b"", choose)
        entry = {"name": registration.name, "server": registration.entry}
        return _put(record, setup.label, place, host.value, entry), registration.name


def add_schedule(record: Record, setup: Setup, job: Job, machine: Machine) -> Record:
    """Raises ConfigError or InvalidArgument; then the schedule is as it was."""
    scheduler = Scheduler(setup.scheduler)
    job.check(scheduler)
    if scheduler is Scheduler.CRON:
        return _put(record, job.label, CRONTAB, CRONTAB, {"mark": job.label, "lines": list(cron_lines(job))})
    folder = machine.folder(scheduler)
    if scheduler is Scheduler.SYSTEMD:
        record = record.with_folders(missing_folders(folder / "timers.target.wants"))  # which systemctl makes
    todo = commands(scheduler, job.label, folder, user=machine.user)
    return _turned_on(record, setup, files(scheduler, job, folder), todo)


def add_service(record: Record, setup: Setup, service: Service, machine: Machine) -> Record:
    """Raises ConfigError or ServerRunning; then no service is there."""
    manager = Scheduler(setup.manager)
    folder = machine.folder(manager)
    record = record.with_folders(missing_folders(Path(setup.life)))  # which the server makes
    if manager is Scheduler.SYSTEMD:
        record = record.with_folders(missing_folders(folder / "default.target.wants"))
    Life(Path(setup.life)).stop(_STOP_WAIT_S)  # one that a host has started would be in the way
    path, content = service_file(manager, service, folder)
    todo = service_commands(manager, service.label, folder, user=machine.user)
    return _turned_on(record, setup, {path: content}, todo)


def _turned_on(record: Record, setup: Setup, wanted: Mapping[Path, bytes], todo: Commands) -> Record:
    for path, content in wanted.items():
        record = _put(record, setup.label, str(path), OWN, content.hex())
    try:
        run_all(todo.off, strict=False)
        run_all(todo.on)
    except ConfigError:
        _turned_off(record, setup, list(map(str, wanted)), todo, strict=False)
        raise
    return record


def _put(record: Record, label: str, place: str, form: str, entry: Entry) -> Record:
    current = read_place(place)
    made = () if place == CRONTAB else missing_folders(Path(place).parent)
    shared = record.places.get(place) or Shared.untouched(form, current)
    shared, content = changed(shared, current, label, entry)
    record = record.with_place(place, shared).with_folders(made)
    record.save()
    for folder in made:
        os.mkdir(folder)
    write_place(place, current, content)
    return record


# --- undone ----------------------------------------------------------------------------------------------------------


def turn_off(record: Record, setup: Setup, machine: Machine, *, strict: bool) -> Record:
    """End what runs by itself, the schedule and the server, and take their files away. Raises ConfigError; when ``strict``
    also where one can't be turned off."""
    own = [place for place in record.places_of(setup.label) if record.places[place].form in _BY_ITSELF]
    scheduler = Scheduler(setup.scheduler)
    of_schedule = commands(scheduler, setup.label, machine.folder(scheduler), user=machine.user)
    of_service = Commands()
    if setup.manager:
        manager = Scheduler(setup.manager)
        of_service = service_commands(manager, service_label(setup), machine.folder(manager), user=machine.user)
    for todo, kind, mine in (
        (of_service, setup.manager, [place for place in own if service_label(setup) in place]),
        (of_schedule, setup.scheduler, [place for place in own if service_label(setup) not in place]),
    ):
        # Of systemd a link would be left behind; else what fails is what the user has turned off or taken away already.
        there = kind == Scheduler.SYSTEMD and any(map(os.path.lexists, mine))
        record = _turned_off(record, setup, mine, todo, strict=strict and there)
    return record


def _turned_off(record: Record, setup: Setup, places: Sequence[str], todo: Commands, *, strict: bool) -> Record:
    run_all(todo.off, strict=strict)
    for place in places:
        record = _take(record, setup.label, place)
    run_all(todo.gone, strict=False)
    return record


def remove(
    record: Record, setup: Setup, machine: Machine, *, stores: bool, said: Callable[[str], None]
) -> list[RagMcpError]:
    """Undo what ``setup`` did, and delete the ``stores`` that were made for it, if asked to; what could not be undone
    stays in the record, and is returned."""
    failed: list[RagMcpError] = []
    own = [place for place in record.places_of(setup.label) if record.places[place].form in _BY_ITSELF]
    try:
        record = turn_off(record, setup, machine, strict=True)
    except RagMcpError as error:
        failed.append(error)
    for place in record.places_of(setup.label):
        if place in own:
            continue
        try:
            record = _take(record, setup.label, place)
            said(f"{place}: without what this set-up wrote")
        except RagMcpError as error:
            failed.append(error)
    try:
        if setup.life and not failed:  # a host may have started one meanwhile
            Life(Path(setup.life)).stop(_STOP_WAIT_S)
        if stores and not failed:
            _remove_stores(setup)
    except RagMcpError as error:
        failed.append(error)
    if not failed:
        log = log_of(machine, setup)
        for path in (log, *older_logs(log, LOG_KEEP)):
            path.unlink(missing_ok=True)
        if setup.life in record.made:
            Life(Path(setup.life)).forget()
        record = record.without_setup(setup.label)
        replace(record, made=remove_folders(record.made)).save()
    return failed


def _remove_stores(setup: Setup) -> None:
    """Delete them if they still are the same ones. Raises StoreLocked while one is written to, StoreError when one could
    not be deleted."""
    for path, store_id in setup.stores.items():
        store = Path(path)
        owner = read_owner(store)
        if owner is None or owner.store_id != store_id:
            continue
        with GenerationStore(store).writer_lock():
            pass
        if not remove_tree(store):
            raise StoreError(f"{store} could not be deleted: a program has it open.")


def _take(record: Record, label: str, place: str) -> Record:
    with _by_hand(place):
        current = read_place(place)
        shared, content = changed(record.places[place], current, label, None)
        write_place(place, current, content)
    record = record.with_place(place, shared)
    record.save()
    return record


@contextlib.contextmanager
def _by_hand(place: str) -> Iterator[None]:
    """What can't be edited for certain is a ConfigError that says so."""
    try:
        yield
    except (ValueError, RecursionError, KeyError) as error:
        raise ConfigError(
            f"{place} was left as it is: it can't be changed safely ({error}). Change it by hand."
        ) from error

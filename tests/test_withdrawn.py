"""What was withdrawn stays withdrawn, by whatever way an older generation is served; and both policies count."""

import errno
import json
import os
import shutil
from dataclasses import asdict, replace

import pytest
from cli_process import forked_cli
from support import Library, growth

from rag_mcp.access.withdrawal import Cause, Withdrawal
from rag_mcp.errors import CorpusError, NotFound, StoreDamaged
from rag_mcp.ingest import content
from rag_mcp.ingest.deleted import Deleted, OnDisk, look_everywhere, split_deleted
from rag_mcp.ingest.options import MAX_FILE_BYTES, IngestOptions, Step
from rag_mcp.ingest.run import run_ingest
from rag_mcp.ingest.walk import FileUnreadable
from rag_mcp.maintenance import examine, roll_back
from rag_mcp.models import Mode, SourceClass
from rag_mcp.requests import DocumentRequest, ListRequest, SearchRequest
from rag_mcp.stores.embedded.withdrawn import read_withdrawals, settled, withdraw
from rag_mcp.stores.manifest import Manifest

WAGE = "# Wages\n\nThe bellringer is paid nine groats a week.\n"
OPEN = {"bells.md": "# Bells\n\nThe bells are rung at noon.\n", "rope.md": "# Rope\n\nThe rope hangs in the tower.\n"}
QUESTION = "bellringer nine groats"
POLICY = 'version: 1\nrules:\n  - {path: "hr/**", class: memory}\n'


@pytest.fixture
def library(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store", profile="auditor") as made:
        made.write({**OPEN, "pay.md": WAGE})
        made.ingest()
        yield made


def head(library, text):
    library.write({"pay.md": text + WAGE})


def ignored(library):
    library.write({".ragignore": "pay.md\n"})


def deleted(library):
    library.remove("pay.md")


def moved(library):
    library.write({"memory/pay.md": WAGE})
    library.remove("pay.md")


def renamed_and_closed(library):
    (library.corpus / "pay.md").rename(library.corpus / "Pay.md")
    library.write({"Pay.md": "---\naccess: none\n---\n" + WAGE})


WITHDRAWALS = {
    "access": (lambda library: head(library, "---\naccess: none\n---\n"), {}),
    "secret": (lambda library: head(library, f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEpAIBAAKCAQEA7yV2' * 20}\n"), {}),
    "ignore file": (ignored, {}),
    "exclude": (lambda library: None, {"exclude": ("pay.md",)}),
    "deleted": (deleted, {}),
    "moved to a closed class": (moved, {}),
    "renamed and closed": (renamed_and_closed, {}),
}


def damage_newest(library):
    newest = max(library.generations.numbers())
    shutil.rmtree(library.generations.path(newest))


def tear_indexes(library):
    newest = library.generations.path(max(library.generations.numbers()))
    for file in [*newest.glob("keywords/**/*"), *newest.glob("chroma/**/*"), newest / "manifest-recent.sqlite"]:
        if file.is_file():
            file.write_bytes(b"torn")


def restore_pointer(library):
    (library.store_path / "CURRENT").write_text("1\n", encoding="ascii")


WAYS_BACK = {
    "newest gone": damage_newest,
    "newest torn": tear_indexes,
    "pointer restored": restore_pointer,
    "rollback": lambda library: roll_back(library.config(), None),
}


def hidden(library, profile="restricted"):
    base = library.base(profile=profile)
    found = {result.citation.source for result in library.search(QUESTION, base=base, k=10).results}
    listed = {entry.source for entry in base.list_documents(ListRequest()).documents}
    assert "bells.md" in listed, "the rest is served"
    with pytest.raises(NotFound):
        base.get_document(DocumentRequest("pay.md"))
    files = base.list_sources().classes[SourceClass.DOCS]["files"]
    return "pay.md" not in found | listed and files == len([name for name in listed if "/" not in name])


@pytest.mark.parametrize("way", WAYS_BACK)
@pytest.mark.parametrize("withdrawal", WITHDRAWALS)
def test_what_was_withdrawn_is_not_shown_from_an_older_generation(library, withdrawal, way):
    change, options = WITHDRAWALS[withdrawal]
    change(library)
    library.ingest(**options)
    assert hidden(library)
    WAYS_BACK[way](library)
    base = library.base(profile="restricted")
    base.search(SearchRequest.parse({"query": "bells"}))
    assert base.status().generation == 1
    assert hidden(library)


def test_a_reader_that_holds_the_old_generation_open_follows_the_record(library):
    base = library.base(profile="restricted")
    assert "pay.md" in {result.citation.source for result in library.search(QUESTION, base=base).results}
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    tear_indexes(library)
    answer = library.search(QUESTION, base=base, k=10)
    assert answer.degraded
    assert {result.citation.source for result in answer.results} <= {"bells.md", "rope.md"}


def test_a_rollback_names_what_stays_hidden_and_deleted_documents_come_back_on_request(library):
    library.write({"gone.md": "# Gone\n\nThe weathercock was gilded.\n"})
    library.ingest()
    library.remove("gone.md")
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    done = forked_cli("rollback", "--db", library.store_path, "--corpus", library.corpus)
    assert done.returncode == 0
    assert "Withdrawn since, so not shown as it was: pay.md." in done.stdout
    assert "Deleted since, so not shown: gone.md. --restore-deleted shows what is nowhere else." in done.stdout
    assert "gone.md" not in library.sources("weathercock gilded")
    done = forked_cli("rollback", "2", "--restore-deleted", "--db", library.store_path, "--corpus", library.corpus)
    assert "Deleted since, and shown until the next rollback or ingest: gone.md." in done.stdout
    assert library.sources("weathercock gilded")[0] == "gone.md"
    assert hidden(library)


def test_a_renamed_document_is_not_withdrawn(library):
    (library.corpus / "rope.md").rename(library.corpus / "cord.md")
    library.ingest()
    assert roll_back(library.config(), None).gone == ()
    assert library.sources("rope hangs in the tower")[0] == "rope.md"


def test_what_is_allowed_again_is_shown_again(library):
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    library.write({"pay.md": WAGE})
    library.ingest()
    assert library.sources(QUESTION)[0] == "pay.md"
    roll_back(library.config(), 2)
    library.ingest()
    assert library.sources(QUESTION)[0] == "pay.md"


class Killed(Exception):
    pass


def die(*_):
    raise Killed


def test_a_run_killed_before_its_pointer_moved_hides_nothing_for_good(library, monkeypatch):
    head(library, "---\naccess: none\n---\n")
    with monkeypatch.context() as patched:
        patched.setattr("rag_mcp.stores.embedded.generations.GenerationStore.point_to", die)
        with pytest.raises(Killed):
            run_ingest(library.config(), IngestOptions())
    assert hidden(library), "its owner has asked for it"
    library.write({"pay.md": WAGE})
    assert not library.ingest().published
    assert library.sources(QUESTION)[0] == "pay.md"


def test_an_older_generation_is_not_served_when_the_record_can_not_be_read(library):
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    restore_pointer(library)
    record = library.store_path / "withdrawn.json"
    for harm in (lambda: record.write_text("[torn"), record.unlink):
        harm()
        with pytest.raises(StoreDamaged, match="Ingest again"):
            library.search(QUESTION)
        (library.store_path / "CURRENT").write_text("2\n", encoding="ascii")
        assert hidden(library), "the newest generation needs no record"
        restore_pointer(library)
    (library.store_path / "CURRENT").write_text("2\n", encoding="ascii")
    library.ingest()
    restore_pointer(library)
    assert hidden(library), "the record was written anew"


def test_the_record_is_dropped_with_the_last_generation_it_speaks_of(library):
    library.remove("pay.md")
    library.ingest()
    assert set(read_withdrawals(library.store_path)) == {"pay.md"}
    for turn in range(3):
        library.write({"rope.md": f"# Rope\n\nThe rope was spliced {turn} times.\n"})
        library.ingest()
    assert read_withdrawals(library.store_path) == {}


def entry_of(library, path):
    return library.manifest().files[path]


def test_the_decision_by_manifests(library):
    entry = entry_of(library, "pay.md")
    closed = replace(entry, source_class=SourceClass.MEMORY)
    edited = replace(entry, sha256="other")
    sha = entry.sha256

    def manifest(notices=None, **files):
        return Manifest({}, {}, files, notices=notices or {})

    def decide(before, after, known=None, *, present=False):
        return withdraw(known or {}, [before], after, 5, oldest=2, on_disk=lambda _: present)

    assert decide(manifest(a=entry), manifest(a=entry)) == {}
    assert decide(manifest(a=entry), manifest(a=edited)) == {}
    gone = Withdrawal(5, Cause.GONE, sha)
    withheld = replace(gone, cause=Cause.WITHHELD)
    assert decide(manifest(a=entry), manifest()) == {"a": (gone,)}
    assert decide(manifest(a=entry), manifest(), present=True) == {"a": (withheld,)}
    renamed = Withdrawal(5, Cause.RENAMED, sha, renamed="b")
    assert decide(manifest(a=entry), manifest(b=entry)) == {"a": (renamed,)}
    assert decide(manifest(a=entry), manifest(b=entry), present=True) == {"a": (withheld,)}
    assert decide(manifest(a=entry), manifest(b=closed)) == {"a": (gone,)}
    moved = Withdrawal(5, Cause.MOVED, sha, SourceClass.MEMORY)
    assert decide(manifest(a=entry), manifest(a=closed)) == {"a": (moved,)}
    masked = {"a": ("1 possible secret masked (line 3)",)}
    hidden = replace(gone, cause=Cause.MASKED)
    assert decide(manifest(a=entry), manifest(masked, a=edited)) == {"a": (hidden,)}
    assert decide(manifest(masked, a=entry), manifest({"a": ("1 possible secret masked (line 4)",)}, a=edited)) == {}
    # What was withdrawn before is followed: to the end of its kept generations, to its next name, and again.
    kept, old = {"z": (replace(gone, since=3),)}, {"y": (replace(gone, since=2),)}
    assert decide(manifest(), manifest(), {**kept, **old}) == kept
    known = {"a": (replace(renamed, since=4),)}
    assert decide(manifest(b=entry), manifest(), known)["a"] == (replace(gone, since=4),)
    [followed] = decide(manifest(b=entry), manifest(b=closed), known)["a"]
    assert (followed.since, followed.renamed, followed.source_class) == (4, "b", SourceClass.MEMORY)
    # Every text and every way of closing it counts, and one entry serves where two say the same.
    earlier = {"a": (replace(withheld, since=3),)}
    assert decide(manifest(a=edited), manifest(), earlier)["a"] == (*earlier["a"], replace(gone, sha256="other"))
    assert decide(manifest(a=entry), manifest(), earlier, present=True) == {"a": (withheld,)}
    assert decide(manifest(a=entry), manifest(), {"a": (replace(hidden, since=4),)})["a"][0].cause is Cause.MASKED
    # Only what is live lets go of an entry. The same text again is no secret any more; another one opens nothing.
    assert decide(manifest(), manifest(a=entry), earlier) == earlier
    assert settled(earlier, manifest(a=entry)) == {}
    assert settled(earlier, manifest(a=edited)) == earlier
    assert settled({"a": (moved,)}, manifest(a=closed)) == {"a": (moved,)}
    assert settled({"a": (moved, withheld)}, manifest(a=entry)) == {}


def test_a_record_of_an_older_version_is_read(tmp_path):
    record = {"a.md": [2, "gone", "sha", None, None], "b.md": [[3, "moved", "sha", "memory", None]]}
    (tmp_path / "withdrawn.json").write_text(json.dumps(record), encoding="utf-8")
    assert read_withdrawals(tmp_path) == {
        "a.md": (Withdrawal(2, Cause.GONE, "sha"),),
        "b.md": (Withdrawal(3, Cause.MOVED, "sha", SourceClass.MEMORY),),
    }


def test_every_text_that_was_withdrawn_under_a_path_stays_so(library):
    other = "# Wages\n\nNothing is said of wages here.\n"
    for text in ("---\naccess: none\n---\n" + WAGE, other, "---\naccess: none\n---\n" + other, other):
        library.write({"pay.md": text})
        library.ingest()
        roll_back(library.config(), 1)
    assert hidden(library)


def test_a_run_that_was_killed_lets_go_of_nothing(library, monkeypatch):
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    library.write({"pay.md": WAGE})
    with monkeypatch.context() as patched:
        patched.setattr("rag_mcp.stores.embedded.generations.GenerationStore.publish", die)
        with pytest.raises(Killed):
            run_ingest(library.config(), IngestOptions())
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    restore_pointer(library)
    assert hidden(library)


FORGETTING = {
    "rollback": lambda library: None,
    "idle ingest": lambda library: library.ingest(),
    "ingest": lambda library: library.write({"new.md": "# New\n\nA new bell.\n"}) or library.ingest(),
}


@pytest.mark.parametrize("way", WAYS_BACK)
@pytest.mark.parametrize("since", FORGETTING)
def test_to_show_what_was_deleted_holds_until_the_next_rollback_or_ingest(library, since, way):
    deleted(library)
    library.ingest()
    roll_back(library.config(), 1, restore_deleted=True)
    assert library.sources(QUESTION)[0] == "pay.md"
    roll_back(library.config(), 2)
    FORGETTING[since](library)
    roll_back(library.config(), 1) if way == "rollback" else WAYS_BACK[way](library)
    if way.startswith("newest") and library.base().status().generation != 1:
        WAYS_BACK[way](library)
    assert hidden(library)


def test_what_was_shown_again_is_hidden_by_the_next_ingest_that_does_not_find_it(library):
    deleted(library)
    library.ingest()
    roll_back(library.config(), 1, restore_deleted=True)
    library.ingest()
    restore_pointer(library)
    assert hidden(library)


def test_a_rollback_makes_no_record_where_one_is_missing(library):
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    (library.store_path / "withdrawn.json").unlink()
    roll_back(library.config(), 1, restore_deleted=True)
    with pytest.raises(StoreDamaged, match="Ingest again"):
        library.search(QUESTION)


def test_what_is_masked_today_is_not_shown_in_clear_from_an_older_generation(library, tmp_path):
    lax = tmp_path / "lax.yaml"
    lax.write_text('version: 1\nallow_secrets: [{path: "**"}]\n', encoding="utf-8")
    library.write({"gate.md": "# Gate\n\nThe harbour gate.\n\npassword: Heron-Marble42\n"})
    library.ingest(config={"policy_path": lax})
    assert "Heron-Marble42" in library.search("harbour gate").results[0].text
    library.ingest()
    assert "[secret masked]" in library.search("harbour gate").results[0].text
    damage_newest(library)
    answer = library.search("harbour gate", k=20)
    assert answer.degraded and answer.results
    assert "gate.md" not in {result.citation.source for result in answer.results}


@pytest.mark.parametrize("moved", ["to another class", "to another name"])
def test_what_is_masked_where_it_was_moved_is_not_shown_in_clear_where_it_was(library, tmp_path, moved):
    policy = tmp_path / "policy.yaml"
    policy.write_text('version: 1\nallow_secrets: [{path: "open/**"}]\n', encoding="utf-8")
    text = "# Gate\n\nThe harbour gate.\n\npassword: Heron-Marble42\n"
    library.write({"open/gate.md": text})
    library.ingest(config={"policy_path": policy})
    if moved == "to another class":
        policy.write_text('version: 1\nrules: [{path: "open/**", class: memory}]\n', encoding="utf-8")
    else:
        library.remove("open/gate.md")
        library.write({"hall/gate.md": text})
    library.ingest(config={"policy_path": policy})
    damage_newest(library)
    shown = library.search("harbour gate", k=20, base=library.base(profile="auditor", policy_path=policy)).results
    assert shown
    assert not any("Heron-Marble42" in (result.text or "") for result in shown)


def test_a_text_that_was_withdrawn_stays_so_when_its_document_comes_back_with_another(library):
    head(library, "---\naccess: none\n---\n")
    library.ingest()
    library.write({"pay.md": "# Wages\n\nNothing is said of wages here.\n"})
    library.ingest()
    assert library.sources("nothing is said of wages")[0] == "pay.md"
    roll_back(library.config(), 2)
    restore_pointer(library)
    shown = library.search(QUESTION, k=20).results
    assert not any("groats" in (result.text or "") for result in shown)


def test_a_document_moved_to_a_place_that_is_denied_is_not_shown_under_its_old_name(library, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndeny: [shut/]\n", encoding="utf-8")
    library.write({"shut/pay.md": WAGE})
    library.remove("pay.md")
    library.ingest()
    damage_newest(library)
    assert "pay.md" in library.sources(QUESTION)
    assert "pay.md" not in library.sources(QUESTION, base=library.base(policy_path=policy))


# --- deleted, or only moved out of sight? ------------------------------------------------------------------------------

OTHER = "# Wages\n\nNothing is said of wages here.\n"
OUT_OF_SIGHT = {
    "into a closed class": {"memory/pay.md": WAGE},
    "into a denied folder": {"shut/pay.md": WAGE},
    "to another name in a denied folder": {"shut/2031/wages.md": WAGE},
    "under an ignore file": {".ragignore": "box/\n", "box/wages.md": WAGE},
    "under the ignore file of a folder": {"box/.ragignore": "*\n", "box/wages.md": WAGE},
    "into a hidden folder": {".attic/wages.md": WAGE},
    "to what is no markdown": {"wages.bak": WAGE},
    "to a name that no document may have": {"box/wages\\.md": WAGE},
    "to another letter case, and ignored": {".ragignore": "PAY.MD\n", "PAY.md": OTHER},
    "to another folder, and edited": {"shut/Pay.md": OTHER},
    "into a closed class, and edited": {"memory/pay.md": OTHER},
    "with other line ends": {"shut/wages.md": WAGE.replace("\n", "\r\n")},
    "in another encoding": {"shut/wages.md": b"\xff\xfe" + WAGE.encode("utf-16-le")},
}


@pytest.fixture
def shut(library, tmp_path):
    """A library whose policy denies a folder."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndeny: [shut/]\n", encoding="utf-8")
    library.settings["policy_path"] = policy
    return library


@pytest.mark.parametrize("excluded", [(), ("box", "shut")], ids=["", "excluded"])
@pytest.mark.parametrize("way", OUT_OF_SIGHT)
def test_what_was_moved_out_of_sight_is_not_shown_as_deleted(shut, way, excluded):
    shut.remove("pay.md")
    shut.write(OUT_OF_SIGHT[way])
    shut.ingest(exclude=excluded)
    done = roll_back(shut.config(), 1, restore_deleted=True)
    assert done.number == 1 and done.shown == ()
    assert [each.source for each in done.refused] == ["pay.md"]
    where = next(path for path in reversed(OUT_OF_SIGHT[way]) if path != ".ragignore")
    assert where.rpartition("/")[2].partition("\\")[0] in done.refused[0].reason
    assert hidden(shut)


def test_what_came_back_where_it_is_left_out_is_not_shown_as_deleted(shut):
    shut.remove("pay.md")
    shut.ingest()
    shut.write({"pay.md": OTHER, ".ragignore": "pay.md\n"})
    [refused] = roll_back(shut.config(), 1, restore_deleted=True).refused
    assert refused.reason.startswith("pay.md is there")
    assert hidden(shut)


def test_what_a_link_may_lead_to_is_not_shown_as_deleted(library, tmp_path):
    library.write({"tower/pay.md": WAGE})
    library.remove("pay.md")
    library.ingest()
    (library.corpus / "tower").rename(tmp_path / "elsewhere")
    library.ingest()
    (library.corpus / "Tower").symlink_to(tmp_path / "elsewhere")
    [refused] = roll_back(library.config(), 2, restore_deleted=True).refused
    assert (refused.source, refused.reason) == ("tower/pay.md", "Tower is a link, which is not followed")


def test_the_name_of_a_document_of_the_same_class_keeps_nothing_hidden(library):
    library.write({"a/README.md": "# North\n\nThe north door.\n", "b/README.md": "# South\n\nThe south door.\n"})
    library.ingest()
    library.remove("a/README.md")
    library.ingest()
    assert roll_back(library.config(), 2, restore_deleted=True).shown == ("a/README.md",)
    assert "a/README.md" in library.sources("north door")


@pytest.mark.parametrize("closed", ["file", "folder", "folder that is denied"])
def test_nothing_deleted_is_shown_while_a_place_can_not_be_looked_at(shut, monkeypatch, closed):
    place = "shut" if closed.endswith("denied") else "box"
    shut.remove("pay.md")
    shut.write({f"{place}/wages.md": WAGE})
    shut.ingest(exclude=("box",))

    def refuse(real, what):
        def look(path, *rest, **options):
            if os.fspath(path).rstrip("/").endswith(what):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path, *rest, **options)

        return look

    name, what = ("open", "wages.md") if closed == "file" else ("scandir", f"/{place}")
    with monkeypatch.context() as patched:
        patched.setattr(os, name, refuse(getattr(os, name), what))
        patched.setattr(os, "supports_dir_fd", {os.open, *os.supports_dir_fd})
        done = roll_back(shut.config(), 1, restore_deleted=True)
    [refused] = done.refused
    assert refused.reason.startswith(f"it may still be there: {place}")
    assert "can't be read (Permission denied)" in refused.reason
    assert hidden(shut)


def test_nothing_deleted_is_shown_where_the_corpus_is_not_there_or_another(library, tmp_path):
    deleted(library)
    library.ingest()
    (tmp_path / "other").mkdir()
    away = library.corpus.rename(tmp_path / "away")
    for root, said in (
        (library.corpus, "does not exist"),
        (None, "does not exist"),
        (tmp_path / "other", "was made from"),
    ):
        with pytest.raises(CorpusError, match=said):
            roll_back(library.config(corpus_root=root), 1, restore_deleted=True)
    assert library.generations.current() == 2, "nothing was changed"
    library.corpus.mkdir()
    [refused] = roll_back(library.config(), 1, restore_deleted=True).refused
    assert "is its disk mounted?" in refused.reason
    library.corpus.rmdir()
    away.rename(library.corpus)
    assert roll_back(library.config(corpus_root=None), 1, restore_deleted=True).shown == ("pay.md",)
    assert library.sources(QUESTION)[0] == "pay.md"


def test_every_text_that_a_kept_generation_holds_under_the_name_counts(library):
    reader = library.base()
    library.sources(QUESTION, base=reader)  # keeps generation 1
    library.write({"pay.md": OTHER})
    library.ingest()
    library.remove("pay.md")
    library.write({"memory/wages.md": WAGE})
    library.ingest()
    assert library.generations.numbers() == [1, 2, 3]
    [refused] = roll_back(library.config(), 2, restore_deleted=True).refused
    assert (refused.source, refused.reason) == ("pay.md", "its text is in memory/wages.md")


def test_a_store_that_does_not_say_whose_it_is_shows_nothing_deleted(library):
    deleted(library)
    library.ingest()
    for name in ("corpus.json", "stat-cache.json"):
        (library.store_path / name).unlink()
    for sealed in library.store_path.glob("generations/*/generation.json"):
        sealed.write_text(json.dumps({**json.loads(sealed.read_text("utf-8")), "notes": {}}), encoding="utf-8")
    for root, said in ((library.corpus, "does not say"), (None, "No corpus folder")):
        with pytest.raises(CorpusError, match=said):
            roll_back(library.config(corpus_root=root), 1, restore_deleted=True)
    assert library.generations.current() == 2


def test_all_but_the_store_is_looked_at(library):
    library.write({"store/a.md": WAGE, "box/store/b.md": OTHER, "box/big.md": b"x" * (MAX_FILE_BYTES + 1)})
    found = look_everywhere(library.corpus, library.corpus / "store")
    assert sorted(found.files) == ["bells.md", "box/big.md", "box/store/b.md", "pay.md", "rope.md"]
    assert {*found.texts.values()} == {"bells.md", "box/store/b.md", "pay.md", "rope.md"}


def test_a_rollback_says_why_a_deleted_document_is_not_shown(library):
    library.remove("pay.md", "rope.md")
    library.write({"memory/wages.md": WAGE})
    library.ingest()
    done = forked_cli("rollback", "--restore-deleted", "--db", library.store_path)
    assert done.returncode == 0
    assert "Deleted since, and shown until the next rollback or ingest: rope.md." in done.stdout
    assert "Not shown again: pay.md: its text is in memory/wages.md." in done.stdout


def test_to_tell_deleted_from_moved_takes_linear_time():
    def make(size):
        gone = {f"{number}/README.md": Deleted(frozenset([str(number)]), SourceClass.DOCS) for number in range(size)}
        there = [f"{number}/notes/README.md" for number in range(size)]
        return gone, OnDisk({path: path for path in there}, files=there), dict.fromkeys(there, SourceClass.DOCS)

    assert growth(make, lambda material: split_deleted(*material), 300) < 3


# --- what can't be read now --------------------------------------------------------------------------------------------


@pytest.fixture
def unreadable(library, monkeypatch):
    """Let a file, or the folder it lies in, be one that can't be read."""
    real_read, real_scan = content.read_file, os.scandir

    def close(path, what):
        def read(root, file, **options):
            if file.path == path:
                raise FileUnreadable(f"{path}: can't be read.")
            return real_read(root, file, **options)

        def scan(folder):
            if isinstance(folder, str) and folder.rstrip("/").endswith("/" + path.split("/")[0]):
                raise PermissionError(errno.EACCES, "Permission denied", folder)
            return real_scan(folder)

        if what == "file":
            monkeypatch.setattr(content, "read_file", read)
        else:
            monkeypatch.setattr(os, "scandir", scan)

    def reopen():
        monkeypatch.setattr(content, "read_file", real_read)
        monkeypatch.setattr(os, "scandir", real_scan)

    return close, reopen


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("way", [None, *WAYS_BACK])
def test_a_document_that_can_not_be_read_keeps_no_class_that_it_has_lost(library, tmp_path, unreadable, what, way):
    close, reopen = unreadable
    library.write({"hr/wage.md": WAGE})
    library.remove("pay.md")
    library.ingest()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    close("hr/wage.md", what)
    summary = library.ingest(config={"policy_path": policy}, rehash=True)
    assert any("left out until it can be read" in item.reason for item in summary.skipped)
    if way is not None:
        WAYS_BACK[way](library)
    other = library.base(profile="restricted")  # without the policy: what the ingest said must hold
    assert "hr/wage.md" not in library.sources(QUESTION, base=other)
    reopen()
    library.ingest(config={"policy_path": policy})
    auditor = library.base(profile="auditor", policy_path=policy)
    assert library.sources(QUESTION, base=auditor)[0] == "hr/wage.md"


@pytest.mark.parametrize("rule", ["deny", "exclude", "ignore file"])
def test_a_document_in_a_folder_that_can_not_be_read_follows_the_rules_of_the_run(library, tmp_path, unreadable, rule):
    close, _ = unreadable
    library.write({"hr/wage.md": WAGE})
    library.ingest()
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n" + ("deny: [hr/wage.md]\n" if rule == "deny" else ""), encoding="utf-8")
    if rule == "ignore file":
        library.write({".ragignore": "hr/wage.md\n"})
    close("hr/wage.md", "folder")
    library.ingest(config={"policy_path": policy}, exclude=("hr/wage.md",) if rule == "exclude" else ())
    assert "hr/wage.md" not in library.sources(QUESTION, base=library.base(profile="restricted"))
    assert "pay.md" in library.sources(QUESTION)


@pytest.mark.parametrize(("number", "there"), [(errno.EACCES, True), (errno.EIO, True), (errno.ENOENT, False)])
def test_what_can_not_be_looked_at_is_not_taken_for_deleted(library, monkeypatch, number, there):
    library.remove("pay.md")
    real = os.lstat

    def look(path, **options):
        if os.fspath(path).endswith("pay.md"):
            raise OSError(number, os.strerror(number), path)
        return real(path, **options)

    monkeypatch.setattr(os, "lstat", look)
    library.ingest()
    [entry] = read_withdrawals(library.store_path)["pay.md"]
    assert entry.cause is (Cause.WITHHELD if there else Cause.GONE)


# --- two policies ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_policies(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    with Library(tmp_path / "corpus", tmp_path / "store") as made:
        made.write({**OPEN, "hr/pay.md": WAGE})
        yield made, policy


def everything(base, library):
    found = [asdict(library.search(QUESTION, base=base, k=10)), asdict(base.list_documents(ListRequest()))]
    with pytest.raises(NotFound) as refused:
        base.get_document(DocumentRequest("hr/pay.md"))
    return json.dumps([*found, asdict(base.list_sources())], default=str), str(refused.value)


@pytest.mark.parametrize("at_ingest", [True, False])
def test_a_document_is_shown_only_where_the_policy_of_the_ingest_and_of_the_reader_permit_it(two_policies, at_ingest):
    library, policy = two_policies
    library.ingest(config={"policy_path": policy} if at_ingest else None)
    reader = library.base(policy_path=None if at_ingest else policy)
    text, _ = everything(reader, library)
    assert "pay.md" not in text
    assert "groats" not in text.replace(QUESTION, "")
    auditor = library.base(policy_path=None if at_ingest else policy, profile="auditor")
    assert library.search(QUESTION, base=auditor).results[0].citation.source == "hr/pay.md"


def test_another_policy_than_the_last_ingests_is_said_with_what_to_run(two_policies):
    library, policy = two_policies
    library.ingest()
    said = "The last ingest used another policy than this process"
    other = library.base(policy_path=policy)
    assert any(said in note for note in other.status().notes)
    assert not any(said in note for note in library.base().status().notes)
    [finding] = [each for each in examine(library.config(policy_path=policy)) if each.what == "policy"]
    assert not finding.ok and said in finding.detail
    env = {"RAG_MCP_POLICY": str(policy)}
    assert said in forked_cli("query", "bells", "--db", library.store_path, env=env).stderr
    # An ingest with it is all that is needed, also when it changes the place of no document.
    library.remove("hr/pay.md")
    library.ingest()
    done = library.ingest(config={"policy_path": policy})
    assert done.published and done.chunks_embedded == 0
    assert not any(said in note for note in other.status().notes)
    assert not library.ingest(config={"policy_path": policy}).published


def test_profiles_of_another_policy_than_the_last_ingests_are_said_too(two_policies):
    library, policy = two_policies
    policy.write_text(POLICY + "profiles:\n  clerk: {classes: [docs]}\n", encoding="utf-8")
    library.ingest(config={"policy_path": policy})
    reader = library.base(policy_path=policy)
    assert not any("another policy" in note for note in reader.status().notes)
    policy.write_text(POLICY + "profiles:\n  clerk: {classes: [docs, memory]}\n", encoding="utf-8")
    [note] = [note for note in reader.status().notes if "another policy" in note]
    assert "only profiles differ" in note and "stays hidden" not in note
    done = library.ingest(config={"policy_path": policy})
    assert done.published and done.chunks_embedded == 0
    assert not any("another policy" in note for note in reader.status().notes)


def test_a_policy_edited_under_a_running_server_closes_at_once_and_opens_with_the_next_ingest(two_policies):
    library, policy = two_policies
    policy.write_text("version: 1\n", encoding="utf-8")
    settings = {"policy_path": policy}
    library.ingest(config=settings)
    base = library.base(**settings)
    assert library.search(QUESTION, base=base).results[0].citation.source == "hr/pay.md"
    policy.write_text(POLICY, encoding="utf-8")
    everything(base, library)
    library.ingest(config=settings)
    everything(base, library)
    policy.write_text("version: 1\n# open again\n", encoding="utf-8")
    everything(base, library)
    library.ingest(config=settings)
    assert library.search(QUESTION, base=base).results[0].citation.source == "hr/pay.md"


@pytest.mark.parametrize("mode", Mode)
def test_documents_hidden_since_the_last_ingest_take_no_place_from_others(two_policies, mode):
    library, policy = two_policies
    policy.write_text("version: 1\n", encoding="utf-8")
    crowd = {f"hr/{number}.md": f"# Form 4711\n\nForm 4711 for bell ropes, copy {number}.\n" for number in range(300)}
    library.write(
        {**crowd, "ropes.md": "# Orders\n\nWhoever orders bell ropes fills in form 4711 and waits a while.\n"}
    )
    library.ingest(config={"policy_path": policy})
    base = library.base(policy_path=policy)
    policy.write_text(POLICY, encoding="utf-8")
    answer = library.search("form 4711 for bell ropes", base=base, mode=mode, explain=True)
    sources = [result.citation.source for result in answer.results]
    assert "ropes.md" in sources and not any(source.startswith("hr/") for source in sources)
    assert answer.not_in_documents == ()
    places = [
        place for result in answer.results for place in (result.explain["vector_rank"], result.explain["bm25_rank"])
    ]
    assert max(place or 0 for place in places) <= len(OPEN) + 1


def test_steps_of_a_run_do_not_show_what_it_withdraws_once_it_is_published(library):
    head(library, "---\naccess: none\n---\n")
    seen = []

    def look(step):
        if step in (Step.SEALED, Step.PUBLISHED):
            seen.append((step, "pay.md" in library.sources(QUESTION)))

    run_ingest(library.config(), IngestOptions(), on_step=look)
    assert seen == [(Step.SEALED, True), (Step.PUBLISHED, False)]

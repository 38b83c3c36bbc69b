"""A path in a setting or an option is what a shell would make of it, or an error that names it; nothing is made by mistake."""

import os
import sys
from pathlib import Path

import pytest
from cli_process import forked_cli

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.places import expanded, is_inside, same_folder

VARIABLES = {"NOTES": "/srv/notes", "SUB": "deep", "EMPTY": ""}
SETTINGS = ("CORPUS_ROOT", "DB_PATH", "MODEL_DIR", "POLICY", "SCRATCH_DIR", "GAP_LOG")
FLAGS = {"corpus_root": "CORPUS_ROOT", "db_path": "DB_PATH", "policy_path": "POLICY", "gap_log": "GAP_LOG"}
NOTHING = ("~nobody-here", "~nobody-here/x", "$NOT_SET/x", "x/${NOT_SET}", "${}/x", "%NOT_SET%/x", "$EMPTY/x")


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_names_that_stand_for_something_are_put_in(home):
    for raw, expected in {
        "~": home,
        "~/notes": home / "notes",
        "~/$SUB": home / "deep",
        "$NOTES": Path("/srv/notes"),
        "${NOTES}/$SUB": Path("/srv/notes/deep"),
        "%NOTES%/x": Path("/srv/notes/x"),
        "x/~": Path("x/~"),
        "100%": Path("100%"),
        "a%b": Path("a%b"),
        "price$": Path("price$"),
        "relative/x": Path("relative/x"),
    }.items():
        assert expanded("--db", raw, VARIABLES) == expected, raw


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system's list of users")
def test_the_home_of_another_user_is_put_in():
    import pwd

    entry = pwd.getpwuid(os.getuid())
    assert expanded("--db", f"~{entry.pw_name}/x", {}) == Path(entry.pw_dir, "x")


@pytest.mark.parametrize("raw", [*NOTHING, "", "  "])
def test_names_that_stand_for_nothing_are_refused_by_name(raw):
    with pytest.raises(ConfigError, match="--db") as refused:
        expanded("--db", raw, VARIABLES)
    assert not raw.strip() or repr(raw) in str(refused.value)


def test_a_path_that_is_there_as_it_is_written_is_meant_so(tmp_path):
    (tmp_path / "$NOT_SET").mkdir()
    assert expanded("--db", "$NOT_SET", {}) == Path("$NOT_SET")


def test_a_folder_called_like_the_home_is_never_taken_for_it(tmp_path, home):
    (tmp_path / "~").mkdir()
    assert expanded("--db", "~/x", {}) == home / "x"


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("raw", NOTHING)
def test_every_setting_that_holds_a_path_is_looked_at(name, raw, tmp_path):
    with pytest.raises(ConfigError, match=f"RAG_MCP_{name}"):
        Config.load({f"RAG_MCP_{name}": raw})
    for flag, setting in FLAGS.items():
        if setting == name:
            with pytest.raises(ConfigError, match=flag):
                Config.load({}, **{flag: Path(raw)})
    assert os.listdir(tmp_path) == []


def test_flags_and_settings_are_put_in_alike(home):
    config = Config.load({"SUB": "deep", "RAG_MCP_DB_PATH": "~/$SUB"}, corpus_root=Path("~/$SUB"))
    assert config.db_path == config.corpus_root == home / "deep"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "{}", "--db", "db"),
        ("ingest", ".", "--db", "{}"),
        ("watch", "{}"),
        ("query", "x", "--db", "{}"),
        ("status", "--corpus", "{}"),
        ("doctor", "--policy", "{}"),
        ("gaps", "{}"),
        ("eval", "{}"),
        ("eval", "questions.jsonl", "--json", "{}"),
        ("eval", "questions.jsonl", "--report", "{}"),
        ("eval", "questions.jsonl", "--compare", "{}"),
        ("calibrate", "{}"),
        ("client-config", "--db", "db", "--host", "cursor", "--file", "{}"),
    ],
)
def test_every_option_that_takes_a_path_is_looked_at_before_anything_is_done(arguments, tmp_path):
    for raw in ("~nobody-here/x", "$NOT_SET/x", ""):
        done = forked_cli(*(part.format(raw) for part in arguments), env={"HOME": str(tmp_path / "home")})
        assert done.returncode == 2, done
        assert "Traceback" not in done.stderr and (raw in done.stderr if raw else "is empty" in done.stderr)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links")
@pytest.mark.parametrize("kind", ["long", "loop", "file", "below a file"])
def test_a_path_that_cannot_be_is_an_error_in_words(tmp_path, kind):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A\n\nText.\n")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    path = {"long": "x" * 300, "loop": "loop", "file": "file", "below a file": "file/x"}[kind]
    for arguments in (
        ("ingest", "notes", "--db", path),
        ("ingest", path),
        ("query", "x", "--db", path),
        ("status", "--corpus", path),
    ):
        done = forked_cli(*arguments)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        assert done.returncode == 1, done


def test_one_folder_is_inside_another_by_any_spelling(tmp_path):
    outer, link = tmp_path / "outer", tmp_path / "link"
    (outer / "inner").mkdir(parents=True)
    link.symlink_to(outer)
    assert same_folder(outer, link) and same_folder(outer, tmp_path / "outer" / "inner" / "..")
    assert not same_folder(outer, outer / "inner") and not same_folder(outer, tmp_path / "gone")
    for path in (outer, link, link / "inner", outer / "not" / "there", Path("outer/x")):
        assert is_inside(path, outer) and is_inside(path, link)
    assert not is_inside(tmp_path / "outer2", outer) and not is_inside(tmp_path, outer)

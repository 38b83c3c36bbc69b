"""The scripts a stranger runs first: set-up, checks, quickstart, scheduled ingest."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"


def load(name: str):
    """A script as a module, under a name that hides no other (test, bootstrap)."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def scripts_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    sys.modules.pop("bootstrap", None)


@pytest.fixture
def bootstrap(scripts_on_path):
    import bootstrap

    return bootstrap


# --- the environment -------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path):
    """A folder with the files that decide what has to be installed, and a virtual environment without pip."""
    (tmp_path / "rag_mcp").mkdir()
    for name in ("pyproject.toml", "requirements.txt", "rag_mcp/__init__.py"):
        (tmp_path / name).write_text("as it was\n", encoding="utf-8")
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(tmp_path / "env")
    return tmp_path


@pytest.fixture
def installs(bootstrap, monkeypatch):
    """Record what would be installed in place of installing it."""
    calls = []
    monkeypatch.setattr(bootstrap, "_has_pip", lambda python: True)
    monkeypatch.setattr(bootstrap, "_install", lambda python, root, extras: calls.append(tuple(extras)))
    return calls


def test_a_second_run_installs_nothing(bootstrap, project, installs):
    for _ in range(2):
        python = bootstrap.ensure(("dev",), folder=project / "env", root=project)
    assert installs == [("dev",)]
    assert python == bootstrap.interpreter(project / "env") and python.exists()


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.txt", "rag_mcp/__init__.py"])
def test_a_changed_declaration_pin_or_version_installs_again(bootstrap, project, installs, name):
    bootstrap.ensure(folder=project / "env", root=project)
    (project / name).write_text("as it is now\n", encoding="utf-8")
    bootstrap.ensure(folder=project / "env", root=project)
    assert len(installs) == 2


def test_an_extra_is_added_once_and_kept(bootstrap, project, installs):
    for extras in ((), ("dev",), (), ("dev",)):
        bootstrap.ensure(extras, folder=project / "env", root=project)
    assert installs == [(), ("dev",)]


def test_an_installation_that_failed_is_tried_again(bootstrap, project, installs, monkeypatch):
    def fails(python, root, extras):
        raise bootstrap.SetupFailed("no network")

    bootstrap.ensure(folder=project / "env", root=project)
    (project / "requirements.txt").write_text("changed\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "_install", fails)
        with pytest.raises(bootstrap.SetupFailed):
            bootstrap.ensure(folder=project / "env", root=project)
    bootstrap.ensure(folder=project / "env", root=project)
    assert len(installs) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"fingerprint": 3}'])
def test_a_torn_stamp_means_installing_not_trusting(bootstrap, project, installs, text):
    bootstrap.ensure(folder=project / "env", root=project)
    (project / "env" / bootstrap.STAMP).write_text(text, encoding="utf-8")
    bootstrap.ensure(folder=project / "env", root=project)
    assert len(installs) == 2


def test_an_environment_whose_python_is_gone_is_made_anew(bootstrap, project, installs, monkeypatch):
    made = []
    bootstrap.ensure(folder=project / "env", root=project)
    bootstrap.interpreter(project / "env").unlink()
    monkeypatch.setattr(bootstrap, "_make", made.append)
    bootstrap.ensure(folder=project / "env", root=project)
    assert made == [project / "env"]


def test_a_folder_that_is_no_environment_is_not_emptied(bootstrap, project, installs):
    (project / "mine").mkdir()
    (project / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(bootstrap.SetupFailed, match="move it away"):
        bootstrap.ensure(folder=project / "mine", root=project)
    assert (project / "mine" / "thesis.txt").exists()


def test_an_old_python_is_told_what_to_do(bootstrap):
    with pytest.raises(bootstrap.SetupFailed, match=r"3\.11 or newer is needed, this is 3\.8"):
        bootstrap.check_python((3, 8, 1))
    bootstrap.check_python((3, 11, 0))


def test_a_failed_installation_says_what_it_needs(bootstrap, project, monkeypatch):
    monkeypatch.setattr(bootstrap, "_has_pip", lambda python: True)  # it has none, so the call fails
    with pytest.raises(bootstrap.SetupFailed, match="network"):
        bootstrap.ensure(folder=project / "env", root=project)
    assert not (project / "env" / bootstrap.STAMP).exists()


def test_settings_of_another_environment_do_not_reach_the_child(bootstrap, monkeypatch):
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "RAG_MCP_EMBEDDER"):
        monkeypatch.setenv(name, "x")
    assert not {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "RAG_MCP_EMBEDDER"} & set(bootstrap.clean_environment())
    assert "PATH" in bootstrap.clean_environment()


# --- the checks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def checks(scripts_on_path):
    return load("test")


def test_all_stages_run_in_order_and_pytest_has_the_last_word(checks):
    assert [command[0] for _, command in checks.stages([])] == ["ruff", "ruff", "mypy", "pytest"]


def test_fast_leaves_out_types_and_slow_tests_and_the_rest_goes_to_pytest(checks):
    listed = checks.stages(["--fast", "tests/stores", "-x"])
    assert [command[0] for _, command in listed] == ["ruff", "ruff", "pytest"]
    assert listed[-1][1] == ["pytest", "-m", "not slow", "tests/stores", "-x"]


def test_the_first_failing_stage_ends_the_run_with_its_code_and_its_name(checks, capsys):
    ran = []

    def call(command, **_):
        ran.append(command[2])
        return 7 if command[2] == "mypy" else 0

    assert checks.run("python", checks.stages([]), call) == 7
    assert ran == ["ruff", "ruff", "mypy"]
    assert "FAILED: types (exit code 7)" in capsys.readouterr().err
    assert checks.run("python", checks.stages([]), lambda command, **_: 0) == 0


def test_continuous_integration_runs_the_same_command_and_no_other():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands[-1] == "exec python3 scripts/test.py"
    assert [line.split()[0] for line in commands] == ["set", "cd", "exec"]
    assert os.name == "nt" or os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("name", ["bootstrap", "quickstart", "test", "lock", "reingest"])
def test_a_bare_python_of_the_system_can_run_the_script(name):
    code = f"import runpy, sys; sys.path.insert(0, {str(SCRIPTS)!r}); runpy.run_path({str(SCRIPTS / (name + '.py'))!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


# --- quickstart ------------------------------------------------------------------------------------------------------


@pytest.fixture
def quickstart(scripts_on_path):
    return load("quickstart")


@pytest.fixture
def notes(tmp_path) -> Path:
    folder = tmp_path / "my notes"
    folder.mkdir()
    text = "# Kiln schedule\n\nThe glaze firing starts at six in the morning and holds 1240 degrees for an hour.\n"
    (folder / "kiln.md").write_text(text, encoding="utf-8")
    return folder


def test_two_corpora_get_two_stores(quickstart, tmp_path):
    stores = {quickstart.default_store(tmp_path / "a" / "docs"), quickstart.default_store(tmp_path / "b" / "docs")}
    assert len(stores) == 2 and all(store.parent == quickstart.STORES for store in stores)
    assert quickstart.default_store(ROOT) == ROOT.with_name(f"{ROOT.name}.rag_mcp.store")
    assert not quickstart.default_store(quickstart.OWN_DOCUMENTS).is_relative_to(quickstart.OWN_DOCUMENTS)


def test_a_corpus_that_is_no_folder_is_a_usage_error(quickstart, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        quickstart.main(["--corpus", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    assert "is no folder" in capsys.readouterr().err


def test_the_default_store_is_kept_out_of_version_control(quickstart):
    assert f"{quickstart.STORES.name}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_the_quickstart_cites_an_answer_prints_the_block_and_changes_nothing_the_second_time(
    quickstart, notes, tmp_path
):
    command = [sys.executable, str(SCRIPTS / "quickstart.py"), quickstart.INSIDE]
    command += ["--corpus", str(notes), "--db", str(tmp_path / "db"), "--ask", "When does the glaze firing start?"]
    runs = [subprocess.run(command, capture_output=True, encoding="utf-8", timeout=150, check=True) for _ in range(2)]
    for done in runs:
        assert "kiln.md:1-3" in done.stdout and "six in the morning" in done.stdout
        block = json.loads(re.search(r"^\{.*^\}", done.stdout, re.MULTILINE | re.DOTALL)[0])
        (entry,) = block["mcpServers"].values()
        assert entry["command"] == sys.executable and entry["args"] == ["-m", "rag_mcp"]
        assert entry["env"] == {"RAG_MCP_CORPUS_ROOT": str(notes), "RAG_MCP_DB_PATH": str(tmp_path / "db")}
    assert "1 read anew" in runs[0].stderr
    assert "0 read anew, 0 passages embedded" in runs[1].stderr
    assert runs[0].stdout == runs[1].stdout


# --- properties ------------------------------------------------------------------------------------------------------


def test_a_run_of_the_suite_takes_the_same_examples_every_time():
    assert settings().derandomize and settings().database is None
    assert not settings.get_profile("random").derandomize


@pytest.fixture
def fuzz(scripts_on_path):
    return load("fuzz")


def planted(folder: Path, claim: str) -> str:
    """A property in a folder of its own, with the profile that this project's conftest has."""
    profile = "from hypothesis import settings\nsettings.register_profile('random', print_blob=True)\n"
    (folder / "conftest.py").write_text(profile, encoding="utf-8")
    (folder / "test_planted.py").write_text(
        f"from hypothesis import given, strategies as st\n\n@given(st.integers(0, 9))\ndef test_it(n):\n    assert {claim}\n",
        encoding="utf-8",
    )
    return str(folder / "test_planted.py")


def test_the_search_at_random_prints_the_failing_example_and_the_seed(fuzz, tmp_path, capsys):
    chosen = [planted(tmp_path, "n != 7"), "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    assert fuzz.search(sys.executable, chosen, seconds=0, seed=11) == 1
    printed = capsys.readouterr()
    assert "n=7" in printed.out and "--seed 11" in printed.err


def test_the_search_at_random_goes_on_for_as_long_as_it_is_told_with_another_seed_each_time(fuzz, capsys):
    commands, codes = [], iter([0, 1, 0])
    ticks = iter(range(100))

    def call(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, next(codes), "the report", "")

    assert fuzz.search("python", ["tests"], seconds=3, call=call, clock=lambda: next(ticks)) == 1
    seeds = {word for command in commands for word in command if word.startswith("--hypothesis-seed=")}
    assert len(commands) == len(seeds) == 3 and all(command[-1] == "tests" for command in commands)
    printed = capsys.readouterr()
    assert printed.out.count("the report") == 1 and "3 rounds, 1 failed" in printed.err


def test_a_search_among_no_properties_says_so(fuzz):
    def call(command, **_):
        return subprocess.CompletedProcess(command, 5, "", "")

    assert fuzz.search("python", [], seconds=9, call=call) == 2


# --- scheduled ingest ------------------------------------------------------------------------------------------------


@pytest.fixture
def reingest():
    return load("reingest")


@pytest.mark.parametrize("name", ["~nobody-here/db", "$NOT_SET_HERE/db", "${NOT_SET_HERE}/db", ""])
def test_a_scheduled_path_that_stands_for_nothing_is_a_usage_error(reingest, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        reingest.main([str(tmp_path), "--db", name])
    assert stop.value.code == 2 and os.listdir(tmp_path) == []


def test_a_scheduled_path_may_begin_with_a_variable_or_the_home(reingest, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NOTES_HERE", str(tmp_path))
    for name in ("~/db", "$NOTES_HERE/db"):
        assert reingest.parse([name, "--db", name]).db == tmp_path / "db"


def test_the_script_is_the_command_with_the_store_s_log(reingest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ["--", "--strict", "--exclude", "drafts"]
    words = reingest.command(reingest.parse(["notes", "--db", "store", "--timeout", "9", *more]))
    own = tmp_path / "notes", "--db", tmp_path / "store", "--log", tmp_path / "store.log"
    kept = "--log-bytes", "1000000", "--log-keep", "3", "--timeout", "9"
    assert words[4:] == ["ingest", *map(str, own), *kept, "--strict", "--exclude", "drafts"]


def test_the_script_ends_with_the_code_of_the_run(reingest, tmp_path):
    assert reingest.main([str(tmp_path / "gone"), "--db", str(tmp_path / "db")]) == 1
    assert reingest.main([str(tmp_path), "--db", str(tmp_path / "db"), "--", "--no-such-option"]) == 2


def test_the_real_ingest_is_logged_with_its_counts(notes, tmp_path):
    command = [sys.executable, str(SCRIPTS / "reingest.py"), str(notes), "--db", str(tmp_path / "db")]
    for _ in range(2):
        subprocess.run([*command, "--", "--embedder", "hash"], check=True, timeout=120, cwd=tmp_path)
    first, second = (tmp_path / "db.log").read_text(encoding="utf-8").splitlines()
    assert "exit=0" in first and "seen=1 ingested=1" in first and "generation=1" in first
    assert "exit=0" in second and "seen=1 ingested=0" in second and "generation=1" in second

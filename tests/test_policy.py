import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.access.load import MAX_POLICY_BYTES, PolicyWatch, load_policy
from rag_mcp.access.policy import (
    Policy,
    ProfileRule,
    Rule,
    SecretAllowance,
    classes_of,
    classify,
    denied,
    secret_allowed,
)
from rag_mcp.errors import PolicyError
from rag_mcp.models import SourceClass
from rag_mcp.text.filetypes import included
from rag_mcp.text.globs import glob_problem

CODE, DOCS, DECISIONS, CONFIG, MEMORY = (
    SourceClass.CODE,
    SourceClass.DOCS,
    SourceClass.DECISIONS,
    SourceClass.CONFIG,
    SourceClass.MEMORY,
)
EXAMPLE = Path(__file__).parents[1] / "docs" / "policy.example.yaml"


def write(folder, text, name="policy.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def settle(path):
    """Make the file look old, so that its stamp alone can be trusted."""
    os.utime(path, ns=(time.time_ns() - 10**11,) * 2)


# --- the built-in policy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "source_class"),
    [
        ("a.md", DOCS),
        ("docs/reference/config/a.md", DOCS),
        ("docs/memory/a.md", DOCS),
        ("memory.md", DOCS),
        ("memory/a.md", MEMORY),
        ("memories/x/a.md", MEMORY),
        ("config/q.md", CONFIG),
        ("adr/0001.md", DECISIONS),
        ("docs/decisions/a.md", DECISIONS),
        ("x/rfcs/deep/a.md", DECISIONS),
        ("decisions-old/a.md", DOCS),
        ("Memory/a.md", MEMORY),
        ("MEMORY/x/a.md", MEMORY),
        ("memory./a.md", MEMORY),
        ("memory /a.md", MEMORY),
        (" memory/a.md", MEMORY),
        ("mem\u200bory/a.md", MEMORY),
        ("\uff4d\uff45\uff4d\uff4f\uff52\uff59/a.md", MEMORY),
        ("CONF\u0131G/a.md", CONFIG),
        ("CONF\u0130G./a.md", CONFIG),
        ("memory\u3002/a.md", MEMORY),
        ("memory\uff0fa.md", DOCS),
        ("\u1d04onfig/a.md", DOCS),
        ("con\ufb01g/a.md", CONFIG),
        ("Config\u00a0/a.md", CONFIG),
        ("docs/Memory/a.md", DOCS),
        ("memory.old/a.md", DOCS),
        ("x.py", CODE),
        ("README.MD", DOCS),
    ],
)
def test_a_plain_vault_is_docs_but_for_a_few_named_folders(path, source_class):
    assert classify(Policy(), path).source_class is source_class


def test_the_built_in_profiles_are_the_documented_table():
    assert Policy().profiles == {
        "restricted": ProfileRule(frozenset({DOCS, DECISIONS})),
        "engineer": ProfileRule(frozenset({CODE, DOCS, DECISIONS})),
        "auditor": ProfileRule(frozenset(SourceClass), frozenset({CONFIG})),
    }


def test_the_built_in_policy_needs_neither_pydantic_nor_yaml():
    code = (
        "import sys, rag_mcp.access.load as p, rag_mcp.access.profiles, rag_mcp.ingest.walk\n"
        "rag_mcp.access.policy.classify(p.load_policy(None), 'a.md'); p.PolicyWatch(None).current()\n"
        "print(sorted({'pydantic', 'yaml', 'pathspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout.strip() == "[]"


# --- classes, denials, includes ----------------------------------------------------------------------------------------


def test_the_first_rule_with_a_class_and_the_first_with_a_project_win_separately():
    policy = Policy(rules=(Rule("a/**", None, "one"), Rule("a/b/**", CONFIG, "two"), Rule("**", DOCS)))
    placed = classify(policy, "a/b/x.md")
    assert (placed.source_class, placed.project) == (CONFIG, "one")
    assert classify(policy, "z.md").project is None


@pytest.mark.parametrize("path", ["caf\u00e9/x.md", "cafe\u0301/x.md", "CAF\u00c9/x.md", "Cafe\u0301./x.md"])
def test_a_class_holds_in_any_case_and_normalisation(path):
    assert classify(Policy(rules=(Rule("caf\u00e9/**", CONFIG),)), path).source_class is CONFIG


@pytest.mark.parametrize("pattern", ["*.", "* ", " *", "?.", "a*.", "a/*.", "\uff0a", "\uff0a.md", "\u2048"])
def test_folding_widens_no_pattern(pattern):
    paths = ("x.md", "a/x.md", "abc/x.md", "b/c.md")
    # What could be read as a wider one is refused, or means what it says.
    assert glob_problem(pattern) or not [path for path in paths if denied(Policy(deny=(pattern,)), path)]


def test_a_profile_of_one_class_keeps_its_folder_however_it_is_written():
    assert classes_of(Policy(), "Memory/a.md") == (MEMORY,)
    assert classes_of(Policy(), "Memory/a.py") == (MEMORY, CODE)


@given(st.text("memoryMEMORY ./\u200b\uff4dx", max_size=12))
def test_reading_a_name_loosely_never_makes_its_class_less_strict(folder):
    policy = Policy(rules=(Rule("/open/", DOCS), Rule("x*/", CODE), Rule("**", MEMORY)))
    for path in (f"{folder}/a.md", f"Open/{folder}/a.md", f"open/{folder}/a.md"):
        classes = classes_of(policy, path)
        assert classify(policy, path).source_class is classes[0]
        assert len(classes) == 1 or classes[0] is not DOCS
    assert classes_of(policy, "Open/a.md") == (MEMORY, DOCS)
    assert classes_of(policy, "open/a.md") == (DOCS,)


@pytest.mark.parametrize("path", ["Privé/a.md", "PRIVÉ/a.md", "prive\u0301/a.md", "privé", "x/privÉ/y/a.md"])
def test_a_denial_holds_in_any_case_and_normalisation(path):
    assert denied(Policy(deny=("priv\u00e9",)), path)


def test_nothing_is_denied_by_default_and_a_neighbour_is_not_denied():
    assert not denied(Policy(), "private/a.md")
    assert not denied(Policy(deny=("private/",)), "private-notes/a.md")


def test_include_adds_to_markdown():
    policy = Policy(include=("src/**/*.py",))
    assert [
        included(path, policy.include_globs) for path in ("a.md", "B.MARKDOWN", "src/x/a.py", "a.py", "a.md.bak")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_secret_is_allowed_only_in_its_place_and_kind():
    policy = Policy(allow_secrets=(SecretAllowance("ex/**", frozenset({"Private Key"})), SecretAllowance("any/**")))
    assert secret_allowed(policy, "ex/a.md", "Private Key")
    assert not secret_allowed(policy, "ex/a.md", "AWS Access Key")
    assert not secret_allowed(policy, "b/a.md", "Private Key")
    assert secret_allowed(policy, "any/a.md", "AWS Access Key")


def test_20000_paths_are_classified_in_well_under_a_second():
    policy = Policy(rules=tuple(Rule(f"area{n}/**/x/*.md", CONFIG, "p") for n in range(20)))
    paths = [f"area {n % 20}/topic {n % 400}/note number {n}.md" for n in range(20_000)]
    started = time.perf_counter()
    for path in paths:
        classify(policy, path)
    assert time.perf_counter() - started < 1.5  # measured 0.15; a compile per call would take minutes


def test_digests_tell_what_changed():
    plain, profiled, denying = Policy(), Policy(profiles={"x": ProfileRule(frozenset())}), Policy(deny=("a",))
    assert plain == Policy() and plain != profiled and profiled != denying != plain
    of = [dict(each.digests) for each in (plain, profiled, denying)]
    assert of[0]["policy"] == of[1]["policy"] != of[2]["policy"]
    assert of[0]["profiles"] == of[2]["profiles"] != of[1]["profiles"]
    assert plain.digests == Policy().digests


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_example_policy_loads_and_means_what_it_says():
    policy = load_policy(EXAMPLE)
    assert classify(policy, "notes/ops/a.md").source_class is CONFIG
    assert classify(policy, "notes/ops-archive/a.md").source_class is DOCS
    assert classify(policy, "projects/harbour/decisions/a.md") == classify(policy, "projects/harbour/adr/a.md")
    assert classify(policy, "projects/harbour/adr/a.md").project == "harbour"
    assert classify(policy, "memory/a.md").source_class is MEMORY
    assert denied(policy, "PRIVATE/a.md") and denied(policy, "x/plan.Draft.md")
    assert included("src/x.py", policy.include_globs)
    assert policy.profiles["writer"].classes == {DOCS}
    assert policy.profiles["auditor"] == Policy().profiles["auditor"]


def test_rules_of_the_file_come_before_the_built_in_ones(tmp_path):
    policy = load_policy(write(tmp_path, "rules:\n  - {path: '/memory/', class: docs}\n"))
    assert classify(policy, "memory/a.md").source_class is DOCS
    assert classify(policy, "config/a.md").source_class is CONFIG


def test_a_file_may_redefine_restricted_and_can_not_remove_it(tmp_path):
    narrow = load_policy(write(tmp_path, "profiles:\n  restricted: {classes: [docs]}\n"))
    assert narrow.profiles["restricted"].classes == {DOCS}
    other = load_policy(write(tmp_path, "profiles:\n  mine: {classes: [code]}\n"))
    assert other.profiles["restricted"].classes == {DOCS, DECISIONS}


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "expected keys"),
        ("# only a comment\n", 1, "expected keys"),
        ("- a\n", 1, "expected keys"),
        ("just text", 1, "expected keys"),
        ("deny: [a]\nruls: []\n", 2, "ruls: unknown key; allowed: version, rules, profiles"),
        ("rules:\n  - path: a\n    clas: docs\n", 3, "rules[0].clas: unknown key; allowed: path, class, project"),
        ("rules:\n  - path: a\n    class: doc\n", 3, "rules[0].class: Input should be 'code', 'docs'"),
        ("rules:\n  - path: a\n", 2, "rules[0]: a rule needs a class, a project, or both"),
        ("rules:\n  - class: docs\n", 2, "rules[0].path: Field required"),
        ("rules:\n  path: a\n", 1, "rules: Input should be a valid list"),
        ("deny:\n  - ok\n  - 'a[b]'\n", 3, "deny[1]: the pattern uses brackets"),
        ("deny:\n  - ../x\n", 2, "deny[0]: the pattern has an empty, . or .. component"),
        ("deny:\n  - *.md\n", 2, "put patterns in quotes"),
        ("deny: yes\n", 1, "deny: expected a value or text, found a bool"),
        ("deny:\n", 1, "deny: expected a value or text, found nothing"),
        ("deny: [5]\n", 1, "deny[0]: Input should be a valid string"),
        ("deny: [a]\n\ndeny: [b]\n", 3, "deny: stands twice (first in line 1)"),
        (
            "profiles:\n  a: {classes: [docs]}\n  a: {classes: [code]}\n",
            3,
            "profiles.a: stands twice (first in line 2)",
        ),
        ("profiles:\n  Auditor: {classes: [docs]}\n", 2, "profiles.Auditor: a profile's name is small letters"),
        ("profiles:\n  a:\n    classes: [docs]\n    explicit_only: [code]\n", 2, "explicit_only names what classes"),
        ("profiles:\n  1: {classes: [docs]}\n", 2, "a key must be text"),
        ("version: 2\n", 1, "version: Input should be 1"),
        ("deny: &x [a]\ninclude: *x\n", 1, "anchors and aliases are not allowed"),
        ("deny: !!python/object/apply:os.getcwd []\n", 1, "tags (!...) are not allowed"),
        ("deny:\n\t- a\n", 2, "not YAML"),
        ("deny: [a]\n---\ndeny: [b]\n", 2, "not YAML"),
        (b"deny:\n  - caf\xe9\n", 2, "not UTF-8"),
        ("deny: [a]\n# \x01\n", 2, "a character YAML does not allow"),
        ("[" * 100_000, 1, "more nesting or entries"),
        ("{a: " * 5_000, 1, "more nesting or entries"),
        ("deny:\n" + "- a\n" * 40_000, 19_998, "more nesting or entries"),
        ("deny:\n" + "- a\n" * 1_001, 1, "deny: List should have at most 1000 items"),
        (
            "rules:\n- {path: a, class: docs, project: ' x'}\n",
            2,
            "rules[0].project: has invisible characters or blanks",
        ),
    ],
)
def test_a_fault_is_told_with_line_and_key(tmp_path, text, line, told):
    with pytest.raises(PolicyError) as caught:
        load_policy(write(tmp_path, text))
    assert caught.value.for_operator.startswith(f"policy.yaml, line {line}: ")
    assert told in caught.value.for_operator
    assert f"(line {line}: " in str(caught.value)


def test_a_fault_is_told_to_callers_without_a_word_of_the_file(tmp_path):
    faults = "deny:\n  - 'merger-zeta[1]'\nprojct-zeta: 1\nprofiles:\n  Zeta-Auditor: {classes: [docs]}\n"
    for text in (faults, "zeta: {a", "zeta: !!zeta x\n", "zeta: 1\nzeta: 2\n", "{zeta: {1: x}}\n", "- zeta\n"):
        with pytest.raises(PolicyError) as caught:
            load_policy(write(tmp_path, text))
        assert "zeta" not in str(caught.value).lower()
        assert str(tmp_path) not in str(caught.value)
        assert "line " in str(caught.value)


def test_several_faults_are_told_at_once(tmp_path):
    with pytest.raises(PolicyError) as caught:
        load_policy(write(tmp_path, "".join(f"k{n}: 1\n" for n in range(8))))
    assert caught.value.for_operator.count("unknown key") == 5
    assert caught.value.for_operator.endswith("(and 3 more)")


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path):
    assert load_policy(write(tmp_path, b"\xef\xbb\xbfdeny:\r\n  - a\r\n")).deny == ("a",)


@pytest.mark.parametrize("make", ["missing", "folder", "large", "pipe"])
def test_what_is_no_readable_file_is_told(tmp_path, make):
    path = tmp_path / "policy.yaml"
    if make == "folder":
        path.mkdir()
    elif make == "large":
        path.write_bytes(b"#" * (MAX_POLICY_BYTES + 1))
    elif make == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo(path)
    with pytest.raises(PolicyError, match=r"can't be read|is not a file|larger than"):
        load_policy(path)


# --- the watch -------------------------------------------------------------------------------------------------------


def test_a_new_denial_holds_at_the_next_call(tmp_path):
    path = write(tmp_path, "deny: [a]\n")
    watch = PolicyWatch(path)
    assert not denied(watch.current(), "b")
    write(tmp_path, "deny: [b]\n")
    assert denied(watch.current(), "b")


def test_an_edit_of_the_same_size_within_one_clock_tick_is_seen(tmp_path):
    path = write(tmp_path, "deny: [a]\n")
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    watch = PolicyWatch(path)
    watch.current()
    write(tmp_path, "deny: [b]\n")
    os.utime(path, ns=(now, now))
    assert denied(watch.current(), "b")


def test_an_unchanged_file_is_read_and_parsed_once(tmp_path, monkeypatch):
    import rag_mcp.access.load as module

    path = write(tmp_path, "deny: [a]\n")
    settle(path)
    monkeypatch.setattr(module.time, "time_ns", lambda: 2**62)  # long after the change time, which can't be set back
    reads = []
    monkeypatch.setattr(module, "_read", lambda path, real=module._read: reads.append(path) or real(path))
    watch = PolicyWatch(path)
    assert watch.current() is watch.current() is watch.current()
    assert len(reads) == 1


@pytest.mark.parametrize("harm", ["missing", "invalid", "folder"])
def test_a_broken_file_closes_everything_until_it_is_repaired(tmp_path, harm, caplog):
    path = write(tmp_path, "deny: [a]\n")
    watch = PolicyWatch(path)
    watch.current()
    path.unlink()
    if harm == "invalid":
        write(tmp_path, "deny: {")
    elif harm == "folder":
        path.mkdir()
    for _ in range(3):
        with pytest.raises(PolicyError):
            watch.current()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    if harm == "folder":
        path.rmdir()
    write(tmp_path, "deny: [a]\n")
    assert watch.current().deny == ("a",)


def test_a_watch_on_nothing_is_the_built_in_policy():
    assert PolicyWatch(None).current() == Policy()

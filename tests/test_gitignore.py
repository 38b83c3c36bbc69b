import shutil
import subprocess
import time

import pathspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rag_mcp.ingest.gitignore import MAX_WILDCARD_CHARS, BadPattern, IgnoreRules

PIECES = st.lists(
    st.sampled_from(["a", "b", "*", "?", "ab", ".md", "[ab]", "[!a]", "[a-c]", "\\*", "**"]), min_size=1, max_size=4
).map("".join)
PATTERNS = st.tuples(
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(st.one_of(st.just("**"), PIECES), min_size=1, max_size=4).map("/".join),
    st.sampled_from(["", "/"]),
).map("".join)
# Names in which nothing folds: only then is the meaning git's own.
NAMES = st.text("ab.*c", min_size=1, max_size=4).filter(lambda name: not name.endswith("."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


ODD_NAMES = st.text("aAb. \u00e9\u00df\u0130\uff41", min_size=1, max_size=4).filter(lambda name: name.strip(" ."))
ODD_PATHS = st.lists(ODD_NAMES, min_size=1, max_size=3).map("/".join)
ODD_LINES = st.tuples(
    st.sampled_from(["", "", "!", " ", "/"]),
    st.lists(st.one_of(ODD_NAMES, PIECES), min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "/", "/**", "/**/"]),
).map("".join)


def left_out(rules: IgnoreRules, path: str) -> bool:
    """As the walk does it: from the outside in; what lies in a folder that is left out is never asked about."""
    parts = path.split("/")
    folders = ["/".join(parts[:length]) + "/" for length in range(1, len(parts))]
    return any(rules.verdict(each) for each in [*folders, path])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(PATTERNS.filter(lambda p: not p.endswith("**/")), min_size=1, max_size=5),
    st.lists(PATHS, min_size=1, max_size=25, unique=True),
)
def test_patterns_mean_what_they_mean_to_git(tmp_path_factory, patterns, paths):
    if shutil.which("git") is None:
        pytest.skip("git is not installed here")
    root = tmp_path_factory.mktemp("repository")
    (root / ".git" / "info").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True, capture_output=True)
    (root / ".git" / "info" / "exclude").write_text("\n".join(patterns) + "\n", encoding="utf-8")
    asked = subprocess.run(
        ["git", "-c", "core.excludesFile=", "-C", root, "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths),
        capture_output=True,
        encoding="utf-8",
    )
    assert asked.returncode in (0, 1), asked.stderr
    ignored = set(asked.stdout.split("\0")) - {""}
    rules = IgnoreRules(patterns)
    assert {path for path in paths if left_out(rules, path)} == ignored


@given(PATTERNS.filter(lambda pattern: not pattern.startswith("!")), PATHS)
def test_one_pattern_means_what_it_means_to_the_kept_library(pattern, path):
    assume(not pattern.endswith("**/"))  # there the library differs from git
    assert left_out(IgnoreRules([pattern]), path) is pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(path)


@pytest.mark.parametrize(
    ("lines", "inside", "outside"),
    [
        (["# comment", "", "notes   "], "notes", "# comment"),
        (["\\#x"], "#x", "x"),
        (["\\!x"], "!x", "x"),
        (["x\\ "], "x ", "x\\"),
        (["[[:digit:]]?"], "5x", "xx"),
        (["[]a]x"], "]x", "bx"),
        (["[^a-c]x"], "dx", "bx"),
        (["Z[a\\]b]"], "Z]", "Z\\"),
        (["\\**"], "*a", "a"),
        (["priv\u00e9/"], "prive\u0301/", "prive/"),
        (["a/**"], "a/b", "a/"),
        (["**/"], "a/", "a"),
        (["**/**/"], "a/", "a"),
        (["*.md", "!keep.md"], "a.md", "keep.md"),
    ],
)
def test_what_git_says_of_the_finer_points(lines, inside, outside):
    assert IgnoreRules(lines).verdict(inside) is True
    assert not IgnoreRules(lines).verdict(outside)


@pytest.mark.parametrize(
    "bad",
    ["!", "/", "!/", "[z-a]", "[ab", "a\\", "./a", "../a", "a//b", "a/./b", "private\\notes", "[[:nothing:]]", "a[/]b"],
)
def test_what_git_would_silently_match_with_nothing_is_no_pattern(bad):
    with pytest.raises(BadPattern) as caught:
        IgnoreRules(["fine", "", bad])
    assert caught.value.line == 3


def accepted(lines):
    try:
        return IgnoreRules(lines)
    except BadPattern:
        assume(False)


@given(st.lists(ODD_LINES, max_size=4), ODD_LINES, st.integers(0, 4), st.lists(ODD_PATHS, min_size=1, max_size=10))
def test_a_line_that_leaves_out_never_takes_anything_in_wherever_it_stands(lines, added, at, paths):
    assume(not added.startswith("!"))
    before, after = accepted(lines), accepted([*lines[:at], added, *lines[at:]])
    for path in paths:
        assert left_out(after, path) or not left_out(before, path)


@given(ODD_PATHS)
def test_a_path_written_as_it_is_or_in_capitals_or_behind_blanks_leaves_itself_out(path):
    for line in (path, path.upper(), f"  {path}", f"\t/{path}"):
        if "/./" not in f"/{line.strip()}/" and "/../" not in f"/{line.strip()}/":
            assert IgnoreRules([line]).verdict(path) is True


@pytest.mark.parametrize(
    "line",
    ["Private/", "PRIVATE", "/PRIVATE/", " private/", "\tprivate/", "\u00a0private/", "priv\u200date/", "private./", "PRIV*/",
     "P?IVATE", "[P]rivate", "\uff50\uff52\uff49\uff56\uff41\uff54\uff45/", "\uff50riv*", "  # note\nPrivate"],
)  # fmt: skip
def test_what_leaves_out_holds_in_any_form_of_a_name_and_what_takes_in_as_written(line):
    lines = line.split("\n")
    assert IgnoreRules(lines).verdict("private/") is True
    again = ["private/", *(f"!{each}" for each in lines)]
    assert IgnoreRules(again).verdict("private/") is True
    assert IgnoreRules(["private/", "!private/"]).verdict("private/") is False


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("[!a-z]x", "Qx"),
        ("[^A-Z]x", "qx"),
        ("[Z-b]x", "ax"),
        ("stra?e.md", "stra\u00dfe.md"),
        ("*.MD", "x.md"),
        ("x.md", "X.Md"),
    ],
)
def test_folding_takes_nothing_from_what_a_pattern_matches_as_written(line, path):
    assert IgnoreRules([line]).verdict(path) is True


@pytest.mark.parametrize("path", ["x/a", "x/b/", "x/b/a"])
def test_all_that_is_in_a_folder_is_left_out_by_two_stars_with_a_slash_too(path):
    assert left_out(IgnoreRules(["x/**/"]), path)
    assert IgnoreRules(["x/**/"]).verdict("x/") is None


def test_a_blank_before_a_mark_that_takes_in_is_no_pattern():
    with pytest.raises(BadPattern, match="blank before"):
        IgnoreRules(["*.md", " !open.md"])


def test_every_pattern_that_matches_counts_as_met_also_where_another_decides():
    rules, met = (
        IgnoreRules(["Draft/", "*.draft.md", "x.draft.md", "*.md", "!X.draft.md", "*z*", "none/", "draft"]),
        set(),
    )
    asked = ["draft/", "x.draft.md", "X.draft.md"]
    for path in asked:
        rules.verdict(path, met)
    assert [pattern.text for pattern in rules.unmet(met, asked)] == ["*z*", "none/"]


def test_wildcards_are_limited_in_all_and_plain_names_are_not():
    IgnoreRules(f"folder/name {number}" for number in range(20_000))
    with pytest.raises(BadPattern, match="wildcards"):
        IgnoreRules(["*" + "a" * 100] * (MAX_WILDCARD_CHARS // 100))


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 24 + "*b",
        "x/" + "*a" * 24 + "*b",
        "**/" + "a*" * 24 + "b",
        "**/a/" * 12 + "b",
        "[a]*" * 24 + "b",
        "a*?" * 9,
    ],
)
def test_the_cost_of_a_pattern_grows_with_the_name_and_not_faster(pattern):
    rules = IgnoreRules([pattern])

    def cost(size: int) -> float:
        asked = ["a" * size + "c", "x/" + "a" * size + "c", "a/" * (size // 2) + "c"]
        best = float("inf")
        for _ in range(5):
            started = time.perf_counter()
            for _ in range(20):
                for path in asked:
                    rules.verdict(path)
            best = min(best, time.perf_counter() - started)
        return best

    assert cost(4_000) < 10 * cost(1_000)  # four times the length; a square would be sixteen

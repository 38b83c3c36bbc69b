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
NAMES = st.text("ab.*c", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def left_out(rules: IgnoreRules, path: str) -> bool:
    """As the walk does it: from the outside in; what lies in a folder that is left out is never asked about."""
    parts = path.split("/")
    folders = ["/".join(parts[:length]) + "/" for length in range(1, len(parts))]
    return any(rules.verdict(each) for each in [*folders, path])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PATTERNS, min_size=1, max_size=5), st.lists(PATHS, min_size=1, max_size=25, unique=True))
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
        (["x\\ "], "x ", "x"),
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

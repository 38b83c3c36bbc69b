import re

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.text.globs import GlobSet, composed, glob_problem

PIECES = st.lists(st.sampled_from(["a", "b", "*", "?", "ab", ".md"]), min_size=1, max_size=4).map("".join)
COMPONENTS = st.one_of(st.just("**"), PIECES.map(lambda piece: re.sub(r"\*+", "*", piece)))
GLOBS = (
    st.tuples(
        st.sampled_from(["", "/"]),
        st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join),
        st.sampled_from(["", "/"]),
    )
    .map("".join)
    .filter(lambda glob: not glob.endswith("**/"))
)  # there git and pathspec differ; here the slash adds nothing
NAMES = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(GLOBS, PATHS)
def test_a_pattern_means_what_it_means_to_git(glob, path):
    assert GlobSet([glob]).matches(path) is pathspec.GitIgnoreSpec.from_lines([glob]).match_file(path)


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("notes/ops/**", "notes/ops/c.md", "notes/ops-archive/d.md"),
        ("notes/ops", "notes/ops/deep/c.md", "x/notes/ops/c.md"),
        ("adr/", "docs/adr/one.md", "docs/adr"),
        ("*.draft.md", "a/b.draft.md", "a/b.draft.md.txt"),
        ("/memory/", "memory/a.md", "docs/memory/a.md"),
        ("private/**/", "private/a.md", "privates/a.md"),
        ("src/**/*.py", "src/a.py", "srcs/a.py"),
        ("50%25 off ?x?/f & g.md", "50%25 off [x]/f & g.md", "50%25 off x/f & g.md"),
        ("a.c", "a.c", "abc"),
    ],
)
def test_patterns_hold_whole_components(glob, inside, outside):
    globs = GlobSet([glob])
    assert globs.matches(inside)
    assert not globs.matches(outside)


def test_the_first_pattern_that_matches_is_the_one_named():
    globs = GlobSet(["x/*.md", "x/", "**"])
    assert [globs.first(path) for path in ("x/a.md", "x/a.txt", "y")] == [0, 1, 2]
    assert GlobSet([]).first("a") is None


@given(st.lists(st.sampled_from(["*", "a", "?", "**/", "b/"]), max_size=60).map("".join))
def test_no_pattern_makes_matching_explode(glob):
    if glob_problem(glob) is None:
        GlobSet([glob]).matches("/".join(["a" * 40] * 40) + "!")


@pytest.mark.parametrize("name", ["Straße", "STRASSE", "straße", "ﬁn", "İstanbul", "Łódź", "é", "e\u0301", "ΣΑΣ", "a"])
@pytest.mark.parametrize("change", [str.upper, str.lower, str.casefold, str, composed])
def test_folding_finds_a_name_in_any_case_and_normalisation(name, change):
    assert GlobSet([f"{name}/**"], fold=True).matches(f"{change(name)}/x.md")


def test_a_question_mark_still_matches_a_letter_that_folds_into_two():
    assert GlobSet(["stra?e/"], fold=True).matches("STRAßE/x.md")


@pytest.mark.parametrize(
    "glob", ["", " ", "/", "a[b]", "{a,b}", "a\\b", "!a", "a//b", "../a", "./a", "a/..", "a\nb", "a\u202eb", "x" * 501]
)
def test_what_would_silently_match_nothing_is_refused(glob):
    refused(glob)


MISTAKES = [
    "hr/** ", " */pay.md", "'hr/**'", '"hr"/**', "\u201chr\u201d/", "hr/** # people", "hr/**,pay/**", "hr,pay", "hr/; pay/",
    "hr|pay", "C:/hr/**", "file:///hr", "~/hr/**", "~", "$HOME/hr", "${HOME}/hr", "%USERPROFILE%/hr", "/home/ann/notes/hr",
    "/Users/ann/hr", "^hr/", "hr/.*", "hr/.+", "hr$", "(?i)hr", "hr/...", "hr\uff0f**", "hr/\uff0a", "\uff01hr", "\u2800",
    "\u00ad/", "hr\u2044pay",
]  # fmt: skip
NAMES = [
    "Smith, John/**", "1. Projects/**", "- Archive/", "+ Inbox/**", "Issue #4/**", "50%25 off/*.md", "Bob's notes/**", "*,v",
    "~drafts/**", "/home/**", "Re: pay.md", "what now?", "a & b/**", "*.tar.gz", ".hidden/**", "$5 bills/",
]  # fmt: skip


@pytest.mark.parametrize("glob", MISTAKES)
def test_what_is_plainly_meant_otherwise_is_refused(glob):
    refused(glob)


@pytest.mark.parametrize("glob", NAMES)
def test_names_that_people_give_are_no_mistakes(glob):
    assert glob_problem(glob) is None


def refused(glob):
    assert glob_problem(glob)
    with pytest.raises(ValueError, match=re.escape(repr(glob)[:50])):
        GlobSet([glob])

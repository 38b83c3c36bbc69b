import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.paths import name_problem, path_problem, printable

LEGAL = [
    "a.md",
    "notes/50%25 off [x]/f & g.md",
    "notes/..hidden-looking/e.md",
    "%2e%2e/a.md",
    "Acme Inc./a.md",
    "Łódź/e\u0301.md",
    "console.md",
    "com10.md",
    "meeting 10:30.md",
    "nullable/aux-power.md",
    "a...b.md",
]
REFUSED = [
    "",
    "..",
    "../a.md",
    "a/../b.md",
    "a/./b.md",
    "a//b.md",
    "/etc/passwd",
    "...",
    ".. /a.md",
    "a\\b.md",
    "\\\\server\\share",
    "C:/a.md",
    "c:a.md",
    "a\0.md",
    "a\nb.md",
    "a\u2028b.md",
    "CON",
    "con.md",
    "x/NUL.txt.md",
    "aux .md",
    "COM1.md",
    "lpt¹",
    "CONIN$",
    "prn:x",
    "x/nul/a.md",
    "a.md.",
    "a.md ",
    "\ud800.md",
    "caf\udce9.md",
    "x" * 5000,
]


@pytest.mark.parametrize("path", LEGAL)
def test_odd_but_portable_names_are_legal(path):
    assert path_problem(path) is None


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_means_something_else_elsewhere_is_refused(path):
    assert path_problem(path)


@given(st.lists(st.text("aA. \\:/\0\n\ud800nulcom1¹$", max_size=6), min_size=1, max_size=4))
def test_a_path_is_fit_exactly_when_every_name_in_it_is(names):
    """The quick look at the whole path and the look at each name must agree."""
    path = "x" + "/".join(["", *names, "x"])
    assert (path_problem(path) is None) == all(name_problem(name) is None for name in path.split("/"))


@given(st.text(st.characters()))
def test_a_reported_name_is_one_printable_line(text):
    shown = printable(text)
    assert shown.isprintable() or "\ufffd" in shown
    assert len(shown) <= 200
    assert "\n" not in shown and "\u202e" not in shown
    shown.encode("utf-8")


def test_bytes_that_are_not_utf8_are_shown_in_hexadecimal():
    assert printable("caf\udce9.md") == r"caf\xe9.md"

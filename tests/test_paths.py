import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.access.names import (
    MAX_PATH_CHARS,
    canonical_names,
    from_cursor,
    name_problem,
    no_such_document,
    path_problem,
    plain_path,
    printable,
    safe_source,
    same_names,
    to_cursor,
)
from rag_mcp.errors import NotFound

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


@pytest.mark.parametrize(
    ("raw", "source"),
    [
        ("a.md", "a.md"),
        ("./a.md", "a.md"),
        ("a//b/./c.md", "a/b/c.md"),
        ("notes/50%25 off [x]/f & g.md", "notes/50%25 off [x]/f & g.md"),
        ("notes/..hidden-looking/e.md", "notes/..hidden-looking/e.md"),
        ("%2e%2e/notes-private/b.md", "%2e%2e/notes-private/b.md"),
        ("cafe\u0301.md", "cafe\u0301.md"),
    ],
)
def test_a_source_is_taken_as_on_disk(raw, source):
    assert safe_source(raw) == source


@pytest.mark.parametrize(
    "raw",
    [
        "",
        ".",
        "./",
        "/",
        "/etc/passwd",
        "//server/share/a.md",
        "\\\\server\\share",
        "..",
        "../notes-private/b.md",
        "notes/../notes-private/b.md",
        "notes\\a.md",
        "C:/a.md",
        "c:a.md",
        "a\0.md",
        "CON",
        "x/NUL.md",
        "com1.txt.md",
        "a.md.",
        "a.md ",
        ".. /a.md",
        "a.md/",
        "\ud800.md",
        "a" * 5000,
        None,
        5,
    ],
)
def test_a_malformed_path_gets_the_answer_a_missing_one_gets(raw):
    with pytest.raises(NotFound) as caught:
        safe_source(raw)
    assert str(caught.value) == str(no_such_document(raw))
    assert caught.value.code == "not_found"


@given(st.text(st.characters(), max_size=40))
def test_whatever_comes_through_is_a_plain_relative_path(raw):
    try:
        source = safe_source(raw)
    except NotFound as error:
        assert "\n" not in str(error)
        str(error).encode("utf-8")
        return
    assert path_problem(source) is None
    assert not source.startswith("/") and ".." not in source.split("/")
    assert safe_source(source) == source


@pytest.mark.parametrize("path", [path for path in LEGAL if not path.endswith(("/", "."))])
def test_every_name_ingest_takes_can_be_asked_for_and_stand_in_a_cursor(path):
    assert plain_path(path) == path
    assert from_cursor(to_cursor(path)) == path


def test_the_longest_path_of_the_index_can_be_asked_for_and_one_character_more_can_not():
    longest = "é" * MAX_PATH_CHARS
    assert path_problem(longest) is None and safe_source(longest) == longest
    assert from_cursor(to_cursor(longest)) == longest
    assert plain_path(longest + "é") is None


@pytest.mark.parametrize(
    "cursor", ["", "?", "YS5tZA", "YS5tZA=", "YS5t ZA==", "YS5tZA==\n", "YS5tZB==", "Li4vYQ==", "4pyT+/==", "_w==", "é"]
)
def test_a_text_that_no_page_gave_is_no_cursor(cursor):
    assert from_cursor("YS5tZA==") == "a.md"
    assert from_cursor(cursor) is None


@given(st.text(st.characters(), max_size=30))
def test_a_cursor_is_either_refused_or_given_back_as_it_is(text):
    path = from_cursor(text)
    assert path is None or to_cursor(path) == text


def test_names_are_the_same_when_they_are_canonically_equal_and_not_when_they_merely_look_alike():
    known = dict.fromkeys(["caf\u00e9.md", "cafe\u0301.md", "cafe.md", "K.md", "\u212b.md", "\uff21.md"], 1)
    forms = canonical_names(known)
    assert forms == {"caf\u00e9.md": ("cafe\u0301.md",), "\u00c5.md": ("\u212b.md",)}
    assert same_names("caf\u00e9.md", known, forms) == ("caf\u00e9.md", "cafe\u0301.md")
    assert same_names("\u212a.md", known, forms) == ("K.md",)
    assert same_names("A\u030a.md", known, forms) == ("\u212b.md",)
    assert same_names("A.md", known, forms) == ()

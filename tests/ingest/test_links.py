"""Which targets a text names: what is a link, in which words it is kept, and that hostile input costs no more."""

from __future__ import annotations

import pytest
from support import Library, growth

from rag_mcp.text.frontmatter import parse_front_matter
from rag_mcp.text.links import MAX_LINK_CHARS, MAX_LINKS, find_links


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("See [[Rope locker]].", ("Rope locker",)),
        ("[[Rope locker|the locker]] and [[yard/Oars#Drying]] and [[Oars#^b1]]", ("Rope locker", "yard/Oars", "Oars")),
        ("| [[Rope locker\\|the locker]] |\n| --- |", ("Rope locker",)),
        ("![[Oars]] and ![[plan.PNG]] and ![a](./plan.png)", ("Oars",)),
        ("[[Oars]] [[Oars|again]]", ("Oars",)),
        ("[[#Here]] [here](#here) [up](..) [none]() [[]] [[ ]]", ()),
        (
            "[a](oars.md) [b](./oars.md) [c](../yard/oars.md#x) [d](/yard/oars.md)",
            ("./oars.md", "../yard/oars.md", "yard/oars.md"),
        ),
        ("[a](rope%20locker.md) [b](<the oars.md> 'Oars')", ("./rope locker.md", "./the oars.md")),
        ('[a](oars_(ash).md) [b](x.md "Title")', ("./oars_(ash).md", "./x.md")),
        ("[![alt](a.png)](b.md)", ("./b.md",)),
        ('[a][1]\n\n[1]: yard/oars.md "Oars"\n> [2]: <my oars.md>', ("./yard/oars.md", "./my oars.md")),
        ("[w](https://example.org/a.md) [m](mailto:a@b.c) [n](//host/a.md) <https://example.org>", ()),
        ("`[[Oars]]` ``a ` [[Ropes]]`` [[Bell]]", ("Bell",)),
        ("a stray ` tick\n\n[[Bell]] and ` another", ("Bell",)),
        ("```\n[[Oars]] [a](b.md)\n```\n\n    [[Ropes]]\n\n[[Bell]]", ("Bell",)),
        (r"\[[Oars]] \[a](b\.md) [[Bell]]", ("./b.md", "Bell")),
        ("[[two\nlines]]", ()),
    ],
)
def test_links_are_found_in_prose_and_only_there(text, targets):
    assert find_links(text) == targets


def test_the_head_of_a_file_is_left_to_who_reads_heads():
    text = "---\nup: '[[Yard]]'\n---\n[[Bell]]"
    assert find_links(text, text.index("[[Bell")) == ("Bell",)


@pytest.mark.parametrize(
    ("head", "targets"),
    [
        ('up: "[[Yard#Gate|the yard]]"', ("Yard",)),
        ("up: [[Yard]]", ("Yard",)),
        (
            "crew:\n  - '[[Ada]] and [[Bo|B.]]'\n  - [[Cy]]\n  - '[book](sub/log%20book.md)'",
            ("Ada", "Bo", "Cy", "./sub/log book.md"),
        ),
        ('up: ["[[Yard]]", "[[Bell]]", "[[Yard]]"]', ("Yard", "Bell")),
        ("note: a ` stray tick\nup: '[[Yard]]'", ("Yard",)),
        ("grid: [[1, 2], [3, 4]]\none: [[7]]\nnames: [['Yard']]\nplain: Yard\n# [[Bell]]", ()),
        ("access: '[[Yard]]'", ()),
    ],
)
def test_what_properties_link_to_are_links_of_the_head(head, targets):
    assert parse_front_matter(f"---\n{head}\n---\n[[Body]]").links == targets


def test_a_link_behind_many_others_in_one_property_counts():
    head = parse_front_matter(f"---\nup: '{' '.join(f'[[pier {n}]]' for n in range(60))}'\n---\n")
    assert len(head.links) == 60


def test_an_unquoted_link_is_shown_as_it_is_written():
    assert parse_front_matter("---\nup: [[Yard]]\n---\n").properties == {"up": ("[[Yard]]",)}


def test_what_a_file_can_make_the_manifest_hold_is_bounded():
    assert len(find_links(" ".join(f"[[n{number}]]" for number in range(2 * MAX_LINKS)))) == MAX_LINKS
    assert find_links(f"[[{'a' * (MAX_LINK_CHARS + 1)}]] [[{'b' * MAX_LINK_CHARS}]]") == ("b" * MAX_LINK_CHARS,)
    assert find_links("[a](x%00y.md) [b](x%0Ay.md)") == ()


@pytest.mark.parametrize(
    "piece",
    ["[[", "](", "](a", "](a(b", "[", "]", "`" * 3 + "a` ", "[a]:", "](<", "\\", "> ", "[[a]", "a](b\\", "](()"],
)
def test_time_follows_the_size(piece):
    assert growth(lambda size: f"[[a]] {piece * size}", find_links, 1_000) < 3


def test_links_are_kept_without_those_in_comments_code_files_and_what_is_withheld(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write(
            {
                "yard.md": "---\naliases: [The yard, Slip]\n---\n# Yard\n\n[[Oars]] <!-- [[Secret]] --> %%[[Plan]]%% [b](sub/bell.md)\n",
                "rope.md": "---\nup: [[Yard]]\nby: '[[Oars]]'\n---\n# Rope\n\n[[Oars]] [[Bell]]\n",
                "winch.md": "# Winch\n\n```\n[[Drum]]\n```\n",
            }
        )
        library.ingest()
        files = library.manifest().files
        assert files["yard.md"].links == ("Oars", "./sub/bell.md") and files["yard.md"].aliases == ("The yard", "Slip")
        assert files["rope.md"].links == ("Yard", "Oars", "Bell")
        assert files["winch.md"].links == ()

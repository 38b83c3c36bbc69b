"""Names and links: what a document can be called by, which one a link means, and that nothing hidden takes part."""

from __future__ import annotations

import unicodedata

import pytest
from governed import POLICY, Caller
from support import Library, growth

from rag_mcp.models import DocClass, SourceClass
from rag_mcp.search.naming import Names, names_of, nearest, resolve
from rag_mcp.stores.manifest import FileEntry


def entry(title: str = "", *, aliases: tuple[str, ...] = (), links: tuple[str, ...] = ()) -> FileEntry:
    return FileEntry("", SourceClass.DOCS, None, DocClass.NOTE, title, None, None, (), aliases, links)


FILES = {
    "kiln.md": entry("Kiln handbook", aliases=("The oven",)),
    "clay/Glaze.md": entry("Glazes"),
    "shop/old/glaze.md": entry("Old glazes"),
    "shop/Wheel.md": entry("Wheels/Throwing"),
    "shop/tools/wheel.py": entry("wheel"),
    "shop/Caf\u00e9.md": entry("Break"),
    "a/rota.md": entry("Rota"),
    "b/c/rota.md": entry("Rota"),
    "b/v1.2.md": entry("v1.2"),
}
NAMES = names_of(FILES)


def everything(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("kiln", None, ("kiln.md",)),
        ("KILN.MD", None, ("kiln.md",)),
        ("the oven", None, ("kiln.md",)),
        ("Kiln handbook", None, ("kiln.md",)),
        ("Wheel", None, ("shop/Wheel.md",)),
        ("wheel.py", None, ("shop/tools/wheel.py",)),
        ("wheels/throwing", None, ("shop/Wheel.md",)),
        (unicodedata.normalize("NFD", "CAF\u00c9"), None, ("shop/Caf\u00e9.md",)),
        ("v1.2", None, ("b/v1.2.md",)),
        ("glaze", None, ("clay/Glaze.md", "shop/old/glaze.md")),
        ("old/glaze", None, ("shop/old/glaze.md",)),
        ("elsewhere/glaze", None, ()),
        ("rota", None, ("a/rota.md", "b/c/rota.md")),
        ("glaze", "kiln.md", ("clay/Glaze.md",)),
        ("glaze", "shop/old/x.md", ("shop/old/glaze.md",)),
        ("rota", "b/x.md", ("a/rota.md",)),
        ("./glaze.md", "shop/old/x.md", ("shop/old/glaze.md",)),
        ("../clay/glaze.md", "shop/x.md", ("clay/Glaze.md",)),
        ("./kiln.md", "shop/x.md", ("kiln.md",)),
        ("../../../kiln.md", "shop/x.md", ("kiln.md",)),
        ("nothing", "kiln.md", ()),
        ("", None, ()),
    ],
)
def test_a_name_means(name, source, found):
    assert resolve(name, NAMES, everything, source=source) == found


@pytest.mark.parametrize("hidden", sorted(FILES))
def test_what_is_not_shown_takes_no_part(hidden):
    without = names_of({path: each for path, each in FILES.items() if path != hidden})
    for name in ("glaze", "rota", "kiln", "wheel", "the oven", "Wheels/Throwing", "./glaze.md", "glase", "kilm"):
        for source in (None, "shop/old/x.md", "b/x.md"):
            found = resolve(name, NAMES, lambda path: path != hidden, source=source)
            assert found == resolve(name, without, everything, source=source)
        assert nearest(name, NAMES, lambda path: path != hidden) == nearest(name, without, everything)


def test_near_names_are_by_file_title_and_alias_and_few():
    assert nearest("shop/Glase.md", NAMES, everything) == ("clay/Glaze.md", "shop/old/glaze.md")
    assert nearest("Kiln handbok", NAMES, everything) == ("kiln.md",)
    assert nearest("quite another thing", NAMES, everything) == ()


def linked(size: int) -> Names:
    return names_of({f"n{i}.md": entry(f"Note {i}", links=(f"n{i + 1}", f"n{i + 2}")) for i in range(size)})


def test_the_links_to_a_document_are_found_without_a_look_at_all_others():
    def work(names: Names) -> None:
        for i in range(200):
            assert len(names.linking_to(f"n{i + 2}.md", entry(), everything)) == 2

    assert growth(linked, work, 500) < 0.5


@pytest.fixture
def yard(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
        library.settings["policy_path"] = tmp_path / "policy.yaml"
        library.write(
            {
                "docs/Rope walk.md": "---\naliases: [Long shed]\n---\n# Rope walk\n\nSee [[Tar]], [[Ledger|books]], "
                "[[Nowhere]] and [bell](bell.md).\n",
                "docs/bell.md": "---\nby: 'Cast for the [[Tar]] pot'\n---\n# Harbour bell\n\nNear the [[Long shed]].\n",
                "docs/Tar.md": "# Tar\n\nFor the [[rope walk#Floor]].\n",
                "journal/Ledger.md": "# Ledger\n\nCosts of the [[Rope walk]].\n",
            }
        )
        library.ingest()
        yield library


@pytest.mark.parametrize(
    "name",
    ["docs/rope walk.md", "Rope walk", "rope walk.md", "[[Rope walk]]", "![[Rope walk#Floor|the floor]]", "long shed"],
)
def test_a_document_opens_by_every_name_people_know_it_by(yard, name):
    assert Caller(yard, "restricted").ask("get_document", source=name)["source"] == "docs/Rope walk.md"


def test_a_document_tells_its_links_and_who_links_to_it(yard):
    answer = Caller(yard, "restricted").ask("get_document", source="Rope walk")
    assert answer["links"] == [
        {"target": "Tar", "source": "docs/Tar.md"},
        {"target": "Ledger"},
        {"target": "Nowhere"},
        {"target": "./bell.md", "source": "docs/bell.md"},
    ]
    assert answer["links_total"] == 4
    assert answer["backlinks"] == ["docs/Tar.md", "docs/bell.md"] and answer["backlinks_total"] == 2
    all_of_it = Caller(yard, "auditor").ask("get_document", source="Rope walk")
    assert all_of_it["links"][1] == {"target": "Ledger", "source": "journal/Ledger.md"}
    assert all_of_it["backlinks"][-1] == "journal/Ledger.md"


def test_what_links_to_a_document_is_listed(yard):
    caller = Caller(yard, "restricted")
    assert caller.listed(linked_to="[[Rope walk]]") == ["docs/Tar.md", "docs/bell.md"]
    assert caller.listed(linked_to="docs/Tar.md") == ["docs/Rope walk.md", "docs/bell.md"]
    assert caller.ask("get_document", source="Tar")["backlinks"] == ["docs/Rope walk.md", "docs/bell.md"]
    assert caller.ask("list_documents", linked_to="Ledger") == caller.ask("list_documents", linked_to="Nowhere")


def test_a_wrong_name_is_answered_with_the_nearest_that_may_be_seen(yard):
    caller = Caller(yard, "restricted")
    refused = caller.ask("get_document", source="docs/Rope wlk.md")["error"]
    assert refused["type"] == "not_found" and refused["message"].endswith('Nearest: "docs/Rope walk.md".')
    assert "Nearest" not in caller.ask("get_document", source="Ledgr")["error"]["message"]
    yard.write({"docs/old/Tar.md": "# Old tar\n\nBlack.\n"})
    yard.ingest()
    both = Caller(yard, "restricted").ask("get_document", source="[[tar]]")["error"]["message"]
    assert both.endswith('Nearest: "docs/Tar.md", "docs/old/Tar.md".')


def test_links_in_an_answer_are_bounded_and_counted(tmp_path):
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write({"hub.md": "# Hub\n\n" + " ".join(f"[[p{n}]]" for n in range(70)) + "\n"})
        library.write({f"p{n:02}.md": f"# P{n}\n\nBack to the [[hub]].\n" for n in range(60)})
        library.ingest()
        answer = Caller(library, "restricted").ask("get_document", source="hub")
        assert (len(answer["links"]), answer["links_total"]) == (50, 70)
        assert (len(answer["backlinks"]), answer["backlinks_total"]) == (50, 60)

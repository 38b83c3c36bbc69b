"""What the views show: what the tools say, as it is, of whatever a file holds."""

from __future__ import annotations

import html
import json
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
from governed import CLASSES, PROFILES, Caller, governed, visible
from page_site import Site, words
from support import Library, growth

import rag_mcp.server.page
from rag_mcp.config import Config
from rag_mcp.requests import ListRequest, SearchRequest
from rag_mcp.server.page.ask import arguments_of, show_ask
from rag_mcp.server.page.document import stretches
from rag_mcp.server.page.registry import VIEWS
from rag_mcp.server.page.rights import ProfileBook
from rag_mcp.server.page.view import Shown, View
from rag_mcp.server.tools import answer_payload

PAGE = Path(rag_mcp.server.page.__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with governed(tmp_path_factory.mktemp("views")) as library:
        yield library


def raw(text: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'<pre class="raw"[^>]*>(.*?)</pre>', text, re.S)]


def cited(text: str) -> list[str]:
    return re.findall(r'<a class="path" href="[^"]*"><bdi>([^<]*)</bdi>', text)


# --- Ask --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["restricted", "engineer", "auditor", "nobody_special"])
@pytest.mark.parametrize(
    "given",
    [
        {"query": "harbour heron mast"},
        {"query": "harbour", "k": "20", "confidence": "normal", "mode": "fts"},
        {"query": "harbour", "source_class": "config", "confidence": "normal"},
        {"query": "zeppelin tariff", "mode": "vector"},
        {"query": "harbour", "tags": "a, b", "where": "owner=kim; owner=lee"},
        {"query": "harbour", "k": "many"},
        {"query": "harbour", "colour": "red"},
    ],
    ids=lambda given: "-".join(given),
)
def test_ask_shows_the_very_answer_of_the_tool_and_what_it_costs(site, library, profile, given):
    reply = site.signed_in(profile).get("/page/ask", params=given)
    answer = Caller(library, profile).ask("search_knowledge", **arguments_of(given))
    assert reply.status_code == (200 if answer["ok"] else 400)
    if not answer["ok"]:
        assert html.escape(answer["error"]["message"], quote=False) in html.unescape(reply.text).replace("&#34;", '"')
        return
    told = raw(reply.text)[0]
    assert json.loads(told) == answer
    assert f"about {-(-len(told) // 4)} tokens" in reply.text
    found, _, withheld = reply.text.partition('id="withheld"')
    assert [each for each in cited(found) if each] == [hit["citation"]["source"] for hit in answer["results"]]
    assert {each for each in cited(withheld)} <= {
        place.path for place in visible(profile, given.get("source_class", "all"))
    }


def test_what_strict_withholds_is_what_normal_adds_and_how_far_it_is_from_medium(library, auditor):
    given = {"query": "harbour heron zeppelin", "k": "10"}
    normal = Caller(library, "auditor").ask("search_knowledge", **given, confidence="normal", explain=True)
    low = [hit for hit in normal["results"] if hit["confidence"] == "low"]
    _, _, withheld = auditor.get("/page/ask", params=given).text.partition('id="withheld"')
    assert low and cited(withheld) == [hit["citation"]["source"] for hit in low]
    for hit in low:
        assert f"{hit['explain']['levels']['medium'] - hit['score']:.3f} below medium" in withheld
    assert 'id="withheld"' not in auditor.get("/page/ask", params={**given, "confidence": "normal"}).text


def test_a_question_that_found_nothing_is_asked_once(library):
    asked = []

    def tool(name, arguments):
        asked.append(arguments)
        return Caller(library, "auditor").ask(name, **{**arguments, "explain": True})

    shown = show_ask(SimpleNamespace(given={"query": "xyzzyplugh", "mode": "fts"}, tool=tool))
    assert shown.data["answer"]["reason"] == "no_results" and len(asked) == 1 and not shown.data["withheld"]


def test_each_score_stands_against_medium_and_high_and_what_each_feature_added_sums_up(library, auditor):
    given = {"query": "harbour heron mast", "confidence": "normal", "k": "1"}
    (hit,) = Caller(library, "auditor").ask("search_knowledge", **given, explain=True)["results"]
    text = auditor.get("/page/ask", params=given).text
    levels = hit["explain"]["levels"]
    label = f"Score {hit['score']:.3f}; medium from {levels['medium']:.3f}, high from {levels['high']:.3f}"
    assert f'aria-label="{label}"' in text
    assert f'<rect class="fill" x="0" y="2" width="{100 * hit["score"]:.1f}"' in text
    table = words(text[text.index("<tbody>") : text.index("</tfoot>")])
    total = sum(hit["explain"]["log_odds"].values())
    assert table.endswith(f"Log odds {total:+.2f}".replace("-", "−"))


def test_the_address_repeats_the_question_in_every_field(auditor):
    given = {"query": 'a "b" <c>', "mode": "fts", "confidence": "normal", "k": "7", "tags": "x", "since": "2031-01-01"}
    given |= {"as_of": "2031-05-03", "neighbours": "2", "where": "a=b", "path": "docs/**", "doc_class": "note"}
    text = auditor.get("/page/ask", params={**given, "source_class": "docs"}).text
    for name, value in given.items():
        shown = html.escape(value).replace("&quot;", "&#34;")
        field = re.search(rf'<input id="{name}"[^>]*>|<select id="{name}".*?</select>', text, re.S)
        assert field and (f'value="{shown}"' + (" selected" if "<select" in field[0] else "")) in field[0]
    assert "<details open>" in text


def test_every_field_is_an_argument_of_the_tool(auditor):
    for path, request in (("/page/ask", SearchRequest), ("/page/documents", ListRequest)):
        named = set(re.findall(r' name="(\w+)"', auditor.get(path).text)) - {"viewport", "robots"}
        assert named - {"color"} <= {field.name for field in fields(request)}


def test_properties_are_read_by_key_and_value():
    assert arguments_of({"query": "x", "where": "a = b;a=c; d=e=f ;"}) == {
        "query": "x",
        "where": {"a": ["b", "c"], "d": ["e=f"]},
    }
    assert arguments_of({"query": "x", "where": " "}) == {"query": "x"}


# --- Document ---------------------------------------------------------------------------------------------------------


def test_each_line_is_in_the_passages_that_reach_it():
    text = "a\n\nb\nc d\ne\n"
    found = list(stretches(text, 3, [(3, 3), (5, 6), (6, 6), (6, 7), (9, 9)]))
    assert [(list(each.passages), [number for number, _ in each.lines]) for each in found] == [
        ([0], [3]),
        ([], [4]),
        ([1], [5]),
        ([1, 2, 3], [6]),
        ([3], [7]),
    ]
    assert "\n".join(line for each in found for _, line in each.lines) + "\n" == text
    assert list(stretches("", 0, [])) == []


def test_lines_are_told_apart_in_linear_time():
    def made(size):
        return "x\n" * (20 * size), [(number, number) for number in range(1, 20 * size, 2)]

    assert growth(made, lambda made: list(stretches(made[0], 1, made[1])), 300) < 2.5


def test_a_document_shows_every_line_under_its_number(library, tmp_path):
    body = "---\ntitle: Long\n---\n# Long\n\n" + "".join(
        f"## Part {n}\n\n{'The harbour lamp burns. ' * 12}\n\n" for n in range(30)
    )
    with Library(tmp_path / "corpus", tmp_path / "store") as long:
        long.write({"docs/long.md": body, "docs/other.md": "# Other\n\nSee [[long]] and [[nowhere]].\n"})
        long.ingest()
        with Site(long, tmp_path / "tokens.json").running() as site:
            client = site.signed_in("restricted")
            text = client.get("/page/document", params={"source": "docs/long.md", "lines": "6-8"}).text
            other = client.get("/page/document", params={"source": "other"}).text
            lines = dict(re.findall(r'id="L(\d+)">.*?<code dir="auto">(.*?)</code>', text))
            wanted = re.findall(r'class="part wanted"[^>]*lines (\d+) to (\d+)"', text)
            manifest = long.manifest().files["docs/long.md"]
    assert lines == {str(n): line.rstrip() for n, line in enumerate(body.splitlines(), 1) if str(n) in lines}
    assert max(map(int, lines)) == len(body.splitlines()) - 1 and len(set(lines)) == len(lines)
    assert text.count('class="mark"') == len(manifest.rows) > 1
    assert wanted and all(int(first) <= 8 and int(last) >= 6 for first, last in wanted)
    assert 'href="/page/document?source=docs%2Fother.md"' in text.partition("Linked from")[2]
    assert 'href="/page/document?source=docs%2Flong.md"' in other and "names no document shown here" in other


def test_a_long_document_is_read_on_to_its_end_and_opened_where_it_was_cited(tmp_path):
    body = "# Long\n\n" + "".join(f"Line {n} of the harbour log, word {n * 7919 % 1000}.\n\n" for n in range(3_000))
    with Library(tmp_path / "corpus", tmp_path / "store") as long:
        long.write({"docs/long.md": body})
        long.ingest()
        last = len(long.manifest().files["docs/long.md"].rows) - 1
        with Site(long, tmp_path / "tokens.json").running() as site:
            client = site.signed_in("restricted")
            seen: list[int] = []
            address = "/page/document?source=docs/long.md"
            while address:
                text = client.get(address).text
                seen += map(int, re.findall(r'id="L(\d+)"', text))
                following = re.search(r'<a href="([^"]*)" rel="next"', text)
                address = html.unescape(following[1]) if following else ""
            there = client.get("/page/document", params={"source": "docs/long.md", "passage": last}).text
    assert {n for n, line in enumerate(body.splitlines(), 1) if line} <= set(seen) and len(seen) == len(set(seen))
    assert f'aria-label="Passage {last},' in there and 'id="L1"' not in there


def test_a_hidden_document_a_missing_one_and_one_that_can_not_be_are_one_answer(site):
    client = site.signed_in("restricted")
    asked = ["journal/monday.md", "docs/denied/plan.md", "docs/diary.md", "docs/nothing-here.md", "../../etc/passwd"]
    replies = [client.get("/page/document", params={"source": source}) for source in asked]
    assert {reply.status_code for reply in replies} == {404}
    assert len({reply.text for reply in replies}) == 1


# --- Documents, and what a profile sees ---------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["restricted", "engineer", "auditor"])
def test_pages_of_documents_join_to_all_a_profile_may_see(site, profile):
    client = site.signed_in(profile)
    for chosen in ("all", *CLASSES):
        found, address = [], f"/page/documents?limit=2&source_class={chosen}"
        while address:
            text = client.get(address).text
            found += cited(text)
            following = re.search(r'<a rel="next" href="([^"]*)"', text)
            address = html.unescape(following[1]) if following else ""
        assert found == sorted(place.path for place in visible(profile, chosen))


def test_documents_are_chosen_by_prefix_project_and_tag(site, auditor):
    assert cited(auditor.get("/page/documents", params={"prefix": "docs/pier"}).text) == [
        *("docs/pier/rules.md", "docs/pier/turnover.md")
    ]
    assert cited(auditor.get("/page/documents", params={"project": "quay"}).text) == ["journal/pier/turnover.md"]
    assert cited(auditor.get("/page/documents", params={"tags": "none-has-it"}).text) == []


@pytest.mark.parametrize("profile", list(PROFILES)[:5])
def test_every_view_says_whose_it_is_and_what_that_profile_sees(site, profile):
    client, classes = site.signed_in(profile), PROFILES[profile][0]
    for view in VIEWS:
        text = words(client.get(f"/page/{view.name}").text)
        assert f"You see what profile {profile} sees: " in text
        banner = text.partition("sees: ")[2].partition("Signed in by")[0].replace("only when named", "").split()
        assert sorted(banner) == sorted(classes)


def test_an_auditor_sees_side_by_side_what_each_profile_finds(site, library, auditor):
    given = {"query": "harbour"}
    text = auditor.get("/page/profile", params=given).text
    rows = re.findall(r'<tr><th scope="row"><a class="path"[^>]*><bdi>(.*?)</bdi>(.*?)</tr>', text, re.S)
    names = re.findall(r'<th scope="col">([^<]*)</th>', text.partition('<th scope="col">Passage</th>')[2])[1:]
    assert names == ["auditor", "custodian", "engineer", "nobody_special", "restricted"]
    for column, name in enumerate(names):
        told = Caller(library, name).search("harbour", k=10)["results"]
        shown = {path: words(cells.split("<td>")[2 + column]) for path, cells in rows}
        found = {path: cell for path, cell in shown.items() if "not among them" not in cell}
        assert found == {
            hit["citation"]["source"]: f"{rank}. {hit['confidence']} {hit['score']:.3f}"
            for rank, hit in enumerate(told, start=1)
        }


@pytest.mark.parametrize("profile", ["restricted", "engineer", "custodian", "root", ""])
def test_nobody_else_is_told_of_other_profiles(site, profile):
    client = site.signed_in(profile or "nobody", f"alone-{profile or 'none'}")
    text = client.get("/page/profile", params={"query": "harbour"}).text
    assert "auditor" not in text and "Compare" not in text


def test_an_auditor_is_who_sees_every_class_by_every_policy(tmp_path):
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text(
        "profiles:\n  auditor: {classes: [docs]}\n  keeper: {classes: [code, docs, decisions, config, memory]}\n"
    )
    with Library(tmp_path / "corpus", tmp_path / "store", policy_path=narrow) as library:
        book = ProfileBook(library.config())
        assert not book.is_auditor("auditor") and book.is_auditor("keeper") and not book.is_auditor("Keeper")
        narrow.write_text("profiles: [")
        assert not book.is_auditor("keeper") and book.names() == []


def test_a_view_for_auditors_is_to_others_not_there(library, tmp_path):
    views = (*VIEWS, View("secret", "Secret view", lambda asked: Shown("missing.html"), auditors_only=True))
    with Site(library, tmp_path / "tokens.json", views=views).running() as site:
        assert "Secret view" in site.signed_in("auditor").get("/page/secret").text
        other = site.signed_in("engineer")
        assert other.get("/page/secret").text == other.get("/page/nowhere").text
        assert other.get("/page/secret").status_code == 404


def test_a_view_that_fails_says_so_and_nothing_else(library, tmp_path):
    def fail(asked):
        raise RuntimeError("quuxcanary")

    with Site(library, tmp_path / "tokens.json", views=(View("ask", "Ask", fail),)).running() as site:
        reply = site.signed_in("auditor").get("/page/ask")
    assert reply.status_code == 500 and "quuxcanary" not in reply.text and "content-security-policy" in reply.headers


# --- several corpora, and none --------------------------------------------------------------------------------------


def test_of_several_corpora_one_may_be_chosen_and_each_is_told(tmp_path):
    folders = {
        "mill": {"saw.md": "# Saw\n\nThe band saw is sharpened.\n"},
        "shop": {"saw.md": "# Price\n\nA band saw costs.\n"},
    }
    for name, files in folders.items():
        with Library(tmp_path / name, tmp_path / "stores" / name) as library:
            library.write(files)
            library.ingest()
    roots = ";".join(f"{name}={tmp_path / name}" for name in folders)
    env = {"RAG_MCP_CORPUS_ROOT": roots, "RAG_MCP_DB_PATH": str(tmp_path / "stores"), "RAG_MCP_EMBEDDER": "hash"}
    several = SimpleNamespace(config=lambda: Config.load(env))
    with Site(several, tmp_path / "tokens.json").running() as site:
        client, asked = site.signed_in("auditor"), {"query": "band saw", "confidence": "normal"}
        assert sorted(cited(client.get("/page/ask", params=asked).text)) == ["mill/saw.md", "shop/saw.md"]
        assert cited(client.get("/page/ask", params={**asked, "corpus": "shop"}).text) == ["shop/saw.md"]
        assert cited(client.get("/page/documents", params={"corpus": "mill"}).text) == ["mill/saw.md"]
        assert "The band saw" in client.get("/page/document", params={"source": "mill/saw.md"}).text
        told = client.get("/page/profile", params={"query": "band saw"}).text
        assert "<strong>mill</strong>" in told and {"mill/saw.md", "shop/saw.md"} <= set(cited(told))


def test_without_a_store_every_view_says_what_to_do(tmp_path):
    with (
        Library(tmp_path / "corpus", tmp_path / "store") as library,
        Site(library, tmp_path / "tokens.json").running() as site,
    ):
        client = site.signed_in("auditor")
        for view in VIEWS:
            reply = client.get(f"/page/{view.name}", params={"query": "harbour", "source": "a.md"})
            assert reply.status_code < 500 and "rag-mcp ingest" in html.unescape(reply.text)


# --- hostile documents --------------------------------------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(2)">',
    "</pre></code></main><h1>forged</h1>",
    "[x](javascript:alert(3))",
    "{{ 771*13 }}{% raw %}{{ config }}",
    "' onmouseover='alert(4)",
    '"><svg/onload=alert(5)>',
    "\u202eesrever\u202c \u2066x\u2069 \u200bhidden\ufeff",
    "&lt;b&gt;",
)


def test_nothing_a_document_holds_is_markup_on_any_view(tmp_path):
    head = "---\ntitle: '<b>title</b> {{ 771*13 }}'\naliases: ['<i>alias</i>']\ntags: ['<u>tag</u>']\nowner: '\"><svg/onload=1>'\n---\n"
    name = "docs/<img src=x onerror=alert(6)> {{771*13}} '\".md"
    files = {
        name: head
        + "# <h1>forged</h1> \u202eesrever\n\n"
        + "\n\n".join(f"harbour {each}" for each in HOSTILE)
        + "\n\n[[<s>x</s>]]\n",
        "docs/plain.md": f"# Plain harbour\n\nThe harbour links to [[{name}]].\n",
    }
    with Library(tmp_path / "corpus", tmp_path / "store") as library:
        library.write(files)
        library.ingest()
        with Site(library, tmp_path / "tokens.json").running() as site:
            client = site.signed_in("auditor")
            for view in VIEWS:
                for given in (
                    {"query": "harbour", "confidence": "normal", "source": name, "k": "20"},
                    {
                        "query": HOSTILE[1],
                        "source": HOSTILE[0],
                        "prefix": HOSTILE[5],
                        "tags": HOSTILE[6],
                        HOSTILE[2]: "x",
                    },
                ):
                    check_inert(client.get(f"/page/{view.name}", params=given).text)
            shown = client.get("/page/document", params={"source": name}).text
            listed = client.get("/page/documents").text
    assert html.escape(HOSTILE[1]).replace("&quot;", "&#34;") in shown and "{{ 771*13 }}" in shown
    assert "esrever" in shown and name in {html.unescape(each) for each in cited(listed)}


def check_inert(text: str) -> None:
    """No mark but those of the templates, no address but the page's own, nothing that is read in another order."""
    tags = {each.lower() for each in re.findall(r"<([a-zA-Z!][^\s>/]*)", text)}
    known = (
        "!doctype html head meta title link body a header nav ul li form button section p strong span main h1 h2 h3 div label"
        " input select option details summary small ol article svg rect line bdi pre code table thead tbody tfoot tr th td"
        " footer aside em dl dt dd br text"
    )
    assert tags <= set(known.split())
    assert not re.search(r"<[^>]*\s(?:on\w+|style|srcdoc|formaction)\s*=[^>]*>", re.sub(r'"[^"]*"', '""', text))
    for address in re.findall(r'\s(?:href|src|action)="([^"]*)"', text):
        assert re.match(r"/page(/|$|\?)|#L?\w*$|#main$", html.unescape(address)), address
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\ufeff]", text)
    assert "10023" not in text


def test_nothing_of_the_page_turns_escaping_off():
    sources = {
        path.name: path.read_text(encoding="utf-8") for path in PAGE.rglob("*") if path.suffix in (".py", ".html")
    }
    assert len(sources) > 10
    off = re.compile(r"\|\s*safe\b|Markup\(|autoescape\s+false|__html__|\|\s*drawn\b")
    found = {name: off.findall(text) for name, text in sources.items() if off.search(text)}
    # The charts of an evaluation alone, whose words evaluation/plots escapes.
    assert found == {"rendering.py": ["Markup("], "evaluation.html": ["|drawn"]}
    assert "autoescape=True" in sources["rendering.py"]


def test_an_answer_as_given_is_the_payload_without_explanations(library):
    base = library.base(profile="auditor")
    plain = base.search(SearchRequest.parse({"query": "harbour", "confidence": "normal"}))
    assert not {"levels", "log_odds"} & set(re.findall(r'"(\w+)":', json.dumps(answer_payload(plain))))

"""Several corpora answer as one: what is merged, what is said of one that can't, and that nothing hidden shows."""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_process import cli_json, forked_cli
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_server import RawServer

from rag_mcp.config import Config
from rag_mcp.embedders.hash import HashEmbedder
from rag_mcp.errors import ConfigError, InvalidArgument, NotFound, StoreAbsent
from rag_mcp.federation import Federation
from rag_mcp.ingest.options import IngestOptions
from rag_mcp.knowledge import KnowledgeBase
from rag_mcp.requests import CorporaList, CorporaSearch, CorporaSources, DocumentRequest, ListRequest, SearchRequest
from rag_mcp.search.several import addressed
from rag_mcp.server import tools as contract
from rag_mcp.server.tools import answer_payload

MILL = {
    "README.md": "# Mill\n\nNotes of the saw mill.\n",
    "saw.md": "---\nowner: Ines\n---\n# Saw\n\nThe band saw is sharpened on Fridays. See [[belt]].\n",
    "parts/belt.md": "# Belt\n\nThe belt of the saw is changed in May, order code BX-7731.\n\n## Spare\n\nA spare belt hangs in the attic.\n",
    "life/work.md": "# Mill / shop\n\nA title with a slash.\n",
}
SHOP = {
    "index.md": "Prices of the shop.\n",
    "saw.md": "---\nprice: 12\n---\n# Saw prices\n\nA band saw costs twelve crowns to sharpen.\n",
    "oak.md": "# Oak\n\nOak boards are sold by the metre.\n",
    "memory/till.md": "# Till\n\nThe till of the saw shop opens with a hidden lever.\n",
}
QUESTIONS = ("band saw sharpened", "belt", "BX-7731", "oak boards", "price of a saw", "spare belt attic", "zebra")


class Two:
    """Two folders, their stores below one folder, and whatever is opened over them."""

    def __init__(self, root: Path, **corpora: dict[str, str]) -> None:
        self.root, self._open = root, contextlib.ExitStack()
        self._known: dict[str, Federation | KnowledgeBase] = {}
        for name, files in corpora.items():
            self.write(name, files)
        self.names = list(corpora)

    def write(self, name: str, files: dict[str, str]) -> None:
        for path, text in files.items():
            (self.root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name / path).write_text(text)

    def env(self, *names: str, **more: str) -> dict[str, str]:
        roots = ";".join(f"{name}={self.root / name}" for name in names or self.names)
        db = str(self.root / "stores")
        return {"RAG_MCP_CORPUS_ROOT": roots, "RAG_MCP_DB_PATH": db, "RAG_MCP_EMBEDDER": "hash", **more}

    def config(self, *names: str, **more: object) -> Config:
        return Config.load(self.env(*names), **more)

    def ingest(self, **more: object) -> Two:
        for each in self.config(**more).corpora.values():
            KnowledgeBase.open(each).ingest(IngestOptions())
        return self

    def several(self, *names: str, **more: object) -> Federation:
        return self._opened(Federation, self.config(*names, **more))

    def alone(self, name: str, **more: object) -> KnowledgeBase:
        return self._opened(KnowledgeBase, self.config(**more).corpora[name])

    def _opened(self, kind, config: Config):
        if (known := self._known.get(repr(config))) is None:
            known = self._known[repr(config)] = kind.open(config)
            self._open.callback(known.close)
            known.warm_up()
        return known

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    made = Two(tmp_path_factory.mktemp("several"), mill=MILL, shop=SHOP).ingest()
    yield made
    made.close()


@pytest.fixture
def own(tmp_path):
    made = Two(tmp_path, mill=MILL, shop=SHOP).ingest()
    yield made
    made.close()


def asked(query: str, **more: object) -> SearchRequest:
    return CorporaSearch.parse({"query": query, "confidence": "normal", **more})


def plain(response) -> dict[str, object]:
    return answer_payload(response)


# --- the setting -----------------------------------------------------------------------------------------------------


def test_a_plain_path_is_one_corpus_whatever_signs_it_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "year=2024;notes").mkdir()
    for raw in ("/srv/a=b", "./a=b", "C:\\notes\\a=b", "/srv/a;b=c", "notes", "year=2024;notes"):
        config = Config.load({"RAG_MCP_CORPUS_ROOT": raw})
        assert (str(config.corpus_root), config.corpora) == (str(Path(raw)), {})


def test_names_and_paths_are_read_and_each_has_its_own_store_and_policy(tmp_path):
    policy = f"b={tmp_path / 'b.yaml'}"
    env = {"RAG_MCP_CORPUS_ROOT": " a = ~/x ; b=/y;", "RAG_MCP_DB_PATH": "/s", "RAG_MCP_POLICY": policy}
    config = Config.load(env)
    a, b = config.corpora.values()
    assert (config.corpus_root, a.corpus_root, b.corpus_root) == (None, Path("~/x").expanduser(), Path("/y"))
    assert (a.db_path, b.db_path) == (Path("/s/a"), Path("/s/b"))
    assert (a.policy_path, b.policy_path) == (None, tmp_path / "b.yaml")
    beside = Config.load({**env, "RAG_MCP_DB_PATH": "", "RAG_MCP_POLICY": "/p.yaml"})
    assert {each.policy_path for each in beside.corpora.values()} == {Path("/p.yaml")}
    assert {each.db_path for each in beside.corpora.values()} == {None}, "the usual place beside its folder"
    assert Config.load(env, corpus_root=Path("/z"), policy_path=Path("/p")).corpora == {}, "a flag goes before"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("a=/x;A=/y", "'A' twice"),
        ("a=/x;/y", "'/y' is not name=path"),
        ("a=/x;b=", "'b=' is not name=path"),
        ("=/x", "'' is no name"),
        ("con=/x", "'con' is no name"),
        ("a.b=/x;c=/y", "'a.b' is no name"),
        (f"{'n' * 33}=/x", "is no name"),
        ("a=/x;b=/x", "a and b are one"),
        ("a=/x/deep;b=/x", "one lies in the other"),
        ("a=/x;b=/x/../x/deep", "one lies in the other"),
        ("a=$NOTHING/x", "no variable"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_the_reason(raw, said):
    with pytest.raises(ConfigError, match="RAG_MCP_CORPUS_ROOT") as caught:
        Config.load({"RAG_MCP_CORPUS_ROOT": raw})
    assert said in str(caught.value)


def test_a_policy_of_an_unknown_name_and_a_store_in_place_of_a_folder_of_stores_are_refused(own, tmp_path):
    with pytest.raises(ConfigError, match="RAG_MCP_POLICY names zoo"):
        own.config(policy_path="zoo=/p")
    with pytest.raises(ConfigError, match="is the store of one corpus"):
        Federation.open(own.config(db_path=own.root / "stores" / "mill"))


# --- one answer ------------------------------------------------------------------------------------------------------


WORDS = sorted({word for files in (MILL, SHOP) for text in files.values() for word in text.split() if word.isalnum()})


@given(
    name=st.sampled_from(["mill", "shop"]),
    query=st.sampled_from(QUESTIONS) | st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    more=st.fixed_dictionaries(
        {},
        optional={
            "confidence": st.sampled_from(["strict", "normal"]),
            "k": st.integers(1, 20),
            "max_chars": st.integers(200, 1_000),
            "mode": st.sampled_from(["hybrid", "fts", "vector"]),
            "explain": st.booleans(),
        },
    ),
)
@settings(max_examples=60, deadline=None)
def test_one_corpus_under_a_name_answers_as_alone(two, name, query, more):
    request = asked(query, **more)
    alone, named = two.alone(name).search(request), two.several(name).search(request)
    prefixed = json.loads(json.dumps(plain(alone)))
    for result in prefixed["results"]:
        for place in (result["citation"], *result.get("also_in", ())):
            place["source"] = f"{name}/{place['source']}"
    for near in prefixed.get("nearest", ()):
        near["source"] = f"{name}/{near['source']}"
    assert plain(named) == prefixed


@pytest.mark.parametrize("query", QUESTIONS)
def test_passages_come_in_the_order_of_their_probability_and_each_corpus_keeps_its_own(two, query):
    merged = two.several().search(asked(query, k=20)).results
    for name in two.names:
        own = [
            (r.citation.source, r.citation.chunk_index, r.score)
            for r in two.alone(name).search(asked(query, k=20)).results
        ]
        mine = [r for r in merged if r.citation.source.startswith(f"{name}/")]
        assert [(r.citation.source[len(name) + 1 :], r.citation.chunk_index, r.score) for r in mine] == own
    heads = {name: [r.score for r in merged if r.citation.source.startswith(f"{name}/")] for name in two.names}
    for result in merged:
        name = result.citation.source.partition("/")[0]
        assert result.score == heads[name].pop(0)
        assert all(result.score >= rest[0] for rest in heads.values() if rest)


@given(k=st.integers(1, 20), budget=st.integers(200, 2_000))
@settings(max_examples=25, deadline=None)
def test_a_short_answer_begins_a_long_one_and_the_budget_holds_for_all(two, k, budget):
    base = two.several()
    long, short = (base.search(asked("saw belt", k=n, max_chars=budget)).results for n in (20, k))
    assert short == long[:k]
    assert sum(len(result.text or "") for result in long) <= budget


def test_what_was_found_stays_where_what_is_around_it_does_not_fit_beside_another_corpus(tmp_path):
    notes = {f"{n}.md": f"# Note {n}\n\n{'Salt and tar. ' * 40}\n\n## Owl\n\nThe owl wakes at {n}.\n" for n in range(9)}
    base = Two(tmp_path, one=notes, two={f"z{name}": text for name, text in notes.items()}).ingest().several()
    results = base.search(asked("owl wakes", k=20, max_chars=6_000)).results
    cut = [result for result in results if result.truncated]
    assert cut and all("The owl wakes" in result.text for result in results if result.text)


def test_a_question_is_embedded_once_for_all(two, monkeypatch):
    seen: list[str] = []
    plainly = HashEmbedder.embed_query
    monkeypatch.setattr(HashEmbedder, "embed_query", lambda self, text: seen.append(text) or plainly(self, text))
    with contextlib.closing(Federation.open(two.config())) as base:
        base.warm_up()
        response = base.search(asked("band saw sharpened"))
    assert seen == ["band saw sharpened"]
    assert {result.citation.source.partition("/")[0] for result in response.results} == {"mill", "shop"}


def test_the_argument_corpus_a_path_and_a_property_narrow(two):
    base = two.several()

    def found(**more: object) -> set[str]:
        return {result.citation.source for result in base.search(asked("saw belt oak prices", k=20, **more)).results}

    everything = found()
    assert found(corpus="shop") == {source for source in everything if source.startswith("shop/")} != set()
    assert found(path="mill/parts") == found(path="/mill/parts/**") == {"mill/parts/belt.md"}
    assert found(path="mill") == found(corpus="mill")
    assert found(path="saw.md") == {"mill/saw.md", "shop/saw.md"}
    assert found(where={"owner": "Ines"}) == {"mill/saw.md"}, "no note of the shop has an owner, and that is no fault"
    with pytest.raises(InvalidArgument, match="ownr"):
        found(where={"ownr": "Ines"})
    with pytest.raises(InvalidArgument, match="corpus: .*mill, shop"):
        found(corpus="yard")
    with pytest.raises(InvalidArgument, match="unknown argument"):
        SearchRequest.parse({"query": "saw", "corpus": "mill"})


def test_a_refusal_counts_and_names_what_all_withheld(two):
    request = asked("sharpened prices lever", confidence="strict")
    each = {name: two.alone(name).search(request) for name in two.names}
    merged = two.several().search(request)
    if any(answer.results for answer in each.values()):
        assert merged.status == "OK" and merged.withheld == 0 and not merged.nearest and merged.advice is None
    else:
        assert merged.withheld == sum(answer.withheld for answer in each.values()) > 0
    nothing = two.several().search(asked("zebra", mode="fts"))
    assert (nothing.reason, nothing.results) == ("no_results", ())


def test_a_number_missing_in_one_corpus_only_is_not_missing(two):
    assert two.alone("shop").search(asked("BX-7731")).not_in_documents
    assert not two.several().search(asked("BX-7731")).not_in_documents
    assert two.several().search(asked("QQ-4242 belt")).not_in_documents


def test_only_what_no_corpus_answers_is_noted_as_a_gap(two, tmp_path):
    log = tmp_path / "gaps"
    base = two.several(gap_log=log)
    base.search(asked("oak boards"))
    assert not log.exists()
    base.search(asked("zebra", mode="fts"))
    assert len(log.read_text().splitlines()) == 1


# --- documents -------------------------------------------------------------------------------------------------------


def test_a_document_opens_by_its_place_or_by_a_name_that_is_one_documents(two):
    base = two.several()

    def opened(source: str):
        return base.get_document(DocumentRequest.parse({"source": source}))

    belt = opened("mill/parts/belt.md")
    assert (belt.source, belt.backlinks) == ("mill/parts/belt.md", ("mill/saw.md",))
    assert opened("[[belt]]") == opened("mill/belt") == belt
    assert [link.source for link in opened("mill/saw.md").links] == ["mill/parts/belt.md"]
    assert opened("Mill / shop").source == "mill/life/work.md", "a title that begins like a corpus"
    with pytest.raises(NotFound) as caught:
        opened("saw.md")
    assert set(caught.value.nearest) == {"mill/saw.md", "shop/saw.md"}
    with pytest.raises(NotFound) as caught:
        opened("shop/indexes.md")
    assert "shop/index.md" in caught.value.nearest
    for hidden in ("shop/memory/till.md", "Till", "shop/memory/none.md"):
        with pytest.raises(NotFound) as caught:
            opened(hidden)
        assert not any("till" in near for near in caught.value.nearest)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
def test_pages_join_to_the_list_of_each(two, limit):
    base, cursor, seen = two.several(), None, []
    for _ in range(20):
        page = base.list_documents(CorporaList.parse({"limit": limit, "cursor": cursor}))
        assert len(page.documents) <= limit
        seen += [entry.source for entry in page.documents]
        if (cursor := page.next_cursor) is None:
            break
    each = {name: two.alone(name).list_documents(ListRequest()).documents for name in two.names}
    assert seen == [f"{name}/{entry.source}" for name in two.names for entry in each[name]]


def test_a_list_is_narrowed_like_a_search(two):
    base = two.several()

    def listed(**more: object) -> list[str]:
        return [entry.source for entry in base.list_documents(CorporaList.parse(more)).documents]

    assert listed(corpus="shop") == listed(prefix="shop") == ["shop/index.md", "shop/oak.md", "shop/saw.md"]
    assert listed(prefix="mill/parts") == listed(linked_to="mill/saw.md", prefix="mill/parts") + ["mill/parts/belt.md"]
    assert listed(linked_to="mill/parts/belt.md") == ["mill/saw.md"]
    assert listed(corpus="shop", prefix="mill/parts") == []
    assert listed(where={"price": 12}) == ["shop/saw.md"]
    with pytest.raises(NotFound):
        listed(linked_to="mill/none.md")
    first = base.list_documents(CorporaList(limit=1)).next_cursor
    with pytest.raises(InvalidArgument, match="cursor"):
        listed(corpus="shop", cursor=first)


# --- what each is, and what is wrong with it --------------------------------------------------------------------------


def test_each_corpus_is_presented_with_its_description(two):
    base = two.several(description="All of the valley.")
    told = contract.instructions(base.about())
    assert told.endswith('"All of the valley."; mill: "Notes of the saw mill."; shop: "Prices of the shop.".')
    inventory = answer_payload(base.list_sources())
    mill, shop = inventory["corpora"]
    assert (mill["name"], mill["description"], mill["files"]) == ("mill", "Notes of the saw mill.", 4)
    assert inventory["classes"]["docs"]["files"] == mill["files"] + shop["files"] == 7
    assert [each["name"] for each in answer_payload(base.list_sources(CorporaSources("shop")))["corpora"]] == ["shop"]
    status = answer_payload(base.status())
    assert status["healthy"] and status["integrity"]["shop"]["generation"] == 1
    assert status["inventory"]["docs"]["files"] == 7


@pytest.mark.parametrize("harm", ["missing", "damaged", "policy"])
def test_a_corpus_that_can_not_answer_is_said_and_the_other_answers(own, harm):
    config = own.config()
    if harm == "missing":
        (own.root / "stores" / "shop").rename(own.root / "away")
    elif harm == "damaged":
        for name in (own.root / "stores" / "shop" / "generations").glob("*/manifest.sqlite"):
            name.write_text("{")
    else:
        (own.root / "shop.yaml").write_text("deny: [")
        config = own.config(policy_path=f"shop={own.root / 'shop.yaml'}")
    with contextlib.closing(Federation.open(config)) as base:
        response = base.search(asked("band saw sharpened"))
        assert response.status == "OK" and response.degraded
        assert {result.citation.source.partition("/")[0] for result in response.results} == {"mill"}
        assert plain(response)["degraded_reason"].startswith("corpus shop: ")
        assert str(own.root) not in json.dumps(plain(response))
        page = base.list_documents(ListRequest())
        assert page.degraded_reason.startswith("corpus shop: ") and len(page.documents) == 4
        assert base.get_document(DocumentRequest("mill/saw.md")).title == "Saw"
        mill, shop = base.list_sources().corpora
        assert mill.problem is None and shop.problem
        status = base.status()
        assert not status.ok and "corpus shop: " in status.degraded_reason
        with pytest.raises(type(_error(base, "shop"))):
            base.get_document(DocumentRequest("shop/saw.md"))
        assert base.about()[0].description == "Notes of the saw mill."


def _error(base: Federation, corpus: str) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one it is, is what is asked
        base.search(asked("saw", corpus=corpus))
    return caught.value


def test_with_no_corpus_left_the_error_is_the_answer(tmp_path):
    base = Federation.open(Two(tmp_path, mill=MILL, shop=SHOP).config())
    with pytest.raises(StoreAbsent, match="stores/mill"):
        base.search(asked("saw"))
    with pytest.raises(StoreAbsent):
        base.list_sources()


# --- access ----------------------------------------------------------------------------------------------------------


def test_nothing_hidden_in_one_corpus_changes_a_byte_of_any_answer(own):
    """With a policy that hides by class, by rule and by the file itself, against the same folders without these files."""
    (own.root / "mill.yaml").write_text('deny: ["private/"]\n')
    policies = f"mill={own.root / 'mill.yaml'}"
    hidden = {
        "private/saw.md": "# Saw secrets\n\nThe band saw is sharpened by the tin man, price 99.\n",
        "memory/belt.md": "# Belt\n\nThe belt BX-7731 and oak boards, QQ-4242 zebra.\n",
        "shut.md": "---\naccess: none\nowner: Mo\n---\n# Shut\n\nBand saw belt oak zebra [[saw]].\n",
        "memory/owner.md": "---\nowners: Mo\nowner: Ines\ntags: [tool]\ndate: 2031-05-06\n---\nBand saw of [[belt]]. #tool\n",
    }
    own.ingest(policy_path=policies)
    before = _everything(own, policies)
    own.write("mill", hidden)
    own.ingest(policy_path=policies)
    assert _everything(own, policies) == before
    own.ingest()
    assert "tin man" in json.dumps(plain(own.several().search(asked("tin man")))), "the policy is what hides it"


NARROWED = (
    {"tags": "tool"},
    {"path": "mill/memory"},
    {"path": "**/*e*.md"},
    {"since": "2031-05-06"},
    {"until": "2031-05-05"},
    {"where": {"owner": "Ines"}},
    {"where": {"owners": "Mo"}},
    {"where": {"owne": "Mo"}},
)


def _everything(two: Two, policies: str) -> str:
    base = two.several(policy_path=policies)
    answers: list[object] = [
        plain(base.search(asked(query, confidence=gate)))
        for query in (*QUESTIONS, "QQ-4242")
        for gate in ("strict", "normal")
    ]
    for source in ("saw.md", "mill/private/saw.md", "mill/memory/belt.md", "Shut", "belt", "mill/shut"):
        try:
            answers.append(answer_payload(base.get_document(DocumentRequest(source))))
        except NotFound as error:
            answers.append(contract.error_payload(error))
    for narrowed, corpus in itertools.product(NARROWED, (None, "mill", "shop")):
        for call in (
            lambda more: base.search(asked("band saw of the belt", **more)),
            lambda more: base.list_documents(CorporaList.parse(more)),
        ):
            try:
                answers.append(answer_payload(call({**narrowed, "corpus": corpus})))
            except InvalidArgument as error:
                answers.append(contract.error_payload(error))
    linked = [CorporaList.parse({"linked_to": "mill/parts/belt.md", "corpus": name}) for name in (None, "mill")]
    answers += [answer_payload(base.list_documents(each)) for each in linked]
    answers += [answer_payload(base.list_documents(ListRequest())), answer_payload(base.list_sources())]
    answers += [contract.instructions(base.about()), answer_payload(base.status())["inventory"]]
    text = json.dumps(answers)
    for changing in ('"generation": 1', '"generation": 2', '"generation": 3'):
        text = text.replace(changing, '"generation": 0')
    return "".join(part if i % 2 == 0 else "" for i, part in enumerate(_without_times(text)))


def _without_times(text: str) -> list[str]:
    import re

    return re.split(r"(\d{4}-\d\d-\d\dT[0-9:+]+)", text)


def test_a_class_that_one_policy_gives_is_searched_there_alone(own):
    policy = own.root / "shop.yaml"
    policy.write_text("profiles: {keeper: {classes: [docs, memory]}}\n")
    base = own.several(policy_path=f"shop={policy}", profile="keeper")
    given = base.search(asked("till lever saw", source_class="memory"))
    assert {result.citation.source for result in given.results} == {"shop/memory/till.md"}
    assert given.coverage.queried == ("memory",) and given.coverage.skipped_by_acl == ()
    refused = own.several().search(asked("till lever saw", source_class="memory"))
    assert (refused.reason, refused.coverage.skipped_by_acl, refused.nearest) == ("acl_denied", ("memory",), ())


# --- the front doors -------------------------------------------------------------------------------------------------


def test_a_client_finds_the_argument_only_where_there_are_several(two):
    with RawServer(env=two.env()) as server:
        assert 'mill: "Notes of the saw mill."' in server.initialize()["result"]["instructions"]
        tools = {tool["name"]: tool for tool in server.ask("tools/list", {}, id=2)["result"]["tools"]}
        takes = {name for name, tool in tools.items() if "corpus" in tool["inputSchema"]["properties"]}
        assert takes == {"search_knowledge", "list_documents", "list_knowledge_sources"}
        found = server.call("search_knowledge", {"query": "oak boards", "confidence": "normal", "corpus": "shop"}, id=3)
        assert found["results"][0]["citation"]["source"] == "shop/oak.md"
        assert server.call("get_document", {"source": "shop/oak.md"}, id=4)["ok"]
        refused = server.call("search_knowledge", {"query": "oak", "corpus": "yard"}, id=5)
        assert refused["error"]["type"] == "invalid_argument" and "mill, shop" in refused["error"]["message"]
        assert server.call("rag_status", {}, id=6)["healthy"]
    one = {
        **two.env(),
        "RAG_MCP_CORPUS_ROOT": str(two.root / "mill"),
        "RAG_MCP_DB_PATH": str(two.root / "stores" / "mill"),
    }
    with RawServer(env=one) as server:
        server.initialize()
        for tool in server.ask("tools/list", {}, id=2)["result"]["tools"]:
            assert (
                "corpus" not in tool["inputSchema"]["properties"]
                and "corpora" not in tool["outputSchema"]["properties"]
            )


def test_the_commands_go_over_all_and_name_each(tmp_path):
    two = Two(tmp_path, mill=MILL, shop={})
    env = two.env()
    done = forked_cli("ingest", env=env)
    assert done.returncode == 1 and "mill:\ndone: 4 files seen" in done.stdout
    assert "rag-mcp: shop: " in done.stderr, "and the failure of one stops no other"
    two.write("shop", SHOP)
    lines = [json.loads(line) for line in forked_cli("ingest", "--json", env=env).stdout.splitlines()]
    assert [(line["corpus"], line["ok"], line["generation"]) for line in lines] == [
        ("mill", True, 1),
        ("shop", True, 1),
    ]
    for command in ("status", "verify", "doctor"):
        said = forked_cli(command, env=env)
        assert said.returncode == 0 and said.stdout.index("mill:\n") < said.stdout.index("shop:\n")
        assert "mill:\n" not in forked_cli(command, "--only", "shop", env=env).stdout
    needs_one = forked_cli("rollback", env=env)
    assert needs_one.returncode == 2 and "--only" in needs_one.stderr and "mill, shop" in needs_one.stderr
    assert "nothing older is kept" in forked_cli("rollback", "--only", "shop", env=env).stderr
    found = cli_json("query", "oak boards", "--confidence", "normal", "--json", env=env)
    assert found["results"][0]["citation"]["source"] == "shop/oak.md"
    narrowed = cli_json("query", "saw", "--only", "mill", "--confidence", "normal", "--json", env=env)
    assert {result["citation"]["source"].partition("/")[0] for result in narrowed["results"]} == {"mill"}


def test_a_host_is_given_the_same_corpora(tmp_path):
    two = Two(tmp_path, mill=MILL, shop=SHOP)
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\n")
    env = {**two.env(), "RAG_MCP_POLICY": f"shop={policy}"}
    file = tmp_path / "host.json"
    for expected in ("added", "already so"):
        done = forked_cli("client-config", "--write", "--file", file, env=env)
        assert expected in done.stdout + done.stderr
    (name,) = json.loads(file.read_text())["mcpServers"]
    assert name == "rag-mcp-mill-shop"
    passed = json.loads(file.read_text())["mcpServers"][name]["env"]
    assert Config.load(passed).corpora == Config.load(env).corpora
    without = {key: value for key, value in env.items() if key != "RAG_MCP_DB_PATH"}
    for _ in range(2):
        forked_cli("client-config", "--write", "--file", file, env=without)
    assert len(json.loads(file.read_text())["mcpServers"]) == 2, "stores beside the folders are other stores, once"


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (None, {"a": None, "b": None}),
        ("a", {"a": None}),
        ("a/x/y", {"a": "x/y"}),
        ("/b/**", {"b": "**"}),
        ("x/a", {"a": "x/a", "b": "x/a"}),
        ("ab/x", {"a": "ab/x", "b": "ab/x"}),
    ],
)
def test_a_place_leads_to_its_corpus(place, found):
    assert addressed(place, ["a", "b"]) == found
    assert replace(ListRequest(), path=place).path == place

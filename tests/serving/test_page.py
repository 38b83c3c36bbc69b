"""The page's door: signing in and out, where it is served, and what a browser is told with every answer."""

from __future__ import annotations

import contextlib
import os
import re
from types import SimpleNamespace

import pytest
from governed import governed
from http_daemon import Daemon, Place
from page_site import HOST, Site

from rag_mcp.config import Config
from rag_mcp.errors import ConfigError
from rag_mcp.server.http.life import Running, life_of
from rag_mcp.server.http.process import beside, listening
from rag_mcp.server.http.tokens import Token, digest_of
from rag_mcp.server.page.headers import PAGE_SECURITY
from rag_mcp.server.page.registry import VIEWS
from rag_mcp.server.page.sessions import LIFE_S, Sessions

PATHS = ("/", "/page", "/page/login", "/page/style.css", "/page/nowhere", *(f"/page/{view.name}" for view in VIEWS))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with governed(tmp_path_factory.mktemp("page")) as library:
        yield library


@pytest.fixture(scope="module")
def signed_in(site):
    return site.signed_in("engineer", "reader")


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_ends_after_eight_hours_with_its_token_and_when_told_to():
    now = [0.0]
    token = Token("laptop", "engineer", digest_of("s"), "")
    sessions = Sessions(clock=lambda: now[0])
    first, second, third = (sessions.begin(token) for _ in range(3))
    assert len({first, second, third}) == 3 and all(len(each) == 43 for each in (first, second, third))
    assert sessions.holder(first, [token]) is token and sessions.holder(first + "x", [token]) is None
    sessions.end(first)
    assert sessions.holder(first, [token]) is None
    assert sessions.holder(second, []) is None and sessions.holder(second, [token]) is None
    now[0] = LIFE_S - 1.0
    assert sessions.holder(third, [token]) is token
    now[0] = float(LIFE_S)
    assert sessions.holder(third, [token]) is None


def test_there_are_so_many_sessions_and_the_oldest_gives_way():
    token = Token("laptop", "engineer", digest_of("s"), "")
    sessions = Sessions(most=2)
    ids = [sessions.begin(token) for _ in range(3)]
    assert [sessions.holder(each, [token]) is not None for each in ids] == [False, True, True]


# --- signing in -------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_to_who_is_not_signed_in(site):
    client = site.client()
    for view in VIEWS:
        reply = client.get(f"/page/{view.name}", params={"query": "harbour"})
        assert reply.status_code == 303 and not reply.content
        assert reply.headers["location"] == f"/page/login?next=%2Fpage%2F{view.name}%3Fquery%3Dharbour"
    assert client.get("/page/nowhere").status_code == 303  # which pages there are is no news either


def test_a_token_opens_a_session_and_the_page_goes_on_where_it_was_wanted(site):
    client, secret = site.client(), site.token("engineer", "opens")
    asked = "/page/ask?query=harbour"
    assert f'value="{asked}"' in client.get("/page/login", params={"next": asked}).text
    reply = client.post("/page/login", data={"token": f" {secret}\n", "next": asked}, headers={"Origin": HOST})
    assert (reply.status_code, reply.headers["location"]) == (303, asked)
    cookie = reply.headers["set-cookie"]
    name, _, value = cookie.partition(";")[0].partition("=")
    assert name == "rag_mcp_8377" and re.fullmatch(r"[\w-]{43}", value) and value != secret
    assert {each.strip().lower() for each in cookie.split(";")[1:]} == {
        *("httponly", "samesite=strict", "path=/page", f"max-age={LIFE_S}")
    }
    shown = client.get(asked)
    assert shown.status_code == 200 and "token opens" in shown.text and secret not in shown.text


def test_a_cookie_that_leaves_the_machine_goes_over_tls_alone(site):
    far = site.client("https://notes.example.org")
    reply = far.post("/page/login", data={"token": site.token("engineer", "far")})
    assert "; Secure" in reply.headers["set-cookie"]


@pytest.mark.parametrize("wrong", ["", "x" * 43, "\0", "é" * 20, "x" * 10_000])
def test_a_wrong_token_opens_nothing_and_is_not_repeated(site, wrong):
    client = site.client()
    reply = client.post("/page/login", data={"token": wrong})
    assert reply.status_code == 401 and "set-cookie" not in reply.headers and 'role="alert"' in reply.text
    assert not wrong or wrong not in reply.text
    assert client.get("/page/ask").status_code == 303


def test_a_login_is_a_post_and_no_address_holds_a_token(site):
    client, secret = site.client(), site.token("engineer", "posted")
    assert "set-cookie" not in client.get("/page/login", params={"token": secret}).headers
    assert client.post(f"/page/login?token={secret}").status_code == 401
    assert client.get("/page/ask", headers={"Authorization": f"Bearer {secret}"}).status_code == 303


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "/page/\\evil", "javascript:alert(1)", "/mcp", "ask"]
    + ["/page/ask\r\nSet-Cookie: x=y", "/page/../mcp\n", "/page//evil.example\x00"],
)
def test_signing_in_leads_to_no_other_place(site, elsewhere):
    client = site.client()
    reply = client.post("/page/login", data={"token": site.token("engineer"), "next": elsewhere})
    assert (reply.status_code, reply.headers["location"]) == (303, "/page/ask")
    assert "evil" not in client.get("/page/login", params={"next": elsewhere}).text


def test_a_session_ends_with_the_token_and_with_signing_out(site):
    first, second = site.signed_in("engineer", "first"), site.signed_in("engineer", "second")
    assert first.get("/page/ask").status_code == second.get("/page/ask").status_code == 200
    site.tokens.remove("first")
    assert first.get("/page/ask").status_code == 303
    kept = second.cookies["rag_mcp_8377"]
    reply = second.post("/page/logout")
    assert reply.status_code == 303 and 'rag_mcp_8377=""' in reply.headers["set-cookie"]
    again = site.client()
    again.cookies.set("rag_mcp_8377", kept)
    assert again.get("/page/ask").status_code == 303


def test_signing_in_anew_ends_the_session_before(site):
    client = site.signed_in("engineer", "before")
    old = client.cookies["rag_mcp_8377"]
    client.post("/page/login", data={"token": site.token("restricted", "after")})
    assert "profile <strong>restricted" in client.get("/page/ask").text
    other = site.client()
    other.cookies.set("rag_mcp_8377", old)
    assert other.get("/page/ask").status_code == 303


@pytest.mark.parametrize("path", ["/page/login", "/page/logout"])
def test_a_form_of_another_page_is_refused(site, path):
    client = site.signed_in("engineer")
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://rag-mcp.localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        reply = client.post(path, data={"token": "x"}, headers=headers)
        assert (reply.status_code, reply.json()["error"]) == (403, "forbidden_origin")
    assert client.get("/page/ask").status_code == 200


def test_a_session_calls_no_tool_and_a_form_may_be_small(site):
    client = site.signed_in("auditor")
    assert client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 401
    assert client.post("/page/login", content=b"x" * 20_000).status_code == 413
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.request(method, "/page/ask").status_code == 405
    assert client.post("/page/ask").status_code == 405


# --- where it is served -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_the_page_goes_by_a_name_of_its_own(site, name):
    reply = site.client(f"http://{name}:8377").get("/page/ask?query=harbour")
    assert (reply.status_code, reply.headers["location"]) == (307, f"{HOST}/page/ask?query=harbour")


def test_the_front_door_leads_to_ask_and_the_rest_stays_as_it_is(site, signed_in):
    for path in ("/", "/page", "/page/"):
        assert (signed_in.get(path).status_code, signed_in.get(path).headers["location"]) == (303, "/page/ask")
    for path in ("/pages", "/pagex", "/.well-known/oauth-protected-resource", "/register", "/login"):
        reply = signed_in.get(path)
        assert (reply.status_code, reply.json()) == (404, {"error": "not_found"})


def test_every_answer_of_the_page_says_what_it_may_do(site, signed_in):
    client = site.client()
    replies = [each.get(path) for each in (client, signed_in) for path in PATHS]
    replies += [client.post("/page/login", data={"token": "x"}), signed_in.head("/page/ask")]
    replies += [site.client("http://localhost:8377").get("/page/ask")]
    for reply in replies:
        assert {name: reply.headers[name] for name in PAGE_SECURITY} == dict(PAGE_SECURITY)
    refused = [client.post("/page/ask"), client.get("/page/ask", headers={"Host": "evil.example"}), client.get("/none")]
    for reply in refused:
        assert reply.headers["cache-control"] == "no-store" and reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_no_page_needs_more_than_it_may_load(signed_in):
    for path in PATHS[2:]:
        text = signed_in.get(path, params={"query": "harbour"}).text
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=|<iframe|<object|<base|https?://(?!rag)", text)
        assert set(re.findall(r'(?:src|href)="(/[^"]*\.(?:css|svg|js))"', text)) <= {
            "/page/style.css",
            "/page/icon.svg",
        }


# --- without tokens ---------------------------------------------------------------------------------------------------


def test_without_tokens_everybody_is_restricted_and_nobody_signs_in(library, tmp_path):
    with Site(library, tmp_path / "tokens.json", open_to_all=True).running() as site:
        client = site.client()
        shown = client.get("/page/ask", params={"query": "harbour", "k": "20", "confidence": "normal"})
        assert shown.status_code == 200 and "profile <strong>restricted" in shown.text
        assert "docs/guide.md" in shown.text and "journal/monday.md" not in shown.text
        client.cookies.set("rag_mcp_8377", "made-up")
        assert "profile <strong>restricted" in client.get("/page/ask").text
        assert "profile <strong>auditor" in site.signed_in("auditor").get("/page/ask").text


def test_a_server_has_no_page_unless_it_is_told_to(library, tmp_path):
    from rag_mcp.server.http.app import App

    with Site(library, tmp_path / "tokens.json").running() as site:
        site._guard._app = App(site.page._gate, site.profiles)
        for path in PATHS:
            assert site.client().get(path).json() == {"error": "not_found"}


# --- a real server ----------------------------------------------------------------------------------------------------


def test_a_served_page_is_found_signed_in_to_and_logs_no_word(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("served")).fill()
    secret, name = place.token("engineer"), "rag-mcp.localhost"
    env = {**place.settings, "RAG_MCP_LOG_LEVEL": "debug"}
    with Daemon(SimpleNamespace(settings=env, token_file=place.token_file), "--page") as daemon:
        found = place.run("page", "--no-open")
        assert found.stdout == f"http://{name}:{daemon.port}/page\n"
        host = f"{name}:{daemon.port}"
        form = {"Content_Type": "application/x-www-form-urlencoded", "Host": host, "Origin": f"http://{host}"}
        reply = daemon.send(f"token={secret}".encode(), path="/page/login", **form)
        assert reply.status == 303
        cookie = reply.headers["set-cookie"].partition(";")[0]
        assert cookie.startswith(f"rag_mcp_{daemon.port}=")
        asked = daemon.send(method="GET", path="/page/ask?query=teal+quuxword", Host=host, Cookie=cookie)
        assert asked.status == 200 and b"docs/gate.md" in asked.body and b"memory/private.md" not in asked.body
        assert "server" not in asked.headers and daemon.send(method="HEAD", path="/page/login", Host=host).body == b""
        place.run("token", "remove", "engineer", "--tokens", place.token_file)
        assert daemon.send(method="GET", path="/page/ask", Host=host, Cookie=cookie).status == 303
        daemon.end()
        log = daemon.stderr
    assert "search_knowledge OK" in log and not [word for word in (secret, "quuxword", cookie) if word in log]


def test_the_page_leaves_no_address_of_its_name_to_others():
    """Browsers may try [::1] first for a name under localhost."""
    for host, other in (("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("0.0.0.0", "::1")):
        with contextlib.ExitStack() as stack:
            try:
                own = stack.enter_context(listening(host, 0))
                taken = stack.enter_context(listening(other, own.getsockname()[1]))
            except ConfigError:
                pytest.skip("this machine has no IPv6")
            port = own.getsockname()[1]
            with pytest.raises(ConfigError, match=f"Port {port} of {other} is taken"):
                beside(host, port)
            taken.close()
            found = [stack.enter_context(each).getsockname()[:2] for each in beside(host, port)]
            assert found == [(other, port)]
    assert beside("::", 0) == []


def test_a_server_without_a_page_is_told_apart_from_none(tmp_path):
    place = Place(tmp_path)
    place.settle()
    life = life_of(Config.load(place.settings), place.settings)
    there = {"pid": os.getpid(), "host": "127.0.0.1", "port": 8377, "version": "1", "settings": "", "key": ""}
    told = place.run("page")
    assert told.returncode == 1 and "No server of this store runs. Start one: rag-mcp serve --page" in told.stderr
    with life.held():
        life.announce(Running(**there))
        assert "has no page" in place.run("page").stderr
        life.announce(Running(**there, page=True))
        assert place.run("page", "--json").stdout == '{"ok": true, "url": "http://rag-mcp.localhost:8377/page"}\n'

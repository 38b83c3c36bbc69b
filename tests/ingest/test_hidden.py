"""What no reader of the rendered page sees is not indexed; code is text, and line numbers stay."""

from __future__ import annotations

import time

import pytest
from support import keeps_pace

from rag_mcp.text.blocks import code_ranges
from rag_mcp.text.chunking import chunk_text
from rag_mcp.text.embedded import embedded_text
from rag_mcp.text.hidden import hide
from rag_mcp.text.marks import HIDDEN_MARK

SECRET = "the gander is lame"


def shown(text: str) -> str:
    return hide(text, 0, code_ranges)


@pytest.mark.parametrize(
    "text",
    [
        "<!-- {} -->",
        "<!--\n{}\n\nand more\n-->",
        "Before <!-- {} --> behind.",
        "Before <!-- a\n{} --> behind.",
        "Before <!-- a\n\n{}\n\n--> behind.",
        "<!-- {}",
        "Before <!-- {}",
        "> <!-- a\n> {} -->",
        "- item\n  <!-- {} -->",
        "1. item <!-- {} -->",
        "| a <!-- {} --> | b |\n|---|---|\n| c | d |",
        "# Heading <!-- {} -->",
        "<div>\n<!-- {} -->\n</div>",
        "<!--\n```\n{}\n-->\n\ntext\n\n<!-- {} -->",
        "%%{}%%",
        "Before %%{}%% behind.",
        "Before %% {} %% behind.",
        "%%\n{}\n\nmore\n%%",
        "%%\n```\n{}\n%%\n\ntext\n\n%%{}%%",
        "Before %%a\n\n{}%% behind.",
        "%%\n{}\n\nto the end",
        "Ninety 90%%{}%% percent",
        "[//]: # ({})",
        '[//]: # "{}"',
        "[//]: # '{}'",
        "[//]: <> ({})",
        "[//]: # (over\n{})",
        "[//]: #\n({})",
        "[//]: # {}",
        "[//]: # (with (brackets)\n{})",
        "[comment]: <> ({})",
        "[COMMENT]: # ({})",
        "[^_^]: # ({})",
        "[note]: # ({})",
        "[{}]: #",
        "[]: # ({})",
        "  [//]: # ({})",
        "> [//]: # ({})",
        "text\n[//]: # ({})",
        "<script>\n{}\n\nx\n</script>",
        "<SCRIPT type='a'>{}</SCRIPT >",
        "<script>\n\n{}",
        "<style>p {{ content: '{}' }}</style>",
        "<template><p>{}</p></template>",
        "<div hidden>\n\n{}\n\n</div>",
        "<div hidden><div>x</div>{}</div>",
        '<span style="color: red; display: none">{}</span>',
        '<span style="visibility:hidden">{}</span>',
        "<p hidden>{}",
        '<input type="hidden" value="{}">',
        '<meta name="note" content="{}">',
        "<?note {} ?>",
        "<![CDATA[{}]]>",
        "<!NOTE {}>",
        "{{{{< comment >}}}}\n{}\n\nx\n{{{{< /comment >}}}}",
        "{{{{% comment %}}}}{}{{{{% /comment %}}}}",
        "{{% comment %}}\n```\n{}\n{{% endcomment %}}\n\n<!-- {} -->",
        "{{{{/* {} */}}}}",
        "{{{{!-- {} --}}}}",
        "{{# {} #}}",
        "{{/* {} */}}",
        "#+BEGIN_COMMENT\n{}\n#+END_COMMENT",
        "`` a ` b ``<!-- {} -->",
        "a ` b\n<!-- {} -->\n` c",
        "a ` b\n\n<!-- ` {} -->",
        "```\ncode\n```\n<!-- {} -->",
        "* a\n\n      <!-- code -->\n\n* <!-- {} -->",
    ],
)
def test_what_the_page_does_not_show_is_left_out_and_marked(text: str) -> None:
    text = f"First line.\n\n{text.format(SECRET, SECRET) if '{}' in text else text}"
    found = shown(text)
    assert SECRET not in found
    assert HIDDEN_MARK in found
    assert found.count("\n") == text.count("\n")
    assert found.startswith("First line.\n")


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<!-- {} -->\n```",
        "~~~\n%%{}%%\n~~~",
        "```\n<!-- {}",
        "`<!-- {} -->`",
        "`` ` <!-- {} --> ``",
        "`a\n<b> {} <!-- x -->`",
        "text\n\n    <!-- {} -->",
        "- item\n\n  ```\n  [//]: # ({})\n  ```",
        "> ```\n> <script>{}</script>\n> ```",
        "\\<!-- {} -->",
        "Use `<!--` to begin. {}\n\nAnd `-->` to end.",
        "Printf takes %% for a mark. {}\n\nSo does %% here.",
        "It is 90%% sure. {}\nAnd 80%% more.",
        "[link]: http://duck.example '{}'",
        "[^1]: # {}",
        "[x] {}: # (y)",
        "<details hidden-not>{}</details>",
        '<a title="a hidden pond">{}</a>',
        "Give it a <script> tag. {}",
        "run <template> {}\n\nmore",
        "the <base> of {}",
        "a < b and {} > c",
        "what <? {}",
        "{{{{< note >}}}}{}{{{{< /note >}}}}",
        "{{#anchor}} {}",
        "<!-- a --> {} <!-- b -->",
        "%%a%% {} %%b%%",
        "Begin with <!-- here.\n\n{}\n\n<!-- b -->",
        "Begin with <!-- here.\n\n{}\n\n```\n-->\n```",
    ],
)
def test_what_the_page_shows_stays(text: str) -> None:
    assert SECRET in shown(text.format(SECRET))


def test_a_text_without_marks_and_a_head_are_as_they_were() -> None:
    text = "<!-- note -->\n---\ntitle: a\n---\nPlain *text* with `code`, 5 < 6.\n"
    assert hide(text, text.index("Plain"), code_ranges) == text


def test_the_mark_is_no_heading_no_name_and_no_word_of_the_embedded_text() -> None:
    text = shown("# Geese <!-- x -->\n\n<!-- y\n-->\n---\n\nThey graze.\n\n%%z%%\n===\n\nAt dusk.\n")
    (passage,) = chunk_text(text, count=len)
    assert passage.heading_path == ("Geese",)
    assert passage.text.count(HIDDEN_MARK) == 3
    embedded = embedded_text("Geese", passage.heading_path, passage.shown)
    assert embedded.startswith("Geese\n\n")
    assert "comment" not in embedded


SHAPES = (
    "<!-- ", "a <!-- \n\n", "%%", "%% ", "\n%%x\n\n", "a%%b c\n\n", "`", "`` ` ", "[", "[//]: # (\n", "[a]: # \"\n", "[a]:\n", "<a",
    "<div hidden>", "<div hidden>\n\n", "<p>", "<script>", "\n<script>\n", "<?a", "<![CDATA[", "<!a\n\n", "<!", "{{/*", "{% comment %}\n", "{# ",
    "\n> ", "\\", "-->", "<!---->", "<a style=", " style=display ", "\n\n    x", "\n```\n", "#+begin_comment\n", "{{< comment >}}\n",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("end", ["", ">\n\n-->\n```\n%%\n"])
def test_hiding_takes_linear_time(shape: str, end: str) -> None:
    def seconds(size: int) -> float:
        text = shape * (size // len(shape)) + end
        ranges = code_ranges(text[:0])
        started = time.process_time()
        hide(text, 0, lambda _: ranges)
        return time.process_time() - started

    assert keeps_pace(seconds, 20_000, at_most=24, floor=0.002)

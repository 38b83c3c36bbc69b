"""Non-interference, on the page: what a profile may not see changes no byte of any view, as of no tool's answer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from governed import CLASSES, PROFILES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_site import Site, looked_at
from test_non_interference import (
    CANARIES,
    FILTERS,
    FOLDERS,
    HIDDEN_FROM,
    NAMES,
    PHASES,
    hidden_files,
    queries,
    store_of,
    visible_files,
)

from rag_mcp.server.page.registry import VIEWS

Pages = list[tuple[str, dict[str, Any]]]


def every_view(questions: list[str], paths: list[str]) -> Pages:
    """Each view with these questions, paths and filters; one that knows none of them is looked at all the same."""
    pages: Pages = [(view.name, {}) for view in VIEWS]
    pages += [(view.name, {"query": questions[0], "source": paths[0]}) for view in VIEWS]
    # Strict is asked twice, so it shows what normal would.
    pages += [("ask", {"query": question, "k": "20"}) for question in questions]
    pages += [("ask", {"query": questions[0], "source_class": name, "confidence": "normal"}) for name in CLASSES]
    pages += [("document", {"source": path}) for path in (*paths, *NAMES)]
    pages += [("series", {"source": path}) for path in paths]
    pages += [("series", {"source_class": name}) for name in CLASSES]
    pages += [("documents", {"source_class": name, "limit": "2"}) for name in ("all", *CLASSES)]
    pages += [("documents", {"linked_to": name}) for name in NAMES[:3]]
    pages += [("documents", {"prefix": prefix}) for prefix in ("docs", "docs/denied", "journal")]
    for each in FILTERS:
        fields = {name: ",".join(value) if isinstance(value, list) else value for name, value in each.items()}
        if isinstance(each.get("where"), dict):
            fields["where"] = "; ".join(f"{key}={value}" for key, value in each["where"].items())
        pages += [("ask", {**fields, "query": questions[-1], "confidence": "normal"}), ("documents", fields)]
    return pages


def assert_no_view_differs(
    profile: str, visible: dict[str, str], hidden: dict[str, str | bytes], questions: list[str]
) -> None:
    copied = next(iter(visible.values()))
    hidden = {path: copied if text == "COPY" else text for path, text in hidden.items() if path not in visible}
    pages = every_view(questions, sorted({*visible, *hidden, "docs/never-was.md"}))
    shown = []
    with tempfile.TemporaryDirectory() as where:
        for name, files in (("alone", dict(visible)), ("beside", {**visible, **hidden})):
            with (
                store_of(Path(where, name), files) as library,
                Site(library, Path(where, f"{name}.json")).running() as site,
            ):
                shown.append(looked_at(site, profile, pages))
    for page, mine, other in zip(pages, *shown, strict=True):
        assert mine == other, page
        # What was asked stands in the form, and nowhere else.
        asked = " ".join(map(str, page[1].values())).lower()
        assert not [canary for canary in CANARIES if canary in other.lower() and canary not in asked]
        assert where not in other


@pytest.mark.parametrize("profile", sorted(HIDDEN_FROM))
def test_nothing_hidden_changes_a_byte_of_any_page(profile):
    """Hidden: a longer series, copies, a project, links, names, tags and properties beside those that may be seen."""
    classes = sorted(PROFILES[profile][0])
    days = [f"log-2031-05-0{day}.md" for day in (1, 2, 3, 4)]
    log = "# Log\n\n## Gauge\n\nThe tide gauge reads eleven.\n"
    lamp = "---\nkeep: pier\ntags: [harbour/east]\n---\n# Lamp\n\nThe harbour lamp is lit. [[tide-table]] [[journal/lamp]]\n"
    visible = {f"{FOLDERS[name]}/{day}": log for name in classes if name != "code" for day in days[:3]}
    visible |= {f"{FOLDERS[name]}/lamp.{'py' if name == 'code' else 'md'}": lamp for name in classes}
    head = "---\ntitle: zyxcanary\naliases: [lamp, zyxcanary]\ntags: [harbour]\nkeeper: quay\nzyxcanary: 1\n---\n"
    hidden: dict[str, str | bytes] = {}
    for name in HIDDEN_FROM[profile]:
        ending = "py" if name == "code" else "md"
        hidden |= {f"{FOLDERS[name]}/{day}": log for day in days if ending == "md"}
        hidden |= {f"{FOLDERS[name]}/pier/tide-table.{ending}": f"{head}# Tide\n\nharbour lamp zyxcanary [[lamp]]\n"}
        hidden |= {
            f"{FOLDERS[name]}/bytes-zyxcanary.{ending}": b"\0\0\xff",
            f"{FOLDERS[name]}/copy.{ending}": "COPY",
            f"{FOLDERS[name]}/zyxcanary/b.{ending}": f"{lamp}zyxcanary\n",
        }
    hidden |= {"docs/denied/lamp.md": "COPY", "docs/lamp1.draft.md": f"{head}# Lamp\n\nThe harbour lamp.\n"}
    hidden |= {
        "docs/lamp2.md": f"---\naccess: none\n---\n{head}# Lamp\n\nharbour\n",
        "docs/denied/bytes-zyxcanary.md": b"\0\0\xff",
    }
    questions = ["tide gauge eleven", "harbour lamp", "zyxcanary", "harbour lamp ERR-7731"]
    assert_no_view_differs(profile, visible, hidden, questions)


@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(st.data())
def test_nothing_random_that_is_hidden_changes_a_byte_of_any_page(data):
    profile = data.draw(st.sampled_from(sorted(HIDDEN_FROM)))
    assert_no_view_differs(
        profile,
        data.draw(visible_files(tuple(sorted(PROFILES[profile][0])))),
        data.draw(hidden_files(HIDDEN_FROM[profile])),
        data.draw(queries),
    )

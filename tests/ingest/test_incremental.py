"""Whatever happens to a corpus, the store equals a fresh build, and no text is embedded twice."""

import shutil
import tempfile
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import Library

from rag_mcp.embedders.hash import HashEmbedder
from rag_mcp.stores.embedded import manifest_file, write
from rag_mcp.stores.embedded.recent import RECENT_ROWS

PLAIN = ("a.md", "b.md", "sub/c.md")
DAYS = tuple(f"log/ferry-{date(2031, 3, 1) + timedelta(days=n)}.md" for n in range(5))
SECTIONS = (
    "Intro words.",
    "## Lamp\n\nThe lamp is green.",
    "## Lamp\n\nThe lamp is amber.",
    "## Crew\n\nThe crew is nine.",
    "## Tide\n\nThe tide turned.",
)

edits = st.lists(
    st.tuples(
        st.sampled_from(PLAIN + DAYS),
        st.one_of(st.none(), st.lists(st.sampled_from(range(len(SECTIONS))), max_size=4)),
    ),
    min_size=1,
    max_size=4,
)


def apply(library: Library, changes) -> None:
    for name, sections in changes:
        path = library.corpus / name
        if sections is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("# Log\n\n" + "\n\n".join(SECTIONS[n] for n in sections) + "\n", encoding="utf-8")


def whole(library: Library) -> tuple[object, object]:
    """Every record, and for every file which passages it has, on which lines."""
    files = {
        path: (entry.sha256, entry.title, entry.series, entry.day, [tuple(row) for row in entry.rows])
        for path, entry in library.manifest().files.items()
    }
    return library.dump(), files


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rounds=st.lists(edits, min_size=1, max_size=4), dedupe=st.booleans(), recent=st.sampled_from((0, 4, RECENT_ROWS))
)
def test_after_any_edits_the_store_equals_a_fresh_build_and_nothing_is_embedded_twice(rounds, dedupe, recent):
    paid: list[str] = []
    original = HashEmbedder.embed_documents

    def counting(self, texts, **options):
        paid.extend(texts)
        return original(self, texts, **options)

    folder = Path(tempfile.mkdtemp())
    try:
        with pytest.MonkeyPatch.context() as patch, Library(folder / "corpus", folder / "store") as library:
            library.write({"always.md": "# Always\n\nOne file stays.\n"})
            patch.setattr(HashEmbedder, "embed_documents", counting)
            patch.setattr(write, "RECENT_ROWS", recent)
            patch.setattr(manifest_file, "RECENT_FILES", recent // 2)
            kept: list[set[str]] = []
            for changes in rounds:
                apply(library, changes)
                before = len(paid)
                library.ingest(allow_shrink=True, snapshot_dedupe=dedupe)
                new = paid[before:]
                assert len(new) == len(set(new))
                # Two generations are kept, so what either of them used is never paid for again.
                assert not set(new) & set().union(*kept[-2:])
                kept.append({*_embedded(library)})
            patch.setattr(HashEmbedder, "embed_documents", original)
            with Library(library.corpus, folder / "fresh") as fresh:
                fresh.ingest(snapshot_dedupe=dedupe)
                assert whole(library) == whole(fresh)
    finally:
        shutil.rmtree(folder)


def _embedded(library: Library) -> list[str]:
    from rag_mcp.text.embedded import embedded_text
    from rag_mcp.text.limits import ChunkLimits

    limits = ChunkLimits(max_tokens=254)
    found = []
    for chunk in library.dump().values():
        title = chunk["title"] if chunk["heading_path"] else None
        found.append(embedded_text(title, chunk["heading_path"], chunk["text"], limits=limits))
    return found


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rounds=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(DAYS),
                st.one_of(st.none(), st.lists(st.sampled_from(range(1, len(SECTIONS))), min_size=1, max_size=3)),
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_as_of_gives_what_the_series_said_that_day(rounds):
    folder = Path(tempfile.mkdtemp())
    try:
        with Library(folder / "corpus", folder / "store") as library:
            library.write({"always.md": "# Always\n\nOne file stays.\n"})
            for changes in rounds:
                apply(library, changes)
                library.ingest(allow_shrink=True)
            present = sorted(path.name for path in (library.corpus / "log").glob("*.md")) if rounds else []
            if len(present) < 3:
                return
            for day in (date(2031, 2, 28) + timedelta(days=n) for n in range(8)):
                found = library.search(
                    "lamp crew tide green amber", k=20, as_of=str(day), mode="fts", max_chars=100_000
                )
                valid = [name for name in present if name[6:16] <= str(day)]
                wanted = _sentences((library.corpus / "log" / valid[-1]).read_text()) if valid else []
                got = [r for r in found.results if r.citation.source.startswith("log/")]
                shown = sorted({s for r in got for s in _sentences(r.text or "")})
                assert shown == sorted(set(wanted)), day
                assert all(r.citation.source == f"log/{valid[-1]}" for r in got), day
                for result in got:
                    lines = (library.corpus / result.citation.source).read_text().split("\n")
                    cited = "\n".join(lines[result.citation.line_start - 1 : result.citation.line_end])
                    assert set(_sentences(result.text or "")) <= set(_sentences(cited))
    finally:
        shutil.rmtree(folder)


def _sentences(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("The ")]

"""Terms in Tantivy: one index for each source class, so no statistic of a hidden class can reach a score.

Every class index holds three searched fields, filled with the terms of ``analysis``: ``body`` (title, headings,
aliases, tags, path and text of the chunk), ``lead`` (the same without the text) and ``id``. Because ``body`` holds
all of a chunk, a term's document frequency there *is* the number of chunks it occurs in, and matching, IDF and shares
need one field. ``lead`` only adds weight. Scores are Okapi BM25 (Robertson & Zaragoza 2009) as Tantivy computes it.

The user's text never reaches Tantivy's query parser: queries are built from terms.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from threading import Lock
from typing import Any

from rag_mcp.errors import StoreDamaged, StoreError, StoreLocked, StoreReadOnly, StoreTooNew
from rag_mcp.models import HIDDEN_MARK, Chunk, DocClass, SourceClass
from rag_mcp.stores.base import Filter, KeywordEvidence, KeywordHit, Subject
from rag_mcp.stores.embedded.files import disk_is_full, is_writable
from rag_mcp.stores.embedded.formats import INDEX_FORMATS
from rag_mcp.stores.embedded.private_copy import private_copy
from rag_mcp.text.language import detect_language
from rag_mcp.text.question import LEAD_BOOST, PHRASE_WEIGHT, Phrase, Plan, Planner, Shares, Unit, idf
from rag_mcp.text.terms import LANGUAGES, NO_LANGUAGE, index_terms

__all__ = ["SCHEMA_VERSION", "TantivyReader", "TantivyWriter", "clone_index"]

SCHEMA_VERSION = INDEX_FORMATS["keywords"]
"""Of fields and analysis: with another version old terms and new questions would not meet."""

_MAX_TIES = 4_096
_MASK_BITS = 22
_KEPT_CHUNKS = 2_048
_CACHED_PLANS = 32

_HEAP_BYTES = 96_000_000
_MAX_SEGMENTS = 8
_MAX_DELETED_SHARE = 0.25
_SECTION_GAP = 100

_FORMAT_FILE = "format.json"
_COPIED = ("meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock", _FORMAT_FILE)
_OUTSIDE_SERIES = "-"
_EVERYTHING = Filter()

_STEMMERS = {
    "en": "english", "es": "spanish", "pt": "portuguese", "fr": "french", "de": "german", "it": "italian", "nl": "dutch",
}  # fmt: skip


# --- seams -----------------------------------------------------------------------------------------------------------


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Turn Tantivy's errors, Rust panics included, into ours. A panic is a BaseException; others pass untouched."""
    try:
        yield
    except StoreError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise _own_error(folder, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _damaged(folder, error) from error


def _own_error(folder: Path, error: Exception) -> StoreError:
    """Only what is proven broken is damaged; locks, permissions and full disks leave the index as it is."""
    text = str(error)
    if "LockBusy" in text:
        return StoreLocked(f"Another process writes to the keyword index {folder.name!r}; try again later.")
    if isinstance(error, PermissionError) or "PermissionDenied" in text or "ReadOnlyFilesystem" in text:
        return StoreReadOnly(f"The keyword index {folder.name!r} needs a writable folder, for its lock file at least.")
    if "os error 28" in text or disk_is_full(folder):
        return StoreError("The disk is full: the keyword index can't be written, and the store is what it was.")
    if isinstance(error, OSError) or ("IoError" in text and "InvalidData" not in text):
        return StoreError(f"The keyword index {folder.name!r} can't be read or written: {_first_line(error)}")
    return _damaged(folder, error)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _damaged(folder: Path, error: BaseException) -> StoreDamaged:
    return StoreDamaged(
        f"The keyword index {folder.name!r} can't be used ({_first_line(error)}). Run a full ingest to rebuild it."
    )


class _Stemmer:
    """Snowball stemming by Tantivy, each word once. Threads may share it: at worst a word is stemmed twice."""

    _MAX_CACHED = 200_000

    def __init__(self) -> None:
        self._analyzers: dict[str, Any] = {}
        self._known: dict[str, dict[str, str]] = {language: {} for language in _STEMMERS}

    def __call__(self, language: str, words: list[str]) -> list[str]:
        known = self._known[language]
        missing = [word for word in words if word not in known]
        if len(known) + len(missing) > self._MAX_CACHED:
            known = self._known[language] = {}
            missing = words
        if missing:
            known.update(zip(missing, self._stem(language, missing), strict=True))
        return [known[word] for word in words]

    def _stem(self, language: str, words: list[str]) -> list[str]:
        import tantivy

        analyzer = self._analyzers.get(language)
        if analyzer is None:
            builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
            analyzer = builder.filter(tantivy.Filter.stemmer(_STEMMERS[language])).build()
            self._analyzers[language] = analyzer
        stems: list[str] = analyzer.analyze(" ".join(words))
        return stems


def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("body", "lead"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="position")
    for name in ("source", "project", "doc_class", "held", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("payload", stored=True)
    return builder.build()


def _check_format(folder: Path, *, create: bool = False) -> None:
    """Write or compare the format file; a folder without one that holds indexes is not ours."""
    path = folder / _FORMAT_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["schema"]
    except FileNotFoundError:
        if create and not any(folder.iterdir()):
            path.write_text(json.dumps({"schema": SCHEMA_VERSION}) + "\n", encoding="utf-8")
            return
        if not create and (not folder.exists() or not any(folder.iterdir())):
            return
        raise _damaged(folder, FileNotFoundError(f"{_FORMAT_FILE} is missing")) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, error) from error
    if not isinstance(found, int) or found < SCHEMA_VERSION:
        raise _damaged(folder, ValueError(f"format {found}, this program writes {SCHEMA_VERSION}"))
    if found > SCHEMA_VERSION:
        raise StoreTooNew(f"The keyword index has format {found}; this program reads {SCHEMA_VERSION}. Update rag_mcp.")


def clone_index(source: Path, target: Path) -> None:
    """Make ``target`` (new) an index folder a writer may change without touching a byte of ``source``.

    Segment files never change once written, so they are hard links where the file system can. ``meta.json`` and
    ``.managed.json`` are small and replaced on commit: copied. So are lock files, which are empty: a reader makes
    a missing one, and must have nothing to make.
    """
    with _translated(source):
        _copy_tree(source, target)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for entry in sorted(source.rglob("*")):
        place = target / entry.relative_to(source)
        if entry.is_dir():
            place.mkdir()
        elif entry.name in _COPIED:
            shutil.copyfile(entry, place)
        else:
            _link_or_copy(entry, place)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# --- chunks as payload -----------------------------------------------------------------------------------------------

_CHUNK_FIELDS = tuple(field.name for field in fields(Chunk))
_TUPLES = ("heading_path", "aliases", "tags", "valid_on")


def _dump(chunk: Chunk) -> bytes:
    """ASCII JSON, so lone surrogates survive."""
    return json.dumps([getattr(chunk, name) for name in _CHUNK_FIELDS], separators=(",", ":")).encode("ascii")


def _load(payload: bytes) -> Chunk:
    values = dict(zip(_CHUNK_FIELDS, json.loads(payload), strict=True))
    for name in _TUPLES:
        values[name] = tuple(values[name])
    values["source_class"] = SourceClass(values["source_class"])
    values["doc_class"] = DocClass(values["doc_class"])
    return Chunk(**values)


def _raw(text: str) -> str:
    """A raw term Tantivy can hold: lone surrogates (undecodable file names) escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _held(series: str, day: str) -> str:
    return _raw(f"{series}\x1f{day}")


def _lead_sections(chunk: Chunk) -> list[str]:
    path = chunk.source.rsplit(".", 1)[0].replace("/", " ")
    return list(dict.fromkeys([chunk.title, *chunk.heading_path, *chunk.aliases, *chunk.tags, path]))


# --- writing ---------------------------------------------------------------------------------------------------------


class TantivyWriter:
    """Adds to and deletes from the class indexes under one folder; nothing is visible before ``commit``.

    One thread and one writer: the caller holds the store's writer lock, and equal input gives equal segments.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stem = _Stemmer()
        self._open: dict[SourceClass, _ClassWriter] = {}
        with _translated(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _check_format(folder, create=True)

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; one whose id is already in its class replaces it."""
        for chunk in chunks:
            writer = self._class(chunk.source_class)
            with _translated(writer.folder):
                writer.add(chunk)

    def delete(self, source_class: SourceClass, ids: Collection[str]) -> None:
        if ids and (self._folder / source_class).is_dir():
            writer = self._class(source_class)
            with _translated(writer.folder):
                writer.delete(ids)

    def commit(self) -> None:
        """Make all changes durable, await merges, remove dead files, and rewrite an index grown ragged."""
        while self._open:
            _, writer = self._open.popitem()
            with _translated(writer.folder):
                writer.commit()

    def close(self) -> None:
        """Drop what was not committed and release the locks."""
        while self._open:
            _, writer = self._open.popitem()
            with _translated(writer.folder):
                writer.rollback()

    def _class(self, source_class: SourceClass) -> _ClassWriter:
        if source_class not in self._open:
            folder = self._folder / source_class
            with _translated(folder):
                self._open[source_class] = _ClassWriter(folder, self._stem)
        return self._open[source_class]


class _ClassWriter:
    def __init__(self, folder: Path, stem: _Stemmer) -> None:
        import tantivy

        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._tantivy = tantivy
        self._stem = stem
        self._index = tantivy.Index(_schema(), path=str(folder), reuse=True)
        self._before = self._index.searcher()
        self._added: set[str] = set()
        self._writer = self._index.writer(_HEAP_BYTES, 1)

    def add(self, chunk: Chunk) -> None:
        key = chunk.id
        if key in self._added or self._before.doc_freq("id", key):
            self._writer.delete_documents_by_term("id", key)
        self._added.add(key)
        self._writer.add_document(self._document(chunk))

    def delete(self, ids: Collection[str]) -> None:
        for key in ids:
            self._writer.delete_documents_by_term("id", key)

    def commit(self) -> None:
        self._writer.commit()
        self._settle()
        if self._ragged():
            self._rewrite()

    def rollback(self) -> None:
        self._writer.rollback()
        self._writer.wait_merging_threads()

    def _settle(self) -> None:
        """Await merges, then collect what they left; awaiting consumes the writer, so collecting needs a new one."""
        self._writer.wait_merging_threads()
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        self._writer.garbage_collect_files()
        self._writer.wait_merging_threads()
        self._index.reload()

    def _ragged(self) -> bool:
        segments = _segments(self.folder)
        total = sum(segments)
        return len(segments) > _MAX_SEGMENTS or total - self._index.searcher().num_docs > _MAX_DELETED_SHARE * total

    def _rewrite(self) -> None:
        """Build one fresh index from the live chunks beside the old one and put it in its place."""
        fresh = self.folder.with_name(f"{self.folder.name}.new")
        worn = self.folder.with_name(f"{self.folder.name}.old")
        shutil.rmtree(fresh, ignore_errors=True)
        writer = _ClassWriter(fresh, self._stem)
        searcher = self._index.searcher()
        for _, address in _all_hits(searcher, self._tantivy.Query.all_query()):
            writer.add(_load(searcher.doc(address)["payload"][0]))
        writer._writer.commit()
        writer._settle()
        os.replace(self.folder, worn)
        os.replace(fresh, self.folder)
        shutil.rmtree(worn)

    def _document(self, chunk: Chunk) -> Any:
        document = self._tantivy.Document()
        document.add_text("id", chunk.id)
        text = chunk.text.replace(HIDDEN_MARK, "")
        language = detect_language(text, default=chunk.language)
        body = index_terms(text, language, self._stem)
        lead: list[tuple[str, int]] = []
        start = body[-1][1] + _SECTION_GAP if body else 0
        for section in _lead_sections(chunk):
            terms = index_terms(section, language, self._stem, start=start)
            if terms:
                lead += terms
                start = terms[-1][1] + _SECTION_GAP
        for name, terms in (("body", body + lead), ("lead", lead)):
            tokens = [self._tantivy.Token(term, position, 0, 0) for term, position in terms]
            document.add_pre_tokenized_text(name, self._tantivy.PreTokenizedString("", tokens))
        document.add_text("source", _raw(chunk.source))
        if chunk.project is not None:
            document.add_text("project", _raw(chunk.project))
        document.add_text("doc_class", chunk.doc_class.value)
        document.add_text("language", language if language in LANGUAGES else NO_LANGUAGE)
        for held in _held_terms(chunk):
            document.add_text("held", held)
        document.add_bytes("payload", _dump(chunk))
        return document


def _held_terms(chunk: Chunk) -> list[str]:
    if chunk.series is None:
        return [_OUTSIDE_SERIES]
    return [_held(chunk.series, day) for day in chunk.valid_on]


def _segments(folder: Path) -> list[int]:
    """Documents in each segment, deleted ones included, as BM25 counts them."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return [int(segment["max_doc"]) for segment in meta["segments"]]


def _all_hits(searcher: Any, query: Any) -> list[tuple[float, Any]]:
    """Every hit; Tantivy panics on a limit of 0."""
    hits: list[tuple[float, Any]] = searcher.search(query, max(1, searcher.num_docs), False).hits
    return hits


# --- reading: one class ----------------------------------------------------------------------------------------------


class _ClassIndex:
    """An immutable snapshot of one class index. All caches only ever gain facts that can't change."""

    def __init__(self, folder: Path) -> None:
        import tantivy

        self.folder = folder
        self.tantivy = tantivy
        index = tantivy.Index.open(str(folder))
        self.schema = index.schema
        self.searcher = index.searcher()
        self.documents = sum(_segments(folder))
        self.live = self.searcher.num_docs
        self.languages: dict[str, int] = dict(self.searcher.terms_with_prefix("language", ""))
        self._chunks: dict[str, Chunk] = {}
        self._ids: dict[tuple[int, int], str] = {}
        self._frequencies: dict[tuple[str, str], int] = {}

    def frequency(self, field: str, term: str) -> int:
        key = (field, term)
        found = self._frequencies.get(key)
        if found is None:
            if len(self._frequencies) > 100_000:
                self._frequencies = {}
            found = self._frequencies[key] = int(self.searcher.doc_freq(field, term))
        return found

    def prefixed(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Most frequent first, ties by term; looks at a bounded number of terms."""
        found = self.searcher.terms_with_prefix("body", prefix, limit=limit)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def term(self, field: str, term: str) -> Any:
        return self.tantivy.Query.term_query(self.schema, field, term, "freq")

    def weighed(self, field: str, term: str, weight: float) -> Any:
        """A term query whose IDF counts as ``weight`` instead of what this index alone would give."""
        local = idf(self.documents, self.frequency(field, term))
        return self.tantivy.Query.boost_query(self.term(field, term), weight / local)

    def phrase(self, field: str, terms: Phrase) -> Any:
        return self.tantivy.Query.phrase_query(self.schema, field, list(terms))

    def known_phrases(self, field: str, phrases: Iterable[Phrase]) -> list[Phrase]:
        return [phrase for phrase in phrases if all(self.frequency(field, term) for _, term in phrase)]

    def weighed_phrase(self, terms: Phrase, weight: float) -> Any:
        local = sum(idf(self.documents, self.frequency("body", term)) for _, term in terms)
        return self.tantivy.Query.boost_query(self.phrase("body", terms), weight / local)

    def best_of(self, queries: Sequence[Any]) -> Any:
        return queries[0] if len(queries) == 1 else self.tantivy.Query.disjunction_max_query(list(queries), 0.0)

    def any_of(self, queries: Sequence[Any]) -> Any:
        should = self.tantivy.Occur.Should
        return self.tantivy.Query.boolean_query([(should, query) for query in queries])

    def constant(self, query: Any, score: float) -> Any:
        return self.tantivy.Query.const_score_query(query, score)

    def restricted(self, query: Any, conditions: Sequence[Any]) -> Any:
        """The same scores, only where all conditions hold."""
        occur = self.tantivy.Occur
        musts = [(occur.Must, self.constant(condition, 0.0)) for condition in conditions]
        return self.tantivy.Query.boolean_query([(occur.Must, query), *musts]) if musts else query

    def among(self, scored: Sequence[Any], ids: Collection[str]) -> dict[str, float]:
        """Sum of the scores for each of the ids, 0.0 for those that match nothing."""
        occur = self.tantivy.Occur
        chosen = self.constant(self.one_of("id", ids), 0.0)
        clauses = [(occur.Must, chosen), *((occur.Should, query) for query in scored)]
        hits = self.searcher.search(self.tantivy.Query.boolean_query(clauses), max(1, len(ids)), False).hits
        return {self.id_at(address): score for score, address in hits}

    def one_of(self, field: str, terms: Collection[str]) -> Any:
        return self.tantivy.Query.term_set_query(self.schema, field, sorted(terms))

    def conditions(self, narrow: Filter) -> list[Any]:
        wanted = []
        if narrow.project is not None:
            wanted.append(self.term_raw("project", narrow.project))
        if narrow.doc_class is not None:
            wanted.append(self.term_raw("doc_class", narrow.doc_class.value))
        if narrow.valid_days is not None:
            days = [_held(series, day) for series, day in narrow.valid_days.items()]
            wanted.append(self.one_of("held", [_OUTSIDE_SERIES, *days]))
        if narrow.sources is not None:
            wanted.append(self.one_of("source", set(map(_raw, narrow.sources))))
        return wanted

    def term_raw(self, field: str, value: str) -> Any:
        return self.tantivy.Query.term_query(self.schema, field, _raw(value), "basic")

    def all_of(self, conditions: Sequence[Any]) -> Any:
        return self.restricted(self.tantivy.Query.all_query(), conditions)

    def top(self, query: Any, limit: int) -> list[tuple[str, float]]:
        """The best ``limit`` by score, equal scores by id: looks on until the score at the cut is passed."""
        most = max(1, min(self.documents, limit + _MAX_TIES))
        wanted = min(limit + 16, most)
        while True:
            hits = self.searcher.search(query, wanted, False).hits
            if len(hits) < wanted or wanted == most or _rounded(hits[-1][0]) < _rounded(hits[limit - 1][0]):
                break
            wanted = min(4 * wanted, most)
        ranked = sorted((-_rounded(score), self.id_at(address)) for score, address in hits)
        return [(key, -score) for score, key in ranked[:limit]]

    def id_at(self, address: Any) -> str:
        key = (address.segment_ord, address.doc)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = str(self.searcher.doc(address)["id"][0])
        return found

    def ids(self) -> set[str]:
        everything = self.tantivy.Query.all_query()
        return {term for term, _ in self.searcher.terms_with_prefix("id", "", everything)}

    def chunks(self, ids: Collection[str]) -> Iterator[Chunk]:
        """The chunks with these ids; what comes up in one answer tends to come up in the next, so some are kept."""
        known = self._chunks  # another thread may put a new one in its place
        missing = [key for key in ids if key not in known]
        found = {key: known[key] for key in ids if key in known}
        query = self.constant(self.one_of("id", missing), 1.0)
        for _, address in self.searcher.search(query, len(missing), False).hits if missing else ():
            chunk = _load(self.searcher.doc(address)["payload"][0])
            found[chunk.id] = chunk
        if len(self._chunks) + len(found) > _KEPT_CHUNKS:
            self._chunks = {}
        self._chunks.update(found)
        yield from found.values()


def _rounded(score: float) -> float:
    """Scores are 32-bit sums whose order of addition may vary; differences below this are noise."""
    return round(score, 4)


# --- reading: queries out of a plan ----------------------------------------------------------------------------------


def _score_queries(plan: Plan, index: _ClassIndex) -> list[Any]:
    """One query for each unit and field plus the word-order bonuses; their sum is the BM25 score."""
    queries: list[Any] = []
    for unit in plan.units:
        weight = unit.idf * unit.weight
        ways = _weighed_terms(unit, index, "body", weight)
        for phrase in index.known_phrases("body", unit.phrases):
            ways.append(index.weighed_phrase(phrase, PHRASE_WEIGHT * weight))
        queries += [
            index.best_of(found) for found in (ways, _weighed_terms(unit, index, "lead", LEAD_BOOST * weight)) if found
        ]
    for bonus in plan.bonuses:
        ways = [index.weighed_phrase(phrase, bonus.idf) for phrase in index.known_phrases("body", bonus.phrases)]
        if ways:
            queries.append(index.best_of(ways))
    return queries


def _weighed_terms(unit: Unit, index: _ClassIndex, field: str, weight: float) -> list[Any]:
    return [index.weighed(field, term, weight) for term in unit.variants if index.frequency(field, term)]


def _match_query(unit: Unit, index: _ClassIndex, field: str) -> Any | None:
    ways = [index.term(field, term) for term in unit.variants if index.frequency(field, term)]
    ways += [index.phrase(field, phrase) for phrase in index.known_phrases(field, unit.phrases)]
    return index.any_of(ways) if ways else None


def _matches(index: _ClassIndex, probes: Sequence[Any | None], ids: Collection[str]) -> dict[str, set[int]]:
    """Which probes each id meets. Probes are given powers of two as constant scores: a 32-bit float adds 22 of them
    without loss, so one query answers for all of them.
    """
    met: dict[str, set[int]] = {key: set() for key in ids}
    present = [(number, probe) for number, probe in enumerate(probes) if probe is not None]
    for at in range(0, len(present), _MASK_BITS):
        batch = present[at : at + _MASK_BITS]
        scored = [index.constant(probe, float(1 << bit)) for bit, (_, probe) in enumerate(batch)]
        for key, score in index.among(scored, ids).items():
            mask = int(score)
            met[key] |= {number for bit, (number, _) in enumerate(batch) if mask >> bit & 1}
    return met


class TantivyReader:
    """Answers from the class indexes as they were when first asked; any number of threads may share it.

    A folder that can't be written is copied to ``scratch`` first: Tantivy takes a lock file to open an index.
    Classes known to be ``broken`` are never opened; asking them raises StoreDamaged.
    """

    def __init__(
        self, folder: Path, *, scratch: Path | None = None, broken: Collection[SourceClass] = frozenset()
    ) -> None:
        self._broken = frozenset(broken)
        _check_format(folder)
        self._copy = private_copy(folder, scratch) if folder.is_dir() and not is_writable(folder) else None
        self._folder = self._copy.path if self._copy is not None else folder
        self._stem = _Stemmer()
        self._lock = Lock()
        self._indexes: dict[SourceClass, _ClassIndex | None] = {}
        self._plans: OrderedDict[tuple[str, tuple[SourceClass, ...]], Plan] = OrderedDict()

    def search(
        self, text: str, classes: Collection[SourceClass], limit: int, *, narrow: Filter = _EVERYTHING
    ) -> list[KeywordHit]:
        if limit < 1:
            return []
        plan = self._plan(text, classes)
        hits: list[tuple[float, str]] = []
        for index in self._asked(classes):
            with _translated(index.folder):
                queries = _score_queries(plan, index)
                if queries:
                    query = index.restricted(index.any_of(queries), index.conditions(narrow))
                    hits += [(-score, key) for key, score in index.top(query, limit)]
        return [KeywordHit(key, -score) for score, key in sorted(hits)[:limit]]

    def evidence(self, text: str, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, KeywordEvidence]:
        plan = self._plan(text, classes)
        found: dict[str, KeywordEvidence] = {}
        for index in self._asked(classes):
            with _translated(index.folder):
                mine = {key for key in ids if index.frequency("id", key)}
                if mine:
                    found |= _evidence(plan, index, mine)
        return found

    def bm25_bound(self, text: str, classes: Collection[SourceClass]) -> float:
        return self._plan(text, classes).bound

    def subject(self, text: str, classes: Collection[SourceClass]) -> Subject:
        plan = self._plan(text, classes)
        return Subject(plan.content, {unit.label: unit.fixed for unit in plan.units if unit.fixed})

    def holding(
        self,
        text: str,
        label: str,
        classes: Collection[SourceClass],
        limit: int,
        *,
        narrow: Filter = _EVERYTHING,
    ) -> set[str]:
        (unit,) = (unit for unit in self._plan(text, classes).units if unit.label == label)
        found: set[str] = set()
        for index in self._asked(classes):
            with _translated(index.folder):
                match = _match_query(unit, index, "body")
                if match is not None:
                    query = index.restricted(index.constant(match, 1.0), index.conditions(narrow))
                    found |= {index.id_at(address) for _, address in index.searcher.search(query, limit, False).hits}
        return found

    def matching_ids(self, classes: Collection[SourceClass], narrow: Filter, limit: int) -> set[str] | None:
        found: set[str] = set()
        for index in self._asked(classes):
            with _translated(index.folder):
                query = index.all_of(index.conditions(narrow))
                hits = index.searcher.search(query, max(1, limit + 1 - len(found)), False).hits
                found |= {index.id_at(address) for _, address in hits}
            if len(found) > limit:
                return None
        return found

    def size(self, classes: Collection[SourceClass]) -> int:
        return sum(index.live for index in self._asked(classes))

    def fetch(self, classes: Collection[SourceClass], ids: Collection[str]) -> dict[str, Chunk]:
        found: dict[str, Chunk] = {}
        for index in self._asked(classes) if ids else ():
            with _translated(index.folder):
                found |= {chunk.id: chunk for chunk in index.chunks(ids)}
        return found

    def ids(self, source_class: SourceClass) -> set[str]:
        found: set[str] = set()
        for index in self._asked([source_class]):
            with _translated(index.folder):
                found |= index.ids()
        return found

    def close(self) -> None:
        """Let go of the snapshots; searches still running keep theirs until they end."""
        with self._lock:
            self._indexes.clear()
            self._plans.clear()
        if self._copy is not None:
            self._copy.close()

    def _plan(self, text: str, classes: Collection[SourceClass]) -> Plan:
        key = (text, tuple(sorted(set(classes))))
        with self._lock:
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
        with _translated(self._folder):
            plan = Planner(self._asked(classes), self._stem).plan(text)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > _CACHED_PLANS:
                self._plans.popitem(last=False)
        return plan

    def _asked(self, classes: Collection[SourceClass]) -> list[_ClassIndex]:
        """The indexes of these classes, in a fixed order; a class without chunks has none."""
        opened = [self._class(source_class) for source_class in sorted(set(classes))]
        return [index for index in opened if index is not None and index.live]

    def _class(self, source_class: SourceClass) -> _ClassIndex | None:
        with self._lock:
            if source_class in self._broken:
                raise _damaged(self._folder / source_class, ValueError("its files have changed on disk"))
            if source_class not in self._indexes:
                folder = self._folder / source_class
                with _translated(folder):
                    self._indexes[source_class] = _ClassIndex(folder) if folder.is_dir() else None
            return self._indexes[source_class]


def _evidence(plan: Plan, index: _ClassIndex, ids: Collection[str]) -> dict[str, KeywordEvidence]:
    scores = index.among(_score_queries(plan, index), ids)
    units = plan.units
    exacts = [_match_query(unit, index, "body") for unit in units if unit.exact]
    for bonus in plan.bonuses:
        phrases = index.known_phrases("body", bonus.phrases) if bonus.exact else ()
        exacts += [index.phrase("body", phrase) for phrase in phrases]
    probes = [_match_query(unit, index, field) for field in ("body", "lead") for unit in units] + exacts
    met = _matches(index, probes, ids)
    shares = Shares(units)
    found = {}
    for key in ids:
        body = {units[number].label for number in met[key] if number < len(units)}
        lead = {units[number - len(units)].label for number in met[key] if len(units) <= number < 2 * len(units)}
        exact = any(number >= 2 * len(units) for number in met[key])
        told = exact or not plan.common  # that "how" and "to" stand somewhere says nothing
        found[key] = KeywordEvidence(
            bm25=_rounded(scores.get(key, 0.0)),
            term_share=shares.of(body) if told else 0.0,
            title_share=shares.of(lead) if told else 0.0,
            exact=exact,
            matched=tuple(unit.label for unit in units if unit.label in body),
        )
    return found

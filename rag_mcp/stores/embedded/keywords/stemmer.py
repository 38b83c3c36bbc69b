"""Snowball stemming, as Tantivy has it."""

from __future__ import annotations

from typing import Any

__all__ = ["Stemmer"]

_STEMMERS = {
    "en": "english", "es": "spanish", "pt": "portuguese", "fr": "french", "de": "german", "it": "italian", "nl": "dutch",
}  # fmt: skip


class Stemmer:
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

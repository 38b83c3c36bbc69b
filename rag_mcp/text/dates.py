"""A snapshot's own date in a heading, however it is written. Pure.

Two snapshots whose headings differ by nothing but their own dates have the same headings. Any other date is content.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

__all__ = ["undated", "undated_headings"]

_STAND_IN = "\0"  # not nothing: a heading with its date is another one than the heading without

# English, German, French, Spanish, Italian, Dutch and Portuguese, with the usual abbreviations.
_MONTHS = (
    "january|jan|januar|jänner|janvier|enero|gennaio|januari|janeiro",
    "february|feb|februar|février|febrero|febbraio|februari|fevereiro",
    "march|mar|märz|mars|marzo|maart|março",
    "april|apr|avril|abril|aprile",
    "may|mai|mayo|maggio|mei|maio",
    "june|jun|juni|juin|junio|giugno|junho",
    "july|jul|juli|juillet|julio|luglio|julho",
    "august|aug|août|agosto|augustus",
    "september|sept|sep|septembre|septiembre|settembre|setembro",
    "october|oct|oktober|okt|octobre|octubre|ottobre|outubro",
    "november|nov|novembre|noviembre|novembro",
    "december|dec|dezember|dez|décembre|diciembre|dicembre|dezembro",
)
_WEEKDAYS = (
    "monday|mon|montag|lundi|lunes|lunedì|maandag",
    "tuesday|tues|tue|dienstag|mardi|martes|martedì|dinsdag",
    "wednesday|wed|mittwoch|mercredi|miércoles|mercoledì|woensdag",
    "thursday|thurs|thu|donnerstag|jeudi|jueves|giovedì|donderdag",
    "friday|fri|freitag|vendredi|viernes|venerdì|vrijdag",
    "saturday|sat|samstag|samedi|sábado|sabato|zaterdag",
    "sunday|sun|sonntag|dimanche|domingo|domenica|zondag",
)
_ATX = re.compile(r" {0,3}#{1,6}(?:\s|\Z)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)\s*\Z")
_LABELLED = re.compile(r"\W*(?:\w{1,20}\W{0,4}:\W{0,4})?\0\W*\Z")


def undated(text: str, day: str) -> str:
    """Return ``text`` with every spelling of the ISO date ``day`` replaced by the same stand-in."""
    return _spellings(day).sub(_STAND_IN, text)


def undated_headings(text: str, day: str) -> str:
    """Do so in the headings of a passage, and in lines that say nothing but the date (``Date: 3 March 2031``)."""
    pattern = _spellings(day)
    if pattern.search(text) is None:
        return text
    lines = text.split("\n")
    for at, line in enumerate(lines):
        changed = pattern.sub(_STAND_IN, line)
        if changed == line:
            continue
        underlined = at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1]) is not None
        if underlined or _ATX.match(line) or _LABELLED.match(changed):
            lines[at] = changed
    return "\n".join(lines)


@lru_cache(maxsize=1024)
def _spellings(day: str) -> re.Pattern[str]:
    own = date.fromisoformat(day)
    y, m, d = str(own.year), _number(own.month), _number(own.day)
    month = f"(?:{_MONTHS[own.month - 1]})"
    weekday = f"(?:{_WEEKDAYS[own.weekday()]})"
    numeric = (
        rf"{y}(?P<a>[-/._]){m}(?P=a){d}",
        rf"{y}{own.month:02}{own.day:02}",
        rf"{d}(?P<b>[-/._]) ?{m}(?P=b) ?{y}",
        rf"{m}(?P<c>[-/._]){d}(?P=c){y}",
        rf"{d}/{m}/{own.year % 100:02}|{m}/{d}/{own.year % 100:02}",
        rf"{y}年 ?{m}月 ?{d}日",
    )
    no_year = r"(?!\.?,?[ -](?:of |de |di )?[0-9]{4})"  # with another year it is another date
    worded = (
        rf"{d}(?:st|nd|rd|th|er|[.º])?[ -](?:of |de |di )?{month}\b(?:\.?,?[ -](?:of |de |di )?{y}|{no_year})",
        rf"{month}\.?[ -]{d}(?:st|nd|rd|th)?(?:,? {y}\b|\b{no_year})",
        rf"{y}[ -]{month}[ -]{d}",
    )
    any_of = "|".join((*worded, *numeric))
    return re.compile(
        rf"(?:\b{weekday}\.?,? )?(?<![^\W_])(?:{any_of})(?![0-9])(?:,? \(?{weekday}\b\)?)?", re.IGNORECASE
    )


def _number(value: int) -> str:
    return f"0?{value}" if value < 10 else str(value)

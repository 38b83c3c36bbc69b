"""Reading a question against invented statistics: no index, no Tantivy."""

from __future__ import annotations

import pytest

from rag_mcp.text.question import LEAD_BOOST, Planner, Shares, Unit, idf


class Counted:
    """A class of ``documents`` chunks with the given document frequencies."""

    def __init__(self, documents, frequencies, languages=None):
        self.documents = documents
        self.frequencies = frequencies
        self.languages = languages or {"en": documents}

    def expect(self, terms):
        assert all(isinstance(term, str) for term in terms)

    def frequency(self, field, term):
        return self.frequencies.get(term, 0)

    def prefixed(self, prefix, limit):
        return sorted((term, count) for term, count in self.frequencies.items() if term.startswith(prefix))[:limit]


def cut_s(language, words):
    return [word.removesuffix("s") if language == "en" else word.removesuffix("as") for word in words]


def plan(text, *classes):
    return Planner(classes, cut_s).plan(text)


def labels(found):
    return [unit.label for unit in found.units if unit.asked]


def test_idf_falls_as_a_term_gets_common_and_is_never_negative():
    values = [idf(100, count) for count in (0, 1, 10, 100)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > 0


def test_frequencies_of_all_classes_asked_are_added():
    (unit,) = plan("boiler", Counted(10, {"boiler": 2}), Counted(30, {"boiler": 3})).units
    assert unit.idf == idf(40, 5)


def test_a_word_is_looked_for_under_its_stem_in_each_language_present():
    known = Counted(10, {"cas": 1, "casa": 2, "casas": 1}, {"en": 5, "es": 5})
    (unit,) = plan("casas", known).units
    assert set(unit.variants) == {"cas", "casa", "casas"}
    assert unit.idf == idf(10, 2)


def test_languages_that_are_not_in_the_index_add_no_variants():
    (unit,) = plan("casas", Counted(10, {"cas": 1, "casa": 2})).units
    assert unit.variants == ("casa",)


def test_stop_words_of_the_question_are_dropped_unless_nothing_is_left():
    known = Counted(10, {"boiler": 1, "what": 9})
    assert labels(plan("what is the boiler", known)) == ["boiler"]
    assert labels(plan("what is the", known)) == ["what", "is", "the"]
    assert labels(plan("to-do", known)) == ["to", "do"]


@pytest.mark.parametrize(
    ("question", "language", "frame", "subject"),
    [
        ("what is mentioned of the boiler", "en", "mentioned", "boiler"),
        ("que se menciona de la caldera", "es", "menciona", "caldera"),
        ("o que se menciona da caldeira", "pt", "menciona", "caldeira"),
        ("ce qui est mentionné dans la chaudière", "fr", "mentionne", "chaudiere"),
        ("was ist von dem Kessel erwähnt", "de", "erwahnt", "kessel"),
        ("che cosa è menzionato della caldaia", "it", "menzionato", "caldaia"),
        ("wat is er van de ketel genoemd", "nl", "genoemd", "ketel"),
    ],
)
def test_a_word_in_which_a_question_is_put_weighs_less_than_its_subject(question, language, frame, subject):
    units = {unit.label: unit for unit in plan(question, Counted(100, {subject: 2}, {language: 100})).units}
    assert set(units) == {frame, subject}
    assert units[frame].idf < 0.5 * idf(100, 2) < units[subject].idf
    assert Shares(list(units.values())).of({subject}) > 0.6


def test_a_word_that_puts_questions_in_another_language_only_has_its_full_weight():
    (unit,) = (one for one in plan("what is the name of it", Counted(100, {"name": 2})).units if one.label == "name")
    (other,) = plan("the genoemd", Counted(100, {"genoemd": 2})).units
    assert unit.idf < other.idf == idf(100, 2)


def test_a_repeated_word_counts_once():
    assert labels(plan("boiler Boiler boiler", Counted(10, {"boiler": 1}))) == ["boiler"]


def test_an_identifier_is_asked_for_once_and_its_parts_only_help():
    found = plan("get_user_data", Counted(10, {"getuserdata": 1, "user": 4, "data": 4}))
    assert labels(found) == ["getuserdata"]
    assert {unit.label for unit in found.units if not unit.asked} == {"get", "user", "data"}


def test_a_word_that_is_also_part_of_an_identifier_is_asked_for():
    assert set(labels(plan("user get_user", Counted(10, {"user": 4})))) == {"getuser", "user"}


def test_a_word_behind_a_dot_is_a_name_only_where_it_stands_so():
    known = Counted(10, {"smrt": 2, "env": 3, ".env": 1})
    (word,) = plan("what reads .smrt", known).units[-1:]
    assert (word.label, word.variants, word.exact) == ("smrt", ("smrt",), False)
    (name,) = (unit for unit in plan("what reads .env", known).units if unit.exact)
    assert (name.label, name.variants) == (".env", (".env",))


def fixed(found):
    return {unit.fixed for unit in found.units if unit.fixed}


def test_a_code_is_met_whole_and_its_parts_only_help_the_order():
    found = plan("part ZX-4482", Counted(10, {"zx": 3, "4482": 1, "part": 2}))
    (code,) = (unit for unit in found.units if unit.exact)
    assert (code.label, code.parts, code.variants) == ("zx4482", (), ())
    assert Shares(found.units).of({"zx", "4482"}) == 0.0
    assert not any(unit.parts or unit.phrases for unit in plan("3.4.1", Counted(10, {"3": 4, "4": 1, "1": 5})).units)


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("which oil does dredge 3.4.1 take", {"3.4.1"}),
        ("what does rule 17 forbid", {"17"}),
        ("what changed in clause 9.2", {"9.2"}),
        ("part ZX-4482 and E4011", {"ZX-4482", "E4011"}),
        ("who won in 1912", {"1912"}),
        ("rain on 9 March 2033", {"2033-03-09"}),
        ("what does A.B. steer", {"A.B"}),
        ("are there 17 buoys", set()),
        ("the first 3 rules", set()),
        ("a 500mb limit, 24-hour watch", set()),
        ("what is in src/v2/gate.py", set()),
    ],
)
def test_numbers_that_say_which_one_is_meant_are_told_from_counts(question, numbers):
    assert fixed(plan(question, Counted(10, {}))) == numbers


def test_the_beginning_of_a_longer_version_is_not_missing():
    known = Counted(10, {"3.4.1": 1, "dredge": 2})
    assert [fixed(plan(f"dredge {number}", known)) for number in ("3.4", "3", "3.5", "34")] == [
        set(),
        set(),
        {"3.5"},
        {"34"},
    ]


def test_a_number_may_be_glued_to_its_name():
    (unit,) = (unit for unit in plan("berth 9", Counted(10, {"berth9": 1})).units if unit.fixed)
    assert unit.variants == ("berth9",)
    (glued,) = plan("Berth2033", Counted(10, {"berth": 1, "2033": 1})).units
    assert glued.phrases == (((0, "berth"), (1, "2033")),)


def test_a_pair_of_letters_no_chunk_has_is_asked_for_by_its_letters():
    known = Counted(10, {"\u72ac": 1, "\u9d89": 1, "\u5728": 5})
    assert labels(plan("\u72ac\u9d89", known)) == ["\u72ac", "\u9d89"]  # two words
    assert labels(plan("\u72ac\u5728\u54ea\u91cc", known)) == ["\u72ac"]  # a word, its particle, and "where"
    assert labels(plan("\u72ac\u306f\u3069\u3053", known)) == ["\u72ac"]
    assert labels(plan("\u72ac\u8239", known)) == ["\u72ac\u8239"]  # the second letter is unknown: another word


def test_what_a_question_is_about_leaves_out_words_numbers_and_letters_that_say_nothing():
    known = Counted(10, {"boiler": 1})
    assert plan("what is the boiler at 7 x", known).content == ("boiler",)
    for nothing in ("what is the", "was ist das", "de la", "7", "x", "1 2", "?!", "\U0001f680", "..."):
        assert plan(nothing, known).content == ()
    assert [plan(text, known).common for text in ("7", "x", "de la", "1912", "boiler")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_compound_is_its_words_and_each_may_be_met_joined():
    found = plan("on-premise GitHub", Counted(10, {"github": 3, "premise": 1}))
    assert labels(found) == ["premise", "git", "hub"]
    assert [unit.variants for unit in found.units] == [("premise",), ("github",), ("github",)]


def test_at_most_64_units_are_kept_the_rarest_known_ones_first():
    known = Counted(1_000, {f"zq{chr(97 + n // 26)}{chr(97 + n % 26)}x": n + 1 for n in range(100)})
    found = plan("unheard " + " ".join(known.frequencies), known)
    assert len(found.units) == 64
    assert set(labels(found)) == set(list(known.frequencies)[:64])


def test_a_shortened_digest_stands_for_the_digests_that_begin_with_it():
    whole = "3b7e1c9d52f04a88"
    (unit,) = plan(whole[:8].upper(), Counted(10, {whole: 1})).units
    assert unit.variants == (whole,)
    (short,) = plan(whole[:5], Counted(10, {whole: 1})).units
    assert short.variants == ()


def test_a_prefix_is_one_unit_of_bounded_width_with_the_most_frequent_terms():
    known = Counted(5_000, {f"calib{n:04d}": n + 1 for n in range(500)})
    (unit,) = plan("calib*", known).units
    assert len(unit.variants) == 64
    assert "calib0499" in unit.variants
    assert unit.label == "calib*"


def test_only_unknown_plain_words_of_five_letters_are_taken_for_typos():
    known = Counted(10, {"valve": 1, "gate": 1, "boiler": 1, "v2048x": 1})
    units = {unit.label: unit for unit in plan("vallve gaate gatt boiler v2049x", known).units}
    assert units["vallve"].variants == ("valve",)
    assert units["vallve"].credit < 1
    assert units["gaate"].variants == ("gate",)
    assert units["gatt"].variants == units["v2049x"].variants == ()
    assert units["boiler"].credit == 1


def test_the_bound_counts_known_terms_in_text_and_lead():
    found = plan("boiler zeppelin", Counted(10, {"boiler": 2}))
    assert found.bound == pytest.approx(2.2 * (1 + LEAD_BOOST) * idf(10, 2))
    assert plan("zeppelin", Counted(10, {})).bound == 0.0


def test_words_in_order_earn_a_bonus_and_all_of_them_together_are_exact():
    known = Counted(10, {"flood": 2, "gate": 2, "hinge": 2})
    assert [(bonus.phrases, bonus.exact) for bonus in plan("the flood gate", known).bonuses] == [
        ((((0, "flood"), (1, "gate")),), True)
    ]
    assert [bonus.exact for bonus in plan("flood gate hinge", known).bonuses] == [True, False, False]
    assert plan("flood boiler", known).bonuses == ()


def test_words_a_stop_word_apart_keep_their_distance():
    (bonus,) = plan("hinge of gate", Counted(10, {"hinge": 1, "gate": 1})).bonuses
    assert bonus.phrases == (((0, "hinge"), (2, "gate")),)


def test_no_class_at_all_gives_a_plan_that_finds_nothing():
    found = plan('boiler x_y_z calib* "flood gate"')
    assert not any(unit.known for unit in found.units)
    assert (found.bonuses, found.bound) == ((), 0.0)


def test_share_weighs_by_idf_and_gives_parts_half_of_an_identifier():
    rare, common = Unit("rare", ("rare",), 3.0), Unit("common", ("common",), 1.0)
    name = Unit("xy", ("xy",), 4.0, exact=True, parts=("x", "y"))
    x, y = (Unit(part, (part,), 2.0, asked=False) for part in "xy")
    assert Shares([rare, common]).of({"rare"}) == 0.75
    assert Shares([name, x, y]).of({"x"}) == 0.25
    assert Shares([name, x, y]).of({"x", "y"}) == 0.5
    assert Shares([name, x, y]).of({"xy"}) == 1.0
    assert Shares([]).of({"rare"}) == 0.0

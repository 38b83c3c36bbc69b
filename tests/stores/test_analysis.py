"""Text analysis: every spelling of a word meets itself, and nothing a user types is an error."""

from __future__ import annotations

import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import keeps_pace

from rag_mcp.text.folding import fold
from rag_mcp.text.language import _FRAME_WORDS, detect_language, is_frame_word, is_grammar, is_stop_word
from rag_mcp.text.terms import (
    LANGUAGES,
    NO_LANGUAGE,
    index_terms,
    letters,
    read_query,
    segment,
    spelling_neighbours,
    stem_map,
)


def no_stem(language, words):
    return list(words)


def cut_s(language, words):
    return [word.removesuffix("s") for word in words]


def words_of(text):
    return [part for piece in segment(text) for part in piece.parts]


def terms(text, language=NO_LANGUAGE, stem=no_stem):
    return {term for term, _ in index_terms(text, language, stem)}


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("Café", "cafe"),
        ("Cafe\u0301", "cafe"),
        ("brûlée", "brulee"),
        ("Straße", "strasse"),
        ("GROẞ", "gross"),
        ("Łódź", "lodz"),
        ("Ærøskøbing", "aeroskobing"),
        ("İstanbul", "istanbul"),
        ("ılık", "ilik"),
        ("Dvořák", "dvorak"),
        ("\ufb01ligree", "filigree"),
        ("ＦＵＬＬ", "full"),
        ("Þór", "thor"),
        ("ΟΔΟΣ", "οδοσ"),
        ("ёлка", "елка"),
        ("Йод", "йод"),
        ("soft\u00adhyphen", "softhyphen"),
        ("zero\u200bwidth", "zerowidth"),
    ],
)
def test_folding_takes_case_accents_and_width_away(written, folded):
    assert fold(written) == folded


@given(st.text())
def test_folding_twice_changes_nothing_more(text):
    assert fold(fold(text)) == fold(text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_composed_and_decomposed_spellings_give_the_same_terms(text):
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert index_terms(composed, NO_LANGUAGE, no_stem) == index_terms(decomposed, NO_LANGUAGE, no_stem)


@given(st.text(alphabet="abcdeéüßñ çø", max_size=60))
def test_letter_case_does_not_change_the_words_of_lower_case_prose(text):
    assert words_of(text.title()) == words_of(text) or "ß" in text


@pytest.mark.parametrize(
    ("written", "parts", "whole"),
    [
        ("getUserById", ["get", "user", "by", "id"], "getuserbyid"),
        ("HTTPServerV2Handler", ["http", "server", "v2", "handler"], "httpserverv2handler"),
        ("atomic_write_json", ["atomic", "write", "json"], "atomicwritejson"),
        ("RAG_MCP_DB_PATH", ["rag", "mcp", "db", "path"], "ragmcpdbpath"),
        ("pkg.storage.ledger_io", ["pkg", "storage", "ledger", "io"], "pkgstorageledgerio"),
        ("src/storage/ledger_io.py:88", ["src", "storage", "ledger", "io", "py", "88"], "srcstorageledgeriopy88"),
        ("ERR-7731-B", ["err", "7731", "b"], "err7731b"),
        ("libtide-2.10.3", ["libtide", "2.10.3"], "libtide2.10.3"),
        ("x86_64", ["x86", "64"], "x86.64"),
        ("--dry-run", ["dry", "run"], "dryrun"),
        ("C:\\tools\\bin", ["c", "tools", "bin"], "ctoolsbin"),
        ("std::vector::push_back", ["std", "vector", "push", "back"], "stdvectorpushback"),
        ("user@example.com", ["user", "example", "com"], "userexamplecom"),
        ("étéÉcole", ["ete", "ecole"], "eteecole"),
        ("LazyScanner", ["lazy", "scanner"], "lazyscanner"),
        ("TapConfig", ["tap", "config"], "tapconfig"),
    ],
)
def test_an_identifier_is_one_name_and_its_parts(written, parts, whole):
    (piece,) = segment(written)
    assert (list(piece.parts), piece.complete, piece.identifier) == (parts, whole, True)


@pytest.mark.parametrize("name", ["C++", "C#", ".NET", ".env"])
def test_a_name_made_of_punctuation_is_kept_beside_its_letters(name):
    assert {name.lower(), name.lower().strip(".+#")} <= terms(f"the {name} course")


@pytest.mark.parametrize(
    ("written", "typed"),
    [("QX-7731", "qx7731"), ("QX7731", "qx-7731"), ("on-premise", "OnPremise"), ("1,000", "1000"), ("e-mail", "email")],
)
def test_separators_do_not_keep_two_spellings_of_a_name_apart(written, typed):
    assert terms(written) & terms(typed)


def test_versions_that_differ_by_a_dot_stay_different():
    assert "2.10.3" in terms("2.10.3")
    assert not {"2.10.3"} & terms("21.03 2103 210.3")


def test_part_of_a_longer_name_is_a_term_of_its_own():
    assert "retrycount" in terms("max.retry_count")


def test_a_digest_is_one_term_whatever_its_case():
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert terms(digest) == terms(digest.upper()) == {digest}


def test_prose_is_not_taken_for_identifiers():
    text = "Well-known and/or GitHub users from YouTube with McAlister, in the 1990s, on the 2nd floor, e.g. in the U.S.A., don't worry."
    assert [piece.surface for piece in segment(text) if piece.identifier] == []


def test_initials_and_contractions_are_single_words():
    assert words_of("U.S.A. e.g. don't user's O'Brannigan") == ["usa", "eg", "dont", "user", "o", "brannigan"]


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("الطَّاحُونَةُ", "الطاحونه"),  # points, teh marbuta
        ("أرنب", "ارنب"),
        ("آبار", "ابار"),
        ("مقـــهى", "مقهي"),
        ("یک کندو", "يك كندو"),
        ("هواء", "هوا"),
        ("ﻃﺎﺣﻮﻧﺔ", "طاحونة"),
        ("تُرْبَةٌ", "تربه"),
        ("طَحִּین", "طحین"),
        ("כּוֹרֶת", "כורת"),
        ("דבורים", "דבורימ"),
        ("שײַן", "שיין"),
        ("ܕܶܒܳܫܳܐ", "ܕܒܫܐ"),
        ("ढ़ोल", "ढोल"),
        ("अण्डा", "अंडा"),
        ("गाँव", "गांव"),
        ("പാൽ", "പാല്‍"),
        ("ක්‍ෂය", "ක්ෂය"),
        ("শরৎ", "শরত্"),
        ("ค้ำ", "คํ้า"),
        ("แป้ง", "เเป้ง"),
        ("ຄ້ຳ", "ຄໍ້າ"),
        ("ក្ដី", "ក្តី"),
        ("ᾠδῇ", "ωδη"),
        ("ቡና፟", "ቡና"),
        ("hall ٣٠٤", "hall 304"),
        ("hall ๓๐๔", "hall 304"),
        ("hall ३०४", "hall 304"),
        ("٤٬٥٠٠ ٣٫٥", "4,500 3.5"),
        ("m’tapa", "m'tapa"),
        ("mʼtapa", "m'tapa"),
        ("mʻtapa m´tapa", "m'tapa m`tapa"),
        ("בית־קמח", "בית-קמח"),
        ("QX\u2011 7731 a\u2010b", "QX- 7731 a-b"),
    ],
)
def test_spellings_that_readers_take_for_one_word_are_one_term(written, typed):
    assert terms(written) == terms(typed)


@pytest.mark.parametrize("typed", ["کندو\u200cها", "کندوها", "کندو ها"])
def test_a_persian_ending_meets_itself_joined_apart_and_with_a_non_joiner(typed):
    assert terms("کندو\u200cها") & terms(typed)


@pytest.mark.parametrize(("one", "other"), [("ข่าว", "ข้าว"), ("ပဲ့", "ပဲ"), ("かき", "かぎ"), ("ރަށް", "ރިށް")])
def test_marks_that_make_another_word_are_kept(one, other):
    assert fold(one) != fold(other)


@pytest.mark.parametrize(
    ("word", "run"),
    [("ដំឡូង", "ចម្ការដំឡូងជ្វា"), ("ส้ม", "สวนส้มโอ"), ("ໝາກ", "ສວນໝາກກ້ຽງ"), ("ပန်း", "ခြံပန်းတိုင်"), ("ꦏꦼꦧꦺꦴꦤ꧀", "ꦩꦔꦼꦱꦶꦏꦼꦧꦺꦴꦤ꧀")],
)
def test_a_word_with_marks_is_found_inside_a_run(word, run):
    assert set(words_of(word)) <= terms(run)


def test_a_word_of_one_letter_is_found_wherever_it_stands_in_a_run():
    for run, words in (("白鯨の骨", "白鯨骨"), ("큰솥을", "큰솥"), ("在井边", "井边"), ("ปู่ม้า", ["ปู่"])):
        assert {term for word in words for term in terms(word)} <= terms(run)


def test_letters_of_a_pair_are_told_from_other_pieces():
    pieces = [*segment("井边"), *segment("ab 井 v2")]
    assert [letters(piece) for piece in pieces] == [("井", "边"), (), (), ()]
    assert [is_grammar(piece) for piece in segment("どこ在哪井边")][:1] == [True]


@pytest.mark.parametrize(
    ("written", "whole", "not_in"),
    [
        ("v3.4.1", "3.4.1", {"3", "4", "1", "3.4"}),
        ("Version3.4.1", "3.4.1", {"3", "4", "1"}),
        ("dredge-3.4.1", "3.4.1", {"3", "4", "1"}),
        ("dredge3.4", "3.4", {"3", "4"}),
        ("3,400.5", "3400.5", {"3", "400", "5"}),
        ("192.0.2.17", "192.0.2.17", {"192", "17"}),
    ],
)
def test_a_number_with_dots_is_one_word_and_its_digits_are_none(written, whole, not_in):
    assert whole in terms(written)
    assert not terms(written) & not_in


@pytest.mark.parametrize(
    "written",
    [
        "9 March 2033",
        "9th of March 2033",
        "March 9, 2033",
        "Mar 9 2033",
        "9. März 2033",
        "9 de marzo de 2033",
        "2033-03-09",
        "09.03.2033",
    ],
)
def test_a_day_in_words_has_the_term_of_its_iso_spelling(written):
    assert "2033.03.09" in terms(f"On {written}, rain.")
    assert "2033" in terms(written)
    (day,) = (piece for piece in read_query(f"rain on {written}").pieces if piece.code)
    assert day.complete == "2033.03.09"


@pytest.mark.parametrize("written", ["9 marbles 2033", "39 March 2033", "9 March 20333", "version 9 March"])
def test_what_only_looks_like_a_day_is_none(written):
    assert not any(term.startswith("2033.") for term in terms(written))


@pytest.mark.parametrize("name", ["ZX-41", "3.4.1", "E4011", "0x80070005", "2033-03-09", "covid-19"])
def test_numbers_with_a_name_of_their_own_are_codes(name):
    assert [piece.code for piece in segment(name)] == [True]


@pytest.mark.parametrize(
    "name", ["500mb", "2.5x", "24-hour", "3.4.x", "src/v1/api.py", "getUser", "harbour", "1990s", "41"]
)
def test_quantities_paths_and_words_are_no_codes(name):
    assert not any(piece.code for piece in segment(name))


@pytest.mark.parametrize("unit", ["ก็", "ก", "م\u200c", "ក្", "1.", "5 May ", "5 May 2031 ", "न्त", "ء", "v1.5.5-", "井"])
def test_the_time_a_text_takes_grows_with_its_length_and_no_faster(unit):
    def seconds(times):
        text = unit * times
        start = process_time()
        index_terms(text, NO_LANGUAGE, no_stem)
        read_query(text)
        return process_time() - start

    assert keeps_pace(seconds, 2_000, at_most=30, floor=0)  # what is quadratic takes 64 times as long


def test_scripts_without_spaces_are_cut_in_overlapping_pairs():
    assert words_of("東京都 API仕様 水") == ["東京", "京都", "api", "仕様", "水"]


def test_vowel_signs_stay_in_the_word():
    assert words_of("हिन्दी में") == ["हिंदी", "में"]
    assert len(words_of("ཆུ་རགས གཡའ་རྫུ ཐིག་ལེ")) == 6  # a syllable is a word, its stacked letters in it


def test_a_very_long_token_is_shortened_the_same_way_everywhere_and_stays_distinct():
    long = "x" * 5_000
    (term,) = terms(long)
    assert len(term) < 256
    assert terms(long.upper()) == {term}
    assert terms(long + "y") != {term}


def test_a_token_of_250_characters_is_kept_whole():
    assert terms("y" * 250) == {"y" * 250}


def test_parts_have_positions_of_their_own_and_the_whole_stands_at_the_last():
    assert index_terms("the getUser call", NO_LANGUAGE, no_stem) == [
        ("the", 0),
        ("get", 1),
        ("user", 2),
        ("getuser", 2),
        ("call", 3),
    ]


def test_words_are_folded_before_they_are_stemmed():
    seen = []

    def spy(language, words):
        seen.extend(words)
        return words

    index_terms("Canções É", "pt", spy)
    assert seen == ["cancoes"]


def test_names_with_digits_and_unknown_languages_are_not_stemmed():
    assert stem_map(["users", "v2s", "is"], "en", cut_s) == {"users": "user", "v2s": "v2s", "is": "is"}
    assert stem_map(["users"], NO_LANGUAGE, cut_s) == {"users": "users"}


@given(st.text(alphabet=st.characters()))
def test_any_text_gives_terms_tantivy_can_hold(text):
    for term, _ in index_terms(text, NO_LANGUAGE, no_stem):
        assert 0 < len(term.encode("utf-8")) <= 4 * 256
        assert not term.isspace()


@given(st.text(alphabet='ab "*_-.“”[]()\n', max_size=80))
def test_any_query_can_be_read(text):
    query = read_query(text)
    assert all(piece.parts for piece in query.pieces)
    assert all(prefix and "*" not in prefix for prefix in query.prefixes)


def test_quotes_and_a_trailing_star_are_the_only_query_syntax():
    query = read_query('find "flood gate" calib* AND title:regex "lonely a*b')
    assert [[piece.surface for piece in phrase] for phrase in query.phrases] == [["flood", "gate"]]
    assert query.prefixes == ("calib",)
    assert {"find", "flood", "gate", "AND", "lonely", "a", "b"} <= {piece.surface for piece in query.pieces}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What is the weather like in the mountains?", "en"),
        ("¿Cuántos puntos dejaron escapar en defensa los Panthers?", "es"),
        ("Quais são as cidades mais antigas do país e quando foram fundadas?", "pt"),
        ("Quelles sont les villes les plus anciennes du pays et pourquoi ?", "fr"),
        ("Welche Städte sind die ältesten und wann wurden sie gegründet?", "de"),
        ("Quali sono le città più antiche del paese e perché?", "it"),
        ("Welke steden zijn het oudst en wanneer werden ze gesticht?", "nl"),
    ],
)
def test_a_sentence_tells_its_language(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", "kubernetes pod eviction", "import os\nos.path", "12 34", "\ud800"])
def test_a_text_that_does_not_tell_gets_the_default(text):
    assert detect_language(text) == NO_LANGUAGE
    assert detect_language(text, default="de") == "de"


def test_stop_words_are_stored_the_way_words_are_folded():
    assert is_stop_word(fold("für"), "de")
    assert is_stop_word(fold("también"), "es")
    assert not is_stop_word("the", NO_LANGUAGE)
    assert all(
        is_stop_word(word, code)
        for code, word in zip(LANGUAGES, ["the", "el", "nao", "les", "und", "che", "het"], strict=True)
    )


def test_frame_words_are_stored_the_way_words_are_folded_and_are_no_stop_words():
    assert is_frame_word(fold("erwähnt"), "de")
    assert not is_frame_word("mentioned", NO_LANGUAGE)
    for code, words in _FRAME_WORDS.items():
        for word in words.split():
            assert fold(word) == word and not is_stop_word(word, code), (code, word)


def test_spelling_neighbours_are_one_edit_away_and_short_words_keep_their_letters():
    near = spelling_neighbours("valve")
    assert {"vlave", "valv", "valvee"} <= set(near)
    assert "halve" not in near
    assert "calibrate" in spelling_neighbours("calibrete")
    assert len(near) < 54 * 6

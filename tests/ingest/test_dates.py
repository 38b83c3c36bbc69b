from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.text.dates import undated, undated_headings

OWN = "2031-03-03"
SPELLINGS = [
    "2031-03-03", "2031/03/03", "2031.03.03", "2031/3/3", "20310303", "03/03/2031", "3/3/2031", "3.3.2031", "03.03.2031",
    "3. 3. 2031", "03-03-2031", "3/3/31", "3 March 2031", "3rd March 2031", "3rd of March, 2031", "03 Mar 2031", "3-Mar-2031",
    "March 3, 2031", "march 3rd, 2031", "Mar. 3 2031", "2031 March 3", "3 March", "March 3", "3. M\u00e4rz 2031", "3 mars 2031",
    "3 de marzo de 2031", "3 maart 2031", "Monday, 3 March 2031", "Mon 3 March 2031", "2031-03-03 (Monday)",
    "Montag, 3. M\u00e4rz 2031", "2031\u5e743\u67083\u65e5",
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_the_own_date_is_the_same_heading(spelling):
    assert undated(f"Report {spelling}, north quay", OWN) == undated("Report 2031-03-03, north quay", OWN)
    assert undated(f"Report {spelling}", OWN) != undated("Report", OWN)


@pytest.mark.parametrize(
    "other",
    ["2031-03-04", "2030-03-03", "13 March 2031", "3 March 2030", "March 3, 2030", "March 30", "3 May 2031", "2031-03-031",
     "12031-03-03", "Release 3.3.31", "Tuesday, 4 March", "33/3/2031", "3 Marching bands", "x20310303"],
)  # fmt: skip
def test_another_date_and_what_only_looks_like_one_is_content(other):
    assert undated(f"Report {other}", OWN) == f"Report {other}"


@given(
    st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1)),
    st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1)),
)
def test_two_days_written_alike_are_one_heading_and_never_in_iso_form_for_another_day(day, other):
    forms = ("%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%A, %d %B %Y", "%B %d, %Y", "%d %b %Y")
    for form in forms:
        keys = {undated(f"Log of {each.strftime(form)}", each.isoformat()) for each in (day, other)}
        assert len(keys) == 1
    if day != other:
        assert undated(f"Log of {other.isoformat()}", day.isoformat()) == f"Log of {other.isoformat()}"


def test_in_a_passage_headings_and_lines_of_nothing_but_the_date_count_and_prose_does_not():
    text = (
        "# Report 3 March 2031\n\nDate: Monday, 3 March 2031\n\n*2031-03-03*\n\nLog of March 3, 2031\n====\n\n"
        "On 3 March 2031 the crane fell.\n- 2031-03-03 10 crowns"
    )
    assert undated_headings(text, OWN) == (
        "# Report \0\n\nDate: \0\n\n*\0*\n\nLog of \0\n====\n\nOn 3 March 2031 the crane fell.\n- 2031-03-03 10 crowns"
    )
    assert undated_headings(text, "2031-04-03") == text

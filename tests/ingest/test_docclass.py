import pytest

from rag_mcp.models import DocClass
from rag_mcp.text.docclass import classify_doc


def doc_class(path, type_=None, tags=(), **settings):
    return classify_doc(path, type_=type_, tags=tags, **settings)


@pytest.mark.parametrize(
    ("type_", "tags"),
    [("handoff", ()), (" HandOff ", ()), (None, ("Handoff",)), ("report", ("daily", "#handoff"))],
)
def test_front_matter_makes_a_handoff_anywhere(type_, tags):
    assert doc_class("notes/deep/anything.md", type_, tags) is DocClass.HANDOFF


@pytest.mark.parametrize(
    ("type_", "tags"), [("handoffs", ()), ("", ("handoff/morning", "pre-handoff")), (None, ()), ("note handoff", ())]
)
def test_front_matter_must_name_the_class_itself(type_, tags):
    assert doc_class("notes/anything.md", type_, tags) is DocClass.NOTE


@pytest.mark.parametrize(
    "name",
    [
        "handoff.md",
        "active.md",
        "resume.md",
        "HANDOFF.md",
        "handoff-2026-09-03.md",
        "handoff_2.md",
        "handoff-20260903T1430Z.markdown",
        "morning-dispatch-handoff.md",
        "2026-09-03-handoff.md",
        "Evening Handoff 2026-09-03.md",
    ],
)
def test_a_mirror_is_a_handoff_only_directly_in_its_folder(name):
    assert doc_class(f"context/{name}") is DocClass.HANDOFF
    assert doc_class(f"Context/{name}") is DocClass.HANDOFF
    for elsewhere in ("", "context/old/", "project/context/", "my-context/", "contexts/"):
        assert doc_class(elsewhere + name) is DocClass.NOTE


@pytest.mark.parametrize(
    "name",
    [
        "handoff-skill-redesign-spec.md",
        "handoff-2026-09-03-review.md",
        "handoffs.md",
        "nohandoff.md",
        "sessionhandoff.md",
        "activation.md",
        "inactive.md",
        "2026-09-03.md",
        ".md",
        "active.md.md",
    ],
)
def test_a_name_that_only_mentions_the_word_stays_a_note(name):
    assert doc_class(f"context/{name}") is DocClass.NOTE


def test_mirror_folders_and_names_can_be_chosen():
    chosen = {"mirror_dirs": ("./agents/State/", "."), "mirror_basenames": ("now.md",)}
    assert doc_class("agents/state/now.md", **chosen) is DocClass.HANDOFF
    assert doc_class("agents/state/handoff-1.md", **chosen) is DocClass.HANDOFF
    assert doc_class("now.md", **chosen) is DocClass.HANDOFF
    assert doc_class("agents/state/active.md", **chosen) is DocClass.NOTE
    assert doc_class("context/now.md", **chosen) is DocClass.NOTE
    assert doc_class("context/handoff.md", mirror_dirs=()) is DocClass.NOTE


def test_the_same_folder_in_another_normalisation_is_the_mirror():
    assert doc_class("übergabe/handoff.md", mirror_dirs=("u\u0308bergabe",)) is DocClass.HANDOFF

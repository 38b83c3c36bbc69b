import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_mcp.access.policy import Policy, ProfileRule, Rule
from rag_mcp.access.profiles import (
    AccessPlan,
    Rights,
    plan_access,
    resolve_profile,
)
from rag_mcp.access.withdrawal import Cause, Withdrawal
from rag_mcp.models import SourceClass

CODE, DOCS, DECISIONS, CONFIG, MEMORY = (
    SourceClass.CODE,
    SourceClass.DOCS,
    SourceClass.DECISIONS,
    SourceClass.CONFIG,
    SourceClass.MEMORY,
)
CLASSES = st.frozensets(st.sampled_from(SourceClass))
REQUESTS = st.one_of(st.none(), st.sampled_from(SourceClass))
MISSPELT = [
    None,
    "",
    " ",
    "Restricted",
    " auditor ",
    "auditor ",
    "Auditor",
    "AUDITOR",
    "auditor;",
    "auditor\n",
    "auditor\0",
    "auditor,restricted",
    "root",
    "*",
    "\u0430uditor",
    "ａuditor",
]


@pytest.mark.parametrize("raw", MISSPELT)
def test_every_name_but_the_exact_one_is_restricted(raw):
    profile = resolve_profile(raw, Policy())
    assert (profile.name, profile.classes) == ("restricted", {DOCS, DECISIONS})


@given(st.text())
def test_no_text_gives_more_than_a_defined_profile(raw):
    policy = Policy()
    assert resolve_profile(raw, policy).name == (raw if raw in policy.profiles else "restricted")


def test_an_unknown_name_gets_what_the_policy_calls_restricted():
    policy = Policy(profiles={"restricted": ProfileRule(frozenset({MEMORY}))})
    assert resolve_profile("nobody", policy).classes == {MEMORY}


@pytest.mark.parametrize(
    ("name", "requested", "plan"),
    [
        ("restricted", None, AccessPlan((DECISIONS, DOCS))),
        ("engineer", None, AccessPlan((CODE, DECISIONS, DOCS))),
        ("auditor", None, AccessPlan((CODE, DECISIONS, DOCS, MEMORY))),
        ("auditor", CONFIG, AccessPlan((CONFIG,))),
        ("auditor", MEMORY, AccessPlan((MEMORY,))),
        ("restricted", DOCS, AccessPlan((DOCS,))),
        ("restricted", CODE, AccessPlan((), (CODE,))),
        ("engineer", CONFIG, AccessPlan((), (CONFIG,))),
        ("nobody", MEMORY, AccessPlan((), (MEMORY,))),
    ],
)
def test_the_plan_is_the_documented_table(name, requested, plan):
    assert plan_access(resolve_profile(name, Policy()), requested) == plan


@given(CLASSES, CLASSES, REQUESTS, st.sampled_from(SourceClass))
def test_only_a_planned_class_is_ever_seen(classes, explicit, requested, source_class):
    policy = Policy(rules=(Rule("**", source_class),), profiles={"p": ProfileRule(classes, explicit)})
    profile = resolve_profile("p", policy)
    plan = plan_access(profile, requested)
    assert set(plan.classes) <= classes
    assert requested is not None or not set(plan.classes) & explicit
    assert set(plan.skipped_by_acl) == ({requested} - classes if requested else set())
    seen = Rights(profile, policy).may_see(source_class, "a.md", requested=requested)
    assert seen == (source_class in plan.classes)
    assert Rights(profile, policy).may_open(source_class, "a.md") == (source_class in classes)


@given(CLASSES, CLASSES, REQUESTS, st.sampled_from(SourceClass), st.sampled_from(SourceClass), st.booleans())
def test_the_class_of_the_index_and_the_class_of_today_must_both_be_permitted(
    classes, explicit, requested, indexed, today, moved
):
    rules = (Rule("**", indexed if moved else today),)
    policy = Policy(rules=rules, profiles={"p": ProfileRule(classes, explicit)})
    rights = Rights(
        resolve_profile("p", policy), policy, {"a.md": (Withdrawal(1, Cause.MOVED, "", today),)} if moved else {}
    )
    assert rights.may_open(indexed, "a.md") == ({indexed, today} <= classes)
    if rights.may_see(indexed, "a.md", requested=requested):
        assert rights.may_open(indexed, "a.md")
        assert requested in (None, indexed)
        assert not ({indexed, today} - {requested}) & explicit


def test_what_was_withdrawn_is_seen_by_nobody():
    policy = Policy()
    for name in policy.profiles:
        rights = Rights(resolve_profile(name, policy), policy, {"a.md": (Withdrawal(1, Cause.GONE, ""),)})
        assert rights.may_open(DOCS, "b.md")
        assert not rights.may_open(DOCS, "a.md")
        assert not rights.may_see(DOCS, "a.md", requested=DOCS)


def test_a_denied_path_is_seen_by_nobody_in_any_spelling():
    policy = Policy(deny=("secret/",))
    profile = resolve_profile("auditor", policy)
    for path in ("secret/a.md", "Secret/a.md", "x/SECRET/a.md"):
        assert not Rights(profile, policy).may_see(DOCS, path, requested=None)
        assert not Rights(profile, policy).may_see(DOCS, path, requested=DOCS)
        assert not Rights(profile, policy).may_open(DOCS, path)


def test_an_exact_path_opens_an_explicit_class_and_a_listing_does_not():
    policy = Policy()
    auditor = resolve_profile("auditor", policy)
    assert Rights(auditor, policy).may_open(CONFIG, "config/q.md")
    assert not Rights(auditor, policy).may_see(CONFIG, "config/q.md", requested=None)
    assert not Rights(resolve_profile("engineer", policy), policy).may_open(CONFIG, "config/q.md")

"""What becomes of a note that holds a secret, from the file to every byte of the store."""

import json
import runpy
from pathlib import Path

import pytest
from cli_process import forked_cli

TOKEN = "ghp_" + "k3Rt9QwZb1Lm" * 3
HUMAN = "Ferry-anchor42"
NOTE = f"""---
title: Router {{password: "{HUMAN}1"}}
aliases: ["wifi password is {HUMAN}2"]
tags: [quay]
admin_password: {HUMAN}3
---
# Gangway

Board at the north gangway.

## Password: {HUMAN}4

| key | value |
| --- | --- |
| password | {HUMAN}5 |

Lanterns are lit at dusk.
"""


def stored(library) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(library.store_path.rglob("*")) if path.is_file())


@pytest.mark.parametrize("held", [NOTE, f"---\nbroken: [\n---\n# Gangway\n\nBoard here. The password is {HUMAN}6.\n"])
def test_a_masked_value_is_in_no_byte_of_the_store_and_in_no_report(library, held):
    library.write({"gangway.md": held, "plain.md": "# Pier\n\nThe pier is long.\n"})
    summary = library.ingest()
    assert HUMAN.encode() not in stored(library)
    assert HUMAN not in repr(summary)
    said = [notice.reason if hasattr(notice, "reason") else notice.text for notice in summary.notices]
    assert any("possible secret" in each and "masked (line" in each for each in said)
    assert not [each for each in summary.skipped if each.source == "gangway.md"]


def test_the_rest_of_a_masked_note_is_found_with_the_lines_of_the_file(library):
    library.write({"gangway.md": NOTE})
    library.ingest()
    chunks = list(library.dump().values())
    assert any("Lanterns are lit" in chunk["text"] and chunk["line_end"] == 17 for chunk in chunks)
    assert "[secret masked]" in json.dumps(chunks)


def test_a_strong_finding_leaves_the_file_out_with_kind_and_line(library):
    library.write({"keys.md": f"# Keys\n\nMirror: {TOKEN}\n", "plain.md": "# Pier\n\nThe pier is long.\n"})
    summary = library.ingest()
    (skipped,) = summary.skipped
    assert (skipped.source, skipped.reason) == ("keys.md", "possible secret: GitHub Token (line 3)")
    assert TOKEN.encode() not in stored(library)


def test_a_policy_accepts_kinds_of_both_tiers(library, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("allow_secrets:\n  - {path: 'samples/', kinds: [GitHub Token, Password]}\n", encoding="utf-8")
    text = f"# Keys\n\nMirror: {TOKEN}\n\npassword: {HUMAN}\n"
    library.write({"samples/keys.md": text, "notes/keys.md": text})
    done = forked_cli(
        "ingest", library.corpus, "--db", library.store_path, "--embedder", "hash", "--policy", policy, "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [each["source"] for each in report["skipped"]] == ["notes/keys.md"]
    assert HUMAN.encode() in stored(library)


def test_the_guard_finds_nearly_all_of_a_labelled_set_and_takes_next_to_nothing_harmless():
    report = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "guard_report.py"))
    notes = list(report["labelled"](seed=7, variants=2))
    found = [report["right"](note) for note in notes if note.secret]
    untouched = [report["right"](note) for note in notes if not note.secret]
    assert sum(found) / len(found) >= 0.95
    assert sum(untouched) / len(untouched) >= 0.98

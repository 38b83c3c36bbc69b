"""Everything the threat model claims is shown by a test that exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
TEXT = (TESTS.parent / "docs" / "THREAT_MODEL.md").read_text(encoding="utf-8")


def test_every_named_test_exists():
    there = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py"))
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 10
    assert [name for name in sorted(named) if f"def {name}(" not in there] == []


def test_every_named_file_of_tests_exists():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT))
    assert named
    assert [name for name in sorted(named) if not (TESTS.parent / name).is_file()] == []


def test_every_threat_has_a_test():
    rows = [line for line in TEXT.split("\n") if line.startswith("| ") and not line.startswith(("| ---", "| threat"))]
    assert rows
    assert all("test" in row.split("|")[3] for row in rows)

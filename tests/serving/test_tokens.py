"""Tokens: shown once, kept as digests, worth nothing from the moment they are removed."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from cli_process import cli_json, forked_cli

from rag_mcp.errors import ConfigError, InvalidArgument
from rag_mcp.server.http import tokens as module
from rag_mcp.server.http.tokens import Token, TokenFile, TokenWatch, default_place, digest_of, holder_of

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


@pytest.fixture
def file(tmp_path):
    return TokenFile(tmp_path / "settings" / "tokens.json")


def test_the_secret_is_kept_nowhere_and_the_file_is_its_owners_alone(file):
    token, secret = file.add("auditor", "laptop")
    assert token == file.read()[0] and token.sha256 == digest_of(secret) and len(secret) == 43
    everything = b"".join(path.read_bytes() for path in file.path.parent.iterdir())
    assert secret.encode() not in everything
    if os.name != "nt":
        assert {stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.iterdir()} == {0o600}
        assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_a_secret_is_its_holders_and_nothing_else_is(file):
    (one, first), (two, second) = file.add("auditor"), file.add("engineer")
    assert holder_of(first, file.read()) == one and holder_of(second, file.read()) == two
    for wrong in ("", first[:-1], first + "x", first.upper(), one.sha256, "\ud800", "x" * 100_000):
        assert holder_of(wrong, file.read()) is None


def test_every_digest_is_compared_whole_and_in_constant_time(file, monkeypatch):
    secrets = [file.add("auditor")[1] for _ in range(3)]
    compared = []
    real = module.hmac.compare_digest
    monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    for secret in (*secrets, "unknown"):
        compared.clear()
        holder_of(secret, file.read())
        assert compared == [(digest_of(secret), token.sha256) for token in file.read()]


def test_a_name_is_free_and_plain_or_made_after_the_profile(file):
    assert [file.add("auditor")[0].name for _ in range(3)] == ["auditor", "auditor-2", "auditor-3"]
    assert file.add("team täter")[0].name == "team-t-ter"
    for name in ("auditor", "", "a b", "../x", "x" * 65, "-x"):
        with pytest.raises(InvalidArgument, match="name"):
            file.add("auditor", name)


def test_the_watch_follows_the_file_and_a_damaged_one_admits_nobody(file, caplog):
    watch = TokenWatch(file)
    assert watch.current() == ()
    token, secret = file.add("auditor", "laptop")
    assert watch.holder(secret) == token
    other, _ = file.add("engineer", "desk")
    assert watch.current() == (token, other)
    whole = file.path.read_text()
    for damage in (
        "",
        "{",
        "[]",
        '{"format": 2, "tokens": []}',
        whole[:-20],
        whole.replace(token.sha256, "0"),
        "[" * 9_000,
    ):
        file.path.write_text(damage)
        assert watch.holder(secret) is None
    assert watch.current() == () and len(caplog.records) == 7
    file.path.write_text(whole)
    assert watch.holder(secret) == token
    assert file.remove("laptop") == token
    assert watch.holder(secret) is None and watch.current() == (other,)
    file.path.unlink()
    assert watch.current() == ()


@posix
def test_a_file_that_others_may_write_to_admits_nobody(file):
    _, secret = file.add("auditor")
    watch = TokenWatch(file)
    assert watch.holder(secret)
    file.path.chmod(0o620)
    assert watch.holder(secret) is None
    with pytest.raises(ConfigError, match="chmod 600"):
        file.read()
    file.path.chmod(0o600)
    assert watch.holder(secret)


def test_an_entry_with_another_field_or_twice_the_same_is_no_file_of_tokens(file):
    token, _ = file.add("auditor")
    kept = json.loads(file.path.read_text())
    for tokens in (kept["tokens"] * 2, [{**kept["tokens"][0], "admin": "yes"}], [{**kept["tokens"][0], "profile": 3}]):
        file.path.write_text(json.dumps({**kept, "tokens": tokens}))
        with pytest.raises(ConfigError, match="file of tokens"):
            file.read()
    assert isinstance(token, Token)


def test_commands_that_change_the_file_at_once_lose_nothing(file):
    makers = [threading.Thread(target=file.add, args=("auditor", f"host-{number}")) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(30)
    assert {token.name for token in file.read()} == {f"host-{number}" for number in range(8)}


@pytest.mark.parametrize(
    ("platform", "env", "place"),
    [
        ("linux", {}, "/home/ann/.config/rag-mcp/tokens.json"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/ann"}, "/etc/ann/rag-mcp/tokens.json"),
        ("darwin", {}, "/home/ann/Library/Application Support/rag-mcp/tokens.json"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/rag-mcp/tokens.json"),
    ],
)
def test_the_file_lies_where_the_system_keeps_settings(platform, env, place):
    assert default_place(platform, Path("/home/ann"), env) == Path(place)


def test_the_command_prints_a_secret_once_and_lists_and_removes_by_name(tmp_path):
    place = ("--tokens", tmp_path / "tokens.json")
    made = forked_cli("token", "add", "--profile", "engineer", "--name", "laptop", *place)
    assert made.returncode == 0 and len(made.stdout.split()) == 1
    second = cli_json("token", "add", "--profile", "auditor", *place)
    assert holder_of(str(second["token"]), TokenFile(place[1]).read()).profile == "auditor"
    listed = forked_cli("token", "list", *place)
    assert "laptop  profile engineer" in listed.stdout and made.stdout.strip() not in listed.stdout + listed.stderr
    assert [each["name"] for each in cli_json("token", "list", *place)["tokens"]] == ["laptop", "auditor"]
    assert forked_cli("token", "remove", "laptop", *place).returncode == 0
    refused = forked_cli("token", "remove", "laptop", *place)
    assert refused.returncode == 2 and "auditor" in refused.stderr


def test_a_profile_that_no_policy_defines_is_said_to_count_as_restricted(tmp_path):
    made = forked_cli("token", "add", "--profile", "Auditor", "--tokens", tmp_path / "tokens.json")
    assert made.returncode == 0 and "not defined, so restricted counts" in made.stderr
    assert forked_cli("token", "add", "--profile", " ", "--tokens", tmp_path / "tokens.json").returncode == 2

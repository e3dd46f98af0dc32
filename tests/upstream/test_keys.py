"""Keys of one provider: which one a request goes out by, those that rest, and what renews them.

Requests that go out by them are in `test_played`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.commands import CommandFailed, pick_variables, run_command
from gateway.config.records import KeySource
from gateway.errors import BadRequest, UpstreamError, UpstreamUnavailable
from gateway.upstream.renewal import KeyFile, fetch_key, read_output
from gateway.upstream.rests import REST_SECONDS, KeyRing, ProviderKey
from tests.support.waiting import until

SECRETS: Final = ("sk-first-0123456789aaaa", "sk-second-0123456789bbbb", "sk-third-0123456789cccc")
AFFINITIES: Final = tuple(f"key_{number:04}" for number in range(900))


def make_refusal(status: int = 429, rest_seconds: float = 0.0) -> UpstreamError:
    error = UpstreamUnavailable("Limited.", rest_seconds=rest_seconds, cause=f"status {status}")
    error.upstream_status = status
    return error


def choose(ring: KeyRing, affinity: str) -> ProviderKey:
    return ring.line_up(affinity)[0]


# ---- the ring ------------------------------------------------------------------------------------


def test_one_affinity_goes_by_one_key_in_any_order() -> None:
    """So a restart, or keys written in another order, lose no cache."""
    first, second = KeyRing("p", SECRETS), KeyRing("p", SECRETS[::-1])
    for affinity in AFFINITIES:
        assert choose(first, affinity).secret == choose(second, affinity).secret


def test_affinities_are_spread_evenly() -> None:
    ring = KeyRing("p", SECRETS)
    counts = Counter(choose(ring, affinity).secret for affinity in AFFINITIES)
    assert all(200 < counts[secret] < 400 for secret in SECRETS)


def test_only_the_requests_of_a_resting_key_move() -> None:
    ring = KeyRing("p", SECRETS)
    before = {affinity: choose(ring, affinity) for affinity in AFFINITIES}
    assert ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal())
    for affinity, key in before.items():
        assert (choose(ring, affinity) is key) is (key is not ring.keys[0])
    ring.keys[0].rests_until = 0.0
    assert {affinity: choose(ring, affinity) for affinity in AFFINITIES} == before


def test_when_all_rest_the_one_that_rests_least_is_tried() -> None:
    ring = KeyRing("p", SECRETS)
    for key, seconds in zip(ring.keys, (30, 5, 60), strict=True):
        ring.let_rest(key, key.secret, make_refusal(rest_seconds=seconds))
    assert ring.line_up("any") == [ring.keys[1]]
    assert [key.rest_seconds for key in ring.keys] == [30, 5, 60]


def test_a_rest_without_a_time_has_ours() -> None:
    ring = KeyRing("p", SECRETS)
    ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal())
    assert ring.keys[0].rest_seconds == REST_SECONDS


def test_what_is_not_the_keys_fault_lets_none_rest() -> None:
    ring = KeyRing("p", SECRETS)
    assert not ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal(500))
    assert not ring.let_rest(ring.keys[0], ring.keys[0].secret, BadRequest("No."))
    assert ring.keys[0].rest_seconds == 0


SOURCE: Final = KeySource("command:true", ("true",), Path(), 3000)


def test_a_key_that_its_source_has_not_given_is_not_tried_first() -> None:
    ring = KeyRing("p", ("", "lasting-key"), (SOURCE, None))
    assert {choose(ring, affinity).secret for affinity in AFFINITIES[:50]} == {"lasting-key"}
    ring.keys[0].renew("first-key")
    assert {choose(ring, affinity).secret for affinity in AFFINITIES[:50]} == {
        "first-key",
        "lasting-key",
    }


def test_a_refusal_of_the_old_key_lets_the_new_one_serve() -> None:
    ring = KeyRing("p", ("", "lasting-key"), (SOURCE, None))
    key = ring.keys[0]
    key.renew("first-key")
    key.renew("second-key")
    assert ring.let_rest(key, "first-key", make_refusal(401))
    assert key.rest_seconds == 0


def test_a_failure_is_of_the_time_at_which_it_began() -> None:
    (key,) = KeyRing("p", ("first-key",), (SOURCE,)).keys
    for now_ms in (1, 2):
        key.note_failure("The command exited with 1.", now_ms)
    assert key.failed_ms == 1
    key.renew("first-key")
    key.note_failure("The command exited with 1.", 3)
    assert key.failed_ms == 3


def test_an_only_key_never_rests() -> None:
    """Routing lets the model rest instead; see `ProviderState`."""
    for secrets in ((), SECRETS[:1]):
        ring = KeyRing("p", secrets)
        ring.let_rest(ring.keys[0], ring.keys[0].secret, make_refusal())
        assert (ring.keys[0].rest_seconds, len(ring.line_up(""))) == (0, 1)


# ---- commands ------------------------------------------------------------------------------------


KEY: Final = "ya29.a-token-of-an-hour"


def test_an_end_without_an_offset_is_local_time() -> None:
    """Older versions of `az` print nothing else."""
    output = b'{"accessToken": "ya29.key", "expiresOn": "2023-11-14 22:13:20.000000"}'
    local = time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))
    assert read_output(output, 0.0) == ("ya29.key", local)


async def run(*command: str, limit_seconds: float = 30.0) -> bytes:
    return await run_command(command, limit_seconds=limit_seconds, max_output=1024)


async def test_a_command_is_run_in_the_folder_of_the_file_and_by_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{KEY}\n")
    source = KeySource("command:", ("cat", "token"), tmp_path, 60)
    assert await fetch_key(source) == (KEY, None)
    assert await run("echo", "$HOME", ";") == b"$HOME ;\n"
    # Nor does it see what it does not need: the gateway's variables have its secrets.
    passed = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"]
    usual = {*pick_variables(os.environ, ())} - {*passed}
    for name in (*passed, "OPENAI_API_KEY", "STRIPE_SECRET_KEY", "XPATH", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, os.environ["PATH"])
    env = await run_command(["env"], limit_seconds=30, max_output=1 << 16)
    assert {one.partition("=")[0] for one in env.decode().splitlines()} - usual == {*passed}
    asks = replace(source, command=("sh", "-c", 'echo "$AZURE_$CLOUDSDK_CONFIG"'))
    monkeypatch.setenv("CLOUDSDK_CONFIG", KEY)
    assert await fetch_key(replace(asks, variables=("CLOUDSDK_CONFIG",))) == (KEY, None)
    with pytest.raises(ValueError, match="no key"):
        await fetch_key(asks)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("cat", "/nowhere/at-all"), "the command exited with 1"),
        (("/nowhere/at-all",), "the command did not start: No such file or directory"),
        (("head", "-c", "9999", "/dev/zero"), "the command wrote more than 1 KiB"),
    ],
)
async def test_a_command_that_fails_says_why_in_our_words(
    command: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandFailed) as failure:
        await run(*command)
    assert str(failure.value) == words


async def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(CommandFailed, match="took longer than"):
        await run("sh", "-c", f"echo $$ > {pid}; sleep 600", limit_seconds=0.5)
    assert not is_running(int(pid.read_text()))


async def test_a_command_ends_with_what_runs_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    running = run("sh", "-c", f"echo $$ > {pid}; exec sleep 600")
    task = asyncio.get_running_loop().create_task(running)
    await until(lambda: pid.exists() and pid.read_text().strip(), "the command to run")
    task.cancel()
    await asyncio.wait([task])
    assert not is_running(int(pid.read_text()))


def is_running(pid: int) -> bool:
    """Return whether a process is there, be it as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first-secret\n")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    assert [read(), read()] == ["first-secret", None]
    path.write_text("other-secret\n")  # as long
    os.utime(path, ns=(1, 1))
    assert [read(), read()] == ["other-secret", None]


def test_a_link_that_is_replaced_is_followed(tmp_path: Path) -> None:
    """Kubernetes swaps a link to a folder: neither the name nor the file behind it changes."""
    for number in (1, 2):
        (tmp_path / f"..data-{number}").mkdir()
        (tmp_path / f"..data-{number}/key").write_text(f"secret-{number}")
        os.utime(tmp_path / f"..data-{number}/key", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..data-1")
    (tmp_path / "key").symlink_to("..data/key")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    assert read() == "secret-1"
    (tmp_path / "new").symlink_to("..data-2")
    (tmp_path / "new").rename(tmp_path / "..data")
    assert read() == "secret-2"


@pytest.mark.parametrize(("content", "words"), [(None, "cannot be read"), ("", "one word")])
def test_a_file_without_a_key_is_looked_at_again(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "key"
    path.write_text("first-secret")
    read = KeyFile(KeySource("file:key", (), tmp_path, 0)).read
    read()
    path.unlink()
    if content is not None:
        path.write_text(content)
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            read()
    path.write_text("second-secret")
    assert read() == "second-secret"

"""Keys that are renewed: what a command prints, files that change, and a cloud that refuses old ones."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from gateway.commands import CommandFailed, run_command
from gateway.config.records import KeySource
from gateway.dialects.exchanges import EXCHANGES
from gateway.errors import Overloaded, UpstreamError, UpstreamUnavailable
from gateway.tasks import spawn
from gateway.upstream.attempt import Attempt, CollectedBody
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.renewal import EARLY_SECONDS, KeyFile, Renewal, fetch_key, read_output
from gateway.upstream.rests import ProviderKey
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, error_reply, json_reply
from tests.support.rows import each_row
from tests.support.upstream import Exchange, Script, ScriptedUpstream
from tests.support.waiting import until

EXCHANGE: Final = EXCHANGES["chat"]["chat"]
NOW: Final = 1_700_000_000.0
KEY: Final = "ya29.a-token-of-an-hour"


def say(**members: object) -> bytes:
    return json.dumps(members).encode()


@each_row(
    ("output", "ends"),
    [
        (f"{KEY}\n".encode(), None),
        (f"  {KEY}\r\n\n".encode(), None),
        (say(token=KEY), None),
        # kubectl's ExecCredential
        (
            say(
                kind="ExecCredential",
                status={"token": KEY, "expirationTimestamp": "2023-11-14T23:13:20+01:00"},
            ),
            NOW,
        ),
        # gcloud config config-helper --format=json
        (
            say(credential={"access_token": KEY, "token_expiry": "2023-11-14T22:13:20Z"}, sent=1),
            NOW,
        ),
        # az account get-access-token
        (say(accessToken=KEY, expiresOn="2023-01-01 00:00:00.0", expires_on=int(NOW)), NOW),
        # the metadata servers of Google and of Azure
        (say(access_token=KEY, expires_in=3599, token_type="Bearer"), NOW + 3599),
        (say(access_token=KEY, expires_in="3599", expires_on="1"), NOW + 3599),
    ],
)
def test_a_key_and_its_end_are_read_as_clouds_print_them(output: bytes, ends: float | None) -> None:
    assert read_output(output, NOW) == (KEY, ends)


def test_an_end_without_an_offset_is_local_time() -> None:
    """Older versions of `az` print nothing else."""
    output = say(accessToken=KEY, expiresOn="2023-11-14 22:13:20.000000")
    local = time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))
    assert read_output(output, NOW) == (KEY, local)


@each_row(
    ("output", "words"),
    [
        (b"", "printed no key"),
        (b"{}", "printed no key"),
        (say(token=17), "printed no key"),
        (b"two-secret words-secret", "more than one word of ASCII"),
        (b"first-secret\nsecond-secret", "more than one word of ASCII"),
        (f"{KEY}-secret\xff".encode(), "more than one word of ASCII"),
        (b'{"token": "a-secret', "broken JSON"),
        (say(token=KEY, expires_in="a-secret"), "no time"),
        (say(token=KEY, expirationTimestamp="a-secret"), "no time"),
    ],
)
def test_what_is_no_key_is_refused_and_never_repeated(output: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as failure:
        read_output(output, NOW)
    assert "secret" not in str(failure.value)
    assert (
        failure.value.__suppress_context__ or failure.value.__context__ is None or "time" in words
    )


# ---- commands ------------------------------------------------------------------------------------


async def run(*command: str, limit_seconds: float = 30.0) -> bytes:
    return await run_command(command, limit_seconds=limit_seconds, max_output=1024)


async def test_a_command_is_run_in_the_folder_of_the_file_and_by_no_shell(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{KEY}\n")
    source = KeySource("command:", ("cat", "token"), tmp_path, 60)
    assert await fetch_key(source) == (KEY, None)
    assert await run("echo", "$HOME", ";") == b"$HOME ;\n"


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


# ---- a cloud that refuses keys which have ended -----------------------------------------------------


@dataclass(slots=True)
class Cloud:
    """A provider, the keys that it takes, and the file that the command prints."""

    scripted: ScriptedUpstream
    printed: Path
    forwarder: HttpForwarder
    valid: set[str] = field(default_factory=set)
    renewals: list[Renewal] = field(default_factory=list)

    def issue(self, *keys: str) -> None:
        """Let these keys count alone, and have the last one printed."""
        self.valid = set(keys)
        self.printed.write_text(keys[-1])

    def answer(self, exchange: Exchange) -> Script:
        is_known = exchange.headers["authorization"].removeprefix("Bearer ") in self.valid
        return json_reply(completion()) if is_known else error_reply(401, "It has expired.")

    def age(self) -> None:
        """Let the last renewal be long ago."""
        for renewal in self.renewals:
            renewal._began -= EARLY_SECONDS

    async def ask(self) -> list[str]:
        """Ask once; return the keys by which the request went out."""
        before = len(self.scripted.exchanges)
        try:
            attempt = Attempt(self.forwarder.provider, on_sent=lambda: None)
            answer = await self.forwarder.open(EXCHANGE, b"{}", {}, attempt)
            await answer.deliver(CollectedBody())
            answer.close()
        finally:
            sent = self.scripted.exchanges[before:]
            used = [one.headers["authorization"].removeprefix("Bearer ") for one in sent]
        return used


Make = Callable[..., Cloud]


@pytest.fixture
def make(tmp_path: Path, alpha: ScriptedUpstream, places: Places) -> Make:
    def make(
        *command: str,
        keys: tuple[str, ...] = ("",),
        before: Cloud | None = None,
        place: str = "command:cat token",
    ) -> Cloud:
        words = command or tuple(place.removeprefix("command:").split())
        source = KeySource(place, () if place.startswith("file:") else words, tmp_path, 3000)
        sources = tuple(None if key else source for key in keys)
        provider = make_provider(base_url=places.urls["alpha"], api_keys=keys, sources=sources)
        forwarder = HttpForwarder(provider, None if before is None else before.forwarder)
        cloud = Cloud(alpha, tmp_path / "token", forwarder)
        alpha.always(cloud.answer)
        return cloud

    return make


@asynccontextmanager
async def renewing(cloud: Cloud) -> AsyncIterator[None]:
    tasks = []
    for key in cloud.forwarder.keys:
        if key.source is not None:
            key.renewing = renewal = Renewal("cloud", key, key.source)
            cloud.renewals.append(renewal)
            tasks.append(spawn(renewal.run(), name="renewal"))
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cloud.forwarder.close()


async def test_a_first_request_waits_for_the_first_key(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        assert await cloud.ask() == ["first-key"]
        cloud.issue("first-key", "second-key")
        assert await cloud.ask() == ["first-key"], "nothing is run for each request"


async def test_a_key_that_is_refused_is_renewed_and_the_request_sent_once_more(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.issue("second-key")
        cloud.age()
        assert await cloud.ask() == ["first-key", "second-key"]
        assert await cloud.ask() == ["second-key"]
        cloud.issue("third-key")
        cloud.age()
        await cloud.ask()
        assert {secret for _, secret in cloud.forwarder._heads} == {"second-key", "third-key"}
        (key,) = cloud.forwarder.keys
        assert (key.in_flight, key.rest_seconds, key.problem) == (0, 0, "")


async def test_a_file_is_read_at_once_when_its_key_is_refused(make: Make) -> None:
    cloud = make(place="file:token")
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.issue("second-key")
        cloud.age()
        assert await cloud.ask() == ["first-key", "second-key"]
        cloud.printed.unlink()
        cloud.age()
        await cloud.renewals[0].replace("second-key", lambda: False)
        assert cloud.forwarder.keys[0].problem.startswith("cannot be read from")
        assert await cloud.ask() == ["second-key"]


class Eager:
    """Gives another key whenever it is asked."""

    def __init__(self, key: ProviderKey) -> None:
        self._key, self._count = key, 0

    def hurry(self, refused: str) -> None:
        del refused

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        del refused, is_over
        self._count += 1
        return self._key.renew(f"key-{self._count}")


async def test_a_request_is_not_sent_a_third_time(make: Make) -> None:
    cloud = make()
    (key,) = cloud.forwarder.keys
    key.renew("first-key")
    key.renewing = Eager(key)
    with pytest.raises(UpstreamError, match="401"):
        await cloud.ask()
    assert len(cloud.scripted.exchanges) == 2
    cloud.forwarder.close()


async def test_refusals_do_not_run_the_command_again_and_again(make: Make) -> None:
    cloud = make("sh", "-c", "echo >> runs; cat token")
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.valid = set()
        cloud.age()
        for _ in range(3):
            with pytest.raises(UpstreamError, match="401"):
                await cloud.ask()
    assert (cloud.printed.parent / "runs").read_text().count("\n") == 2


@pytest.mark.parametrize("status", [402, 403, 429])
async def test_a_limit_is_no_reason_to_renew_a_key(make: Make, status: int) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.issue("first-key", "second-key")
        cloud.age()
        cloud.scripted.always(error_reply(status))
        with pytest.raises(UpstreamError):
            await cloud.ask()
        assert cloud.forwarder.keys[0].secret == "first-key"
        assert len(cloud.scripted.exchanges) == 2


async def test_requests_at_once_wait_for_one_renewal(make: Make) -> None:
    cloud = make("sh", "-c", "echo >> runs; cat token")
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.issue("second-key")
        cloud.age()
        await asyncio.gather(*(cloud.ask() for _ in range(5)))
    assert (cloud.printed.parent / "runs").read_text().count("\n") == 2


async def test_while_a_renewal_fails_the_old_key_serves(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        (key,) = cloud.forwarder.keys
        cloud.printed.unlink()
        cloud.age()
        cloud.renewals[0].hurry("first-key")
        await until(lambda: key.problem, "the failure")
        assert key.problem == "the command exited with 1"
        assert key.failed_ms > 0
        assert await cloud.ask() == ["first-key"]
        cloud.issue("second-key")
        cloud.age()
        assert await cloud.ask() == ["first-key", "second-key"]
        assert key.problem == ""


async def test_without_any_key_nothing_is_sent_and_the_next_route_is_tried(make: Make) -> None:
    cloud = make("false")
    async with renewing(cloud):
        with pytest.raises(UpstreamUnavailable) as failure:
            await cloud.ask()
    assert (failure.value.next_route, failure.value.blame) == (True, "nobody")
    assert cloud.scripted.exchanges == []


async def test_another_key_serves_at_once_while_one_is_renewed(make: Make) -> None:
    cloud = make(keys=("", "lasting-key"))
    cloud.issue("lasting-key", "first-key")
    async with renewing(cloud):
        renewed = cloud.forwarder.keys[0]
        await until(lambda: renewed.secret, "the first key")
        cloud.issue("lasting-key", "second-key")
        cloud.age()
        for affinity in range(20):
            attempt = Attempt(cloud.forwarder.provider, affinity=str(affinity))
            (await cloud.forwarder.open(EXCHANGE, b"{}", {}, attempt)).close()
        await until(lambda: renewed.secret == "second-key", "the renewal")
        assert renewed.rest_seconds == 0, "the old one was refused, not this one"


async def test_other_settings_keep_the_key_of_the_same_command(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        other = make(before=cloud)
        assert other.forwarder.keys[0] is cloud.forwarder.keys[0]
        source = cloud.forwarder.keys[0].source
        assert source is not None
        changed = replace(
            cloud.forwarder.provider, sources=(replace(source, command=("true",), place="x"),)
        )
        assert HttpForwarder(changed, cloud.forwarder).keys[0].secret == ""


async def test_a_request_that_ends_does_not_wait_for_its_key(make: Make) -> None:
    """Its caller has left, or the gateway stops."""
    cloud = make("sleep", "600")
    async with renewing(cloud), asyncio.timeout(5):
        attempt = Attempt(cloud.forwarder.provider)
        opening = asyncio.get_running_loop().create_task(
            cloud.forwarder.open(EXCHANGE, b"{}", {}, attempt)
        )
        await asyncio.sleep(0)
        attempt.fail(Overloaded("The gateway stops."))
        with pytest.raises(Overloaded):
            await opening
    assert cloud.scripted.exchanges == []


async def test_old_and_new_keys_are_in_no_error(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
        cloud.issue("second-key")
        cloud.age()
        await cloud.ask()
        error = UpstreamError("No first-key and no second-key.")
        assert cloud.forwarder.redact(error).message == "No [redacted] and no [redacted]."


async def test_a_request_does_not_wait_for_a_renewal_that_has_ended(make: Make) -> None:
    cloud = make()
    cloud.issue("first-key")
    async with renewing(cloud):
        await cloud.ask()
    cloud.valid = set()
    cloud.age()
    async with asyncio.timeout(5):
        with pytest.raises(UpstreamError, match="401"):
            await cloud.ask()

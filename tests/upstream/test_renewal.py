"""Keys that are renewed: what a command prints, files that change, and a cloud that refuses old ones."""

from __future__ import annotations

import asyncio
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
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.renewal import (
    EARLY_SECONDS,
    RETRY_SECONDS,
    KeyFile,
    Renewal,
    fetch_key,
    read_output,
)
from gateway.upstream.rests import ProviderKey
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, error_reply, json_reply
from tests.support.upstream import Exchange, Script, ScriptedUpstream
from tests.support.waiting import until
from tests.upstream.kit import Way

EXCHANGE: Final = EXCHANGES["chat"]["chat"]
NOW: Final = 1_700_000_000.0
KEY: Final = "ya29.a-token-of-an-hour"


def test_an_end_without_an_offset_is_local_time() -> None:
    """Older versions of `az` print nothing else."""
    output = b'{"accessToken": "ya29.key", "expiresOn": "2023-11-14 22:13:20.000000"}'
    local = time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))
    assert read_output(output, 0.0) == ("ya29.key", local)


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
class Cloud(Way):
    """A provider, the keys that it takes, and the file that the command prints."""

    printed: Path
    valid: set[str] = field(default_factory=set)
    renewals: list[Renewal] = field(default_factory=list)

    @property
    def key(self) -> ProviderKey:
        return self.forwarder.keys[0]

    @property
    def runs(self) -> int:
        """How often the command has run."""
        return (self.printed.parent / "runs").read_text().count("\n")

    def issue(self, *keys: str) -> None:
        """Let these keys count alone, and have the last one printed; the last renewal is long ago."""
        self.valid = set(keys)
        self.printed.write_text(keys[-1])
        for renewal in self.renewals:
            renewal._began -= EARLY_SECONDS

    def answer(self, exchange: Exchange) -> Script:
        is_known = exchange.headers["authorization"].removeprefix("Bearer ") in self.valid
        return json_reply(completion()) if is_known else error_reply(401, "It has expired.")

    async def try_keys(self) -> list[str]:
        """Ask once; return the keys by which the request went out."""
        before = len(self.used)
        await self.ask()
        return self.used[before:]


Make = Callable[..., Cloud]
RUN: Final = ("sh", "-c", "echo >> runs; cat token")


@pytest.fixture
def make(tmp_path: Path, alpha: ScriptedUpstream, places: Places) -> Make:
    def make(
        *command: str,
        keys: tuple[str, ...] = ("",),
        before: Cloud | None = None,
        place: str = "command:cat token",
    ) -> Cloud:
        words = () if place.startswith("file:") else command or RUN
        source = KeySource(place, words, tmp_path, 3000)
        sources = tuple(None if key else source for key in keys)
        provider = make_provider(base_url=places.urls["alpha"], api_keys=keys, sources=sources)
        forwarder = HttpForwarder(provider, None if before is None else before.forwarder)
        cloud = Cloud(forwarder, alpha, tmp_path / "token")
        alpha.always(cloud.answer)
        cloud.issue(*filter(None, keys), "first-key")
        return cloud

    return make


@asynccontextmanager
async def renewing(cloud: Cloud) -> AsyncIterator[Cloud]:
    tasks = []
    for key in cloud.forwarder.keys:
        if key.source is not None:
            key.renewing = renewal = Renewal("cloud", key, key.source)
            cloud.renewals.append(renewal)
            tasks.append(spawn(renewal.run(), name="renewal"))
    yield cloud
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cloud.forwarder.close()


@pytest.fixture
async def cloud(make: Make) -> AsyncIterator[Cloud]:
    """A cloud whose first key has served once."""
    async with renewing(make()) as cloud:
        assert await cloud.try_keys() == ["first-key"]
        yield cloud


async def test_nothing_is_run_for_each_request(cloud: Cloud) -> None:
    cloud.issue("first-key", "second-key")
    assert await cloud.try_keys() == ["first-key"]
    assert cloud.runs == 1
    assert await cloud.renewals[0]._renew() == 3000, "which is the setting"


async def test_a_key_that_is_refused_is_renewed_and_the_request_sent_once_more(
    cloud: Cloud,
) -> None:
    cloud.issue("second-key")
    assert await cloud.try_keys() == ["first-key", "second-key"]
    assert await cloud.try_keys() == ["second-key"]
    cloud.issue("third-key")
    await cloud.ask()
    assert {secret for _, secret in cloud.forwarder._heads} == {"second-key", "third-key"}
    assert (cloud.in_flight, cloud.key.rest_seconds, cloud.key.problem) == (0, 0, "")
    error = UpstreamError("No second-key and no third-key.")
    assert cloud.forwarder.redact(error).message == "No [redacted] and no [redacted]."


async def test_a_file_is_read_at_once_when_its_key_is_refused(make: Make) -> None:
    async with renewing(make(place="file:token")) as cloud:
        await cloud.ask()
        cloud.issue("second-key")
        assert await cloud.try_keys() == ["first-key", "second-key"]
        cloud.issue("second-key")
        cloud.printed.unlink()
        await cloud.renewals[0].replace("second-key", lambda: False)
        assert cloud.key.problem.startswith("cannot be read from")
        assert await cloud.try_keys() == ["second-key"]


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
    cloud.key.renew("old-key")
    cloud.key.renewing = Eager(cloud.key)
    with pytest.raises(UpstreamError, match="401"):
        await cloud.ask()
    assert len(cloud.used) == 2
    cloud.forwarder.close()


async def test_refusals_do_not_run_the_command_again_and_again(cloud: Cloud) -> None:
    cloud.issue("none", "first-key")
    cloud.valid = set()
    for _ in range(3):
        with pytest.raises(UpstreamError, match="401"):
            await cloud.ask()
    assert cloud.runs == 2


@pytest.mark.parametrize("status", [402, 403, 429])
async def test_a_limit_is_no_reason_to_renew_a_key(cloud: Cloud, status: int) -> None:
    cloud.issue("first-key", "second-key")
    cloud.scripted.always(error_reply(status))
    with pytest.raises(UpstreamError):
        await cloud.ask()
    assert cloud.key.secret == "first-key"
    assert len(cloud.used) == 2


async def test_requests_at_once_wait_for_one_renewal(cloud: Cloud) -> None:
    cloud.issue("second-key")
    await asyncio.gather(*(cloud.ask() for _ in range(5)))
    assert cloud.runs == 2


async def test_while_a_renewal_fails_the_old_key_serves(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.issue("first-key")
    cloud.printed.unlink()
    cloud.renewals[0].hurry("first-key")
    await until(lambda: cloud.key.problem, "the failure")
    assert cloud.key.problem == "the command exited with 1"
    assert cloud.key.failed_ms > 0
    assert await cloud.renewals[0]._renew() == RETRY_SECONDS
    assert len(caplog.messages) == 1, "what is wrong is logged once"
    assert await cloud.try_keys() == ["first-key"]
    cloud.issue("second-key")
    assert await cloud.try_keys() == ["first-key", "second-key"]
    assert cloud.key.problem == ""


async def test_without_any_key_nothing_is_sent_and_the_next_route_is_tried(make: Make) -> None:
    async with renewing(make("false")) as cloud:
        with pytest.raises(UpstreamUnavailable) as failure:
            await cloud.ask()
    assert (failure.value.next_route, failure.value.blame) == (True, "nobody")
    assert cloud.used == []


async def test_another_key_serves_at_once_while_one_is_renewed(make: Make) -> None:
    async with renewing(make(keys=("", "lasting-key"))) as cloud:
        await until(lambda: cloud.key.secret, "the first key")
        cloud.issue("lasting-key", "second-key")
        for affinity in range(20):
            await cloud.ask(affinity=str(affinity))
        await until(lambda: cloud.key.secret == "second-key", "the renewal")
        assert cloud.key.rest_seconds == 0, "the old one was refused, not this one"


async def test_other_settings_keep_the_key_of_the_same_command(cloud: Cloud, make: Make) -> None:
    assert make(before=cloud).key is cloud.key
    source = cloud.key.source
    assert source is not None
    changed = replace(
        cloud.forwarder.provider, sources=(replace(source, command=("true",), place="x"),)
    )
    assert HttpForwarder(changed, cloud.forwarder).keys[0].secret == ""


async def test_a_request_that_ends_does_not_wait_for_its_key(make: Make) -> None:
    """Its caller has left, or the gateway stops."""
    async with renewing(make("sleep", "600")) as cloud, asyncio.timeout(5):
        attempt = cloud.make_attempt()
        opening = cloud.begin(attempt)
        await asyncio.sleep(0)
        attempt.fail(Overloaded("The gateway stops."))
        with pytest.raises(Overloaded):
            await opening
    assert cloud.used == []


async def test_a_request_does_not_wait_for_a_renewal_that_has_ended(make: Make) -> None:
    async with renewing(make()) as cloud:
        await cloud.ask()
    cloud.issue("other-key")
    async with asyncio.timeout(5):
        with pytest.raises(UpstreamError, match="401"):
            await cloud.ask()

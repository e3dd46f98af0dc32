"""A gateway with a cloud whose keys end: what callers, Health and alerts see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Final, cast

import pytest

from gateway.alerts.watch import Watch, find_key_problems
from gateway.api.state import make_routes
from gateway.config.load import load_config
from gateway.tasks import spawn
from gateway.upstream.renewal import EARLY_SECONDS, Renewal
from gateway.upstream.rests import ProviderKey
from tests.alerts.receiver import Receiver, listen
from tests.alerts.test_watch import arrive, write_alerts
from tests.console.kit import API, HOLDER, OPERATOR, Console, open_console
from tests.support import messages, replies
from tests.support.config import Places
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER, Provider
from tests.support.process import COUNT_TOKENS, GatewayProcess, free_port
from tests.support.told import Told
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until

PROVIDER: Final = """
[providers.cloud]
dialect = "chat"
base_url = "{url}"
api_key = "command:cat token"
[models."cloud/m"]
routes = ["cloud/m"]
price = {{ input = 1, output = 2 }}
"""
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], replies.usage(10, 5)))


class Cloud:
    """The scripted provider, a gateway that uses it, and the key that counts."""

    def __init__(self, console: Console, scripted: ScriptedUpstream, secret: str) -> None:
        self.console, self.scripted, self._secret = console, scripted, secret
        self.valid = "token-0123456789-first"
        scripted.always(self._answer)

    @property
    def key(self) -> ProviderKey:
        assert self.console.gateway is not None
        (key,) = self.console.gateway.routes.providers["cloud"].keys
        return key

    @property
    def used(self) -> list[str]:
        """The ends of the keys that were sent."""
        return [one.headers["authorization"].rpartition("-")[2] for one in self.scripted.exchanges]

    def issue(self, end: str) -> None:
        """Let another key count from now on, and have the command print it; the last one is old."""
        self.valid = f"token-0123456789-{end}"
        (self.console.folder / "token").write_text(self.valid)
        cast("Renewal", self.key.renewing)._began -= EARLY_SECONDS

    async def complete(self) -> int:
        reply = await self.console.complete(self._secret, model="cloud/m")
        return reply.status

    async def open_stream(self) -> tuple[asyncio.Task[bytes], asyncio.Event]:
        """Begin a stream that stops in its middle until the event is set."""
        go_on, before = asyncio.Event(), len(self.scripted.exchanges)
        self.scripted.play([*STREAM[:2], Wait(go_on), *STREAM[2:]])
        task = asyncio.get_running_loop().create_task(self._read_stream())
        await self.scripted.wait_for(before + 1)
        return task, go_on

    async def _read_stream(self) -> bytes:
        reply = await self.console.complete(self._secret, model="cloud/m", stream=True)
        return reply.body

    def _answer(self, exchange: Exchange) -> Script:
        if exchange.headers["authorization"] != f"Bearer {self.valid}":
            return replies.error_reply(401, "The access token expired.")
        return replies.json_reply(replies.completion("Hello!", usage=replies.usage(10, 5)))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listen() as receiver:
        yield receiver


@pytest.fixture
async def cloud(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places, receiver: Receiver
) -> AsyncIterator[Cloud]:
    (tmp_path / "token").write_text("token-0123456789-first")
    more = PROVIDER.format(url=places.urls["alpha"]) + write_alerts(receiver)
    async with open_console(tmp_path, more=more) as console:
        made = await console.post(f"{API}/keys", {"name": "laptop"})
        yield Cloud(console, alpha, made.json["secret"])


async def test_a_key_that_ends_costs_no_request_and_no_stream(cloud: Cloud) -> None:
    assert await cloud.complete() == 200
    stream, go_on = await cloud.open_stream()
    cloud.issue("second")
    assert await cloud.complete() == 200
    assert cloud.used == ["first", "first", "first", "second"]
    go_on.set()
    assert (await stream).endswith(replies.DONE)
    assert await cloud.complete() == 200
    charged = (await cloud.console.get(f"{API}/activity", as_=HOLDER)).json
    assert charged["count"] == 4, "the request that went out twice is one"


async def test_a_reload_keeps_a_good_key(cloud: Cloud) -> None:
    assert await cloud.complete() == 200
    gateway, token = cloud.console.gateway, cloud.console.folder / "token"
    assert gateway is not None
    token.unlink()
    text, table = gateway.config.path.read_text(), '[models."cloud/m"]'
    for change in ("", "max_concurrency = 9\n"):
        gateway.config.path.write_text(text.replace(table, change + table))
        config = load_config(gateway.config.path, {})
        gateway.reconfigure(config, make_routes(config, before=gateway.routes))
        assert await cloud.complete() == 200
    assert gateway.config.providers["cloud"].max_concurrency == 9
    assert cloud.key.problem == "", "nothing was run again"
    (cloud.console.folder / "other").write_text(cloud.valid)
    gateway.config.path.write_text(text.replace("cat token", "cat other"))
    config = load_config(gateway.config.path, {})
    gateway.reconfigure(config, make_routes(config, before=gateway.routes))
    assert await cloud.complete() == 200, "another command is run at once"


async def test_a_renewal_that_fails_is_on_health_and_told_until_it_works(
    cloud: Cloud, receiver: Receiver
) -> None:
    assert cloud.console.gateway is not None
    chore = spawn(Watch(cloud.console.gateway, look_seconds=0.05).run(), name="alerts")
    assert await cloud.complete() == 200
    (cloud.console.folder / "token").unlink()
    await _hurry(cloud)
    (told,) = await arrive(receiver, "key_not_renewed")
    assert (told["state"], told["subject"]) == ("raised", "cloud")
    assert told["text"] == "A key of provider cloud was not renewed: the command exited with 1."
    assert await cloud.complete() == 200, "the old one serves"
    assert (await _read_health(cloud))["problem"] == "the command exited with 1"
    cloud.issue("second")
    await _hurry(cloud)
    _, told = await arrive(receiver, "key_not_renewed", count=2)
    assert (told["state"], told["text"]) == ("ended", "The key of provider cloud is renewed again.")
    shown = await _read_health(cloud)
    assert (shown["problem"], shown["last4"]) == (None, "cond")
    listed = (await cloud.console.get(f"{API}/providers", as_=OPERATOR)).json["providers"]
    assert [one["key_last4"] for one in listed if one["name"] == "cloud"] == [["cond"]]
    chore.cancel()


async def test_the_end_of_what_was_not_told_is_not_told(cloud: Cloud) -> None:
    assert await cloud.complete() == 200
    assert cloud.console.gateway is not None
    routes = cloud.console.gateway.routes
    assert list(find_key_problems(routes, None, ())) == []
    cloud.key.note_failure("the command exited with 1", 5)
    (raised,) = find_key_problems(routes, "node", ())
    cloud.key.renew(cloud.valid)
    assert raised.subject == "cloud, node", "each process renews its own keys"
    assert list(find_key_problems(routes, "node", ())) == []
    (ended,) = find_key_problems(routes, "node", {raised.key})
    assert (ended.state, ended.key == raised.key) == ("ended", False)


async def _hurry(cloud: Cloud) -> None:
    """Let the key be renewed now."""
    renewal = cast("Renewal", cloud.key.renewing)
    renewal._began -= EARLY_SECONDS
    await renewal.replace(cloud.key.secret, lambda: False)


async def _read_health(cloud: Cloud) -> dict[str, object]:
    health = await cloud.console.get(f"{API}/health", as_=OPERATOR)
    (key,) = next(one["keys"] for one in health.json["providers"] if one["name"] == "cloud")
    assert isinstance(key, dict)
    return key


# ---- the paths of clouds ---------------------------------------------------------------------------

CLOUDS: Final = """
[providers.google]
dialect = "chat"
base_url = "{url}/projects/p/locations/l/endpoints/openapi"
api_key = "command:cat token"
[providers.claude]
dialect = "vertex"
base_url = "{url}/projects/p/locations/l/publishers/anthropic"
api_key = "command:cat token"
[providers.azure]
dialect = "responses"
base_url = "{url}/openai/v1"
api_key = "command:cat token"
[providers.foundry]
dialect = "messages"
base_url = "{url}/anthropic/v1"
api_key = "command:cat token"
[models."m"]
routes = ["PROVIDER/claude-x@1"]
max_output_tokens = 1000
price = {{ input = 1, output = 2 }}
"""
CLAUDE: Final = "projects/p/locations/l/publishers/anthropic/models"


def ask_again(exchange: Exchange, valid: str, script: Script) -> Script:
    """Refuse any other key, as clouds do."""
    is_valid = exchange.headers["authorization"] == f"Bearer {valid}"
    return script if is_valid else replies.error_reply(401, "The access token expired.")


PATHS: Final[dict[str, tuple[str, Provider]]] = {
    "google": ("projects/p/locations/l/endpoints/openapi/chat/completions", CHAT_PROVIDER),
    "claude": (CLAUDE + "/claude-x@1:{way}", MESSAGES_PROVIDER),
    "azure": ("openai/v1/responses", RESPONSES_PROVIDER),
    "foundry": ("anthropic/v1/messages", MESSAGES_PROVIDER),
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("provider", PATHS)
async def test_keys_end_at_the_paths_of_clouds(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places, provider: str, *, is_stream: bool
) -> None:
    target, vendor = PATHS[provider]
    told = Told("Hello")
    script = vendor.stream(told) if is_stream else vendor.reply(told)
    first, second = (f"eyJ-0123456789-{one}" for one in ("first", "second"))
    token = tmp_path / "token"
    token.write_text(first)
    more = CLOUDS.format(url=places.urls["alpha"]).replace("PROVIDER", provider)
    async with open_console(tmp_path, more=more) as console:
        secret = (await console.post(f"{API}/keys", {"name": "laptop"})).json["secret"]
        for valid in (first, second):
            token.write_text(valid)
            alpha.always(partial(ask_again, valid=valid, script=script))
            reply = await console.complete(secret, model="m", stream=is_stream)
            assert reply.status == 200
            assert reply.body.endswith(replies.DONE) if is_stream else b"Hello" in reply.body
            assert console.gateway is not None
            (key,) = console.gateway.routes.providers[provider].keys
            cast("Renewal", key.renewing)._began -= EARLY_SECONDS
    path = target.format(way="streamRawPredict" if is_stream else "rawPredict")
    assert [one.target for one in alpha.exchanges] == [f"/v1/{path}"] * 3
    body = alpha.last.json
    named = (body.get("model"), body.get("anthropic_version"))
    is_claude = provider == "claude"
    assert named == ((None, "vertex-2023-10-16") if is_claude else ("claude-x@1", None))
    assert ("anthropic-version" in alpha.last.headers) == (provider == "foundry")


async def test_google_counts_tokens_of_claude_at_a_path_without_the_model(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places
) -> None:
    (tmp_path / "token").write_text("token-0123456789-first")
    more = CLOUDS.format(url=places.urls["alpha"]).replace("PROVIDER", "claude")
    async with open_console(tmp_path, more=more) as console:
        made = await console.post(f"{API}/keys", {"name": "laptop"})
        headers = {"x-api-key": made.json["secret"], "anthropic-version": "2023-06-01"}
        alpha.always(replies.json_reply({"input_tokens": 2095}))
        reply = await console.ask("POST", COUNT_TOKENS, messages.ask("m"), headers=headers)
        assert (reply.status, reply.json) == (200, {"input_tokens": 2095})
    assert alpha.last.target == f"/v1/{CLAUDE}/count-tokens:rawPredict"
    assert (alpha.last.json["model"], "anthropic-version" in alpha.last.headers) == (
        "claude-x@1",
        False,
    )


@pytest.mark.slow
async def test_a_command_that_runs_ends_with_the_process(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, free_port())
    fetch = tmp_path / "fetch"
    fetch.write_text("echo $$ > pid; sleep 600")
    gateway.config.write_text(
        f"[server]\nport = {gateway.port}\n"
        + PROVIDER.format(url="http://127.0.0.1:1/v1").replace("cat token", f"sh {fetch}")
    )
    gateway.start()
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().strip(), "the command to run")
    gateway.stop()
    # Killed before the end; whoever adopts it collects it in a moment.
    await until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "its end")

"""A gateway with a cloud whose keys end: what callers, Health and alerts see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final, cast

import pytest

from gateway.api.state import make_routes
from gateway.config.load import load_config
from gateway.extras.alerts.watch import Watch, find_key_problems
from gateway.tasks import spawn
from gateway.upstream.renewal import EARLY_SECONDS, Renewal
from gateway.upstream.rests import ProviderKey
from tests.console.kit import API, HOLDER, OPERATOR, Console, open_console
from tests.extras.alerts.receiver import Receiver, listen
from tests.extras.alerts.test_watch import arrive, write_alerts
from tests.support import messages, replies
from tests.support.config import Places
from tests.support.content import Content
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER, Provider
from tests.support.process import COUNT_TOKENS, GatewayProcess, free_port
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until

CLOUDS: Final[dict[str, tuple[Provider, str, str, str]]] = {
    "cloud": (CHAT_PROVIDER, "chat", "", "chat/completions"),
    "google": (CHAT_PROVIDER, "chat", "/projects/p/locations/l/endpoints/openapi", "chat/completions"),
    "claude": (MESSAGES_PROVIDER, "vertex", "/projects/p/locations/l/publishers/anthropic", "models/claude-x@1:{way}"),
    "azure": (RESPONSES_PROVIDER, "responses", "/openai/v1", "responses"),
    "foundry": (MESSAGES_PROVIDER, "messages", "/anthropic/v1", "messages"),
}  # fmt: skip
"""The replies of each, its dialect, its place and the path there; its model is `m-` with its name."""
CONFIG: Final = """
[providers.{name}]
dialect = "{dialect}"
base_url = "{url}{place}"
api_key = "command:cat token"
[models."m-{name}"]
routes = ["{name}/claude-x@1"]
max_output_tokens = 1000
price = {{ input = 1, output = 2 }}
"""
TOKEN: Final = "eyJ-0123456789-"
"""What tokens of clouds begin with: they go out as such to a provider of messages, too."""
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], replies.usage(10, 5)))


def write_clouds(url: str, names: Iterable[str] = CLOUDS) -> str:
    return "".join(
        CONFIG.format(name=name, dialect=CLOUDS[name][1], url=url, place=CLOUDS[name][2])
        for name in names
    )


class Cloud:
    """The scripted provider, a gateway that uses it, and the key that counts."""

    def __init__(self, console: Console, scripted: ScriptedUpstream, secret: str) -> None:
        self.console, self.scripted, self.secret = console, scripted, secret
        self.valid, self.name = f"{TOKEN}first", "cloud"
        self.reply = replies.json_reply(replies.completion("Hello!", usage=replies.usage(10, 5)))
        scripted.always(self._answer)

    @property
    def key(self) -> ProviderKey:
        assert self.console.gateway is not None
        (key,) = self.console.gateway.routes.providers[self.name].keys
        return key

    @property
    def used(self) -> list[str]:
        """The ends of the keys that were sent."""
        return [one.headers["authorization"].rpartition("-")[2] for one in self.scripted.exchanges]

    def issue(self, end: str) -> None:
        """Let another key count from now on, and have the command print it; the last one is old."""
        self.valid = TOKEN + end
        (self.console.folder / "token").write_text(self.valid)
        cast("Renewal", self.key.renewing)._began -= EARLY_SECONDS

    async def complete(self, *, stream: bool = False) -> bytes:
        reply = await self.console.complete(self.secret, model=f"m-{self.name}", stream=stream)
        assert reply.status == 200
        return reply.body

    async def open_stream(self) -> tuple[asyncio.Task[bytes], asyncio.Event]:
        """Begin a stream that stops in its middle until the event is set."""
        go_on, before = asyncio.Event(), len(self.scripted.exchanges)
        self.scripted.play([*STREAM[:2], Wait(go_on), *STREAM[2:]])
        task = asyncio.get_running_loop().create_task(self.complete(stream=True))
        await self.scripted.wait_for(before + 1)
        return task, go_on

    def _answer(self, exchange: Exchange) -> Script:
        if exchange.headers["authorization"] != f"Bearer {self.valid}":
            return replies.error_reply(401, "The access token expired.")
        return self.reply


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listen() as receiver:
        yield receiver


@pytest.fixture
async def cloud(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places, receiver: Receiver
) -> AsyncIterator[Cloud]:
    (tmp_path / "token").write_text(f"{TOKEN}first")
    more = write_clouds(places.urls["alpha"]) + write_alerts(receiver)
    async with open_console(tmp_path, more=more) as console:
        made = await console.post(f"{API}/keys", {"name": "laptop"})
        yield Cloud(console, alpha, made.json["secret"])


async def test_a_key_that_ends_costs_no_request_and_no_stream(cloud: Cloud) -> None:
    await cloud.complete()
    stream, go_on = await cloud.open_stream()
    cloud.issue("second")
    await cloud.complete()
    assert cloud.used == ["first", "first", "first", "second"]
    go_on.set()
    assert (await stream).endswith(replies.DONE)
    await cloud.complete()
    charged = (await cloud.console.get(f"{API}/activity", as_=HOLDER)).json
    assert charged["count"] == 4, "the request that went out twice is one"


async def test_a_reload_keeps_a_good_key(cloud: Cloud) -> None:
    await cloud.complete()
    gateway, token = cloud.console.gateway, cloud.console.folder / "token"
    assert gateway is not None
    token.unlink()
    text, table = gateway.config.path.read_text(), '[models."m-cloud"]'
    for change in ("", "max_concurrency = 9\n"):
        gateway.config.path.write_text(text.replace(table, change + table))
        config = load_config(gateway.config.path, {})
        gateway.reconfigure(config, make_routes(config, before=gateway.routes))
        await cloud.complete()
    assert gateway.config.providers["cloud"].max_concurrency == 9
    assert cloud.key.problem == "", "nothing was run again"
    (cloud.console.folder / "other").write_text(cloud.valid)
    gateway.config.path.write_text(text.replace("cat token", "cat other"))
    config = load_config(gateway.config.path, {})
    gateway.reconfigure(config, make_routes(config, before=gateway.routes))
    await cloud.complete()  # another command is run at once


async def test_a_renewal_that_fails_is_on_health_and_told_until_it_works(
    cloud: Cloud, receiver: Receiver
) -> None:
    assert cloud.console.gateway is not None
    chore = spawn(Watch(cloud.console.gateway, look_seconds=0.05).run(), name="alerts")
    await cloud.complete()
    (cloud.console.folder / "token").unlink()
    await _hurry(cloud)
    (told,) = await arrive(receiver, "key_not_renewed")
    assert (told["state"], told["subject"]) == ("raised", "cloud")
    assert told["text"] == "A key of provider cloud was not renewed: the command exited with 1."
    await cloud.complete()  # the old one serves
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
    await cloud.complete()
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


@pytest.mark.parametrize("name", CLOUDS)
async def test_keys_end_at_the_paths_of_clouds(cloud: Cloud, name: str) -> None:
    vendor, dialect, place, path = CLOUDS[name]
    cloud.name, cloud.reply = name, vendor.reply(Content("Hello"))
    assert b"Hello" in await cloud.complete()
    cloud.issue("second")
    cloud.reply = vendor.stream(Content("Hello"))
    assert (await cloud.complete(stream=True)).endswith(replies.DONE)
    ways = [path.format(way=way) for way in ("rawPredict", *["streamRawPredict"] * 2)]
    assert [one.target for one in cloud.scripted.exchanges] == [f"/v1{place}/{one}" for one in ways]
    last = cloud.scripted.last
    named = (last.json.get("model"), last.json.get("anthropic_version"))
    is_vertex = dialect == "vertex"
    assert named == ((None, "vertex-2023-10-16") if is_vertex else ("claude-x@1", None))
    assert ("anthropic-version" in last.headers) == (dialect == "messages")


async def test_google_counts_tokens_of_claude_at_a_path_without_the_model(cloud: Cloud) -> None:
    cloud.reply = replies.json_reply({"input_tokens": 2095})
    headers = {"x-api-key": cloud.secret, "anthropic-version": "2023-06-01"}
    body = messages.ask("m-claude")
    reply = await cloud.console.ask("POST", COUNT_TOKENS, body, headers=headers)
    assert (reply.status, reply.json) == (200, {"input_tokens": 2095})
    last = cloud.scripted.last
    assert last.target == f"/v1{CLOUDS['claude'][2]}/models/count-tokens:rawPredict"
    assert last.json["model"] == "claude-x@1"
    assert "anthropic-version" not in last.headers


@pytest.mark.slow
async def test_a_command_that_runs_ends_with_the_process(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, free_port())
    fetch = tmp_path / "fetch"
    fetch.write_text("echo $$ > pid; sleep 600")
    gateway.config.write_text(
        f"[server]\nport = {gateway.port}\n"
        + write_clouds("http://127.0.0.1:1/v1", ["cloud"]).replace("cat token", f"sh {fetch}")
    )
    gateway.start()
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().strip(), "the command to run")
    gateway.stop()
    # Killed before the end; whoever adopts it collects it in a moment.
    await until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "its end")

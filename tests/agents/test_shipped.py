"""The shipped gateway.toml in front of the vendors that it names: agents go on over each block."""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from tests import ROOT
from tests.agents.loop import AGENTS, ALL_TURNS, Agent, check_told, converse, each_agent
from tests.agents.market import Market
from tests.agents.vendors import VENDORS
from tests.api.scene import PATHS
from tests.support.config import Places
from tests.support.formats import UPSTREAMS
from tests.support.process import GatewayProcess, free_port
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.seed import Seed, seed
from tests.support.upstream import ScriptedUpstream, port_of

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer")  # for Mistral's parts
TEXT: Final = (ROOT / "gateway.toml").read_text(encoding="utf-8")
SWITCHED_OFF: Final = re.compile(r"(?m)^#(?=\[|[a-z_]+ = )")
OWN_SERVERS: Final = "# Take the # from the start of each line of a block"
HEAD, MIDDLE, TAIL = TEXT.partition(OWN_SERVERS)
SHIPPED: Final = HEAD + MIDDLE + SWITCHED_OFF.sub("", TAIL)
"""The file with its own servers switched on, by taking away the # as it says."""
FILE: Final[dict[str, Any]] = tomllib.loads(SHIPPED)
DIALECTS: Final = {name: one["dialect"] for name, one in FILE["providers"].items()}
CHATTING: Final = [
    name
    for name, model in FILE["models"].items()
    if model.get("kind") != "embedding"
    and (provider := model["routes"][0].partition("/")[0]) != "demo"
    and DIALECTS[provider] in UPSTREAMS
]
VENDOR_OF: Final = {
    "openai": {"chat": "openai-chat", "responses": "openai-responses"}[DIALECTS["openai"]],
    "anthropic/claude-opus-4-8": "claude-4-8",
    "anthropic/claude-sonnet-4-6": "claude-adaptive",
    "anthropic/claude-haiku-4-5": "claude-budget",
    "deepseek": "deepseek",
    "gemini": "gemini",
    "kimi": "kimi",
    "mistral": "mistral",
    "openrouter": "openrouter",
    "vllm": "vllm",
    "llamacpp": "plain",
    "ollama": "plain",
}
"""The habit of each provider, or of one of its models."""
THINKING: Final = {"thinking", "output_config", "reasoning", "reasoning_effort"}


def find_vendor(provider: str, model: str) -> str:
    return VENDOR_OF.get(f"{provider}/{model}") or VENDOR_OF[provider]


def redirect(port: int, listen: int) -> str:
    """Return the file with nothing changed but addresses and keys."""
    text = re.sub(r"(?m)^port = \d+", f"port = {listen}", SHIPPED)
    text = re.sub(r'(?m)^api_key = "[^"]*"', 'api_key = "upstream-key"', text)
    for name, provider in FILE["providers"].items():
        if "base_url" in provider:
            before, head, block = text.partition(f"[providers.{name}]\n")
            url = f"http://127.0.0.1:{port}/{name}/v1"
            text = before + head + block.replace(provider["base_url"], url, 1)
    return text


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, listeners: dict[str, socket.socket]
) -> Iterator[Running]:
    """A gateway with the shipped file."""
    gateway = GatewayProcess(tmp_path_factory.mktemp("shipped"), free_port())
    gateway.config.write_text(redirect(port_of(listeners["alpha"]), gateway.port), "utf-8")
    callers = seed(gateway.database, (Seed("rich", 10**15, requests_per_minute=0),))
    gateway.start()
    yield Running(gateway, callers, Places({}))
    gateway.stop()


@pytest.fixture
async def market(running: Running, alpha: ScriptedUpstream) -> AsyncIterator[Market]:
    made = Market(running.gateway, running.callers["rich"].key, find_vendor)
    alpha.always(made.serve)
    yield made
    await made.close()


@each_agent("model", CHATTING)
async def test_a_loop(market: Market, kind: type[Agent], stream: bool, model: str) -> None:
    """The callers ask for thinking as each does who knows the model."""
    provider, _, upstream_name = FILE["models"][model]["routes"][0].partition("/")
    vendor = VENDORS[find_vendor(provider, upstream_name)]
    told = await converse(market.meet(kind, stream=stream), [(model, vendor.thinking)] * ALL_TURNS)
    assert market.refusals == []
    assert {one.vendor for one in market.visits} == {vendor.name}
    check_told(told)


@each_row("name", ["temperature", "top_p"])
@each_row("model", CHATTING)
@each_row("kind", AGENTS)
async def test_sampling(market: Market, kind: type[Agent], model: str, name: str) -> None:
    """Callers who choose how to sample reach all models, also those that sample in one way alone."""
    agent = market.meet(kind, stream=False)
    agent.ask("Hello")
    market.visits.clear()
    body = {one: value for one, value in agent.write(model, "").items() if one not in THINKING}
    reply = await market.gateway.post(PATHS[kind.caller.dialect], market.key, body | {name: 0.5})
    assert reply.status == 200, reply.body.decode()
    assert market.refusals == []

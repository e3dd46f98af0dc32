"""A gateway with a cloud whose keys end: what callers see of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.config.load import load_config
from tests.extras.renewal.kit import CLOUDS, Cloud, open_cloud
from tests.support import messages, replies
from tests.support.config import Places
from tests.support.content import Content
from tests.support.extras import need_extra
from tests.support.process import COUNT_TOKENS
from tests.support.records import make_provider
from tests.support.upstream import ScriptedUpstream


@pytest.fixture
async def cloud(tmp_path: Path, alpha: ScriptedUpstream, places: Places) -> AsyncIterator[Cloud]:
    async with open_cloud(tmp_path, alpha, places) as cloud:
        yield cloud


async def test_a_key_that_ends_costs_no_request_and_no_stream(cloud: Cloud) -> None:
    await cloud.complete()
    stream, go_on = await cloud.open_stream()
    cloud.issue("second")
    await cloud.complete()
    assert cloud.used == ["first", "first", "first", "second"]
    go_on.set()
    assert (await stream).endswith(replies.DONE)
    await cloud.complete()
    charged = cloud.served.execute("SELECT count(*) FROM requests")
    assert charged == [(4,)], "the request that went out twice is one"


async def test_a_reload_keeps_a_good_key(cloud: Cloud) -> None:
    await cloud.complete()
    gateway, token = cloud.served.gateway, cloud.served.folder / "token"
    token.unlink()
    text, table = gateway.config.path.read_text(), '[models."m-cloud"]'
    for change in ("", "max_concurrency = 9\n"):
        gateway.config.path.write_text(text.replace(table, change + table))
        config = load_config(gateway.config.path, {})
        await gateway.reconfigure(config)
        await cloud.complete()
    assert gateway.config.providers["cloud"].max_concurrency == 9
    assert cloud.key.problem == "", "nothing was run again"
    (cloud.served.folder / "other").write_text(cloud.valid)
    gateway.config.path.write_text(text.replace("cat token", "cat other"))
    config = load_config(gateway.config.path, {})
    await gateway.reconfigure(config)
    await cloud.complete()  # another command is run at once


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
    pytest.importorskip("gateway.extras.count_tokens")
    cloud.reply = replies.json_reply({"input_tokens": 2095})
    headers = {"anthropic-version": "2023-06-01"}
    body = messages.ask("m-claude")
    reply = await cloud.served.post_json(cloud.secret, COUNT_TOKENS, body, **headers)
    assert (reply.status, reply.json) == (200, {"input_tokens": 2095})
    last = cloud.scripted.last
    assert last.target == f"/v1{CLOUDS['claude'][2]}/models/count-tokens:rawPredict"
    assert last.json["model"] == "claude-x@1"
    assert "anthropic-version" not in last.headers


@need_extra("summary")
async def test_who_has_no_list_is_not_asked() -> None:
    """Google has none of what others made; nothing listens at this address."""
    from gateway.extras.summary.model_list import look_at

    google = make_provider(api_keys=("a-key",), base_url="http://127.0.0.1:9/v1", dialect="vertex")
    found = await look_at(google, ["small"])
    assert (found.verdict, found.is_usable) == ("no_list", True)

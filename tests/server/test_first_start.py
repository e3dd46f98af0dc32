"""The first start with the shipped configuration: one command leads to the first reply."""

from __future__ import annotations

import re
from collections.abc import Iterator

import aiohttp
import openai
import pytest

from gateway import ids
from gateway.admin import accounts
from tests.support.books import Books
from tests.support.process import GatewayProcess, free_port
from tests.support.running import find_first_key, start_newcomer
from tests.support.waiting import until

LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/console/signin#token=(gwl_[\w-]{43})")


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway in an empty folder with the shipped gateway.toml, for all these tests."""
    gateway = start_newcomer(tmp_path_factory.mktemp("newcomer"))
    yield gateway
    gateway.stop()


async def test_newcomer_gets_an_answer(newcomer: GatewayProcess) -> None:
    path, key = find_first_key(newcomer)
    assert path.stat().st_mode & 0o777 == 0o600
    assert newcomer.database.stat().st_mode & 0o777 == 0o600
    assert key not in newcomer.log
    async with openai.AsyncOpenAI(base_url=newcomer.base_url, api_key=key, max_retries=0) as client:
        models = [one.id async for one in client.models.list()]
        assert models == ["demo/echo", "demo/embed"], (
            "providers without their key are off, and so their models"
        )
        whole = await client.chat.completions.create(
            model="demo/echo", messages=[{"role": "user", "content": "Hello there"}]
        )
        assert "Hello there" in (whole.choices[0].message.content or "")
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 0
        stream = await client.chat.completions.create(
            model="demo/echo",
            messages=[{"role": "user", "content": "Hello there"}],
            stream=True,
        )
        pieces = [one.choices[0].delta.content or "" async for one in stream]
    assert "".join(pieces) == whole.choices[0].message.content
    books = Books(newcomer.database)
    assert 0 < books.balance_nano("default") < 5 * 10**9
    assert books.count_settled("default") == 2
    newcomer.canaries.append(key.encode())
    assert [one for one in newcomer.find_canaries() if not one.startswith(path.name)] == []
    newcomer.canaries.clear()


async def test_newcomer_signs_in_as_operator(newcomer: GatewayProcess) -> None:
    """The link works once, and a browser does not send its token to other sites."""
    path, _ = find_first_key(newcomer)
    found = LINK.search(path.read_text("utf-8"))
    assert found is not None
    origin, token = found.groups()
    assert origin == f"http://127.0.0.1:{newcomer.port}"
    assert token not in newcomer.log
    async with aiohttp.ClientSession(origin, cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        for status in (200, 401):
            async with browser.post("/console/api/session/link", json={"token": token}) as reply:
                assert reply.status == status
        async with browser.get("/console/api/session") as reply:
            account = (await reply.json())["account"]
    assert (account["name"], account["operator"]) == ("operator", True)


def test_the_first_key_is_an_ordinary_holder_s(newcomer: GatewayProcess) -> None:
    """It lets whoever finds it spend one account's credit, and nothing more."""
    _, key = find_first_key(newcomer)
    with accounts.open_books(newcomer.database) as books:
        made = {one.name: one.operator for one in books.accounts.read_all()}
        (only,) = books.keys.read_all()
    assert made == {"operator": True, "default": False}
    assert (only.account, only.display) == ("default", ids.display(key[-4:]))


async def test_second_server_on_the_same_books_is_refused(newcomer: GatewayProcess) -> None:
    """Two servers on one database would each spend the same balance."""
    text = newcomer.config.read_text(encoding="utf-8")
    other = newcomer.folder / "other.toml"
    other.write_text(text.replace(f"port = {newcomer.port}", f"port = {free_port()}"), "utf-8")
    verb = await newcomer.run_apart("serve", "--config", str(other))
    assert verb.code != 0
    assert "Traceback" not in verb.err
    assert "gateway.db" in verb.err


async def test_later_starts_make_nothing_and_warn_of_the_key_in_the_clear(
    newcomer: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parser without extensions, which is slow, is told as well."""
    path, key = find_first_key(newcomer)
    assert "delete this file" in path.read_text("utf-8")
    told = (f"{path} holds a key in the clear: delete it", "aiohttp has only its parser in Python")
    balance_nano = Books(newcomer.database).balance_nano("default")
    assert not any(one in newcomer.log for one in told)
    newcomer.stop()
    with monkeypatch.context() as patch:
        patch.setenv("AIOHTTP_NO_EXTENSIONS", "1")
        newcomer.start()
    await until(lambda: all(one in newcomer.log for one in told), "the warnings")
    assert Books(newcomer.database).balance_nano("default") == balance_nano
    assert (await newcomer.ask("GET", "/v1/models", key=key)).status == 200
    path.unlink()
    newcomer.stop()
    newcomer.start()
    assert [newcomer.log.count(one) for one in told] == [1, 1]

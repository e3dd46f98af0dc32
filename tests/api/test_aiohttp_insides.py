"""The names of aiohttp that the gateway uses beyond its documented API are still there, and mean the same."""

from __future__ import annotations

import asyncio
import inspect

import aiohttp
import pytest
from aiohttp import (
    StreamReader,
    base_protocol,
    http_parser,
    http_writer,
    web,
    web_protocol,
    web_response,
)
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web_protocol import RequestHandler

from gateway.api import aiohttp_insides
from gateway.server import serve
from tests.support.rows import each_row
from tests.support.waiting import until

HANDLER = """
_buffer_paused _current_request _lingering_time _loop _messages _pause_transport_reading
_process_keepalive _reading_paused _request_count _request_handler _request_in_progress
_resume_transport_reading _task_handler _waiter finish_response force_close handle_error log_exception
resume_reading
"""
NAMES = [
    *((RequestHandler, name) for name in HANDLER.split()),
    *((web.Server, name) for name in ("_connections", "_kwargs", "request_handler")),
    (web.BaseRequest, "_message"),
    (web_protocol, "ERROR"),
    *((web.StreamResponse, name) for name in ("_headers", "_keep_alive", "prepare", "write_eof")),
    *((StreamReader, name) for name in ("_buffer", "_http_chunk_splits", "_size")),
    (base_protocol.BaseProtocol, "writing_paused"),
    (http_parser, "HttpRequestParser"),
    (http_parser, "HttpRequestParserPy"),
    (http_writer.StreamWriter, "chunked"),
    (http_writer.StreamWriter, "set_eof"),
    (web_response, "SERVER_SOFTWARE"),
]


@each_row(("owner", "name"), NAMES)
def test_a_name_is_there(owner: type, name: str) -> None:
    """Look among attributes, slots, and names that a constructor sets."""
    made = hasattr(owner, name) or any(
        f"self.{name}" in inspect.getsource(one)
        for one in getattr(owner, "__mro__", ())
        if one.__module__.startswith("aiohttp.")
    )
    assert made, (
        f"aiohttp {aiohttp.__version__} has no {owner.__name__}.{name}, which the gateway uses:"
        " see api/aiohttp_insides.py, and the range of aiohttp in pyproject.toml"
    )


async def test_the_state_of_a_connection_is_what_it_seems() -> None:
    """A connection serves, and rests between two requests."""
    inside, served = asyncio.Event(), asyncio.Event()
    seen: list[RequestHandler] = []

    async def handle(http: web.Request) -> web.Response:
        seen.append(http.protocol)
        inside.set()
        await served.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestClient(TestServer(app)) as client:
        asking = asyncio.ensure_future(client.get("/"))  # noqa: TID251 - awaited below
        await inside.wait()
        (connection,) = seen
        server = client.server.handler
        assert server is not None
        assert connection in aiohttp_insides.list_connections(server)
        assert aiohttp_insides.is_serving(connection)
        assert aiohttp_insides.has_whole_request(connection)
        assert not aiohttp_insides.is_between_requests(connection)
        served.set()
        await (await asking).read()
        await until(lambda: aiohttp_insides.is_between_requests(connection), "the pause")
        assert not aiohttp_insides.is_serving(connection)


def test_the_server_is_named_in_aiohttps_own_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.web_response.SERVER_SOFTWARE", "aiohttp")
    aiohttp_insides.name_server("named")
    assert vars(web_response)["SERVER_SOFTWARE"] == "named"
    assert "SERVER_SOFTWARE" in inspect.getsource(web.StreamResponse._prepare_headers)


def test_the_parser_in_python_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve._check_parser()
    assert not caplog.text
    monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)
    serve._check_parser()
    assert "only its parser in Python" in caplog.text

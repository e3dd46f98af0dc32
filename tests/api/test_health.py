"""Readiness: a gateway that drains or cannot charge takes no requests, though it lives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.api import GATEWAY, Gateway
from gateway.api.health import report_health, report_readiness


def make_request(*, draining: bool, writable: bool) -> web.Request:
    nothing = cast("Any", None)
    ledger = cast("Any", SimpleNamespace(writable=writable))
    app = web.Application()
    app[GATEWAY] = Gateway(nothing, ledger, nothing, nothing, nothing, draining=draining)
    return make_mocked_request("GET", "/readyz", app=app)


@pytest.mark.parametrize(
    ("draining", "writable", "status", "said"),
    [
        (False, True, 200, "ready"),
        (True, True, 503, "draining"),
        (False, False, 503, "ledger"),
        (True, False, 503, "draining"),
    ],
)
async def test_ready_is_who_takes_requests(
    *, draining: bool, writable: bool, status: int, said: str
) -> None:
    request = make_request(draining=draining, writable=writable)
    reply = await report_readiness(request)
    assert reply.status == status
    assert reply.text is not None
    assert said in reply.text
    assert (await report_health(request)).status == 200, "it lives all the same"

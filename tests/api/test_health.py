"""Readiness: a gateway that drains or cannot charge takes no requests, though it lives."""

from __future__ import annotations

from types import SimpleNamespace

from aiohttp.test_utils import make_mocked_request

from gateway.api.lookups import report_health, report_readiness
from tests.support.records import make_call
from tests.support.rows import each_row


@each_row(
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
    request = make_mocked_request("GET", "/readyz")
    ledger = SimpleNamespace(writable=writable)
    call = make_call(gateway=SimpleNamespace(draining=draining, ledger=ledger))
    reply = await report_readiness(request, call)
    assert reply.status == status
    assert reply.text is not None
    assert said in reply.text
    assert (await report_health(request, call)).status == 200, "it lives all the same"

"""One delivery: its signature, and every way in which a receiver can fail."""

from __future__ import annotations

import pytest

from gateway.alerts.webhook import Undelivered, post, sign
from tests.alerts.receiver import HANG, SECRET, listen, verify
from tests.support.rows import each_row

BODY = b'{"id":"alert_1","kind":"test"}'


async def fail(url: str, *, public: bool = False, limit_seconds: float = 10) -> str:
    with pytest.raises(Undelivered) as caught:
        await post(
            url, SECRET, BODY, at_seconds=5, public=public, limit_seconds=limit_seconds
        )  # fmt: skip
    return str(caught.value)


async def test_what_arrives_is_signed_with_its_time() -> None:
    with listen() as receiver:
        await post(receiver.url, SECRET, BODY, at_seconds=5, public=False)
        ((header, body),) = receiver.signatures
    assert (body, header[:4]) == (BODY, "t=5,")
    assert verify(SECRET, header, body)
    assert not verify("another", header, body)
    assert not verify(SECRET, header.replace("t=5", "t=6"), body)


def test_a_signature_is_the_same_for_ever() -> None:
    """Receivers have code that computes it."""
    assert sign("secret", b"{}", 1_700_000_000) == (
        "t=1700000000,v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
    )


@each_row(
    ("status", "reason"),
    [(500, "status 500"), (404, "status 404"), (302, "status 302; redirects are not followed")],
)
async def test_an_answer_other_than_2xx_is_a_failure(status: int, reason: str) -> None:
    with listen(status) as receiver:
        assert await fail(receiver.url) == reason
        assert len(receiver.bodies) == 1


async def test_a_receiver_that_hangs_is_left() -> None:
    with listen(HANG) as receiver:
        assert await fail(receiver.url, limit_seconds=0.2) == "no answer within 0.2 s"


async def test_a_failure_names_neither_address_nor_secret() -> None:
    with listen() as receiver:
        closed = receiver.url
    assert await fail(closed) == "no connection"
    assert await fail("http://secret-name.invalid/secret") == "the host is unknown"
    with listen() as receiver:
        assert await fail(receiver.url.replace("http:", "https:")) == "TLS failed"


@each_row("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "0"])
async def test_a_holders_webhook_reaches_no_private_address(host: str) -> None:
    """Whatever way it is written, and whatever a name resolves to: nothing is sent."""
    with listen() as receiver:
        url = receiver.url.replace("127.0.0.1", host)
        reason = await fail(url, public=True)
        assert reason == "the address is not public" or "InvalidUrl" in reason
        assert receiver.bodies == []

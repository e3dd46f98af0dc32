"""Feeds the parser of messages as much as it takes, and one more, for `test_parsers`."""

from __future__ import annotations

from functools import partial
from typing import Final

from gateway.extras.cards import webhook
from gateway.extras.console.errors import ConsoleError
from tests.extras.console.parsers import read_body

FEED: Final = {
    ("extras/cards/webhook", "MAX_BODY_BYTES"): (
        webhook.MAX_BODY_BYTES,
        partial(read_body, webhook.MAX_BODY_BYTES),
        ConsoleError,
    )
}

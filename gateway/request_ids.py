"""Request ids: `req_`, the time in milliseconds as 12 hex digits, 64 random bits as 16.

Ids sort by time, so the ledger appends its rows, and a range of time is a range of ids.
"""

from __future__ import annotations

import os
import random
import re
from typing import Final

_random: Final = random.Random(os.urandom(32))  # noqa: S311 - ids are names, not secrets
_SHAPE: Final = re.compile("req_[0-9a-f]{28}")


def make_request_id(now_ms: int) -> str:
    return f"req_{now_ms:012x}{_random.getrandbits(64):016x}"


def is_request_id(text: str) -> bool:
    """Return whether the text has the format of a request id; the request need not exist."""
    return _SHAPE.fullmatch(text) is not None


def find_first_id(ms: int) -> str:
    """Return the lower bound of the ids of all requests that began at `ms` or later."""
    return f"req_{ms:012x}"

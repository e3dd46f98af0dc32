"""Rates in `admit.sql`: its buckets are those of `gateway.api.limits`."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Final

import orjson
import pytest

from gateway.api.limits import Bucket
from gateway.ledger.postgres.session import Session, connect
from tests.ledger.databases import ask

STEPS: Final = 120
LONGEST_PAUSE_MS: Final = 40_000
STARTED_MS: Final = 1_700_000_000_000
LIMITS: Final = (1, 3, 7, 60, 1000, 999_983, 20_000_000)
KNOWN: Final = "SELECT {0}_full_us FROM rates WHERE account_id = 1 AND key_id = 'k'"
REFUSAL: Final = "SELECT find_rate_refusal('key', ?::bigint[], 0, ?, ?, 0, 0, ?, ?)"


class Rates:
    """The use of one key, as rounds of one request each see it."""

    def __init__(self, session: Session, name: str, limit: int) -> None:
        self._session = session
        self._known = KNOWN.format(name)
        self._terms = [limit, 0, 0] if name == "requests" else [0, limit, 0]
        self._number = 0

    def wait_us(self, expected: int, at_us: int) -> int:
        """Return how long a request must wait, 0 if it fits."""
        row = self._session.execute(self._known).fetchone()
        known = row[0] if row else None
        values = (
            str(self._terms).replace("[", "{").replace("]", "}"),
            known,
            known,
            expected,
            at_us,
        )
        refusal = ask(self._session, REFUSAL, values)
        return 0 if refusal is None else int(orjson.loads(str(refusal))[3])

    def admit(self, expected: int, at_us: int) -> None:
        self._number += 1
        id_ = f"req_{self._number:028x}"
        asked = {
            "id": id_, "place": 0, "account_id": 1, "key_id": "k", "model": "m", "provider": "p",
            "stream": 0, "hold_nano": 0, "started_ago_ms": 1, "prices": [0] * 7,
            "key_rate": self._terms, "account_rate": [0, 0, 0], "expected_tokens": expected,
        }  # fmt: skip
        self._session.execute(
            "SELECT write_admitted(1, ?, ?, ?, 1)",
            (orjson.dumps([asked]).decode(), "{" + id_ + "}", at_us),
        )

    def correct(self, more: int) -> None:
        told = [{"account_id": 1, "key_id": "k", "more": more}]
        self._session.execute("SELECT correct_rates(?)", (orjson.dumps(told).decode(),))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", ["requests", "tokens"])
def test_buckets_are_those_of_one_process(ledger_url: str, name: str, limit: int) -> None:
    """Within a microsecond for each amount that was taken: those here are whole."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chooser = random.Random(seed)
    now_ms, admitted, taken = STARTED_MS, 0, 0
    bucket = Bucket(limit, now_ms / 1000)
    with closing(connect(ledger_url)) as session:
        rates = Rates(session, name, limit)
        for _ in range(STEPS):
            now_ms += chooser.choice((0, 1, 37, chooser.randrange(LONGEST_PAUSE_MS)))
            expected = chooser.randrange(1, max(2, limit * 3 // 2)) if name == "tokens" else 1
            wait_us = rates.wait_us(expected, now_ms * 1000)
            expected_us = bucket.wait_seconds(expected, now_ms / 1000) * 1e6
            assert wait_us == pytest.approx(expected_us, rel=0, abs=taken + 2)
            if wait_us:
                continue
            admitted += 1
            taken += 1
            rates.admit(expected, now_ms * 1000)
            bucket.take(expected)
            if name == "tokens" and chooser.random() < 0.5:
                more = chooser.randrange(-expected, limit)
                rates.correct(more)
                bucket.take(more)
                taken += 1
    assert admitted > 0
    assert admitted < STEPS or limit > 7, "nothing was refused"

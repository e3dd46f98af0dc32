"""The content of an alert that is sent."""

from __future__ import annotations

import json

from gateway.ledger.alert_records import Alert, Hook, make_alert_id, write_alert
from tests.ledger.contract.kit import NOW_MS


def test_the_payload_is_one_line_with_these_members() -> None:
    alert = Alert("budget", "team", "7 1 80", "a\nb", account_id=3)
    body = write_alert(alert, "alert_1", "alice", NOW_MS)
    assert "\n" not in body
    assert json.loads(body) == {
        "id": "alert_1",
        "kind": "budget",
        "state": "raised",
        "subject": "team",
        "account": "alice",
        "text": "a\nb",
        "at": "2023-11-14T22:13:20.000Z",
    }


def test_ids_differ_and_a_secret_is_not_shown() -> None:
    assert make_alert_id() != make_alert_id()
    assert "whsec_1" not in repr(Hook("https://a.example/", "whsec_1", None))

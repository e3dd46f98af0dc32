"""Alerts, raised once and queued until delivered. Rows come as one JSON array, see `database.read_rows`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import orjson

from gateway.base.money import format_amount
from gateway.base.times import DAY_MS
from gateway.extras.alerts.records import (
    Alert,
    AlertKind,
    AlertView,
    Channel,
    Due,
    Hook,
    make_alert_id,
    write_alert,
)
from gateway.ledger.records import EventView
from gateway.ledger.sql.database import Part, read_script

MAX_AT_ONCE: Final = 500
"""The most alerts about balances that one look raises, as a new threshold may be above every balance. Also
the most events of an action that one look reads."""
PER_RECEIVER: Final = 4
"""How many alerts of one receiver are due at once, so that a hanging receiver does not delay others."""

KEPT_MS: Final = 31 * DAY_MS
"""Milliseconds for which alerts are kept, a month: older ones tell nothing about the present state."""

_SQL: Final = read_script(__file__)


class AlertBook(Part):
    """Alerts, queued until they are delivered. `channels` are the operator's configured ones."""

    def raise_all(self, alerts: Sequence[Alert], channels: Collection[Channel]) -> None:
        """Queue those that were not raised before, to the operator and to the holder's webhook."""
        if not alerts:
            return
        with self._database.changing():
            self._database.change(_SQL["forget"], (self._database.clock() - KEPT_MS,))
            for alert in alerts:
                self._raise(alert, channels)

    def raise_test(self, account_id: int | None, channels: Collection[Channel]) -> None:
        """Queue a test: to the holder of the account, or to the operator."""
        alert = Alert("test", "test", make_alert_id(), "This is a test.", account_id)
        self.raise_all([alert], channels)

    def follow(
        self,
        kind: AlertKind,
        standing: Mapping[str, str],
        ended: Mapping[str, str],
        channels: Collection[Channel],
        unknown: Collection[str] = (),
    ) -> None:
        """Raise new problems, and send the end of raised problems that are over.

        Both are texts by subject; no alert is sent for an end without a text. Subjects that this process
        cannot judge are `unknown`: they stay as they are. Subjects in none of them are forgotten.
        """
        # Read outside a change, which would wait for others: nearly every look finds nothing new.
        raised = set(self._database.read_rows(_SQL["conditions"], (kind,)))
        begun, over = standing.keys() - raised, raised - standing.keys() - set(unknown)
        if not begun and not over:
            return
        with self._database.changing():
            for subject in begun:
                if now_ms := self._begin(kind, subject):
                    alert = Alert(kind, subject, str(now_ms), standing[subject])
                    self._raise(alert, channels)
            for subject in over:
                is_mine = self._database.change(_SQL["end"], (kind, subject))
                if is_mine and (text := ended.get(subject)):
                    end = Alert(kind, subject, f"{self._database.clock()} end", text, state="ended")
                    self._raise(end, channels)

    def follow_balances(
        self, default_nano: int | None, currency: str, channels: Collection[Channel]
    ) -> None:
        """Raise an alert for each account that fell below its threshold since it was last above."""
        wanted = {"default": default_nano, "most": MAX_AT_ONCE}
        with self._database.snapshot():
            risen = self._database.read_rows(_SQL["risen"], wanted)
            fallen = self._database.read_rows(_SQL["fallen"], wanted)
        if not risen and not fallen:
            return
        with self._database.changing():
            for subject in risen:
                self._database.change(_SQL["end"], ("low_balance", subject))
            for account_id, name, balance_nano, threshold_nano in fallen:
                now_ms = self._begin("low_balance", str(account_id))
                if not now_ms:
                    continue
                text = (
                    f"The balance of account '{name}' is {format_amount(balance_nano)} {currency},"
                    f" below {format_amount(threshold_nano)} {currency}."
                )
                alert = Alert("low_balance", name, str(now_ms), text, account_id)
                self._raise(alert, channels)

    def read_events(self, action: str, after_id: int, since_ms: int) -> list[EventView]:
        """Return the events of an action behind an id and from a time on, the earliest first."""
        rows = self._database.fetch(
            _SQL["events after"],
            {"action": action, "after": after_id, "since": since_ms, "limit": MAX_AT_ONCE},
        )
        return [EventView(*row) for row in rows]

    def read_due(self, limit: int) -> list[Due]:
        """Return the alerts that are due, taken from the receivers in turn."""
        # SQLite promises no order within json_group_array; rows begin with what they are sorted by.
        wanted = {"now": self._database.clock(), "most": PER_RECEIVER}
        rows = sorted(self._database.read_rows(_SQL["due"], wanted))
        return [
            Due(*(*row, Hook(*hook) if row[1] == "holder" and hook[0] else None))
            for row, hook in ((one[3:9], one[9:]) for one in rows[:limit])
        ]

    def claim(self, alert_ids: Sequence[str], until_ms: int) -> set[str]:
        """Take alerts that are due, so that no other process takes them before `until_ms`.

        Return those that were taken; the others were taken by another process.
        """
        with self._database.changing():
            now_ms = self._database.clock()
            return {
                alert_id
                for alert_id in alert_ids
                if self._database.change(_SQL["claim"], (until_ms, alert_id, now_ms))
            }

    def note_delivered(self, alert_id: str) -> None:
        self._database.change(_SQL["delivered"], (self._database.clock(), alert_id))

    def note_failure(self, alert_id: str, reason: str, next_try_ms: int | None) -> None:
        """Store why a try failed, and when the next one is due; None if it was the last.

        It changes nothing if another process delivered the alert meanwhile.
        """
        self._database.change(_SQL["failed"], (next_try_ms, reason, alert_id))

    def read_latest(self, limit: int, account_id: int | None = None) -> list[AlertView]:
        """Return the latest alerts to the operator, or to an account's holder."""
        rows = self._database.read_rows(_SQL["latest"], {"account": account_id, "limit": limit})
        views = [
            AlertView(id_, channel, kind, orjson.loads(body)["text"], *rest)
            for id_, channel, kind, body, *rest in rows
        ]
        return sorted(views, key=lambda one: (one.created_ms, one.id), reverse=True)

    def read_hook(self, account_id: int) -> Hook:
        row = self._database.read_one(_SQL["hook"], (account_id,))
        return Hook(*row) if row else Hook(None, None, None)

    def set_hook(self, account_id: int, hook: Hook) -> None:
        with self._database.changing():
            row = (account_id, hook.url, hook.secret, hook.low_balance_nano)
            self._database.change(_SQL["set hook"], row)
            # The address may contain a secret, so the event does not have it.
            detail = "without a webhook" if hook.url is None else "with a webhook"
            name = self._database.read_account_name(account_id)
            self._database.note("alerts.edit", account=name, detail=detail)

    def _begin(self, kind: AlertKind, subject: str) -> int:
        """Begin a condition; return since when it lasts, or 0 if it had begun before."""
        now_ms = self._database.clock()
        return now_ms if self._database.change(_SQL["begin"], (kind, subject, now_ms)) else 0

    def _raise(self, alert: Alert, channels: Collection[Channel]) -> None:
        """Queue an alert for each receiver; a test goes to one only."""
        receivers: list[Channel] = [*channels]
        if alert.account_id is not None:
            if alert.kind == "test":
                receivers = []
            if self.read_hook(alert.account_id).url is not None:
                receivers.append("holder")
        now_ms = self._database.clock()
        # The same key in every process: the constraint on it lets an occurrence be raised once.
        key = ":".join(alert.key)
        account_id = alert.account_id
        name = None if account_id is None else self._database.read_account_name(account_id)
        for channel in receivers:
            alert_id = make_alert_id()
            body = write_alert(alert, alert_id, name, now_ms)
            row = (alert_id, key, channel, alert.kind, account_id, body, now_ms, now_ms)
            self._database.change(_SQL["raise"], row)

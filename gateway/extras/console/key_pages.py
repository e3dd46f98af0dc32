"""The keys of an account in pages."""

from __future__ import annotations

from typing import Final

from gateway.ledger.key_records import KeyView
from gateway.ledger.sql.database import KEY_LIVES, Part
from gateway.ledger.sql.keys import EACH_KEY, view_key

_KEYS_OF: Final = f" WHERE keys.account_id = :account AND (:now IS NULL OR ({KEY_LIVES}))"
_KEY_PAGE: Final = (
    EACH_KEY + _KEYS_OF + " AND (:ms IS NULL OR (keys.created_ms, keys.id) < (:ms, :id))"
    " ORDER BY keys.created_ms DESC, keys.id DESC LIMIT :limit"
)
_COUNT_KEYS: Final = f"SELECT count(*) FROM keys{_KEYS_OF}"  # noqa: S608 - of constants


class KeyPages(Part):
    def read_page(
        self,
        account_id: int,
        *,
        live_at_ms: int | None,
        after: tuple[str | int, ...] | None,
        limit: int,
    ) -> tuple[int, list[KeyView]]:
        """Return how many keys there are, and those behind `after`, the newest first.

        `after` is (created_ms, id). Keys that have ended by `live_at_ms` are left out.
        """
        where = {"account": account_id, "now": live_at_ms}
        created_ms, key_id = after or (None, None)
        page = {**where, "ms": created_ms, "id": key_id, "limit": limit}
        total = self._database.read_number(_COUNT_KEYS, where)
        return total, [
            view_key(row, self._database.clock()) for row in self._database.fetch(_KEY_PAGE, page)
        ]

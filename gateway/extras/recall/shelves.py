"""Keep responses in memory by account; the oldest is dropped first.

A response is kept with the whole conversation before it, so it depends on no other response, which may be
dropped. An account's equal texts are kept once: a conversation of sixty turns is not kept sixty times. All
texts are bytes, and nothing is parsed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.extras.recall.settings import ACCOUNT_PART, Responses

TEXT_BYTES: Final = 250
"""Bytes of memory that a text takes besides its own: two objects and their places in tables."""
RESPONSE_BYTES: Final = 1000
"""Bytes of memory that a response takes besides its texts: its objects, its id and its places in tables."""
PLACE_BYTES: Final = 16
"""Bytes of memory for each place of a text in a response: a reference has 8, and a member has a name, too."""


@dataclass(slots=True, eq=False)
class Text:
    """An item of a conversation, or the value of a response's member, as JSON."""

    data: bytes
    id: str = ""
    """The id of an item, by which requests may refer to it; "" if it has none."""
    uses: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A response with its conversation."""

    id: str
    inputs: tuple[Text, ...]
    """All items before its output, also those of the responses that it continues."""
    outputs: tuple[Text, ...]
    members: tuple[tuple[str, Text], ...] = ()
    """The response's members in their order. `output` is empty here, as `outputs` has its items."""

    @property
    def texts(self) -> Iterable[Text]:
        return (*self.inputs, *self.outputs, *(text for _, text in self.members))

    @property
    def own_bytes(self) -> int:
        return RESPONSE_BYTES + PLACE_BYTES * len([*self.texts])


@dataclass(slots=True)
class Shelf:
    """The responses of one account."""

    responses: dict[str, Kept] = field(default_factory=dict)
    """Responses by id, the oldest first."""
    texts: dict[bytes, Text] = field(default_factory=dict)
    items: dict[str, Text] = field(default_factory=dict)
    """The latest text of each item, by the item's id."""
    older: dict[str, dict[Text, None]] = field(default_factory=dict)
    """Earlier texts of an item, the oldest first: responses may have an item in different forms."""
    size: int = 0

    def put(self, kept: Kept) -> None:
        self.drop(kept.id)  # an imitation of OpenAI may use an id again
        inputs, outputs = (tuple(map(self._use, one)) for one in (kept.inputs, kept.outputs))
        members = tuple((name, self._use(text)) for name, text in kept.members)
        self.responses[kept.id] = Kept(kept.id, inputs, outputs, members)
        self.size += kept.own_bytes

    def drop(self, response_id: str) -> bool:
        """Drop a response, and the texts that no other response has. Return whether it was kept."""
        kept = self.responses.pop(response_id, None)
        if kept is None:
            return False
        self.size -= kept.own_bytes
        for text in kept.texts:
            text.uses -= 1
            if not text.uses:
                del self.texts[text.data]
                self.size -= TEXT_BYTES + len(text.data)
                if text.id:
                    self._forget_item(text)
        return True

    def _forget_item(self, text: Text) -> None:
        older = self.older.get(text.id, {})
        older.pop(text, None)
        if self.items[text.id] is text:
            del self.items[text.id]
            if older:
                self.items[text.id], _ = older.popitem()
        if not older:
            self.older.pop(text.id, None)

    def _note_item(self, text: Text) -> None:
        latest = self.items.get(text.id, text)
        if latest is not text:
            older = self.older.setdefault(text.id, {})
            older.pop(text, None)
            older[latest] = None
        self.items[text.id] = text

    def _use(self, text: Text) -> Text:
        shared = self.texts.get(text.data)
        if shared is None:
            shared = self.texts[text.data] = Text(text.data, text.id)
            self.size += TEXT_BYTES + len(text.data)
        if shared.id:
            self._note_item(shared)
        shared.uses += 1
        return shared


class Shelves:
    """The responses of all accounts. `now` is the time in seconds of any steady clock."""

    def __init__(self, settings: Responses) -> None:
        self.settings = settings
        self._shelves: dict[int, Shelf] = {}
        self._order: dict[tuple[int, str], float] = {}
        """When each response was kept, by account and id, the oldest first."""
        self.size = 0

    def find(self, account: int, response_id: str, now: float) -> Kept | None:
        self.expire(now)
        shelf = self._shelves.get(account)
        return None if shelf is None else shelf.responses.get(response_id)

    def find_item(self, account: int, item_id: str, now: float) -> Text | None:
        self.expire(now)
        shelf = self._shelves.get(account)
        return None if shelf is None else shelf.items.get(item_id)

    def keep(self, account: int, kept: Kept, now: float) -> None:
        """Keep a response. If memory is full, drop the oldest ones, possibly this one itself."""
        shelf = self._shelves.setdefault(account, Shelf())
        before = shelf.size
        shelf.put(kept)
        self.size += shelf.size - before
        self._order.pop((account, kept.id), None)
        self._order[account, kept.id] = now
        self._shrink(account)

    def drop(self, account: int, response_id: str) -> bool:
        """Drop a response. Return whether it was kept."""
        shelf = self._shelves.get(account, Shelf())
        before = shelf.size
        if not shelf.drop(response_id):
            return False
        self.size += shelf.size - before
        del self._order[account, response_id]
        if not shelf.responses:
            del self._shelves[account]
        return True

    def expire(self, now: float) -> None:
        """Drop responses that are too old."""
        oldest = now - self.settings.keep_minutes * 60
        while self._order:
            name, kept_at = next(iter(self._order.items()))
            if kept_at > oldest:
                break
            self.drop(*name)

    @property
    def next_end(self) -> float | None:
        """When the oldest response is too old; None if nothing is kept."""
        kept_at = next(iter(self._order.values()), None)
        return None if kept_at is None else kept_at + self.settings.keep_minutes * 60

    def reconfigure(self, settings: Responses, now: float) -> None:
        """Apply new settings, and drop responses beyond them."""
        self.settings = settings
        self.expire(now)
        for account in [*self._shelves]:
            self._shrink(account)

    def _shrink(self, account: int) -> None:
        """Drop the oldest responses until the account, then all accounts together, fit into memory."""
        shelf, most = self._shelves.get(account, Shelf()), self.settings.keep_mb << 20
        while shelf.size > most // ACCOUNT_PART:
            self.drop(account, next(iter(shelf.responses)))
        while self.size > most:
            self.drop(*next(iter(self._order)))

"""Checks of operators' and holders' input: names, notes, amounts, limits, dates and new files.

The books make them before a change. Each raises Refused; `field` is the name of the checked input in
forms.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.base.money import MAX_AMOUNT_NANO
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import LIMITS, KeyTerms, Terms
from gateway.ledger.records import OTHER_ACTORS, SCRIPT_ACTOR, Conflict, NotFound, Refused

_LIKE: Final = str.maketrans(
    "01lıіιӏсѕуеорορаαтτмԁпгкκвьхχνυһјԛԝ", "oiiiiiicsyeopopaattmdnrkkbbxxvuhjqw"
)
"""Maps digits and letters of other scripts to the small Latin letters that they look like."""
MAX_NAME_CHARS: Final = 100
"""Characters of a name: it has to fit into a line of a table."""
MAX_NOTE_CHARS: Final = 500
"""Characters of a note: a sentence or two, stored for good with each entry."""
MAX_IDEMPOTENCY_KEY_CHARS: Final = 200
"""Characters of an idempotency key: several times a UUID, and it is part of an index."""
MAX_COUNT: Final = 10**9
"""The largest count or limit, here and in gateway.toml. More is considered a typing error."""
MAX_MODEL_CHARS: Final = 200
"""Characters of a model's id, which is in each log line and in each row of the ledger."""
MAX_MODELS: Final = 100
"""Models in the list of a key or an account. The event log keeps only their number."""
MAX_MODELS_BYTES: Final = 4096
"""Bytes of all names in a list. It is limited because all live keys are in memory and holders make
keys."""
MAX_MOMENT_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, where dates end."""


def require_text(what: str, text: str, max_chars: int, field: str | None = None) -> None:
    """Require printable text: control and direction marks could hide things in a terminal."""
    if not 1 <= len(text) <= max_chars:
        raise Refused(f"{what} must have 1 to {max_chars} characters", field=field)
    if not text.isprintable() or text != text.strip():
        raise Refused(
            f"{what} may only have printable characters, and no space at its ends", field=field
        )


def require_name(what: str, name: str, field: str) -> None:
    """Require a name that the console can put into addresses."""
    require_text(what, name, MAX_NAME_CHARS, field)
    if name in {".", ".."}:  # browsers take them out of addresses, also as %2E
        raise Refused(f"{what} must not be '{name}': no page could show it", field=field)


def require_account_name(name: str) -> None:
    """Require a name of a new account that nobody takes for another actor of the event log."""
    require_name("the account's name", name, "name")
    seen = find_likeness(name)
    for actor in (*OTHER_ACTORS, SCRIPT_ACTOR):
        likeness, begins = find_likeness(actor), actor.endswith((" ", "("))
        if seen == likeness or (begins and seen.startswith(likeness)):
            how = "begin with" if begins else "be or look like"
            whom = "tokens" if actor == SCRIPT_ACTOR else "others"
            raise Refused(
                f"an account's name must not {how} '{actor}': events name {whom} so", field="name"
            )


def find_likeness(name: str) -> str:
    """Return a text that is equal for most names that look alike."""
    letters = unicodedata.normalize("NFKD", name).casefold().translate(_LIKE)
    return "".join(one for one in letters if not unicodedata.combining(one))


def require_amount(amount_nano: int, field: str = "amount") -> None:
    if abs(amount_nano) > MAX_AMOUNT_NANO:
        raise Refused(
            "an amount beyond a thousand million is taken for a typing error", field=field
        )


def require_above_zero(what: str, amount_nano: int, field: str, advice: str = "") -> None:
    """Require an amount that may be given or spent; `what` begins the message of a refusal."""
    require_amount(amount_nano, field)
    if amount_nano <= 0:
        raise Refused(f"{what} must be above 0{advice}", field=field)


def require_credit(amount_nano: int, field: str = "amount") -> None:
    advice = "; use a correction to take from a balance"
    require_above_zero("a credit", amount_nano, field, advice)


def require_note(what: str, note: str, field: str = "note") -> None:
    """Require a note that is kept with an entry or an event, or none."""
    if note:
        require_text(what, note, MAX_NOTE_CHARS, field)


def require_idempotency_key(key: str | None) -> None:
    if key is not None:
        require_text("the idempotency key", key, MAX_IDEMPOTENCY_KEY_CHARS)


def require_terms(terms: Terms) -> None:
    """Require models and limits that a key or an account may have."""
    if terms.models is not None:
        _require_models(terms.models)
    for name in LIMITS:
        limit: int | None = getattr(terms, name)
        if limit is not None and not 0 <= limit <= MAX_COUNT:
            raise Refused(f"a limit must be between 0 (none) and {MAX_COUNT}")


def _require_models(models: Sequence[str]) -> None:
    if not models:
        raise Refused("name at least one model, or none to allow all", field="models")
    if len(models) > MAX_MODELS:
        raise Refused(f"name at most {MAX_MODELS} models, or none to allow all", field="models")
    for model in models:
        require_text("a model's name", model, MAX_MODEL_CHARS, "models")
    if sum(len(model.encode()) for model in models) > MAX_MODELS_BYTES:
        text = f"the names of the models must have at most {MAX_MODELS_BYTES} bytes together"
        raise Refused(f"{text}; name fewer, or none to allow all", field="models")


def require_expiry(what: str, expires_ms: int, now_ms: int) -> None:
    """Require a future time that can be written as a date, because lists show it as one."""
    if expires_ms <= now_ms:
        raise Refused(f"{what} must be in the future", field="expires")
    if expires_ms > MAX_MOMENT_MS:
        raise Refused(f"{what} must be within the year 9999", field="expires")


def require_key_terms(terms: KeyTerms, now_ms: int) -> None:
    """Require terms that a key may have."""
    if terms.name:
        require_text("the key's name", terms.name, MAX_NAME_CHARS, "name")
    if terms.expires_ms is not None:
        require_expiry("the key's expiry", terms.expires_ms, now_ms)
    require_terms(terms)
    if terms.cap_nano is not None:
        require_above_zero("the key's cap", terms.cap_nano, "cap")


def require_allowance(allowance: Allowance | None, field: str = "amount") -> None:
    if allowance is not None:
        require_above_zero("the budget's amount", allowance.amount_nano, field)


def require_new(target: Path, what: str) -> None:
    """Raise Conflict if there is such a file, NotFound if there is no such folder."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists already; {what} overwrites nothing")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}")

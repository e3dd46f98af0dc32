"""A summary in place of a conversation: Codex asks for one when its context is full.

The request's last item, `compaction_trigger`, asks for an item `compaction`, which Codex then sends in place
of the earlier conversation. A Responses provider makes and reads such items itself. For other providers the
model is asked for a summary in words. The item holds its text, which every provider and model can read.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from gateway.base.errors import UndeliverableReply
from gateway.dialects.wire.halves import mend_halves
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.seals import ANY_TAG

TRIGGER: Final = "compaction_trigger"
REQUEST: Final = (
    "The conversation so far will be removed and replaced by what you write now, so that the work can go on"
    " in less space. Write a summary for the one who goes on with it: what the user wants, with all"
    " constraints and preferences; what was done and decided, and why; what was learned, such as names of"
    " files, commands, errors and figures that are still needed, word for word; what is unfinished, and the"
    " next step. Do not go on with the work itself, call no tool, and write only the summary."
)
"""The instruction to the model, sent as the last user message."""
_OPENING: Final = (
    "The earlier part of this conversation was replaced by this summary of it. Go on from there, and do"
    " not do again what is done.\n\n"
)
"""The text before a summary that is sent back to a model."""
_SEAL: Final = f"{ANY_TAG}summary."
"""The beginning of a summary that the gateway put into an item. No provider has this tag."""


def asks_summary(body: Json) -> bool:
    """Return whether a caller's request asks for a summary."""
    match body.get("input"):
        case [*_, {"type": "compaction_trigger"}]:
            return True
        case _:
            return False


def make_summary(identity: str, text: str) -> Json:
    """Make the item of a summary. Raises UndeliverableReply if the model wrote none."""
    if not text.strip():
        raise UndeliverableReply("The model wrote no summary of the conversation.")
    packed = urlsafe_b64encode(mend_halves(text).encode()).decode()
    return {"id": identity, "type": "compaction", "encrypted_content": _SEAL + packed}


def maybe_summary(item: Json) -> str | None:
    """Return the text of an item with a summary, for a model; None if the gateway did not make the item."""
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str) or not sealed.startswith(_SEAL):
        return None
    try:
        text = urlsafe_b64decode(sealed.removeprefix(_SEAL)).decode()
    except ValueError:
        return None
    return _OPENING + text

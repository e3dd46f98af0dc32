"""A third dialect shows what adding one takes: a caller, an upstream, translations, a row per table.

`gateway` does not know it. Its wire format is a toy:

    request   {"to": MODEL, "lines": [["me", "Hi"], ["you", "Hello"], ...], "flow": true, "most": 9}
    reply     {"by": MODEL, "words": "Hello", "end": "done", "used": {"in": 5, "out": 2}}
    stream    {"by": MODEL}  {"w": "Hel"}  {"w": "lo"}  {"end": "done", "used": {...}}  {"bye": true}
    error     {"oops": "said upstream"}, also in a stream

The speakers are `rule`, `me` and `you`; the end is `done` or `cut`. An event is one line `data: `.
"""

from __future__ import annotations

from gateway.dialects import exchanges
from tests.dialects.tiny.caller import TinyCaller
from tests.dialects.tiny.translations import CHAT_OVER_TINY, TINY_OVER_CHAT
from tests.dialects.tiny.upstream import TinyUpstream

CALLERS = {**exchanges.CALLERS, "tiny": TinyCaller()}
UPSTREAMS = {**exchanges.UPSTREAMS, "tiny": TinyUpstream()}
TRANSLATIONS = {
    **exchanges.TRANSLATIONS,
    ("tiny", "chat"): TINY_OVER_CHAT,
    ("chat", "tiny"): CHAT_OVER_TINY,
}
EXCHANGES = exchanges.make_exchanges(CALLERS, UPSTREAMS, TRANSLATIONS)

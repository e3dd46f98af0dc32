"""Where to work on JSON: at once, in a turn of the event loop that has time, or in a thread.

Each JSON value takes a step in Python and 60 bytes of memory. On the loop, a body of many values would stop
all streams meanwhile. The time is estimated from the number of values and the pair of dialects
(`Exchange.request_rate`, `Exchange.reply_rate`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.api.state import Call
from gateway.base.turns import Place, Result
from gateway.dialects.wire.jsonbytes import bound_elements

LOOP_MS: Final = 3.0
"""The longest work on the event loop; longer work is done in a thread."""
SHORT_MS: Final = 0.5
"""Work up to this long starts at once, without waiting for a turn: the rest of the request takes as
long."""
LOOP_BYTES: Final = 1 << 19
"""The most bytes that are read or written on the loop, whatever they contain: they take 1 ms."""
PARSE_RATE: Final = 4_000
"""Values parsed and validated in a millisecond in the slowest dialect, Responses."""


def count_values(data: bytes) -> int:
    """Return an upper bound of the values in a JSON text, for `place_elements`.

    Commas inside strings count, too: telling them apart would take as long as parsing. A large text goes
    to the thread anyway, so its values are not counted.
    """
    return 0 if len(data) > LOOP_BYTES else bound_elements(data)


def place_elements(size: int, elements: int, rate: int) -> Place:
    """Choose where to work on JSON of this size and number of values; `rate` values take a millisecond."""
    if size > LOOP_BYTES or elements > LOOP_MS * rate:
        return Place.THREAD
    return Place.TURN if elements > SHORT_MS * rate else Place.NOW


async def run_at(call: Call, place: Place, function: Callable[[], Result]) -> Result:
    """Call a function at its place. The thread's time is shared fairly among accounts."""
    owner = None if call.key is None else call.key.account.id
    return await call.gateway.large_bodies.run(function, place, owner)

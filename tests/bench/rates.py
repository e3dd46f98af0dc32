"""Measure how many JSON values are translated in a millisecond: `python -m tests.bench.rates`, a minute.

Bodies of many tiny values of one kind are written for each upstream, and replies read for each
caller. The output is the rate of the slowest kind, in CPU time: what `gateway.dialects.exchanges.RATES`
holds, rounded down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.jsonbytes import count_elements
from gateway.dialects.wire.records import CompletionRequest, ReplyContext, Target
from gateway.dialects.wire.replies import MAX_REPLY_BYTES
from gateway.dialects.wire.seals import tag_provider
from tests.support.formats import CALLERS, EXCHANGES

ROUNDS: Final = 5
_TAG: Final = tag_provider("p", "u")
_CONTEXT: Final = ReplyContext(
    CompletionRequest({}, "ours"),
    "request-1",
    Expected(10, UsageLimits(10**6, 10**6, 10**6)),
    provider_tag=_TAG,
)


def list_bodies(kind: str, dialect: str) -> list[bytes]:
    """List the `requests` of a caller's dialect, or the `replies` of a provider's, from `rates.txt`."""
    text = Path(__file__).with_name("rates.txt").read_text(encoding="utf-8")
    return list(_read_bodies(text, f"{kind} of {dialect}"))


def _read_bodies(text: str, wanted: str) -> Iterator[bytes]:
    for block in text.split("\n== ")[1:]:
        heading, body, *lines = block.strip("\n").split("\n")
        title, _, count = heading.partition(", ")
        if title == wanted:
            items = (line.replace("%", str(at)) for at in range(int(count)) for line in lines)
            yield body.replace("ITEMS", ",".join(items)).encode()


def measure(data: bytes, work: Callable[[], object]) -> float:
    """Return the values of `data` that are worked on in a millisecond."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return count_elements(data, MAX_REPLY_BYTES) / best / 1000


def main() -> None:
    target = Target("up", provider_tag=_TAG)
    print(f"{'caller over upstream':24}{'requests':>10}{'replies':>10}   values per ms")
    for caller, dialect in CALLERS.items():
        bodies = list_bodies("requests", caller)
        parsed = min(measure(data, lambda: dialect.parse_request(data)) for data in bodies)  # noqa: B023
        print(f"{caller + ', parsed':24}{parsed:10.0f}")
        for upstream, exchange in EXCHANGES[caller].items():
            if not (replies := list_bodies("replies", upstream)):
                continue
            written = min(
                measure(data, lambda: exchange.write_request(request, target))  # noqa: B023
                for data in bodies
                for request in (dialect.parse_request(data),)
            )
            read = min(
                measure(data, lambda: exchange.read_reply(data, _CONTEXT))  # noqa: B023
                for data in replies
            )
            print(f"{f'{caller} over {upstream}':24}{written:10.0f}{read:10.0f}")


if __name__ == "__main__":
    main()

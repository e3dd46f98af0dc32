"""Measure the cost of a stream's pipeline: `python -m tests.bench.feeding`, half a minute.

100,000 content events go through `feed` in reads of 1, 10 and 100 events, for each pair of
dialects. The output is CPU microseconds per event, the best of a few rounds.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import CompletionRequest, ReplyContext
from tests.bench import wire
from tests.support.formats import EXCHANGES

EVENTS: Final = 100_000
READS: Final = (1, 10, 100)
"""Events per read."""

_CONTEXT: Final = ReplyContext(
    CompletionRequest({}, "ours", True, True, 1, None, 0, 0),
    "request-1",
    Expected(10, UsageLimits(10**6, 10**6, 10**6)),
)


def measure(caller: str, upstream: str, events_per_read: int) -> float:
    """Return the CPU microseconds per event."""
    begin, events, _ = wire.make_events(upstream, EVENTS)
    reads = [
        b"".join(events[at : at + events_per_read]) for at in range(0, EVENTS, events_per_read)
    ]
    pipeline = EXCHANGES[caller][upstream].open_stream(_CONTEXT)
    pipeline.feed(b"".join(begin))
    feed = pipeline.feed
    started = time.process_time()
    for data in reads:
        feed(data)
    seconds = time.process_time() - started
    assert pipeline.failure is None
    assert pipeline.delivered
    return seconds / EVENTS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'caller over upstream':24}" + "".join(f"{n:>6} a read" for n in READS))
    for upstream in EXCHANGES:
        for caller in EXCHANGES:
            if upstream not in EXCHANGES[caller]:
                continue
            best = [min(measure(caller, upstream, n) for _ in range(rounds)) for n in READS]
            figures = "".join(f"{figure:13.2f}" for figure in best)
            print(f"{f'{caller} over {upstream}':24}{figures}")


if __name__ == "__main__":
    main()

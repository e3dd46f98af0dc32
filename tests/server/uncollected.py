"""The gateway without its garbage collector: `python -m tests.server.uncollected WORDS`.

Each line on stdin is answered on stdout: what became garbage since the last one that only a collection
frees, as a JSON object of counts by type. The garbage of the start is not among it.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections import Counter
from types import FrameType


def describe(value: object) -> str:
    kind = type(value)
    if isinstance(value, FrameType):
        return f"frame of {value.f_code.co_qualname} at {value.f_lineno}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def answer() -> None:
    gc.collect()  # drops what the first line finds
    gc.set_debug(gc.DEBUG_SAVEALL)
    for _ in sys.stdin:
        gc.disable()
        gc.collect()
        found = Counter(map(describe, gc.garbage))
        gc.garbage.clear()
        gc.set_debug(0)
        gc.collect()  # frees it, so that it is not found again
        gc.set_debug(gc.DEBUG_SAVEALL)
        print(json.dumps(found), flush=True)


def main() -> int:
    from gateway.cli import main as run

    threading.Thread(target=answer, daemon=True).start()
    return run(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())

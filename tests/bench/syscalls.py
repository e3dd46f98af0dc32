"""Count the gateway's system calls for a JSON request: `python -m tests.bench.syscalls`.

One connection, under `strace -c`, all threads; the counts of two runs of different length are
subtracted, so that what the process does besides cancels out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench.calls import ask, serve
from tests.bench.processes import Target

REQUESTS: Final = (100, 1100)
STRACE: Final = shutil.which("strace") or ""
"""Empty where it is not installed."""
ATTACH_SECONDS: Final = 10.0


def can_trace() -> bool:
    """Return whether strace is there and may look at a process."""
    words = [STRACE, "-c", "-o", os.devnull, "true"]
    return bool(STRACE) and subprocess.run(words, check=False, capture_output=True).returncode == 0


@contextmanager
def _traced(target: Target, summary: Path) -> Iterator[None]:
    """Attach strace to all threads of the process."""
    command = [STRACE, "-f", "-c", "-o", str(summary), "-p", str(target.pid)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + ATTACH_SECONDS
        while not _is_traced(target):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("strace may not look at the gateway")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _is_traced(target: Target) -> bool:
    tasks = Path(f"/proc/{target.pid}/task").iterdir()
    return all("TracerPid:\t0" not in (task / "status").read_text("utf-8") for task in tasks)


def count_calls(target: Target, key: str, requests: int, folder: Path) -> Counter[str]:
    summary = folder / "summary"
    with _traced(target, summary):
        ask(target, key, "json", requests)
    calls: Counter[str] = Counter()
    for line in summary.read_text("utf-8").splitlines():
        words = line.split()
        if len(words) >= 5 and re.fullmatch("[0-9.]+", words[0]) and words[-1] != "total":
            calls[words[-1]] += int(words[3])
    return calls


def measure() -> dict[str, float]:
    """Return the system calls per request by name, the most first."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        target, key = serve(stack, Path(folder), "gateway")
        ask(target, key, "json", REQUESTS[0])
        few, many = (count_calls(target, key, count, Path(folder)) for count in REQUESTS)
    per_request = {name: (many[name] - few[name]) / (REQUESTS[1] - REQUESTS[0]) for name in many}
    return dict(sorted(per_request.items(), key=lambda item: -item[1]))


def main() -> int:
    counts = measure()
    for name, count in counts.items():
        print(f"{count:8.2f}   {name}")
    print(f"{sum(counts.values()):8.2f} system calls per JSON request")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Process 1 reaps what nobody waits for, and leaves to others what they wait for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, ctypes, os, subprocess
from gateway.extras.commands.orphans import reap_seen

ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans come here, as to process 1

async def run(code):
    process = await asyncio.create_subprocess_exec("sh", "-c", f"(exit 9) & (sleep 0.1) & exit {code}")
    return await process.wait()

async def main():
    kept = subprocess.Popen(["sh", "-c", "exit 7"])
    while kept.pid not in (seen := reap_seen(set())):
        await asyncio.sleep(0.01)
    assert kept.wait() == 7
    assert await asyncio.gather(*map(run, range(20))) == list(range(20))
    while seen or has_children():
        await asyncio.sleep(0.01)
        seen = reap_seen(seen)
    assert await run(3) == 3

def has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True

asyncio.run(main())
"""


def test_orphans_are_reaped_and_no_status_is_stolen() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)

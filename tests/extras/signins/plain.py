"""Functions of signing in as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any, Final, cast

from aiohttp.test_utils import make_mocked_request

from gateway.config.records import Server
from gateway.extras.signins import browsers, signin, totp
from gateway.extras.signins.throttle import SignInThrottle, Tries

OWN: Final = frozenset({"https://llm.example.com"})


def may_change(headers: Mapping[str, str]) -> bool:
    return browsers.is_same_site(headers, OWN)


def may_look(headers: Mapping[str, str]) -> bool:
    return browsers.is_same_site(headers, OWN, is_change=False)


def is_own_host(headers: Mapping[str, str]) -> bool:
    return browsers.is_own_host(headers, OWN)


def _make_server(settings: Mapping[str, Any]) -> Server:
    defaults = {"host": "0.0.0.0", "port": 8080, "public_url": None}
    return cast("Server", SimpleNamespace(**{**defaults, **settings}))


def _read_local(local: list[Any] | None) -> tuple[str, int] | None:
    return None if local is None else (local[0], local[1])


def find_own_origins(settings: Mapping[str, Any], local: list[Any] | None) -> list[str]:
    server = _make_server(settings)
    return sorted(browsers.find_own_origins(server, _read_local(local)))


def find_base_url(settings: Mapping[str, Any], local: list[Any] | None) -> str:
    return signin.find_base_url(_make_server(settings), _read_local(local))


def read_session_token(settings: Mapping[str, Any], cookies: str) -> str | None:
    request = make_mocked_request("GET", "/", headers={"Cookie": cookies})
    return browsers.read_session_token(request, _make_server(settings))


TRY: Final = re.compile(r"([=/!?~-]?)([^@#*]*)(?:@([^#*]*))?(?:#([^*]))?(?:\*(\d+))?")


def _play(steps: str, now: list[float], acts: Mapping[str, Callable[..., object]]) -> str:
    """Do `ACT NAME @ADDRESS #DEVICE *TIMES`, or wait `+SECONDS`; tell what each step returned.

    Without an address each try is from another one. `N` is the number of the try.
    """
    told, others = [], count()
    for step in steps.split():
        if step.startswith("+"):
            now[0] += float(step)
            continue
        found = TRY.fullmatch(step)
        assert found is not None, step
        act, name, address, device, times = found.groups()
        results = []
        for number in range(int(times or 1)):
            place = f"10.0.{next(others)}.1" if address is None else address
            where = place.replace("N", f"{number:x}"), device and device.encode() * 16
            results.append(acts[act](name.replace("N", str(number)), *where))
        runs = [(value, len([*some])) for value, some in groupby(results) if value is not None]
        told += [",".join(f"{one}*{n}" if n > 1 else str(one) for one, n in runs)] * bool(runs)
    return " ".join(told)


def sign_in(steps: str) -> str:
    """Return the seconds to wait before each try; `!`, `/`, `~` are right, lack a code, are let in.

    `=` is a right try at once. `?` and `-` ask whether to note a failure of a kind, of a name.
    """
    now = [1000.0]
    throttle = SignInThrottle(lambda: now[0])

    def take_right(*who: Any) -> int:
        wait = throttle.take(*who)
        throttle.succeed(*who)
        return wait

    acts: dict[str, Callable[..., object]] = {
        "": throttle.take,
        "=": take_right,
        "!": throttle.succeed,
        "/": throttle.give_back,
        "~": lambda name, *_: throttle.clear(name),
        "?": lambda kind, address, _: throttle.take_note(kind, address),
        "-": lambda name, *_: throttle.take_name_note(name),
    }
    return _play(steps, now, acts)


def take_tries(most: int, seconds: int, steps: str) -> str:
    """Return the seconds to wait before each of the tries; `/` gives one back."""
    now = [1000.0]
    tries = Tries(most, seconds, clock=lambda: now[0])
    acts = {"": lambda key, *_: tries.take(key), "/": lambda key, *_: tries.give_back(key)}
    return _play(steps, now, acts)


def compute_code(seconds: int) -> str:
    """Compute a code of Appendix B of RFC 6238, which has the last six digits of its eight."""
    return totp.compute_code(b"12345678901234567890", seconds // 30)

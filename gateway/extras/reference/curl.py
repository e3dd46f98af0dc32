"""A call as a command line of curl."""

from __future__ import annotations

import re
from typing import Final

import orjson

from gateway.dialects.wire.records import Json
from gateway.extras.reference.records import Route

_WIDTH: Final = 100
"""Characters of a line, so that a page shows it whole."""
_SHOWN: Final = {"$TOTP_CODE": "123456"}


def write_curl(route: Route, call: Json) -> str:
    """Write the example of a route; `$GATEWAY` is the gateway's address, `$KEY_…` what others replied."""
    path = re.sub(
        r"\{(\w+)\}", lambda found: call.get("to", {}).get(found[1], found[0]), route.path
    )
    query = f"?{call['query']}" if "query" in call else ""
    words = [f'"$GATEWAY{path}{query}"']
    if (route.method != "GET" and "body" not in call) or route.method not in {"GET", "POST"}:
        words.append(f"-X {route.method}")
    words += _write_credentials(route)
    if route.idempotent or call.get("idempotent"):
        words.append('-H "Idempotency-Key: $(uuidgen)"')
    if "body" in call:
        words += _write_body(call["body"])
    return _fill(words)


def _write_credentials(route: Route) -> list[str]:
    if route.access == "key":
        return ['-H "Authorization: Bearer $API_KEY"']
    if route.tokens:
        return ['-H "Authorization: Bearer $TOKEN"']
    if route.path == "/console/api/session" or route.path.startswith("/console/api/session/"):
        return ["-b cookies -c cookies"]
    return ["-b cookies"] if route.access != "open" else []


def _write_body(body: Json) -> list[str]:
    if any(str(one).startswith("@") for one in body.values()):
        return [f"-F {name}={one}" for name, one in body.items()]
    text = orjson.dumps(body).decode()
    for name, shown in _SHOWN.items():
        text = text.replace(name, shown)
    if "$" not in text:
        quoted = "'" + text.replace("'", "'\\''") + "'"
    else:
        quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return ["-H 'Content-Type: application/json'", f"-d {quoted}"]


def _fill(words: list[str]) -> str:
    lines = ["curl"]
    for word in words:
        if len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return " \\\n".join(lines)

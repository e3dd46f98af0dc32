"""Serve the console's page from files that are read into memory once.

Every path of the page gets the same `index.html`; scripts in the browser decide what to show. File
names carry no hash: the scripts import each other by name, and the content security policy forbids
the inline script that an import map needs. So browsers must not cache the files without asking;
they ask each time and get a 304 by the ETag.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from aiohttp import ETag, hdrs, web

from gateway.api.front import Call
from gateway.api.paths import explain_path
from gateway.base.errors import NotFound
from gateway.base.process import PROGRAM
from gateway.extras.console.additions import find_additions
from gateway.extras.console.callers import SECURITY_HEADERS

HOME: Final = "/console/"
NAMES: Final = (
    *("keys", "usage", "billing", "activity", "activity/{id:[^/]+}", "models", "settings"),
    *("signin", "accounts", "accounts/{name:[^/]+}", "costs", "providers", "refusals"),
    *("health", "audit"),
    *(name for one in find_additions() for name in (*one.pages, *one.own_pages, *one.links)),
)
PATHS: Final = (HOME, *(HOME + name for name in NAMES))
"""The paths that show a page to everybody. The API decides who may see which data."""

INDEX: Final = "index.html"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
OK: Final = 200
"""The status of a page, and the only one for which a browser's copy counts."""
ETAG_CHARS: Final = 20
"""Characters of an entity tag: 80 bits of the file's hash, so two files do not share one."""

# `gzip;q=0` refuses it (RFC 9110 §12.5.3).
_TAKES_GZIP: Final = re.compile(
    r"(?:^|,)\s*gzip\s*(?:$|,|;(?!\s*q=0(?:\.0*)?\s*(?:$|,)))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class File:
    gzipped: bytes = field(repr=False)
    etag: str
    content_type: str

    @property
    def body(self) -> bytes:
        """The uncompressed file. Hardly any browser asks for it, so memory has the compressed file only."""
        return gzip.decompress(self.gzipped)


def read_files() -> Mapping[str, File]:
    """Read all files, by name. Requests are served from this mapping and never open a file."""
    added = (folder for one in find_additions() for folder in one.scripts)
    folders = [Path(__file__).with_name("static"), *added]
    files = {one.name: one.read_bytes() for folder in folders for one in folder.iterdir()}
    for one in find_additions():
        files.update(one.downloads)
    files["added.js"] = _write_additions()
    files[INDEX] = files[INDEX].replace(b"python -m gateway", html.escape(PROGRAM).encode())
    return {name: make_file(name, body) for name, body in files.items()}


def _write_additions() -> bytes:
    """Write `added.js`, which lists the additions of extras for the console's own scripts."""
    added = find_additions()
    parts: dict[str, list[str]] = defaultdict(list)
    for one in added:
        for page, script in one.parts.items():
            parts[page].append(script)
    constants = {
        "PAGES": [name for one in added for name in one.pages],
        "OWN_PAGES": [
            (HOME + name, label, name) for one in added for name, label in one.own_pages.items()
        ],
        "LINKS": [name for one in added for name in one.links],
        "DOWNLOADS": [name for one in added for name in one.downloads],
        "CREDIT": [name for one in added for name in one.credit],
        "PARTS": parts,
        "RECEIPTS": {kind: path for one in added for kind, path in one.receipts.items()},
    }
    lines = (f"export const {name} = {json.dumps(value)};\n" for name, value in constants.items())
    return "".join(lines).encode()


@lru_cache(maxsize=8)
def make_file(name: str, body: bytes) -> File:
    content_type = TYPES[name[name.rindex(".") :]]
    etag = hashlib.sha256(body).hexdigest()[:ETAG_CHARS]
    # Without a time in the gzip header, all processes and all starts make the same bytes.
    return File(gzip.compress(body, mtime=0), etag, content_type)


FILES: Final = read_files()


async def redirect_home(_: web.Request, _call: Call) -> web.Response:
    headers = {hdrs.LOCATION: HOME, **SECURITY_HEADERS}
    return web.Response(status=308, headers=headers)


async def redirect_browser(request: web.Request, _: Call) -> web.Response:
    """Lead a browser at the root to the console; others get the API's 404."""
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        raise NotFound(explain_path(request.path))
    headers = {hdrs.LOCATION: HOME, hdrs.VARY: hdrs.ACCEPT, **SECURITY_HEADERS}
    return web.Response(status=303, headers=headers)


async def show_page(request: web.Request, call: Call, status: int = OK) -> web.Response:
    text = FILES[INDEX].body.decode()
    for one in find_additions():
        text = one.dress(call.gateway.config, text)
    return reply_file(request, make_file(INDEX, text.encode()), status)


async def show_missing(request: web.Request, call: Call) -> web.Response:
    """Reply 404 with the page, which tells people that the address does not exist."""
    return await show_page(request, call, 404)


async def show_file(request: web.Request, call: Call) -> web.Response:
    file = FILES.get(request.match_info["file"])
    return await show_page(request, call, 404) if file is None else reply_file(request, file)


def reply_file(request: web.Request, file: File, status: int = OK) -> web.Response:
    headers = {**SECURITY_HEADERS, hdrs.CACHE_CONTROL: "no-cache", hdrs.VARY: hdrs.ACCEPT_ENCODING}
    known = request.if_none_match or ()
    if status == OK and any(tag.value in {file.etag, "*"} for tag in known):
        response = web.Response(status=304, headers=headers)
    elif _TAKES_GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        headers |= {hdrs.CONTENT_TYPE: file.content_type, hdrs.CONTENT_ENCODING: "gzip"}
        response = web.Response(body=file.gzipped, status=status, headers=headers)
    else:
        headers[hdrs.CONTENT_TYPE] = file.content_type
        response = web.Response(body=file.body, status=status, headers=headers)
    # Weak, as the plain and the gzipped body share it.
    response.etag = ETag(file.etag, is_weak=True)
    return response

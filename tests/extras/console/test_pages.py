"""The page's files as text, since there is no build step: forbidden things, sizes; and over HTTP."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from gateway.api.front import Handler
from gateway.cli.parser import make_parser
from gateway.cli.verbs import find_words, load_verbs
from gateway.config.load import load_defaults
from gateway.extras.console import pages
from gateway.extras.console.additions import find_additions
from gateway.extras.console.callers import API_HEADERS, SECURITY_HEADERS
from gateway.extras.console.pages import FILES
from tests import ROOT
from tests.extras.console.kit import Console
from tests.support.records import make_call
from tests.support.rows import each_row

TEXTS: Final = {name: file.body.decode() for name, file in FILES.items()}
SCRIPTS: Final = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
INDEX: Final = TEXTS["index.html"]
ALWAYS: Final = ("index.html", "style.css", "theme.js", "icon.svg", "app.js")
"""Files that every page loads."""
BY_NAME: Final = {
    one for text in SCRIPTS.values() for one in re.findall(r'\bload(?:Script)?\("([a-z]+)"\)', text)
}
"""The modules that a page loads once they are asked for."""
DOWNLOADS: Final = {name for one in find_additions() for name in one.downloads}
"""Files that people keep; the page Health links them."""
MAX_BYTES: Final = 110_000
MAX_PICTURE_BYTES: Final = 70_000
MAX_PAGE_BYTES: Final = 34_000

FORBIDDEN: Final = {
    "markup from text": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc",
    "code from text": r"\beval\b|new Function|setTimeout\([\"'`]|javascript:",
    "inline handlers": r"\son[a-z]+=|setAttribute\([\"'`]on",
    "inline style": r"\sstyle=|[{,]\s*style:|\.style\b|<style|cssText",
    "other hosts": r"https?://|[\"'(]//[a-z]",
    "leftovers": r"console\.(?:log|debug)|debugger|TODO|FIXME",
    "dialogs that block": r"\b(?:alert|confirm|prompt)\(",
    "floats of money": r"parseFloat|toFixed\(9\)",
}
NAMESPACES: Final = re.compile(r"http://www\.w3\.org/2000/svg")
IMPORT: Final = re.compile(r'^import \{ ([^}]+) \} from "\./([a-z]+\.js)";$', re.MULTILINE)
EXPORT: Final = re.compile(r"^export (?:async )?(?:const|function|class) (\w+)", re.MULTILINE)
DYNAMIC: Final = re.compile(r"import\(([^)]*)\)")
STYLED: Final = re.compile(r'"/console/static/([a-z]+\.css)"')
FILE: Final = re.compile(r'file: "([a-z]+)"')
PAGE: Final = re.compile(r'\["/console/[a-z]*", "[A-Z][a-z ]+", "([a-z]+)"\]')


@each_row("what", FORBIDDEN)
@each_row("name", sorted(TEXTS))
def test_files_do_without(name: str, what: str) -> None:
    """The content security policy blocks most of these; the test finds them before people do."""
    assert re.findall(FORBIDDEN[what], NAMESPACES.sub("", TEXTS[name])) == []


@each_row("name", sorted(SCRIPTS))
def test_imports_resolve_and_are_used(name: str) -> None:
    text = SCRIPTS[name]
    rest = IMPORT.sub("", text)
    assert not re.search(r"^\s*import\b(?!\()", rest, re.MULTILINE), "an import of another form"
    for names, source in IMPORT.findall(text):
        for one in names.split(", "):
            assert one in EXPORT.findall(SCRIPTS[source]), f"{source} exports no {one}"
            assert re.search(rf"\b{one}\b", rest), f"{one} is imported and not used"


def test_every_export_is_imported() -> None:
    pages = "accounts account overview keys usage billing activity call models settings costs gateway books"
    pages += " providers refusals health audit signIn signOutElsewhere created accountActs askLink peopleOf usageOf"
    pages += " balanceCard firstSteps makeSlots SNIPPETS"
    loaded = re.findall(r"const \{ (\w+) \} = await load\(", "".join(SCRIPTS.values()))
    added = ["creditForm"] if any(one.credit for one in find_additions()) else []
    for one in find_additions():
        own = (label.lower().replace(" ", "") for label in one.own_pages.values())
        added += [*one.pages, *own, *one.links, *(f"{page}Part" for page in one.parts)]
    imported = {
        one
        for text in SCRIPTS.values()
        for names, _ in IMPORT.findall(text)
        for one in names.split(", ")
    }
    exported = {one for text in SCRIPTS.values() for one in EXPORT.findall(text)}
    assert exported - imported - {"unsay", "seconds", "renewals"} == {
        *pages.split(),
        *added,
        *loaded,
    }, "scripts of extras may use these"


def test_every_class_that_is_styled_exists() -> None:
    sheets = "".join(text for name, text in TEXTS.items() if name.endswith(".css"))
    selectors = re.sub(r"\{[^{}]*\}", "{}", sheets)
    code = "".join(text for name, text in TEXTS.items() if not name.endswith(".css"))
    styled = set(re.findall(r"\.([a-z][a-z-]+)", selectors))
    assert styled
    styled -= {"find", "found", "finder"}  # of an extra, which may be missing
    assert [one for one in styled if not re.search(rf"(?<![\w-]){one}(?![\w-])", code)] == []


def test_each_input_is_made_with_a_label() -> None:
    """One function makes inputs with a label; the few others name their label themselves."""
    for name, text in SCRIPTS.items():
        for line in text.splitlines():
            if name != "form.js" and re.search(r'h\("(?:input|select|textarea)"', line):
                assert re.search(r"\bid\b|aria-label|aria-hidden", line), f"{name}: {line}"


def test_commands_that_pages_name_exist() -> None:
    """Without scripts the console names them, and to whoever forgot a password."""
    commands = re.findall(r"<code>(?:python -m gateway )?([a-z]+ [a-z]+|usage)\b", INDEX)
    assert len(commands) >= 6
    commands += re.findall(r'code\("gateway ([a-z -]+) NAME"\)', SCRIPTS["signin.js"])
    assert commands[-1] == "account signin-link"
    load_verbs(find_words())
    for command in commands:
        with pytest.raises(SystemExit) as end:
            make_parser().parse_args([*command.split(), "--help"])
        assert end.value.code == 0, command


def test_readme_shows_a_small_picture() -> None:
    name = "tests/extras/console/browser/overview.png"
    assert f"]({name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / name).stat().st_size <= MAX_PICTURE_BYTES


def load_with(name: str) -> set[str]:
    """Return a module with everything it imports."""
    found = {name, *STYLED.findall(SCRIPTS[name])}
    for _, source in IMPORT.findall(SCRIPTS[name]):
        found |= load_with(source)
    return found


def list_pages() -> list[str]:
    text = SCRIPTS["app.js"]
    added = [
        name
        for one in find_additions()
        for name in (*one.pages, *one.own_pages, *one.links, *one.credit, *one.parts.values())
    ]
    named = (*PAGE.findall(text), *FILE.findall(text), *BY_NAME, *added)
    return sorted({f"{name}.js" for name in named})


def test_pages_are_loaded_by_name() -> None:
    assert DYNAMIC.findall(SCRIPTS["app.js"]) == ["`./${name}.js`"]
    reached = set(ALWAYS).union(*map(load_with, ["app.js", *list_pages()]))
    assert reached == set(FILES) - DOWNLOADS
    assert all(f"/console/static/{name}" in SCRIPTS["operations.js"] for name in DOWNLOADS)


@each_row("page", list_pages())
def test_what_one_page_loads_is_small(page: str) -> None:
    """The limit is for a page, its modules and what extras add, as they travel; earlier pages fill the cache."""
    files = set(ALWAYS) | load_with("app.js") | load_with(page)
    for one in find_additions():
        if script := one.parts.get(page.removesuffix(".js")):
            files |= load_with(f"{script}.js")
    assert sum(len(gzip.compress(FILES[name].body)) for name in files) <= MAX_PAGE_BYTES


def test_all_pages_together_are_small_as_they_travel() -> None:
    assert (
        sum(len(gzip.compress(FILES[name].body)) for name in FILES.keys() - DOWNLOADS) <= MAX_BYTES
    )
    assert all(file.gzipped for file in FILES.values())


# ---- over HTTP ----------------------------------------------------------------------------------

Client = TestClient[web.Request, web.Application]

PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def client(aiohttp_client: AiohttpClient) -> Client:
    gateway = SimpleNamespace(config=load_defaults(Path("gateway.toml"), {}))
    app = web.Application()
    handlers = {"/console": pages.redirect_home, "/console/static/{file}": pages.show_file}
    handlers |= dict.fromkeys(pages.PATHS, pages.show_page)
    for path, handler in {**handlers, "/console/{rest:.*}": pages.show_missing}.items():

        async def show(http: web.Request, handler: Handler = handler) -> web.StreamResponse:
            return await handler(http, make_call(gateway=gateway))

        app.router.add_get(path, show)
    return await aiohttp_client(app, auto_decompress=False)


def test_each_page_of_the_menu_can_be_loaded_by_its_address() -> None:
    named = set(re.findall(r'"(/console/[a-z]*)"', pages.FILES["app.js"].body.decode()))
    served = {path for path in pages.PATHS if "{" not in path}
    added = {
        f"/console/{name}"
        for one in find_additions()
        for name in (*one.pages, *one.own_pages, *one.links)
    }
    assert named | added == served


MISSING: Final = (
    *("nowhere", "accounts/a/b", "Keys", "static/APP.JS", "static/app.js%00"),
    *("static/..%2fpages.py", "static/%2e%2e%2fpages.py", "static/..%5cpages.py", "static/."),
)


@each_row(
    ("path", "status"),
    [*((one, 200) for one in pages.PATHS), *((f"/console/{one}", 404) for one in MISSING)],
)
async def test_addresses_have_one_page_or_a_404_with_it(
    client: Client, path: str, status: int
) -> None:
    """The name of a file is a key of a mapping and never reaches the disk."""
    headers = PLAIN | ({"If-None-Match": "*"} if status == 404 else {})
    reply = await client.get(re.sub(r"\{.*\}", "a%2Fb%20%7Bc%7D", path), headers=headers)
    assert reply.status == status
    assert await reply.read() == pages.FILES["index.html"].body
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert SECURITY_HEADERS.items() <= reply.headers.items()


async def test_the_bare_address_leads_to_the_page(client: Client) -> None:
    reply = await client.get("/console", allow_redirects=False)
    assert (reply.status, reply.headers["Location"]) == (308, "/console/")
    assert SECURITY_HEADERS.items() <= reply.headers.items()


async def test_a_browser_at_the_root_is_led_to_the_page(console: Console) -> None:
    reply = await console.get("/", as_=None, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (reply.status, reply.headers["Location"]) == (303, "/console/")
    for accept in ("*/*", "application/json"):
        reply = await console.get("/", as_=None, headers={"Accept": accept})
        assert (reply.status, reply.error["code"]) == (404, "unknown_url")


def test_the_page_loads_nothing_from_elsewhere_and_is_not_framed() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    for wanted in ("default-src 'none'", "frame-ancestors 'none'"):
        assert wanted in policy
    assert not [word for word in ("http", "unsafe") if word in policy]
    assert API_HEADERS == {**SECURITY_HEADERS, "Cache-Control": "no-store"}


@each_row("name", sorted(pages.FILES))
async def test_each_file_is_served_plain_and_packed(client: Client, name: str) -> None:
    """The plain and the gzipped file share an ETag, which avoids sending either again."""
    path = f"/console/static/{name}"
    plain = await client.get(path, headers=PLAIN)
    packed = await client.get(path, headers={"Accept-Encoding": "br;q=1, GZIP;q=0.5"})
    assert plain.headers["Content-Type"] == pages.TYPES[f".{name.split('.')[1]}"]
    assert plain.headers["Cache-Control"] == "no-cache"
    assert SECURITY_HEADERS.items() <= plain.headers.items()
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(await packed.read()) == await plain.read()
    etag = plain.headers["ETag"]
    assert etag == packed.headers["ETag"]
    known = await client.get(path, headers={"If-None-Match": f'"other", {etag}'})
    assert (known.status, await known.read(), known.headers["ETag"]) == (304, b"", etag)
    other = await client.get(path, headers={"If-None-Match": '"other"'})
    assert other.status == 200


@each_row("coding", ["gzip;q=0", "gzip ; q=0.000, br", "xgzip", "gzipped", ""])
async def test_who_does_not_take_gzip_gets_none(client: Client, coding: str) -> None:
    reply = await client.get("/console/", headers={"Accept-Encoding": coding})
    assert "Content-Encoding" not in reply.headers

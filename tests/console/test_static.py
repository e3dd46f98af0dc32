"""The page's files, checked as text since there is no build step: forbidden things, and sizes."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Final

import pytest

from gateway.cli.verbs import load_verbs, make_parser
from gateway.console.pages import FILES
from tests import ROOT
from tests.support.rows import each_row

TEXTS: Final = {name: file.body.decode() for name, file in FILES.items()}
SCRIPTS: Final = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
INDEX: Final = TEXTS["index.html"]
ALWAYS: Final = ("index.html", "style.css", "theme.js", "icon.svg", "app.js")
"""Files that every page loads."""
DOWNLOADS: Final = {"grafana.json"}
"""Files that people keep; the page Health links them."""
MAX_BYTES: Final = 60_000
MAX_PAGE_BYTES: Final = 30_000

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
FILE: Final = re.compile(r'file: "([a-z]+)"')
PAGE: Final = re.compile(r'\["/console/[a-z]*", "[A-Z][a-z]+", "([a-z]+)"\]')


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
    pages = {"accounts", "account", "overview", "keys", "usage", "billing", "activity", "call"}
    pages |= {
        "models",
        "settings",
        "codes",
        "costs",
        "tokens",
        "providers",
        "refusals",
        "health",
        "audit",
        "signIn",
        "signOutElsewhere",
    }
    imported = {
        one
        for text in SCRIPTS.values()
        for names, _ in IMPORT.findall(text)
        for one in names.split(", ")
    }
    exported = {one for text in SCRIPTS.values() for one in EXPORT.findall(text)}
    assert exported - imported == pages


def test_every_class_that_is_styled_exists() -> None:
    selectors = re.sub(r"\{[^{}]*\}", "{}", TEXTS["style.css"])
    code = "".join(text for name, text in TEXTS.items() if name != "style.css")
    styled = set(re.findall(r"\.([a-z][a-z-]+)", selectors))
    assert styled
    assert [one for one in styled if not re.search(rf"(?<![\w-]){one}(?![\w-])", code)] == []


class Page(HTMLParser):
    """Parses the index into a list of tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> names an attribute twice"
        self.tags.append((tag, dict(attrs)))


def test_index_is_sound_html() -> None:
    tags = Page(INDEX).tags
    names = Counter(tag for tag, _ in tags)
    attributes = [attrs for _, attrs in tags]
    ids = Counter(attrs["id"] for attrs in attributes if "id" in attrs)
    assert INDEX.startswith("<!doctype html>\n")
    assert ("html", {"lang": "en"}) in tags
    assert [names[one] for one in ("title", "main", "h1", "noscript")] == [1, 1, 1, 1]
    assert set(ids.values()) == {1}
    assert ("a", {"class": "skip", "href": "#main"}) in tags
    assert "main" in ids
    assert any(attrs.get("aria-live") == "polite" for attrs in attributes)
    assert names["input"] == names["select"] == names["textarea"] == names["img"] == 0
    wanted = [attrs.get("src") or attrs.get("href") for attrs in attributes]
    files = {one for one in wanted if one and not one.startswith("#")}
    assert {one.removeprefix("/console/static/") for one in files} <= FILES.keys()


def test_each_input_is_made_with_a_label() -> None:
    """One function makes inputs with a label; the few others name their label themselves."""
    for name, text in SCRIPTS.items():
        for line in text.splitlines():
            if name != "form.js" and re.search(r'h\("(?:input|select|textarea)"', line):
                assert re.search(r"\bid\b|aria-label|aria-hidden", line), f"{name}: {line}"


def test_noscript_names_commands_that_exist() -> None:
    commands = re.findall(r"<code>(?:python -m gateway )?([a-z]+ [a-z]+|usage)\b", INDEX)
    assert len(commands) >= 6
    load_verbs()
    for command in commands:
        with pytest.raises(SystemExit) as end:
            make_parser().parse_args([*command.split(), "--help"])
        assert end.value.code == 0, command


def test_readme_shows_a_small_picture() -> None:
    name = "tests/browser/overview.png"
    assert f"]({name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / name).stat().st_size <= MAX_BYTES


def load_with(name: str) -> set[str]:
    """Return a module with everything it imports."""
    found = {name}
    for _, source in IMPORT.findall(SCRIPTS[name]):
        found |= load_with(source)
    return found


def list_pages() -> list[str]:
    text = SCRIPTS["app.js"]
    return sorted({f"{name}.js" for name in (*PAGE.findall(text), *FILE.findall(text), "signin")})


def test_pages_are_loaded_by_name() -> None:
    assert DYNAMIC.findall(SCRIPTS["app.js"]) == ["`./${name}.js`"]
    reached = set(ALWAYS).union(*map(load_with, ["app.js", *list_pages()]))
    assert reached == set(FILES) - DOWNLOADS
    assert all(f"/console/static/{name}" in SCRIPTS["operations.js"] for name in DOWNLOADS)


@each_row("page", list_pages())
def test_what_one_page_loads_is_small(page: str) -> None:
    """The limit is for a page and its modules, as they travel; earlier pages fill the cache."""
    files = set(ALWAYS) | load_with("app.js") | load_with(page)
    assert sum(len(gzip.compress(FILES[name].body)) for name in files) <= MAX_PAGE_BYTES


def test_all_pages_together_are_small_as_they_travel() -> None:
    assert sum(len(gzip.compress(file.body)) for file in FILES.values()) <= MAX_BYTES
    assert all(file.gzipped for file in FILES.values())

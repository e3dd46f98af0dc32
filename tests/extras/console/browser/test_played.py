"""The console's pages, used as it is written in `played/`, and in `browser/` of extras.

    == the title of a session, which begins with the three accounts of tests/extras/console/kit.py
    > server: public_url = "https://llm.example.com"     lines for gateway.toml, or `> passwords:`
    open holder keys               a window of its own for an account, or for `nobody`, on a page
    press Create a key             a button, in the dialog that is in front or else on the page
    fill Cap, USD: 7               a field by how its label begins; `choose` for a list to choose from
    value Key$                     the lines that a step tells follow it
      SECRET-1
    holder GET keys | keys.#       any other line is a command of tests/extras/console/test_played.py
      200 1

`go` moves as by a link. `open nobody>hers signin#token=SECRET-1` calls the window `hers`, and `window holder` goes back to one.
After the page may come `phone`, for a narrow window, or headers that the browser sends. `expect 401`
allows error replies with that status, or with none of them again, which the witness minds otherwise.
The other steps are in `VERBS`, and are `do_…` of `Stage`. Ids, secrets and times have names. To write what is told anew:

    WRITE_SESSION=1 python -m pytest -m browser tests/extras/console/browser/test_played.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.extras.console.browser.kit import (
    HEIGHT,
    NARROW,
    Site,
    Witness,
    download,
    move,
    read_table,
    settle,
    wait_for_title,
)
from tests.extras.console.browser.test_accessible import inspect
from tests.extras.console.kit import API, find_bytes, open_console
from tests.extras.console.session import seed_passwords
from tests.extras.console.test_played import CODE, HEADER, SETTING, answer, compute_code
from tests.support.rows import told_together
from tests.support.scribe import Scribe

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HERE: Final = Path(__file__).parent
STEP: Final = re.compile(r"((?:# .*\n)*)([^\s>#].*)\n((?:  .*\n)*)")
"""Comments, a step, and what is told of it."""
SESSIONS: Final = {
    f"{path.stem}: {text.splitlines()[0]}": (path, text)
    for path in sorted((*HERE.glob("played/*.txt"), *HERE.parents[1].glob("*/browser/*.txt")))
    if path.name != "pages.txt"
    for text in path.read_text(encoding="utf-8").split("== ")[1:]
}
MAX_TABS: Final = 80
FOCUSED: Final = """() => {
    const one = document.activeElement;
    const label = one.labels?.[0]?.textContent ?? one.ariaLabel ?? one.textContent;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const faults = {
        "is not shown": style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2,
        "is out of sight": box.bottom <= 0 || box.top >= innerHeight || box.width <= 0,
        "is out of order": one.tabIndex !== 0,
    };
    return {
        name: one === document.body ? "" : label.trim(),
        place: [...document.querySelectorAll("*")].indexOf(one),
        faults: Object.keys(faults).filter((fault) => faults[fault]),
    };
}"""
FIND_TRACES: Final = """(secret) => {
    const fields = [...document.querySelectorAll("input, textarea")];
    const places = {
        document: document.documentElement.outerHTML,
        fields: fields.map((one) => one.value).join(),
        storage: JSON.stringify([{...localStorage}, {...sessionStorage}]),
        cookies: document.cookie,
        history: JSON.stringify(history.state ?? ""),
        address: location.href,
    };
    return Object.keys(places).filter((place) => places[place].includes(secret)).join(" ");
}"""


@dataclass(slots=True)
class Stage:
    """The windows of one session; steps are about the one in front."""

    site: Site
    windows: dict[str, Page] = field(default_factory=dict)
    front: str = ""

    @property
    def page(self) -> Page:
        return self.windows[self.front]

    @property
    def part(self) -> Locator:
        """The latest dialog, or the page if none is open."""
        return self.page.locator("dialog[open], body:not(:has(dialog[open]))").last

    def button(self, name: str) -> Locator:
        return self.part.get_by_role("button", name=name, exact=True).first

    def link(self, name: str) -> Locator:
        return self.part.get_by_role("link", name=name).first

    def field(self, label: str) -> Locator:
        return self.part.get_by_label(re.compile(f"^{label}")).first

    def text(self, text: str) -> Locator:
        return self.page.get_by_text(text).filter(visible=True).first

    async def do_open(self, words: str) -> None:
        who, path, more = f"{words}  ".split(" ", 2)
        who, _, name = who.partition(">")
        options: dict[str, Any] = {}
        if more.strip() == "phone":
            options["viewport"] = {"width": NARROW, "height": HEIGHT}
        elif more.strip():
            options["extra_http_headers"] = dict(HEADER.findall(more.strip()))
        as_ = None if who == "nobody" else who
        page = await self.site.open(path.lstrip("/"), as_, **options)
        self.front = name or who
        self.windows[self.front] = page

    async def do_window(self, name: str) -> None:
        self.front = name

    async def do_expect(self, statuses: str) -> None:
        self.site.witness.expected = {int(one) for one in statuses.split() if one != "nothing"}
        self.site.witness.is_absent = "nothing" in statuses

    async def do_fill(self, words: str) -> None:
        label, _, value = words.partition(":")
        await self.field(label).fill(value.removeprefix(" "))

    async def do_choose(self, words: str) -> None:
        label, _, value = words.partition(": ")
        await self.field(label).select_option(value)

    async def do_at(self, address: str) -> None:
        await self.page.wait_for_url(f"{self.site.home}{address}")
        await settle(self.page)

    async def do_back(self, _: str) -> None:
        await self.page.go_back()
        await settle(self.page)

    async def do_reload(self, _: str) -> None:
        await self.page.reload()
        await settle(self.page)

    async def do_tab_to(self, name: str) -> None:
        """Press Tab until the element has the focus, which must be visible at each step."""
        passed = []
        for _ in range(MAX_TABS):
            await self.page.keyboard.press("Tab")
            focused = await self.page.evaluate(FOCUSED)
            if focused["name"]:
                assert focused["faults"] == [], focused
                passed.append(focused["name"])
            if focused["name"] == name:
                return
        raise AssertionError(f"{name} is out of reach: {passed}")

    async def do_order(self, _: str) -> str:
        """Tell whether the stops are in reading order."""
        places = []
        for _number in range(30):
            await self.page.keyboard.press("Tab")
            focused = await self.page.evaluate(FOCUSED)
            if not focused["name"]:
                break
            places.append(focused["place"])
        return "as read" if places == sorted(places) else f"other: {places}"

    async def do_no_dialog(self, _: str) -> None:
        """Wait until no dialog is open, and the page that it changed is drawn anew."""
        await expect(self.page.locator("dialog")).to_have_count(0)
        await settle(self.page)

    async def do_rows(self, words: str) -> str:
        caption, _, columns = words.partition(" | ")
        rows = await read_table(self.page, caption)
        wanted = columns.split(" | ")
        return "\n".join(" | ".join(row[name] for name in wanted) for row in rows)

    async def do_buttons(self, _: str) -> str:
        all_of_page = self.page.locator("main").get_by_role("button")
        buttons = all_of_page.and_(self.page.locator(":not(.live *)"))  # an extra's, on some pages
        return " | ".join(await buttons.all_inner_texts())

    async def do_texts(self, selector: str) -> str:
        return "\n".join(await self.page.locator(selector).filter(visible=True).all_inner_texts())

    async def do_focus(self, _: str) -> str:
        return str((await self.page.evaluate(FOCUSED))["name"])

    async def do_faults(self, _: str) -> str:
        faults = await inspect(self.page, "page")
        return json.dumps(faults) if faults else "none"

    async def do_cookies(self, _: str) -> str:
        cookies = await self.page.context.cookies()
        sessions = [one["value"] for one in cookies if one["name"].endswith("gateway_session")]
        return "\n".join(sessions) or "none"

    async def do_lose(self, path: str) -> None:
        """Let the gateway act on the next request, and lose its reply."""

        async def abort(route: Route) -> None:
            await route.fetch()
            await route.abort("connectionreset")

        await self.page.route(f"**{API}/{path}", abort, times=1)


VERBS: Final[dict[str, Callable[[Stage, str], Awaitable[object]]]] = {
    **{
        name.removeprefix("do_").replace("_", " "): do
        for name, do in vars(Stage).items()
        if name.startswith("do_")
    },
    "go": lambda stage, path: move(stage.page, path.lstrip("/")),
    "leave": lambda stage, _: stage.page.goto("about:blank"),
    "print": lambda stage, _: stage.page.emulate_media(media="print"),
    "press": lambda stage, name: stage.button(name).click(),
    "press twice": lambda stage, name: stage.button(name).dblclick(),
    "follow": lambda stage, name: stage.link(name).click(),
    "type": lambda stage, words: stage.page.keyboard.type(words),
    "key": lambda stage, key: stage.page.keyboard.press(key),
    "title": lambda stage, title: wait_for_title(stage.page, title),
    "dialog": lambda stage, name: stage.page.get_by_role("dialog", name=name).wait_for(),
    "see": lambda stage, text: stage.text(text).wait_for(),
    "see none": lambda stage, text: expect(
        stage.page.locator("main, dialog").get_by_text(text)
    ).to_have_count(0),
    "see two": lambda stage, text: expect(
        stage.page.locator("main").get_by_text(text)
    ).to_have_count(2),
    "see just no": lambda stage, text: expect(
        stage.page.get_by_text(text, exact=True)
    ).to_have_count(0),
    "alert": lambda stage, text: stage.part.get_by_role("alert").get_by_text(text).wait_for(),
    "value": lambda stage, label: stage.field(label).input_value(),
    "address of": lambda stage, name: stage.link(name).get_attribute("href"),
    "download": lambda stage, name: download(stage.page, name),
    "traces": lambda stage, secret: stage.page.evaluate(FIND_TRACES, secret),
}
VERB: Final = re.compile(rf"({'|'.join(sorted(VERBS, key=len, reverse=True))})(?: (.*))?$")


async def play(stage: Stage, line: str) -> str:
    """Do a step and return what it tells."""
    if found := VERB.match(line):
        told = await VERBS[found[1]](stage, found[2] or "")
        return told.strip() if isinstance(told, str) else ""
    if line.startswith("files "):
        return " ".join(find_bytes(stage.site.console.folder, line.split(" ")[1])) or "none"
    command, _, fields = line.partition(" | ")
    return await answer(stage.site.console, command, fields.split(), {})


def write_anew(path: Path, text: str, head: str, played: list[tuple[str, str, str]]) -> None:
    steps = [
        f"{why}{line}\n{''.join(f'  {one}'.rstrip() + chr(10) for one in told.splitlines())}"
        for why, line, told in played
    ]
    whole = path.read_text(encoding="utf-8")
    new = f"{head}{''.join(steps)}" + "\n" * text.endswith("\n\n")
    path.write_text(whole.replace(text, new), encoding="utf-8")


@pytest.mark.usefixtures("cheap_passwords")
@pytest.mark.parametrize("name", SESSIONS)
async def test_pages_do_as_it_is_written(browser: Browser, tmp_path: Path, name: str) -> None:
    path, text = SESSIONS[name]
    start = text.index("\n") + 1
    start = max([start, *(found.end() + 1 for found in SETTING.finditer(text))])
    settings: dict[str, Any] = {}
    for setting, line in SETTING.findall(text):
        settings[setting] = f"{settings.get(setting, '')}{line}\n"
    if settings.pop("passwords", None):
        settings["seed"] = seed_passwords
    scribe, played = Scribe(tmp_path), []
    async with open_console(tmp_path, **settings) as console:
        stage = Stage(Site(browser, console, Witness(console.root_url)))
        for why, step, expected in STEP.findall(text, start):
            line = CODE.sub(compute_code, scribe.read(step).replace("URL", console.root_url))
            try:
                told = await play(stage, line)
            except BaseException as error:
                error.add_note(f"step: {step}")
                raise
            played.append(
                (why, step, expected, scribe.write(told.replace(console.root_url, "URL")))
            )
        await stage.site.close()
        assert stage.site.witness.faults == []
    if "WRITE_SESSION" in os.environ:
        write_anew(path, text, text[:start], [(why, step, told) for why, step, _, told in played])
    with told_together() as row:
        for _, step, expected, told in played:
            with row(step):
                assert told == "\n".join(line[2:] for line in expected.splitlines())

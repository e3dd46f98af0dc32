"""A gateway's look: its files, its colours, and what a reload changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from gateway.config.reader import ConfigError
from gateway.extras.brand import colours
from gateway.extras.brand.console import read_themes
from gateway.extras.brand.settings import MAX_LOGO_BYTES, read_logo
from tests.extras.console.kit import open_console
from tests.support.rows import each_row
from tests.support.settings import load

NAMESPACE: Final = b'xmlns="http://www.w3.org/2000/svg"'
SVG: Final = b"<svg " + NAMESPACE + b' viewBox="0 0 1 1"></svg>'
PNG: Final = b"\x89PNG\r\n\x1a\n" + b"\x00" * 9


@each_row(
    ("body", "found"),
    [
        (SVG, "image/svg+xml"),
        (
            b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a - b -->\n<!DOCTYPE svg>' + SVG,
            "image/svg+xml",
        ),
        (PNG, "image/png"),
        (b"RIFF\x00\n\x00\x00WEBPVP8 ", "image/webp"),
        (PNG + b"\x00" * (MAX_LOGO_BYTES - len(PNG)), "image/png"),
        (PNG + b"\x00" * MAX_LOGO_BYTES, "has more than 64 KiB in logo: make it smaller"),
        (b"", "must be an SVG, PNG or WebP, and logo is none: convert it"),
        (b"GIF89a", "must be an SVG, PNG or WebP, and logo is none: convert it"),
        (b"<html><svg " + NAMESPACE, "must be an SVG, PNG or WebP, and logo is none: convert it"),
        (b"<!--" * 9_000, "must be an SVG, PNG or WebP, and logo is none: convert it"),
        (
            b"<svg></svg>",
            'cannot be shown by browsers: write xmlns="http://www.w3.org/2000/svg" into <svg> in logo',
        ),
    ],
)
def test_a_logo_is_a_small_picture(tmp_path: Path, body: bytes, found: str) -> None:
    (tmp_path / "logo").write_bytes(body)
    try:
        told = read_logo(tmp_path, "logo").content_type
    except ValueError as error:
        told = str(error).replace(f"{tmp_path}/", "")
    assert told == found


ACCENTS: Final = (
    "#000000",
    "#ffffff",
    "#ffff00",
    "#0000ff",
    "#ff0000",
    "#00ff00",
    "#1f6feb",
    "#777",
)


@each_row("accent", ACCENTS)
def test_an_accent_can_be_read_in_both_themes(accent: str) -> None:
    own = colours.parse(accent)
    for theme in read_themes():
        shade, tint = colours.shade(own, theme)
        contrasts = [colours.measure_contrast(shade, one) for one in (*theme.surfaces, tint)]
        assert min(contrasts) >= 4.5
        assert colours.measure_contrast(theme.dim, tint) >= 4.5
        if colours.measure_contrast(own, theme.surfaces[0]) > 6:
            assert shade == own, "a colour that can be read stays as it is"


def test_the_contrast_is_that_of_wcag() -> None:
    assert colours.measure_contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert colours.measure_contrast(
        colours.parse("#767676"), colours.parse("#fff")
    ) == pytest.approx(4.54, abs=0.005)


async def test_strangers_get_the_look_and_a_reload_changes_it(tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(SVG)
    look = '[console]\nname = "Ex & <Ample>"\nlogo = "logo.svg"\naccent = "#1f6feb"\n'
    async with open_console(tmp_path, more=look) as console:
        page = (await console.get("/console/signin", as_=None)).body.decode()
        assert "<title>Ex &amp; &lt;Ample&gt; console</title>" in page
        assert "Gateway" not in page
        links = re.findall(r'href="(/console/static/(?:logo|brand\.css))"', page)
        assert sorted(links) == ["/console/static/brand.css", "/console/static/logo"]
        logo = await console.get("/console/static/logo", as_=None)
        assert (logo.body, logo.headers["Content-Type"]) == (SVG, "image/svg+xml")
        assert "sandbox" in logo.headers["Content-Security-Policy"]
        assert "script-src" not in logo.headers["Content-Security-Policy"]
        known = {"If-None-Match": logo.headers["ETag"]}
        assert (await console.get("/console/static/logo", as_=None, headers=known)).status == 304
        sheet = await console.get("/console/static/brand.css", as_=None)
        assert "--accent: light-dark(#" in sheet.body.decode()
        assert ".logo img" in sheet.body.decode()
        missing = await console.get("/console/nowhere", as_=None)
        assert (missing.status, missing.body.decode()) == (404, page)
        gateway = console.gateway
        await gateway.reconfigure(load(tmp_path, "[console]\n"))
        page = (await console.get("/console/signin", as_=None)).body.decode()
        assert "<title>Gateway console</title>" in page
        assert "brand.css" not in page
        assert (await console.get("/console/static/logo", as_=None)).status == 404


def test_a_command_without_secrets_reads_no_logo(tmp_path: Path) -> None:
    from gateway.config.load import load_config

    text = '[console]\nlogo = "missing.svg"\n'
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, text)
    config = load_config(tmp_path / "gateway.toml", {}, read_keys=False)
    assert "logo=None" in repr(config.extras["brand"])


@each_row(
    ("look", "product"),
    [("", "Credit"), ('[console]\nname = "Example AI"\n', "Example AI: credit")],
)
def test_payments_have_the_name(tmp_path: Path, look: str, product: str) -> None:
    cards = pytest.importorskip("gateway.extras.cards.settings")
    assert cards.name_product(load(tmp_path, look)) == product

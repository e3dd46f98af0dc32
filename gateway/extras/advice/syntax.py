"""Guess what was meant by text that is not TOML: other languages' words, and usual typing errors."""

from __future__ import annotations

import re
from typing import Final

from gateway.config.reader import looks_secret

_VALUE: Final = r"[=\[,]\s*"
_END: Final = r"\s*(?:[,}\]#]|$)"
_MEANT: Final = (
    (r"[“”„‘’«»]", 'it has curly quotation marks; write straight ones: "'),
    (
        r"^\s*\[+\s*models\.(?P<name>[^\"'\]]+?)\s*\]",
        'put the name in quotation marks: [models."NAME"]',
    ),
    (
        r"^\s*\[+\s*providers\.(?P<name>[^\"'\]]+?)\s*\]",
        'put the name in quotation marks: [providers."NAME"]',
    ),
    (rf"{_VALUE}(?:True|TRUE|[Yy]es|YES|[Oo]n|ON){_END}", "write true"),
    (rf"{_VALUE}(?:False|FALSE|[Nn]o|NO|[Oo]ff|OFF){_END}", "write false"),
    (rf"{_VALUE}(?:None|null|NULL|nil){_END}", "there is no such value; leave the key out"),
    (r"^\s*(?:---|-\s)|^\s*[\w.-]+\s*:(?:\s|$)", "it looks like YAML; write key = value, [table]"),
    (r"^\s*\{|^\s*\"[^\"]*\"\s*:", "it looks like JSON; write key = value, [table]"),
    (r"^\s*(?://|/\*|;|<!--)", "a remark begins with #"),
    (r",\s*\}", "write no comma before }"),
    (r"\{[^}\"]*(?:\"[^\"]*\"[^}\"]*)*$", "what stands between { and } has to be on one line"),
    (rf"{_VALUE}\d{{1,3}}(?:,\d{{3}})+{_END}", "write 1_000 or 1000 for a thousand"),
    (rf"{_VALUE}\d+,\d+{_END}", "write a point before decimals, as in 0.15"),
    (rf"{_VALUE}(?:\.\d|\d+\.(?!\d))", "write digits on both sides of the point, as in 0.5"),
    (rf"{_VALUE}[$€£¥]", "write amounts without a sign of a currency"),
    (r"=\s*(?:[^\[{\s#].*|\[.*\])[;,]\s*(?:#.*)?$", "write no ; or , behind a value"),
    (rf"{_VALUE}\d[\d._]*\s*[A-Za-z%$€]", "a number has no unit; a text needs quotation marks"),
    (r"^\s*[\w.-]+\s*(?::=|=>|==)", "write key = value"),
    (r"^\s*export\s", "write key = value, without export"),
    (r"=\s*(?!true\b|false\b|inf\b|nan\b)[A-Za-z/~$<*]", "a text needs quotation marks"),
    (r"\"[^\"]*\\[^btnfr\"\\uU]", "write a text with \\ in single quotation marks"),
    (r"^\s*[\w.-]+\s+[\w\"'\[{]", "an = is missing between key and value"),
)
"""Patterns of a line, and what to say of the first one that is in it."""


def explain(error: ValueError, text: str) -> str | None:
    """Say what was meant in the line that a parser names, or how a file is encoded; None if that is not known.

    A text that `looks_secret` is not repeated.
    """
    if isinstance(error, UnicodeDecodeError):
        is_utf_16 = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
        return "this is UTF-16, as Windows writes it: save it as UTF-8" if is_utf_16 else None
    problem = str(error)
    found = re.search(r"\(at line (\d+), column \d+\)$", problem)
    lines = text.splitlines()
    if problem.startswith("Cannot") or not lines:  # well formed, but twice
        return None
    line = lines[min(int(found[1]), len(lines)) - 1] if found else lines[-1]
    for pattern, meant in _MEANT:
        if found := re.search(pattern, line):
            name = found.groupdict().get("name", "")
            return meant.replace("NAME", "..." if looks_secret(name) else name)
    return None

"""Content deltas without a parse: the shape of one event, learned and proven, matches the next. No I/O.

Nearly all events of a stream are equal but for one string (the text fragment) and, at OpenAI, a
second (`obfuscation`). A `Template` is such an event cut at those strings. It is proven when it is
learned: the event with another text in the hole reads as the same object with that text, and its
conversion was computed by the ordinary slow path. So whatever matches later needs no look inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.dialects.jsonbytes import STRING_REST, loads_lenient

PROBE: Final = "\x00probe\x00"
"""Stands in the hole while the conversion is computed; no provider writes NULs."""
PROBE_BYTES: Final = orjson.dumps(PROBE)[1:-1]

TEXT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal")
_OBFUSCATION: Final = b'"obfuscation":"'


@dataclass(frozen=True, slots=True)
class Template:
    """An event of the upstream around its hole(s), and what goes out around the same text.

    In: `head` TEXT `middle` OBFUSCATION `tail`; out: `out_head` TEXT `out_middle` … `out_tail`.
    Without obfuscation `middle` runs to the event's end and `tail` is empty.
    """

    head: bytes
    middle: bytes
    tail: bytes
    out_head: bytes
    out_middle: bytes
    out_tail: bytes
    tool: tuple[int, int] | None = None
    """The choice and the tool call that the text are arguments of."""

    def pass_run(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """Convert all events of this shape from `position` on, into `out`: the hot path.

        Gives the index behind them and the UTF-8 bytes of their texts.
        """
        head, middle, tail = self.head, self.middle, self.tail
        out_head, out_middle, out_tail = self.out_head, self.out_middle, self.out_tail
        starts, read_string = buffer.startswith, STRING_REST.match
        head_size, middle_size, tail_size = len(head), len(middle) - 1, len(tail) - 1
        text_bytes = 0
        while starts(head, position):
            start = position + head_size
            string = read_string(buffer, start)
            if string is None or not starts(middle, (end := string.end()) - 1):
                break
            text = buffer[start : end - 1]
            position_after = end + middle_size
            if tail:
                noise = read_string(buffer, position_after)
                if noise is None or not starts(tail, (noise_end := noise.end()) - 1):
                    break
                out += (out_head, text, out_middle, buffer[position_after : noise_end - 1])
                out.append(out_tail)
                position = noise_end + tail_size
            else:
                out += (out_head, text, out_middle)
                position = position_after
            plain = b"\\" not in text and text.isascii()
            text_bytes += len(text) if plain else count_text_bytes(text)
        return position, text_bytes


def count_text_bytes(escaped: bytes) -> int:
    """UTF-8 bytes of the inside of a JSON string."""
    try:
        text: str = loads_lenient(b'"' + escaped + b'"')
    except ValueError:
        return len(escaped)
    return len(text.encode("utf-8", "surrogatepass"))


def maybe_probe(chunk: dict[str, Any]) -> tuple[dict[str, Any], str, str] | None:
    """The chunk with its one text replaced by the probe, the text's key and the text.

    None unless the chunk has exactly one choice and exactly one non-empty text in it.
    """
    match chunk.get("choices"):
        case [{"delta": dict(delta)} as choice]:
            pass
        case _:
            return None
    texts = [key for key in TEXT_KEYS if isinstance(delta.get(key), str) and delta[key]]
    match delta.get("tool_calls"):
        case None | [] if len(texts) == 1:
            key = texts[0]
            text, probed = delta[key], {**delta, key: PROBE}
        case [{"function": {"arguments": str(text)} as function} as call] if text and not texts:
            key = "arguments"
            probed = {**delta, "tool_calls": [{**call, "function": {**function, key: PROBE}}]}
        case _:
            return None
    return {**chunk, "choices": [{**choice, "delta": probed}]}, key, text


def maybe_cut(
    block: bytes, probed: dict[str, Any], key: str, text: str
) -> tuple[bytes, bytes] | None:
    """`block` before and behind the inside of its text, proven by reading it with the probe."""
    for separator in (b'":"', b'": "'):
        needle = b'"' + key.encode() + separator
        at = block.find(needle)
        while at >= 0:
            start = at + len(needle)
            rest = STRING_REST.match(block, start)
            if rest and _is_text(block[start : rest.end() - 1], text):
                head, behind = block[:start], block[rest.end() - 1 :]
                if _reads_as(head + PROBE_BYTES + behind, probed):
                    return head, behind
            at = block.find(needle, at + 1)
    return None


def read_tool(chunk: dict[str, Any]) -> tuple[int, int] | None:
    """The choice and the tool call of a probed chunk whose text are arguments."""
    match chunk["choices"][0]:
        case {"index": int(choice), "delta": {"tool_calls": [{"index": int(tool)}]}}:
            return choice, tool
        case _:
            return None


def maybe_learn(
    head: bytes, behind: bytes, converted: bytes, tool: tuple[int, int] | None
) -> Template | None:
    """A template of a cut block and of its conversion with the probe in the hole."""
    out_head, probe, out_behind = converted.partition(PROBE_BYTES)
    if not probe or PROBE_BYTES in out_behind:
        return None
    middle, key, rest = behind.partition(_OBFUSCATION)
    out_middle, out_key, out_rest = out_behind.partition(_OBFUSCATION)
    string, out_string = STRING_REST.match(rest), STRING_REST.match(out_rest)
    if not key or not out_key or not string or not out_string:
        return Template(head, behind, b"", out_head, out_behind, b"", tool)
    if _OBFUSCATION in rest:
        return None
    return Template(
        head,
        middle + key,
        rest[string.end() - 1 :],
        out_head,
        out_middle + out_key,
        out_rest[out_string.end() - 1 :],
        tool,
    )


def _is_text(escaped: bytes, text: str) -> bool:
    try:
        return bool(loads_lenient(b'"' + escaped + b'"') == text)
    except ValueError:
        return False


def _reads_as(block: bytes, expected: dict[str, Any]) -> bool:
    payload = block[block.find(b"{") :].rstrip()
    try:
        return bool(loads_lenient(payload) == expected)
    except ValueError:
        return False

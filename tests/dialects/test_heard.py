"""Replies and streams as callers hear them: `heard.txt` has both sides.

    == chat over messages
    # A tool without arguments gets `{}` at its end.
    ? {"functions": [{"name": "f"}]}         the caller's fields, where they matter
    ~ start 0 text                           an event of the provider, after its usual first one
      text 0 "Hi" => {"content": "Hi"}       another; and what leaves at once for the caller
      end => "stop"; end * finished          and what the relay may know from now on, where a row tells any of it;
                                             the usual `end` is left out where the caller hears nothing else of it
    ! The upstream's … $ 10 0 0 20 estimated how it fails; the charge: input, cached, written, output
    < text 0 "Hi"                            an event that comes first of all
    = {"content": "Hi"}                      or, in place of events, a JSON reply of the provider
    | {"content": "Hi", "audio": null} => …  another in place of the reply or event above it: the rest is the same

What is long stands on lines of its own, behind `=>`; how it ends and the charge stand behind the last line if
they fit. `notation.py` has the forms of events. What leaves as it came is the `same`. Without `$` the charge is
that of the provider's usual usage, and so is the usage that the caller is told. Of the caller's side only what
says something is told: the rest is checked by the rules of its dialect and by its SDK, but not where a messages
stream passes as it came. A stream says the same if it comes byte by byte, and a translated JSON reply if it
comes in place of a stream. `provider_tag` is the provider's, in whose name its state is sealed. To write all of
it anew, after a look at what that would change:

    WRITE_HEARD=1 python -m pytest tests/dialects/test_heard.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson
import pytest

from gateway.base.errors import GatewayError
from gateway.base.usage import Expected, Metered, UsageLimits
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.records import CompletionRequest, Reply, ReplyContext
from tests.dialects.chat.kit import (
    DONE,
    ID,
    INPUT_ESTIMATE,
    MODEL,
    Json,
    Played,
    check_stream,
    each_byte,
    event,
    play,
)
from tests.dialects.notation import CHARGES, IDS, LEAST, TELL, differ, dump, strip, write_event
from tests.dialects.rules import add_up, check_rules
from tests.dialects.rules import check_reply as check_caller_reply
from tests.support.accumulated import accumulate
from tests.support.formats import EXCHANGES, find_texts
from tests.support.layout import WIDTH
from tests.support.rows import told_together

PATHS: Final = (Path(__file__).with_name("heard.txt"), *find_texts("heard.txt"))
SECTIONS: Final = [
    pytest.param(path, text, id=text.partition("\n")[0])
    for path in PATHS
    for text in re.split("(?m)^== ", path.read_text(encoding="utf-8"))[1:]
]
END: Final = re.compile(r"(?m)(?<=.) (?=(?:! [^\n\"]*|\$ \d[\d ]*(?:estimated)?)$)")
"""Where the end of a block stands behind its last line."""
OWN_IDS: Final = {"chat": ID, "messages": "msg_1"}
"""The providers' own, which pass between equal dialects."""
TOLD_END: Final = re.compile(
    r"(?m)^! |(?:=> |; )(?:end|completed|incomplete)(?:;? [*{].*)?(?:\n\$.*)?\n?\Z"
)
"""Where a block tells how its stream ended, which others leave out."""
USUAL_ENDS: Final = ((["end"], ["end"]), (["end"], ["completed"]))
"""The usual last event, and what the caller hears of it: left out."""
STATES: Final = ("begun", "delivered", "finished", "complete")
BLOCK: Final = re.compile(r"(?m)^((?:#.*\n)*)(?:\? (.*)\n)?([=~<].*\n(?:(?:  |\||!|\$).*\n)*)")
"""A reply or a stream: what is remarked of it, the caller's fields, and the lines."""


def write_reply(provider: str, fields: Json) -> bytes:
    """Write a JSON reply of the provider; in chat a bare message stands for its choice."""
    least: Json = LEAST[provider]
    if provider == "chat" and not fields.keys() & least.keys():
        (bare,) = least["choices"]
        said = fields if "message" in fields else {"message": fields}
        said["message"] = bare["message"] | said["message"]
        fields = {"choices": [bare | said]}
    return json.dumps(least | fields).encode()


def write_whole_stream(reply: Json) -> list[bytes]:
    """Write a chat reply as some providers stream it: in one chunk that is named like a JSON reply."""
    (one,) = reply["choices"]
    said = {**one, "delta": one["message"]} if "message" in one else one
    chunks = ({"choices": [said]}, {"usage": reply["usage"]})
    return [*(event({"object": "chat.completion", **each}) for each in chunks), DONE]


MADE_ID: Final = re.compile(r"request-1_\d+")
"""Ids that the gateway makes count the parts of a reply, which a stream may number otherwise."""


def check_reply(caller: str, reply: Reply) -> Json:
    """Return a JSON reply that keeps the rules of the caller's dialect, and has its head."""
    made = check_caller_reply(caller, reply.body)
    created = made.get("created", made.get("created_at", 1))
    assert (made["id"], made["model"], created) == (IDS[caller], MODEL, 1)
    return made


def check_replay(caller: str, made: Json, played: Played) -> None:
    """Check that a reply says the same where a stream was asked for."""
    if caller != "chat":
        told = add_up(caller, played)
        names = ("content", "stop_reason") if caller == "messages" else ("output", "status")
        one, other = (
            MADE_ID.sub("made", json.dumps([strip(reply[name]) for name in names], sort_keys=True))
            for reply in (told, made)
        )
        assert one == other
        return
    check_stream(played.chunks, usage=True)
    (heard,) = accumulate(played.chunks).choices.values()
    message = made["choices"][0]["message"]
    assert heard.finish_reason == made["choices"][0]["finish_reason"]
    assert (heard.text, heard.refusal) == (message["content"] or "", message["refusal"] or "")
    assert heard.reasoning == message.get("reasoning_content", "")
    functions = [one["function"] for one in message.get("tool_calls", ()) if "function" in one]
    named = [each["delta"].get("annotations") or [] for each in played.choices]
    assert [{**one, "index": None} for each in named for one in each] == [
        {**one, "index": None} for one in message.get("annotations", ())
    ]
    assert [(one.name, one.arguments) for one in heard.tool_calls.values() if one.name] == [
        (one["name"], one["arguments"]) for one in functions
    ]


@dataclass(frozen=True, slots=True)
class Heard:
    """The result of a block: bytes that left for the caller with each thing sent, and how it ended."""

    each: list[list[str]]
    end: str
    begun: list[str] = field(default_factory=list)
    """The usual first event, as the caller heard it."""


@dataclass(frozen=True, slots=True)
class Block:
    """The provider's bytes: events or one JSON reply."""

    caller: str
    provider: str
    remarks: str
    fields: str
    mark: str
    """`=` for a reply, `~` for events after the usual first one, `<` for events."""
    sent: list[str]
    tells: bool = False

    @property
    def exchange(self) -> Exchange:
        return EXCHANGES[self.caller][self.provider]

    @property
    def passes(self) -> bool:
        return self.caller == self.provider

    def make_context(self) -> ReplyContext:
        body: Json = {"stream": True, **orjson.loads(self.fields or "{}")}
        usage, tag = "stream_options" in body, body.pop("provider_tag", "")
        request = CompletionRequest(body, MODEL, True, usage, body.get("n", 1), None, 0, 0)
        expected = Expected(INPUT_ESTIMATE, UsageLimits(10**6, 10**6, 10**6))
        return ReplyContext(request, "request-1", expected, created=1, provider_tag=tag)

    def read_least(self) -> Json:
        """Return what callers get of the provider's least reply."""
        least = json.dumps(LEAST[self.provider]).encode()
        context = replace(self, fields="").make_context()
        told: Json = orjson.loads(self.exchange.read_reply(least, context).body)
        return told

    def play(self) -> Heard:
        return self._read() if self.mark == "=" else self._stream()

    def _read(self) -> Heard:
        exchange, context = self.exchange, self.make_context()
        data = write_reply(self.provider, json.loads(self.sent[0]))
        try:
            reply = exchange.read_reply(b"\n" + data, context)
        except GatewayError as error:
            return Heard([[]], f"! {error.message}")
        charge = self._tell_charge(reply.metered)
        if reply.failure is not None:
            return Heard([[]], f"! {reply.failure.message}{charge}")
        made = check_caller_reply(self.caller, reply.body)
        if not self.passes:
            check_reply(self.caller, reply)
            replay = exchange.replay_reply(data, self.make_context()).body
            played = play(exchange.open_stream(self.make_context()), [replay])
            check_replay(self.caller, made, played)
            if self.provider == "chat" and "choices" in json.loads(data):
                pieces = write_whole_stream(json.loads(data))
                played = play(exchange.open_stream(self.make_context()), pieces)
                check_replay(self.caller, made, played)
        return Heard([[dump(strip(differ(made, self.read_least())))]], charge.strip())

    def _stream(self) -> Heard:
        lines = ["begin", *self.sent] if self.mark == "~" else self.sent
        pieces = [write_event(self.provider, line) for line in lines]
        whole = play(self.exchange.open_stream(self.make_context()), each_byte(b"".join(pieces)))
        pipeline = self.exchange.open_stream(self.make_context())
        usage = strip({"usage": self.read_least()["usage"]})["usage"]
        identity = (OWN_IDS if self.passes else IDS).get(self.caller, "")
        out, told, known, each = b"", 0, set[str](), list[list[str]]()
        for line, piece in zip([*lines, ""], [*pieces, b""], strict=True):
            if not (pipeline.complete or pipeline.failure):
                out += pipeline.feed(piece) if line else pipeline.end()
            if not line and pipeline.complete:
                out += pipeline.take_last()
            heard = [*TELL[self.caller](out, identity, usage)]
            now = {name for name in STATES if getattr(pipeline, name)} - known
            states = [f"* {' '.join(sorted(now))}"] if self.tells and now else []
            each.append(["same"] * (heard[told:] == [line]) or heard[told:] + states)
            told, known = len(heard), known | now
        assert whole.out == out
        if not self.passes or self.caller == "chat":  # chat's are repaired, others pass as they are
            wants = self.make_context().request.wants_usage
            check_rules(self.caller, out, complete=pipeline.complete, usage=wants)
        last = each.pop()
        if each:
            each[-1] += last
        charge = self._tell_charge(pipeline.measure())
        why = pipeline.failure.message if pipeline.failure else "It is cut short."
        end = charge.strip() if pipeline.complete else f"! {why}{charge}"
        begun = each.pop(0) if self.mark == "~" else []
        return Heard(each, end, begun)

    def _tell_charge(self, metered: Metered) -> str:
        one = metered.tokens
        counts = (one.input, one.cached_input, one.cache_write + one.cache_write_1h, one.output)
        told = f"{' '.join(map(str, counts))}{' estimated' if metered.estimated else ''}"
        return "" if told == CHARGES[self.provider] else f" $ {told}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A block as it stands in the file; one of its events, or its reply, may have others in its place."""

    block: Block
    sent: list[list[str]]

    @classmethod
    def read(cls, section: str, remarks: str, fields: str, lines: str) -> Entry:
        caller, _, provider = section.partition(" over ")
        sent: list[list[str]] = []
        lines = END.sub("\n", lines)
        for line in lines.splitlines():
            if line[0] == "|":
                sent[-1].append(line[2:].partition(" => ")[0])
            elif line[0] not in "!$" and not line.startswith("    => "):
                sent.append([line[2:].partition(" => ")[0]])
        tells = re.search(r"(=> |; )\* ", lines) is not None
        events = [one[0] for one in sent if one[0]]
        block = Block(caller, provider, remarks, fields or "", lines[0], events, tells)
        sent = [one for one in sent if one[0]]
        if block.mark != "=" and not TOLD_END.search(lines):
            return cls(replace(block, sent=[*block.sent, "end"]), [*sent, ["end"]])
        return cls(block, sent)

    def expand(self) -> Iterator[Entry]:
        """Return one entry for each of the things that are sent in one place."""
        first = [one[0] for one in self.sent]
        yield Entry(self.block, [[one] for one in first])
        bare = replace(self.block, remarks="")
        for at, ones in enumerate(self.sent):
            for other in ones[1:]:
                sent = [*first[:at], other, *first[at + 1 :]]
                yield Entry(replace(bare, sent=sent), [[one] for one in sent])

    def begin(self) -> tuple[Entry, Heard]:
        """Say of a stream how it begins."""
        block = replace(self.block, mark="<", sent=["begin", *self.block.sent])
        return Entry(block, [["begin"], *self.sent]), block.play()

    def write(self, heard: Heard) -> str:
        head = f"? {self.block.fields}\n" if self.block.fields else ""
        sent = list(zip(self.sent, heard.each, strict=True))
        if sent and sent[-1] in USUAL_ENDS and not heard.end.startswith("!"):
            del sent[-1]
        rows = [] if sent else [self.block.mark]
        for at, (ones, told) in enumerate(sent):
            rows += [
                f"{'|' if n else ' ' if at else self.block.mark} {one}"
                for n, one in enumerate(ones)
            ]
            if told and len(f"{rows[-1]} => {'; '.join(told)}") <= WIDTH:
                rows[-1] += f" => {'; '.join(told)}"
                continue
            fill = rows[-1]
            for one in told:
                if fill == rows[-1] and fill.startswith("    => ") and len(fill + one) < WIDTH:
                    rows[-1] = fill = f"{fill}; {one}"
                else:
                    rows.append(fill := f"    => {one}")
        if heard.end and len(f"{rows[-1]} {heard.end}") <= WIDTH:
            rows[-1] += f" {heard.end}"
        elif heard.end:
            rows.append(heard.end)
        return self.block.remarks + head + "\n".join(rows) + "\n"

    def join(self, other: Entry) -> Entry | None:
        """Return both as one, if they differ in one thing that is sent and nothing is remarked between them."""
        one, two = self.block, other.block
        alike = (one.fields, one.mark, len(self.sent)) == (two.fields, two.mark, len(other.sent))
        if two.remarks or not alike:
            return None
        at, *more = [at for at, ones in enumerate(self.sent) if ones != other.sent[at]] or [-1]
        if more or any(len(ones) > 1 for n, ones in enumerate(self.sent) if n != at):
            return None
        return Entry(one, [*self.sent[:at], self.sent[at] + other.sent[at], *self.sent[at + 1 :]])


def write_section(section: str, played: list[tuple[Entry, Heard]]) -> str:
    """Write entries; those that follow each other and differ little are one."""
    joined: list[tuple[Entry, Heard]] = []
    for entry, heard in played:
        both = joined and joined[-1][1] == heard and joined[-1][0].join(entry)
        if both:
            joined[-1] = both, heard
        else:
            joined.append((entry, heard))
    return f"{section}\n{''.join(entry.write(heard) for entry, heard in joined)}"


@pytest.mark.parametrize(("path", "text"), SECTIONS)
def test_a_caller_hears_what_the_provider_says(path: Path, text: str) -> None:
    section, _, rest = text.partition("\n")
    caller, _, provider = section.partition(" over ")
    usual = Block(caller, provider, "", "", "~", []).play().begun
    played: list[tuple[Entry, Heard]] = []
    with told_together() as row:
        for found in BLOCK.finditer(rest):
            whole = Entry.read(section, *found.groups())
            for entry in whole.expand():
                with row("\n".join(entry.block.sent)):
                    heard = entry.block.play()
                    begins = entry.block.mark != "~" or heard.begun == usual
                    played.append((entry, heard) if begins else entry.begin())
                    assert "WRITE_HEARD" in os.environ or (
                        begins and whole.write(heard) == found[0]
                    )
    assert BLOCK.sub("", rest).strip() == ""
    if "WRITE_HEARD" in os.environ:
        new = write_section(section, played)
        path.write_text(path.read_text(encoding="utf-8").replace(text, new), encoding="utf-8")

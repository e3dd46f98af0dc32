"""The records that the dialects and their users exchange: requests, targets, payloads, replies."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from gateway.base.errors import GatewayError
from gateway.base.money import Tokens
from gateway.base.prices import FREE_OF_CHARGE, BillOptions, PriceList
from gateway.base.usage import Expected, Metered, estimate_file, find_more_tokens

Json = dict[str, Any]
"""An object as parsers make it. Its values have exact types, so hot paths ask `type(x) is str`."""
Query = Mapping[str, Sequence[str]]
"""The parameters of a URL, each with all its values."""
Reasoning = Literal["effort", "budget", "none"]
"""How an upstream's model accepts a reasoning effort from another dialect."""
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
"""A chat upstream's name for the output limit."""
Taken = Literal[
    "cache_control",
    "metadata",
    "prompt_cache_key",
    "reasoning_content",
    "safety_identifier",
    "service_tier",
    "thought_signature",
    "top_k",
    "user",
    "verbosity",
]
"""A field, or a part of earlier turns, that some chat upstreams take and others refuse."""
History = Literal["any", "mistral", "openai"]
"""The earlier turns that a chat upstream accepts: all, or only those that a strict vendor could have made."""
SAMPLING: Final = frozenset(
    {"frequency_penalty", "logit_bias", "logprobs", "parallel_tool_calls", "presence_penalty"}
    | {"seed", "stop", "stop_sequences", "store", "temperature", "top_k", "top_logprobs", "top_p"}
)
"""Fields that a model's `leave_out` can name."""
DEMO: Final = "demo"
"""The `dialect` of the embedded provider, which speaks chat."""
InputUnit = Literal["token", "character", "second"]
"""The unit of a model's input, which is priced by the million: a second is one of audio."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The facts about a value of a provider's `dialect` that commands need to read the configuration.

    With these, commands need not import the dialect itself, which takes 0.1 s.
    """

    what: str
    """The vendor's name, for error messages."""
    is_openai_like: bool = False
    """Its providers have OpenAI's other paths under the same base URL, for models of other kinds."""
    needs_limit: bool = False
    """Its providers require a limit of output tokens in each request."""
    others: str = ""
    """Its names in other programs' files, for error messages."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "chat": Dialect(
        "OpenAI's",
        is_openai_like=True,
        others="openai openai_compatible openai_chat openai_like oai azure azure_openai deepseek mistral groq"
        " gemini ollama vllm openrouter xai litellm lmstudio llamacpp chat_completions",
    ),
    "messages": Dialect("Anthropic's", needs_limit=True, others="anthropic claude"),
    DEMO: Dialect("built in", is_openai_like=True),
}
"""The core's, by the values of a provider's `dialect`."""


@dataclass(frozen=True, slots=True)
class Pricing:
    """A way in which models of a kind are priced."""

    needed: frozenset[str]
    """The amounts that a price must state. Without "output" the models make no output tokens."""
    unit: InputUnit = "token"
    most_input: int = 2_000_000
    """The default of `max_input_tokens`, in `unit`. For tokens it is the largest that vendors offer."""
    mark: str = ""
    """The amount, or the key of a model, whose presence selects this pricing; "" selects it otherwise."""
    makes: str = ""
    """The name of the models' product, if it is not the name of the kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model, by its product. Each kind has its own paths, so none is served by accident."""

    pricings: Sequence[Pricing]
    """The first pricing whose `mark` is stated applies; the last one has no mark, so it always does."""
    allows: Collection[str] = ()
    """Names that a model's `allow` may have, beside those that all kinds share."""
    others: str = ""
    """Its names in other programs' files, for error messages."""
    one_model_as: str = ""
    """Why all routes of a model must name the same upstream model; "" if they need not."""
    find_reader: Callable[[], Callable[..., PriceList]] | None = None
    """Returns what reads their prices in place of `config.prices.read_price_list`."""


DEFAULT_KIND: Final = "chat"
IN_AND_OUT: Final = Pricing(frozenset({"input", "output"}))
KINDS: Final[Mapping[str, Kind]] = {
    DEFAULT_KIND: Kind(
        (IN_AND_OUT,),
        others="llm text language responses conversation chat_completion chat_completions",
    )
}
"""The core's, by the values of a model's `kind`."""


@dataclass(slots=True)
class Inputs:
    """The texts of a request that is not a conversation. A model reads each text by itself."""

    count: int
    tokens: int
    """The tokens of all texts: counted if the caller sent tokens, estimated if it sent strings."""


class Pieces(Protocol):
    """The body of an upstream's request that is sent in pieces, any number of times."""

    content_type: str

    def __len__(self) -> int: ...

    def read_pieces(self) -> AsyncIterator[bytes]: ...

    def read_json(self) -> Json:
        """Return the request as an object, for the embedded provider."""


Body = bytes | Pieces
"""The body of an upstream's request."""


class Upload(Protocol):
    """A file that arrives with the fields of a request, in memory or on disk."""

    def add_to(self, request: CompletionRequest, unit: InputUnit) -> None:
        """Note in its request how much input the file may be."""

    def pack(self, data: bytes) -> Body:
        """Write the body of the upstream's request; `data`: its other fields, as JSON."""


@dataclass(slots=True)
class CompletionRequest:
    """A validated request body and the facts that the gateway needs about it."""

    body: Json
    model: str
    stream: bool = False
    wants_usage: bool = False
    """The caller asked for the usage chunk of a stream."""
    n: int = 1
    max_tokens: int | None = None
    """The largest limit that the caller stated; None if it stated none."""
    base64_chars: int = 0
    """Characters of the body that are the content of files; the rest is text."""
    file_tokens: int = 0
    """The estimated tokens of pictures, recordings and documents."""
    audio_tokens: int = 0
    """The part of `file_tokens` that is recordings."""
    more_tokens: int = 0
    """The tokens that the input may have beyond its estimate: see `usage.UNBOUNDED`."""
    audio: str = ""
    """The name of the first recording; "" for none."""
    inputs: Inputs | None = None
    """None for a conversation."""
    elements: int = 0
    """The JSON values of a large body, without those in its strings; 0 for other bodies."""
    size: int = 0
    """The bytes of the body."""
    is_large: bool = False
    """Processing the body takes long enough to need the thread."""
    told: Json = field(default_factory=dict)
    """Members of the reply that replace those of the provider's reply."""
    upload: Upload | None = None
    """The file that arrived with `body`."""

    def add_file(self, kind: str, content: object, where: str) -> None:
        """Count a file (`picture`, `audio` or `document`). `content` is its base64, if the request has it."""
        chars = len(content) if isinstance(content, str) else 0
        tokens = estimate_file(kind, chars)
        self.base64_chars += chars
        self.file_tokens += tokens
        self.more_tokens += find_more_tokens(kind, chars)
        if kind == "audio":
            self.audio_tokens += tokens
            self.audio = self.audio or where

    def add_url(self, kind: str, url: object, where: str) -> None:
        """Count a file by its URL, which may hold its content (RFC 2397)."""
        # Not a pattern: a picture has megabytes of base64.
        head, _, content = url.partition(",") if isinstance(url, str) else ("", "", "")
        is_base64 = head.startswith("data:") and head.endswith(";base64")
        if head[:11].lower() == "data:audio/":
            kind = "audio"
        elif kind == "picture" and is_base64 and head[:11].lower() != "data:image/":
            kind = "document"  # some providers take films and documents where pictures stand
        self.add_file(kind, content if is_base64 else None, where)


@dataclass(frozen=True, slots=True)
class Target:
    """The facts about a route that are needed to write the upstream's request."""

    upstream_model: str
    ask_usage: bool = True
    """A stream's usage may be requested (a provider's `stream_usage`)."""
    max_output_tokens: int = 128_000
    """The model's cap, sent as the limit if the upstream requires one and the caller stated none."""
    reasoning: Reasoning = "effort"
    max_tokens_field: MaxTokensField = "max_tokens"
    leading_system: bool = False
    """Instructions within a conversation move to its beginning: the upstream takes them only there."""
    embeddings_base64: bool = True
    """The upstream can write vectors as base64; if not, floats are requested instead."""
    takes: frozenset[Taken] = frozenset()
    """The fields and parts that this chat upstream takes."""
    history: History = "any"
    leave_out: frozenset[str] = frozenset()
    """Fields that the upstream's model refuses."""
    prices: PriceList = FREE_OF_CHARGE
    allow: frozenset[str] = frozenset()
    """Fields and tools that callers may use although they have no price: see `BILLED_NAMES`."""
    unit: InputUnit = "token"
    provider_tag: str = ""
    """A tag for what only this provider can read, such as encrypted reasoning: see `tag_provider`."""
    is_pivot: bool = False
    """The request is translated again, so it may have fields that no provider of its dialect accepts."""


@dataclass(slots=True)
class Payload:
    """An upstream's request, and its options that change the bill."""

    data: bytes
    """The body; its fields as JSON, if there is an upload."""
    options: BillOptions
    effort_sent: bool = True
    """The request states a reasoning effort. If the caller's was left out, the reply does not show it."""


@dataclass(slots=True)
class ReplyContext:
    """The facts of a request that are needed to write its reply."""

    request: CompletionRequest
    request_id: str
    expected: Expected
    created: int = field(default_factory=lambda: int(time.time()))
    """The `created` time of a translated reply, in epoch seconds: when the request arrived."""
    provider_tag: str = ""
    """See `Target`."""
    effort_sent: bool = True
    """See `Payload`."""
    is_pivot: bool = False
    """The reply goes to another translation, which reads `STATE`; no caller does."""


@dataclass(slots=True)
class Reply:
    """A JSON reply, or a replayed stream, for the caller: its bytes, its charge, and the failure, if any."""

    body: bytes
    metered: Metered
    failure: GatewayError | None = None
    """Why the caller gets no whole reply. An UndeliverableReply is charged, as the provider made it."""


@dataclass(slots=True)
class ReplyUsage:
    """The tokens charged for a reply so far, and the upstream's own report, if any."""

    tokens: Tokens
    estimated: bool
    reported: Json | None


@dataclass(slots=True)
class Event:
    """One server-sent event. `data` is None when it has no data line; comments keep their colon."""

    name: str
    data: bytes | None
    comments: tuple[bytes, ...]
    canonical: bool
    """The event is exactly one line `data: …`, so it may pass unchanged."""

"""The wire formats that callers and providers speak: bytes in, bytes out, and no I/O.

    base        the seams: caller, upstream, pipeline
    records     what crosses them: requests, payloads, replies
    exchanges   a caller over an upstream: requests written, replies read
    formats     the tables of dialects, translations and services
    composed    translations, and two in a row where there is no direct one
    wire/       what all dialects share: events, streams, JSON at the byte level, fields, errors
    chat/  messages/   a folder per dialect: its callers and upstreams, and how its callers are served over
                the other
    pivot       what two translations share: from chat callers, to chat upstreams
    call_ids    ids of tool calls: unique for callers, and as each provider takes them back
    first_choice  what of a chat reply the translations read, in order
    earlier     earlier turns that other vendors would refuse: as text, and calls with their results
    customs     custom tools as functions, where a provider has no others
    schemas     the roots of tools' schemas, as vendors take them

A new dialect, or a service with models of another kind, is an extra: a folder whose `Extra` has `dialects`,
`kinds` and `find_formats`, and no line elsewhere (`tests/dialects/tiny` shows it). Other folders change only
for what they cannot do yet: sign requests in another way (`upstream`), or price by another unit (`money`,
`config`).
May import: `base` (`errors`, `money`, `prices` and `usage` of it); neither asyncio nor aiohttp. README.md has
the facts of the formats that the code relies on.
"""

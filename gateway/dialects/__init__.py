"""The wire formats that callers and providers speak: bytes in, bytes out, and no I/O.

    formats     the tables of dialects, translations and services
    exchanges   a caller over an upstream: requests written, replies read
    translate/  callers of one dialect over providers of the other
    chat/  messages/   a folder per dialect: its callers and upstreams
    wire/       what all dialects share: the seams and what crosses them, events, streams, JSON at the byte
                level, fields, errors, usage

Each of these imports only what is listed below it.

A new dialect, or a service with models of another kind, is an extra: a folder whose `Extra` has `dialects`,
`kinds` and `find_formats`, and no line elsewhere (`tests/dialects/tiny` shows it). Other folders change only
for what they cannot do yet: sign requests in another way (`upstream`), or price by another unit (`money`,
`config`).
May import: `base` (`errors`, `money`, `prices` and `usage` of it); neither asyncio nor aiohttp. README.md has
the facts of the formats that the code relies on.
"""

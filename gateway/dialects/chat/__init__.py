"""The chat completions dialect (OpenAI's).

dialect   what callers send and the errors they get; how providers are asked, and their JSON replies
blocks    what Cursor sends of Anthropic's API, written as chat
stream    replies and chunks read, and the stream that passes
content   what a reply says, to translate and to estimate its usage from; its tool calls, made right
repair    replies that break the schema, made right
chunks    chunks that break it, made right
tools     tools as callers declare them, written for providers
state     what upstreams want back with a turn, sealed for callers of other dialects
history   earlier turns as upstreams want them back
writer    for translations: replies and streams written, results of tools, web search and sources
"""

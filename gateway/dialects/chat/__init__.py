"""The chat completions dialect (OpenAI's).

dialect   what callers send and the errors they get; how providers are asked, and their JSON replies
stream    replies and chunks read, and the stream that passes
content   the content of a reply, to translate and to estimate its usage from; repairs of its tool calls
repair    repairs of replies that break the schema
chunks    repairs of chunks that break it
tools     tools as callers declare them, written for providers
state     what upstreams want back with a turn, sealed for callers of other dialects
history   earlier turns as upstreams want them back
writer    for translations: replies and streams written, results of tools, web search and sources
"""

"""The chat completions dialect (OpenAI's).

caller    what callers send, and the errors they get
upstream  how providers are asked, and their JSON replies
stream    replies and chunks read, and the stream that passes
repair    what a reply used, its text to estimate it from, and chunks that break the schema, made right
state     what upstreams want back with a turn, and the seals in which all callers carry it
writer    for translations: replies and streams written, results of tools, web search and sources
"""

"""The chat completions dialect (OpenAI's).

dialect   what callers send and the errors they get; how providers are asked, and their JSON replies
stream    replies and chunks read, and the stream that passes
repair    the text of a reply, to estimate its usage from; chunks that break the schema, made right
state     what upstreams want back with a turn, and the seals in which all callers carry it
writer    for translations: replies and streams written, results of tools, web search and sources
over_messages_request  over_messages_conversation  over_messages_reply   over messages upstreams
"""

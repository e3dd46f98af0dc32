"""The Responses dialect (OpenAI's), without the state that OpenAI keeps.

caller    what callers send, and the errors they get
upstream  how providers are asked, and their JSON replies
stream    replies and events read: usage, the text to estimate it from, and the stream that passes
history   what only its provider can read, and tools that have no price
compaction  a summary in place of a conversation, for upstreams that make none themselves
over_chat_request  over_chat_conversation  over_chat_tools  over_chat_reply  over_chat_stream   over chat
          upstreams
"""

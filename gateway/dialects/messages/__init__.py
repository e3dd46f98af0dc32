"""The messages dialect (Anthropic's).

caller    what callers send, the errors and lists they get, and typed access to a request
upstream  how providers are asked, and JSON replies
history   earlier turns as Anthropic takes them, and the arguments of their calls
stream    replies and events read: their usage, the text to estimate it from, and the stream that passes
"""

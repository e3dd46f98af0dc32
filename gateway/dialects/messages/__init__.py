"""The messages dialect (Anthropic's).

caller    what callers send, the errors and lists they get, and typed access to a request
upstream  how providers are asked, and their JSON replies
stream    replies and events read, and the stream that passes
history   earlier turns as Anthropic takes them
usage     what a reply used, and the text to estimate it from
"""

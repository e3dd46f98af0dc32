"""Shared parts of models without conversations: embeddings, ranks, images, audio, old completions.

It serves nothing by itself.

multiplied  fields that make more of a service than is counted
inputs      texts that are no conversation, checked and counted
upstream    how providers are asked, their JSON replies, and streams whose last event completes them
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra()

"""Code shared by the extras for models without conversations: embeddings, ranks, images, audio, completions.

This extra serves nothing by itself.

multiplied  fields that multiply a service beyond what is counted
inputs      checks and counts texts that are no conversation
upstream    how providers are asked, their JSON replies, and streams whose last event completes them
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra()

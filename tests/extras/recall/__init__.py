"""Tests of responses that are kept."""

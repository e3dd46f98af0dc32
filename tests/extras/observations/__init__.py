"""Tests of what is counted beside the books."""

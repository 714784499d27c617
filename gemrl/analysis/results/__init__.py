"""Runs read from disk into one table, with scores and scales."""

"""Counts of failures and of requests, shared by all processes."""

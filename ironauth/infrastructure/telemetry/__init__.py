"""Logs, request ids, metrics and traces."""

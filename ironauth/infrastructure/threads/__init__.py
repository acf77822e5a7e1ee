"""Bounded pools of threads, and what protects callers from a slow or failing server."""

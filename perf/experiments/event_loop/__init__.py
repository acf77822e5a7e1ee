"""Argon2id on the event loop and in the pool. See ``experiment``."""

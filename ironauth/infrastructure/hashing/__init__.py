"""Argon2id on a bounded pool of threads with low priority."""

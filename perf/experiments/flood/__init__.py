"""Requests at a fixed rate while sign-ins saturate the hash pool. See ``experiment``."""

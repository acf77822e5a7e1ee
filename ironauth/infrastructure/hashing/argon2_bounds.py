"""Bounds on what a stored hash, or a node that asks a hash worker, may ask this machine to do.

Without them a planted row could exhaust the server (alexedwards/argon2id#35).
"""

from typing import Final

MAX_MEMORY_KIB: Final = 1_048_576  # 1 GiB
MAX_TIME: Final = 20  # passes
MAX_LANES: Final = 16
HASH_LENGTHS: Final = range(16, 65)  # bytes; below 128 bits a hash would be guessable
SALT_LENGTHS: Final = range(8, 65)  # bytes; RFC 9106 §3.1 allows no less than 8

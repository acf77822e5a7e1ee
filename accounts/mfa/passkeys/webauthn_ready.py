"""Loading what passkeys take, once somebody uses one: ``ceremonies`` with py_webauthn, 6 MiB and 60 ms.

Async code awaits ``webauthn_ready`` and then imports ``ceremonies`` where it is needed; what blocks just imports it.
"""

import asyncio
from importlib import import_module

_ready = False


async def webauthn_ready() -> None:
    """Return once ``ceremonies`` is imported; the first time on a thread, because the event loop must not wait."""
    global _ready  # noqa: PLW0603 - sys.modules has a module while its import goes on
    if not _ready:
        await asyncio.to_thread(import_module, "accounts.mfa.passkeys.ceremonies")
        _ready = True

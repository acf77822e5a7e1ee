"""Loading the code of passkeys when somebody first uses one: ``ceremonies`` with py_webauthn, 6 MiB and 60 ms."""

import asyncio
from importlib import import_module
from types import ModuleType

_loaded: ModuleType | None = None


async def load_ceremonies() -> ModuleType:
    """Return ``ceremonies``; imported the first time on a thread, because the event loop must not wait."""
    global _loaded  # noqa: PLW0603 - sys.modules has a module while its import goes on
    if _loaded is None:
        _loaded = await asyncio.to_thread(import_module, "accounts.mfa.passkeys.ceremonies")
    return _loaded

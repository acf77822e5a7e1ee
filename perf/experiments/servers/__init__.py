"""IronAuth under other ASGI servers, direct and behind nginx. See ``experiment``."""

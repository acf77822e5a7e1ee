"""What a server awaits before its first request and after its last: hooks, registered by the apps."""

from collections.abc import Awaitable, Callable

Hook = Callable[[], Awaitable[None]]

startup_hooks: list[Hook] = []
shutdown_hooks: list[Hook] = []


def on_startup(hook: Hook) -> Hook:
    """Have ``hook`` awaited at every start, in order of registration; its failure stops the start. A decorator too."""
    if hook not in startup_hooks:
        startup_hooks.append(hook)
    return hook


def on_shutdown(hook: Hook) -> Hook:
    """Have ``hook`` awaited at every shutdown, last registered first; its failure is logged. A decorator too."""
    if hook not in shutdown_hooks:
        shutdown_hooks.append(hook)
    return hook

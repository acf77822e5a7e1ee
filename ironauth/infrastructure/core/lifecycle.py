"""Start and end of a process: hooks that a server awaits, and whether it still wants requests."""

from collections.abc import Awaitable, Callable

Hook = Callable[[], Awaitable[None]]

startup_hooks: list[Hook] = []
shutdown_hooks: list[Hook] = []
_leaving: list[bool] = []


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


def leave() -> None:
    """Say that this process ends, for good; safe in a signal handler, and again."""
    if not _leaving:
        _leaving.append(True)


def is_leaving() -> bool:
    """Return whether this process finishes what it has begun and wants nothing new."""
    return bool(_leaving)

"""Whether this process still wants requests: its server says when it does no more, and ``/health`` passes it on."""

_leaving: list[bool] = []


def leave() -> None:
    """Say that this process ends, for good; safe in a signal handler, and again."""
    if not _leaving:
        _leaving.append(True)


def is_leaving() -> bool:
    """Return whether this process finishes what it has begun and wants nothing new."""
    return bool(_leaving)

"""Which paths belong to a project that is built on this product: it includes our URLs in its own ROOT_URLCONF.

Its views run under Django's handler, with all of settings.MIDDLEWARE. Our own paths keep their lanes.
"""

from functools import lru_cache
from typing import Final

from django.urls import Resolver404, URLPattern, URLResolver, get_resolver

from ironauth.infrastructure.core.live_settings import live

OURS: Final = "ironauth.urls"
#: Paths remembered per process; one is at most as long as a request line.
MAX_PATHS: Final = 1024


def is_projects(path: str) -> bool:
    """Return whether the project answers ``path``, whose first match is a pattern of its own, or which has none.

    Always False where ROOT_URLCONF does not include our URLs: then nothing is built on them.
    """
    return _is_projects(live.ROOT_URLCONF, path)


@lru_cache(maxsize=MAX_PATHS)
def _is_projects(urlconf: str, path: str) -> bool:
    patterns: list[URLPattern | URLResolver] = get_resolver(urlconf).url_patterns
    if not any(map(_is_ours, patterns)):
        return False
    for pattern in patterns:
        try:
            found = pattern.resolve(path.removeprefix("/"))
        except Resolver404:
            continue
        if found is not None:
            return not _is_ours(pattern)
    return True


def _is_ours(pattern: URLPattern | URLResolver) -> bool:
    return isinstance(pattern, URLResolver) and getattr(pattern.urlconf_module, "__name__", "") == OURS

"""Resolved URLs, remembered: Django tries its patterns one after the other, on every request."""

from django.urls import ResolverMatch, URLResolver, get_resolver

#: Paths remembered per process. Only paths without parameters are, and a project has fewer of those.
MAX_PATHS = 512


class RouteMemory:
    """Matches of ROOT_URLCONF for paths without parameters, forgotten when the URLconf becomes another one."""

    def __init__(self) -> None:
        self._resolver: URLResolver | None = None
        self._matches: dict[str, ResolverMatch] = {}

    def match(self, path: str) -> ResolverMatch:
        """Return what the current URLconf resolves ``path`` to. Errors: `Resolver404`."""
        resolver = get_resolver()
        if resolver is not self._resolver:
            self._resolver, self._matches = resolver, {}
        found = self._matches.get(path)
        if found is None:
            found = resolver.resolve(path)
            if not found.args and not found.kwargs and len(self._matches) < MAX_PATHS:
                self._matches[path] = found
        return found

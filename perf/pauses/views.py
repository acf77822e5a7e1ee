"""The endpoint at which the laboratory asks a worker about its pauses."""

from rest_framework.permissions import AllowAny

from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.cache.two_level import token_cache
from perf.pauses.watch import Pauses, Watch

_watch: Watch | None = None


class PausesView(AsyncAPIView):
    """The first question begins the watch."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    schema = None  # not of the contract: never in the OpenAPI document

    async def get(self, _request: ApiRequest) -> Pauses:
        """Return what was seen since the last question."""
        global _watch  # noqa: PLW0603 - one per process is the point
        if _watch is None:
            _watch = Watch()
            _watch.start()
        seen = _watch.taken()
        seen.entries = token_cache().entries
        return seen

"""Views of resources that programs read, edit and create, with what makes that safe to do twice or at once."""

from typing import Any, ClassVar

from django.http import HttpRequest

from ironauth.infrastructure.api.conditional import Condition, Edited, answered, is_reading
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView, Handler
from ironauth.infrastructure.db.unit_of_work import around_write


class ResourceView(AsyncAPIView):
    """A view that says what it edits; others pay nothing for it."""

    #: The single resource that GET shows and other methods but POST change; None where there is none.
    edited: ClassVar[Edited | None] = None

    async def require_rights(self, request: ApiRequest) -> None:
        """Raise what refuses a caller who may not use the method. A view that knows rights says which.

        It is awaited before a row is locked for a condition: others would wait for somebody who may not change it.
        """

    def _handler(self, request: HttpRequest) -> Handler:
        handler = super()._handler(request)
        if self.edited is not None and request.method not in ("POST", "OPTIONS"):
            handler = self._under_condition(handler, self.edited)
        return handler

    def _under_condition(self, handler: Handler, edited: Edited) -> Handler:
        async def conditional(request: ApiRequest, *args: Any, **kwargs: Any) -> Any:
            condition = Condition(request._request, edited, kwargs.values())  # noqa: SLF001 - Django's request
            if is_reading(request.method):
                shown = await handler(request, *args, **kwargs)
                return answered(condition, shown, self._as_response(shown))
            if not condition.is_stated:
                return await handler(request, *args, **kwargs)
            await self.require_rights(request)
            with around_write(condition.around):
                answer = self._as_response(await handler(request, *args, **kwargs))
            condition.require_judged()
            if condition.etag is not None:
                answer.headers["ETag"] = condition.etag
            return answer

        return conditional

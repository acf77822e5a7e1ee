"""Views of resources that programs read, edit and create, with what makes that safe to do twice or at once."""

from contextlib import suppress
from typing import Any, ClassVar

from django.http import HttpRequest

from ironauth.infrastructure.api.conditional import Condition, Edited, answered, is_reading
from ironauth.infrastructure.api.idempotency import Created, Once, key_of, repeated
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView, Handler
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db import idempotency as store
from ironauth.infrastructure.db.unit_of_work import around_write, database


class ResourceView(AsyncAPIView):
    """A view that says what it edits or creates; requests that do neither pay nothing for it."""

    #: The single resource that GET shows and other methods but POST change; None where there is none.
    edited: ClassVar[Edited | None] = None
    #: The single resource, which GET shows at another path, that POST acts on; None where no condition counts.
    acts_on: ClassVar[Edited | None] = None
    #: What POST makes, where a request may be sent again with its Idempotency-Key. Its handler returns what was made.
    creates: ClassVar[Created | None] = None

    async def require_rights(self, request: ApiRequest) -> None:
        """Raise what refuses a caller who may not use the method. A view that knows rights says which.

        It is awaited before a row is locked for a condition: others would wait for somebody who may not change it. And
        before an answer is repeated: the right may be gone since.
        """

    def caller_of(self, request: ApiRequest) -> str:
        """Return who asks, for the keys of their requests.

        Raises:
            NotImplementedError: A view with ``creates`` does not say it.
        """
        raise NotImplementedError

    def _handler(self, request: HttpRequest) -> Handler:
        handler = super()._handler(request)
        edited = self.acts_on if request.method == "POST" else self.edited
        if edited is not None and request.method != "OPTIONS":
            handler = self._under_condition(handler, edited)
        if self.creates is not None and request.method == "POST":
            handler = self._once(handler, self.creates)
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
            if condition.etag is not None and request.method != "POST":  # which answers at another path than GET
                answer.headers["ETag"] = condition.etag
            return answer

        return conditional

    def _once(self, handler: Handler, creates: Created) -> Handler:
        async def once(request: ApiRequest, *args: Any, **kwargs: Any) -> Any:
            key = key_of(request._request)  # noqa: SLF001 - Django's request
            if key is None:
                return creates.answer(request.path, await handler(request, *args, **kwargs))
            await self.require_rights(request)
            once = Once(request._request, creates, key=key, caller=self.caller_of(request))  # noqa: SLF001 - the same
            known = await database().write(store.claim, once.keyed)
            if known is not None:
                return repeated(known)
            try:
                with around_write(once.around):
                    made = await handler(request, *args, **kwargs)
            except Exception:
                with suppress(Unavailable):  # the claim ends by itself then
                    await database().write(store.give_back, once.keyed)
                raise
            once.require_recorded()
            return creates.answer(request.path, made)

        return once

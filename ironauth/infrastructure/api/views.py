"""The async base of every API view: DRF's contract, awaited on the event loop.

adrf runs authentication, permissions and throttles in a thread, async ones first whatever their order, and Django
renders DRF's response in another (lessons 6.1). Here everything is awaited in declared order, and what leaves is an
already rendered ``HttpResponse``.
"""

# Overrides of DRF methods keep its untyped signatures, and its private hooks have no public form.
# ruff: noqa: SLF001

import inspect
from collections.abc import Awaitable, Callable
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar, cast

from adrf.requests import AsyncRequest
from adrf.views import APIView
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.utils.datastructures import MultiValueDict
from django.utils.decorators import classonlymethod
from rest_framework import exceptions
from rest_framework.request import Empty
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle

from ironauth.infrastructure.api.deprecation import deprecation_of
from ironauth.infrastructure.api.parsers import FormParser, validated
from ironauth.infrastructure.api.permissions import answers_at_once, holds, holds_for_object
from ironauth.infrastructure.api.problem import report_unexpected
from ironauth.infrastructure.api.renderers import LeanResponse, MsgspecRenderer, encode
from ironauth.infrastructure.core.errors import BEARER_CHALLENGE
from ironauth.infrastructure.ratelimit.window import Quota, announced, quota_headers
from ironauth.infrastructure.threads.request_threads import request_threads

Handler = Callable[..., Awaitable[Any]]
ExceptionHandler = Callable[[Exception, dict[str, Any]], HttpResponse]


@lru_cache(maxsize=256)  # one entry per policy class of the project
def _is_async(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method)


class ApiRequest(AsyncRequest):  # type: ignore[misc] # adrf publishes no types
    """DRF's request, reading a body that came without Content-Length (chunked) too."""

    _data: Any

    def _load_stream(self) -> None:
        body = self._request.body
        self._stream = BytesIO(body) if body else None

    def _load_data_and_files(self) -> None:
        """Do as DRF does; a form, where a view takes nothing else, without looking for a parser.

        No body is an empty form there, whatever type it claims. DRF makes a dict of it, which has no ``getlist``.
        """
        parsers, body = self.parsers, self._request.body
        takes_forms = len(parsers) == 1 and type(parsers[0]) is FormParser
        is_form = takes_forms and (not body or self.content_type == FormParser.media_type)
        if not is_form or self._data is not Empty:
            super()._load_data_and_files()
            return
        self._files = self._request._files = MultiValueDict()
        try:
            self._data = parsers[0].parse(BytesIO(body), FormParser.media_type, self.parser_context)
        except Exception:
            self._data = self._full_data = QueryDict()  # anybody who asks again is not told again
            raise
        self._full_data = self._request._post = self._data


class AsyncAPIView(APIView):  # type: ignore[misc] # adrf publishes no types
    """A view whose handlers are ``async def get/post…(self, request, **kwargs)``.

    A handler returns a msgspec Struct, a list of them or a dict (200), None (204), DRF's ``Response`` (status and
    headers; its data is rendered here) or any ``HttpResponse``. Raised errors become problem documents.
    """

    view_is_async = True
    #: Forbid every cache to keep the answer; False where a view sets its own Cache-Control.
    no_store: ClassVar[bool] = True
    #: Headers of the methods that will end (``deprecation.deprecated``).
    _deprecated: ClassVar[dict[str, dict[str, str]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a synchronous handler: it would block the event loop.

        Raises:
            ImproperlyConfigured: A handler is synchronous; the error names it.
        """
        super().__init_subclass__(**kwargs)
        for name in cls.http_method_names:
            handler = getattr(cls, name, None)
            if handler is not None and not inspect.iscoroutinefunction(handler):
                raise ImproperlyConfigured(f"{cls.__name__}.{name} is not async: declare it with `async def`")
        marks = {name.upper(): deprecation_of(getattr(cls, name, None)) for name in cls.http_method_names}
        cls._deprecated = {method: mark.headers() for method, mark in marks.items() if mark is not None}
        if "GET" in cls._deprecated:
            cls._deprecated.setdefault("HEAD", cls._deprecated["GET"])

    @classonlymethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., Any]:  # noqa: N805 - Django's decorator hands the class
        """Return the view function, exempt from CSRF checks by its mark alone.

        DRF says the same with another coroutine around each call.
        """
        view: Any = inspect.unwrap(super().as_view(**initkwargs))
        view.csrf_exempt = True
        return cast("Callable[..., Any]", view)

    async def async_dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Admit the request, call its handler, and return a rendered response; never raises an ``Exception``."""
        self.args = args
        self.kwargs = kwargs
        self.request = wrapped = self.initialize_request(request, *args, **kwargs)
        quotas: list[Quota] = []
        announced.set(quotas)
        try:
            await self.initial(wrapped, *args, **kwargs)
            handler = self._handler(request)
            response = self._as_response(await handler(wrapped, *args, **kwargs))
        except Exception as exc:  # noqa: BLE001 - the boundary where every error becomes an answer
            await report_unexpected(exc, request)
            response = self.handle_exception(exc)
        if quotas or self._deprecated:
            self._tell(response, quotas)
        if self.no_store and "cache-control" not in response.headers._store:
            response.headers._store["cache-control"] = ("Cache-Control", "no-store")
        return response

    def _tell(self, response: HttpResponseBase, quotas: list[Quota]) -> None:
        """Add what the client should know before it calls again: rate limits, and that the operation will end."""
        told = quota_headers(quotas) | self._deprecated.get(self.request.method or "", {})
        for name, value in told.items():
            response.headers[name] = value

    def _handler(self, request: HttpRequest) -> Handler:
        """Return the handler of the method. Raises ``MethodNotAllowed`` (405)."""
        handler: Handler | None = getattr(self, _HANDLERS.get(request.method or "", ""), None)
        if handler is None:
            raise exceptions.MethodNotAllowed(request.method or "")
        return handler

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> ApiRequest:
        """Wrap Django's request with this view's parsers and authenticators."""
        return ApiRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context={"view": self, "args": args, "kwargs": kwargs},
        )

    async def initial(self, request: ApiRequest, *args: Any, **kwargs: Any) -> None:
        """Negotiate, authenticate, check permissions, throttle: in this order, the first failure answers."""
        self.format_kwarg = None
        # Never 406 (RFC 9110 §12.5.1 leaves the choice): a proxy that asks /verify forwards its client's Accept, and an
        # act that ends something must not fail for it.
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request, force=True)
        if self.versioning_class is not None:
            request.version, request.versioning_scheme = self.determine_version(request, *args, **kwargs)
        await self.perform_authentication(request)
        if self.permission_classes:
            await self.check_permissions(request)
        if self.throttle_classes:
            await self.check_throttles(request)

    def perform_content_negotiation(self, request: ApiRequest, force: bool = False) -> tuple[Any, str]:
        """Choose a renderer; where there is one only, whatever the Accept header says.

        Raises:
            NotAcceptable: (406) no renderer fits, and ``force`` is not set.
        """
        classes = self.renderer_classes
        if len(classes) == 1:
            return classes[0](), classes[0].media_type
        chosen: tuple[Any, str] = super().perform_content_negotiation(request, force)
        return chosen

    async def perform_authentication(self, request: ApiRequest) -> None:
        """Try the authenticators in order; the first that recognises a credential decides.

        Sets ``request.user`` and ``request.auth``. Raises what an authenticator raises.
        """
        for authenticator in request.authenticators:
            try:
                if _is_async(type(authenticator).authenticate):
                    found = await authenticator.authenticate(request)
                else:
                    found = await request_threads.run(authenticator.authenticate, request)
            except Exception:
                request._not_authenticated()
                raise
            if found is not None:
                request._authenticator = authenticator
                request.user, request.auth = found
                return
        request._not_authenticated()

    async def check_permissions(self, request: ApiRequest) -> None:
        """Check the permissions in declared order and stop at the first that does not hold.

        Raises ``NotAuthenticated`` without a credential, else ``PermissionDenied``.
        """
        for permission in [permission() for permission in self.permission_classes]:
            if answers_at_once(permission):
                held = permission.has_permission(request, self)
            else:
                held = await holds(permission, request, self)
            if not held:
                self._refuse(request, permission)

    async def check_object_permissions(self, request: ApiRequest, obj: object) -> None:
        """Check the permissions for ``obj``, as `check_permissions` does; a handler awaits it."""
        for permission in [permission() for permission in self.permission_classes]:
            if not await holds_for_object(permission, request, self, obj):
                self._refuse(request, permission)

    def _refuse(self, request: ApiRequest, permission: object) -> None:
        self.permission_denied(
            request, message=getattr(permission, "message", None), code=getattr(permission, "code", None)
        )

    async def check_throttles(self, request: ApiRequest) -> None:
        """Ask every throttle, in declared order. Raises ``Throttled`` with the longest wait."""
        refused: list[BaseThrottle] = []
        for throttle in self.get_throttles():
            if _is_async(type(throttle).allow_request):
                allowed = await throttle.allow_request(request, self)
            else:
                allowed = await request_threads.run(throttle.allow_request, request, self)
            if not allowed:
                refused.append(throttle)
        if refused:
            waits = [wait for wait in (throttle.wait() for throttle in refused) if wait is not None]
            self.throttled(request, max(waits, default=None))

    async def validated(
        self, request: ApiRequest, serializer: type[BaseSerializer[Any]], *, partial: bool = False
    ) -> dict[str, Any]:
        """Return the body as validated by a plain DRF serializer; unknown fields are ignored.

        Raises an error of status 400 that names every bad field, or of 400 or 415 for a body that cannot be parsed.
        """
        return validated(serializer, request.data, partial=partial)

    def _as_response(self, result: Any) -> HttpResponseBase:
        """Turn what a handler returned into a rendered response."""
        if isinstance(result, Response):
            return self._rendered(result)
        if isinstance(result, HttpResponseBase):
            return result
        if result is None:
            return _empty(204)
        return self._written(result)

    def _written(self, data: object, media_type: str | None = None, status: int = 200) -> HttpResponse:
        """Return a response with ``data`` as the chosen renderer writes it."""
        renderer = self.request.accepted_renderer
        if type(renderer) is MsgspecRenderer and media_type is None:  # ours asks nothing about the request
            return LeanResponse(encode(data), renderer.media_type, status)
        body = renderer.render(data, self.request.accepted_media_type, self.get_renderer_context())
        return HttpResponse(body, status=status, content_type=media_type or renderer.media_type)

    def _rendered(self, lazy: Response) -> HttpResponse:
        """Render DRF's response now: Django would do it in a thread."""
        fields = lazy.headers._store
        if lazy.data is None:
            response = _empty(lazy.status_code)
        else:
            response = self._written(lazy.data, lazy.content_type, lazy.status_code)
            fields = {key: field for key, field in fields.items() if key != "content-type"}
        response.headers._store.update(fields)
        response.cookies = lazy.cookies
        return response

    def handle_exception(self, exc: Exception) -> HttpResponse:
        """Answer ``exc`` through EXCEPTION_HANDLER; a 401 always carries a challenge (RFC 9110 §15.5.2)."""
        if isinstance(exc, (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)):
            challenge = self.get_authenticate_header(self.request) or BEARER_CHALLENGE
            exc.auth_header = challenge  # type: ignore[union-attr] # DRF's own way to hand it on
        handler = cast("ExceptionHandler", api_settings.EXCEPTION_HANDLER)
        return handler(exc, self.get_exception_handler_context())

    async def options(self, request: ApiRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer OPTIONS with 204 and Allow; the contract has its own document, /api/openapi.json."""
        response = _empty(204)
        response.headers["Allow"] = ", ".join(self.allowed_methods)
        return response


#: Spelled as they arrive; TRACE is Django's but no view's, so it ends as 405 like any other unknown method.
_HANDLERS = {name.upper(): name for name in APIView.http_method_names}


def _empty(status: int) -> HttpResponse:
    """Return a response without body, hence without Content-Type (RFC 9110 §8.3)."""
    response = HttpResponse(status=status)
    del response.headers["Content-Type"]
    return response

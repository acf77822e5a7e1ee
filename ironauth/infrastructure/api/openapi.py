"""What drf-spectacular cannot know by itself: msgspec Structs and problem+json errors.

Views declare ``@extend_schema(request=SomeSerializer, responses={201: SomeStruct, 409: SomeDomainError})``; without
``responses`` the handler's return annotation is the ``200`` answer. Errors that every operation of its kind can give
are added here, so a view names only its own; several errors of one status are a tuple.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
from django.core.exceptions import ImproperlyConfigured
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import Direction, OpenApiParameter, OpenApiResponse

from ironauth.config.openapi import STAFF_CHAPTERS, TAGS_BY_PATH
from ironauth.infrastructure.api import openapi_errors as error_answers
from ironauth.infrastructure.api import openapi_examples
from ironauth.infrastructure.api.conditional import is_reading
from ironauth.infrastructure.api.deprecation import Deprecation, deprecation_of
from ironauth.infrastructure.api.idempotency import HEADER, Created
from ironauth.infrastructure.api.openapi_errors import PROBLEM_MEDIA_TYPE, REFERENCE, Kind, OAuthErrors, Usual
from ironauth.infrastructure.core.errors import DomainError, FieldError

type JsonSchema = dict[str, Any]

#: Header fields of answers; the document describes each once and refers to it.
_OF_ENDING: Final = ("Deprecation", "Sunset")
_OF_COUNTED: Final = ("RateLimit-Policy", "RateLimit")
#: Header fields of requests about a resource that is edited.
_CONDITIONS: Final = {
    "If-Match": "The ETag of the state that the request is about; `412` where it is another one by now.",
    "If-None-Match": "An ETag that the caller has: GET answers `304` while that is the state.",
}
_REPEATING: Final = {
    HEADER: "A new one for each request, such as a UUID. The same request with it is not carried out again for a day.",
}


class Schema(AutoSchema):
    """One operation of the document; DRF's ``DEFAULT_SCHEMA_CLASS``."""

    def get_operation_id(self) -> str:
        """Return the method and the path, e.g. ``get_users_by_id``: unique, and it never changes by itself."""
        words = [
            f"by_{part.strip('{}')}" if part.startswith("{") else part
            for part in self.path.replace(".json", "").replace("/api/v1/", "/").split("/")
            if part
        ]
        return "_".join([self.method.lower(), *words]).replace("-", "_").replace(".", "")

    def is_deprecated(self) -> bool:
        """Tell whether the handler is marked (``deprecation.deprecated``)."""
        return self._deprecation() is not None

    def get_operation(self, *given: Any) -> JsonSchema | None:
        """Return the operation in its chapter, with the headers of its answers, and when it ends."""
        operation: JsonSchema | None = super().get_operation(*given)
        if operation is None:
            return None
        operation["tags"] = [self._chapter()]
        ending = self._deprecation()
        if ending is not None:
            operation["description"] = f"{ending.words()}\n\n{operation.get('description', '')}".strip()
        _add_headers(operation, is_ending=ending is not None, of_resource=self._of_resource())
        openapi_examples.add_examples(operation)
        return operation

    def _chapter(self) -> str:
        return next(tag for prefix, tag in TAGS_BY_PATH.items() if self.path.startswith(prefix))

    def _deprecation(self) -> Deprecation | None:
        return deprecation_of(getattr(self.view, self.method.lower(), None))

    def get_override_parameters(self) -> list[Any]:
        """Return the header fields that make this kind of operation safe to do twice or at once."""
        names = (_CONDITIONS if self._is_conditional() else {}) | (_REPEATING if self._creates() else {})
        return [OpenApiParameter(name, str, OpenApiParameter.HEADER, description=says) for name, says in names.items()]

    def _is_conditional(self) -> bool:
        return getattr(self.view, "acts_on" if self.method == "POST" else "edited", None) is not None

    def _of_resource(self) -> tuple[str, ...]:
        """Return the header fields of its good answers that tell of a resource."""
        if (creates := self._creates()) is not None:
            return ("Location", "Idempotency-Replayed") if creates.name else ("Idempotency-Replayed",)
        return ("ETag",) if self._is_conditional() and self.method not in ("DELETE", "POST") else ()

    def _creates(self) -> Created | None:
        creates: Created | None = getattr(self.view, "creates", None)
        return creates if self.method == "POST" else None

    def get_request_serializer(self) -> Any:
        """Return nothing: a view without ``@extend_schema(request=…)`` reads no body."""
        return None

    def get_response_serializers(self) -> Any:
        """Return the handler's return annotation as the 200 answer; ``-> None`` is 204."""
        handler = getattr(self.view, self.method.lower())
        answer = get_type_hints(handler).get("return")
        if answer is type(None):
            return {204: None}
        return {200: answer} if _is_wire_type(answer) else answer

    def _is_list_view(self, serializer: object = None) -> bool:
        """Answer no: a list is declared as ``list[Struct]``, nothing is guessed from the view's class."""
        del serializer
        return False

    def _get_request_body(self, direction: Direction = "request") -> JsonSchema | None:
        """Leave out the body of an operation that declares none; DELETE may have one (it confirms with a password)."""
        if self.get_request_serializer() is None:
            return None
        method = self.method
        # drf-spectacular gives DELETE no body at all, whatever is declared; OpenAPI 3.1 allows one.
        self.method = "POST" if method == "DELETE" else method
        try:
            body: JsonSchema | None = super()._get_request_body(direction)  # type: ignore[no-untyped-call]  # drf-spectacular is half annotated
        finally:
            self.method = method
        return body

    def _get_response_bodies(self, direction: Direction = "response") -> JsonSchema:
        """Return the declared answers and the errors that every operation of this kind can give."""
        declared = self.get_response_serializers()
        if isinstance(declared, Mapping):
            bodies: JsonSchema = super()._get_response_bodies(direction)
        else:
            code = "204" if declared is None else "200"
            bodies = {code: self._get_response_for_code(declared, code, direction=direction)}
        for usual in self._usual_errors().values():
            bodies.setdefault(str(usual.status), self._problem(str(usual.status), (), usual.description))
        if self._is_conditional() and is_reading(self.method):
            bodies["304"] = {"description": "It is as If-None-Match says."}
        everything = REFERENCE.format(name=self._add_problem("default", error_answers.anywhere(), ()))
        bodies.setdefault(
            "default",
            {
                "description": "Any other error, e.g. `405`, `408`, `429`, `431` or `500`",
                "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": everything}}},
            },
        )
        return dict(sorted(bodies.items()))

    def _get_response_for_code(
        self, serializer: object, status_code: str, media_types: object = None, direction: Direction = "response"
    ) -> JsonSchema:
        """Return one answer: a Struct becomes a component, an error becomes problem+json."""
        answer, description, examples = serializer, "", None
        if isinstance(serializer, OpenApiResponse):
            answer, description, examples = serializer.response, str(serializer.description), serializer.examples
        if isinstance(answer, OAuthErrors):
            return self._oauth_error(status_code, answer.names, description)
        errors = answer if isinstance(answer, tuple) else (answer,)
        if all(isinstance(error, type) and issubclass(error, DomainError) for error in errors):
            described = description or error_answers.described(errors)
            return self._problem(status_code, [error.code for error in errors], described)
        if int(status_code) >= HTTPStatus.BAD_REQUEST and answer is None:
            return self._problem(status_code, (), description)
        if _is_wire_type(answer):
            answer = self._register(answer)
        body: JsonSchema = super()._get_response_for_code(  # type: ignore[no-untyped-call]  # drf-spectacular is half annotated
            OpenApiResponse(
                response=answer, description=description or HTTPStatus(int(status_code)).phrase, examples=examples or []
            ),
            status_code,
            media_types,
            direction,
        )
        return body

    def _usual_errors(self) -> dict[str, Usual]:
        """Return what follows from the kind of operation, by status."""
        security = self.get_auth()
        kind = Kind(
            method=self.method,
            has_body=self.get_request_serializer() is not None,
            has_query=any(one["in"] == "query" for one in self._get_parameters()),
            is_protected=bool(security) and {} not in security,
            has_path_parameters="{" in self.path,
            is_for_staff=self._chapter() in STAFF_CHAPTERS,
            is_conditional=self._is_conditional(),
            is_repeatable=self._creates() is not None,
        )
        return {str(usual.status): usual for usual in error_answers.usual(kind)}

    def _problem(self, status: str, codes: Sequence[str], description: str) -> JsonSchema:
        """Return an error answer with these codes and the usual ones of its status."""
        usual = self._usual_errors().get(status, Usual(int(status), "", ()))
        own = sorted(set(codes) - set(usual.codes))
        name = self._add_problem(status, [*usual.codes, *codes], own, usual.label)
        schema = {"$ref": REFERENCE.format(name=name)}
        return {"description": description or "An error", "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}

    def _add_problem(self, status: str, codes: Sequence[str], own: Sequence[str], kind: str = "") -> str:
        """Add the component for a set of codes, with what it refers to; return its name."""
        self._register(FieldError)
        self._add("Problem", error_answers.PROBLEM)
        name = error_answers.problem_name(status, own, kind)
        example = openapi_examples.problem(status, codes, own)
        self._add(name, {**error_answers.problem(codes), "examples": [example]})
        return name

    def _oauth_error(self, status: str, errors: Sequence[str], description: str) -> JsonSchema:
        """Return the answer of an endpoint below /oauth/ that refuses."""
        name = error_answers.oauth_error_name(status, errors, self.get_operation_id())
        self._add(name, {**error_answers.oauth_error(errors), "examples": [openapi_examples.oauth_error(errors)]})
        schema = {"$ref": REFERENCE.format(name=name)}
        said = description or HTTPStatus(int(status)).phrase
        return {"description": said, "content": {"application/json": {"schema": schema}}}

    def _register(self, wire_type: object) -> JsonSchema:
        """Add the components of a Struct, or a list of them, and return the schema that refers to them."""
        (schema,), components = msgspec.json.schema_components((wire_type,), ref_template=REFERENCE)
        for name, component in components.items():
            self._add(name, component)
        return schema

    def _add(self, name: str, schema: JsonSchema) -> None:
        """Add one component.

        Raises:
            ImproperlyConfigured: Another one has its name: the second would be described as the first.
        """
        known = self.registry._components.get((name, ResolvedComponent.SCHEMA))  # noqa: SLF001 - no public way to ask
        if known is not None and known.schema != schema:
            raise ImproperlyConfigured(f"Two schemas are named {name}: rename one of the classes")
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, name)  # type: ignore[no-untyped-call]  # same
        self.registry.register_on_missing(component)


def _is_wire_type(candidate: object) -> bool:
    """Return whether msgspec, not DRF, writes ``candidate``: a Struct, or a generic that holds or is one."""
    origin = get_origin(candidate)
    if origin is not None:
        return _is_wire_type(origin) or any(_is_wire_type(argument) for argument in get_args(candidate))
    return isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)


def _add_headers(operation: JsonSchema, *, is_ending: bool, of_resource: Sequence[str]) -> None:
    """Add to every answer of an operation the header fields that it carries.

    Args:
        operation: The operation, with its answers. One that can be throttled tells of rate limits in all of them.
        is_ending: Whether it is deprecated.
        of_resource: What its good answers tell of the resource.
    """
    counted = _OF_COUNTED if "429" in operation["responses"] else ()
    for status, answer in operation["responses"].items():
        names = ["X-Request-ID"]
        names += ["WWW-Authenticate"] if status == "401" else []
        names += ["Retry-After"] if status in ("429", "503") else []
        names += counted if status.startswith("2") or status in ("401", "429") else ()
        names += of_resource if status.startswith("2") or status == "304" else ()
        names += _OF_ENDING if is_ending else ()
        answer.setdefault("headers", {}).update({name: {"$ref": f"#/components/headers/{name}"} for name in names})

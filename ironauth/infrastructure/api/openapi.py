"""What drf-spectacular cannot know by itself: msgspec Structs and problem+json errors.

Views declare ``@extend_schema(request=SomeSerializer, responses={201: SomeStruct, 409: SomeDomainError})``; without
``responses`` the handler's return annotation is the ``200`` answer. Errors that every operation of its kind can give
are added here, so a view names only its own; several errors of one status are a tuple.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import Direction, OpenApiResponse

from ironauth.config.openapi import TAGS_BY_PATH
from ironauth.infrastructure.core.errors import DomainError, FieldError

type JsonSchema = dict[str, Any]

PROBLEM_MEDIA_TYPE = "application/problem+json"  # RFC 9457 §3
REFERENCE = "#/components/schemas/{name}"
PROBLEM: JsonSchema = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details. `code` is stable, `title` and `detail` are for people.",
    "required": ["type", "title", "status", "detail", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "request_id": {"type": "string"},
        "errors": {"type": "array", "items": {"$ref": REFERENCE.format(name="FieldError")}},
    },
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

    def get_tags(self) -> list[str]:
        """Return the chapter of the document: one's own account, other people's, or the system."""
        return [next(tag for prefix, tag in TAGS_BY_PATH.items() if self.path.startswith(prefix))]

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
        for code, description in self._usual_errors():
            bodies.setdefault(code, self._problem(description))
        return dict(sorted(bodies.items()))

    def _get_response_for_code(
        self, serializer: object, status_code: str, media_types: object = None, direction: Direction = "response"
    ) -> JsonSchema:
        """Return one answer: a Struct becomes a component, an error becomes problem+json."""
        answer, description, examples = serializer, "", None
        if isinstance(serializer, OpenApiResponse):
            answer, description, examples = serializer.response, str(serializer.description), serializer.examples
        errors = answer if isinstance(answer, tuple) else (answer,)
        if all(isinstance(error, type) and issubclass(error, DomainError) for error in errors):
            return self._problem(description or " ".join(f"`{error.code}`: {error.detail}" for error in errors))
        if int(status_code) >= HTTPStatus.BAD_REQUEST and answer is None:
            return self._problem(description)
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

    def _usual_errors(self) -> Iterator[tuple[str, str]]:
        """Yield status and meaning of the errors that follow from the kind of operation."""
        security = self.get_auth()
        if self.get_request_serializer() is not None:
            yield "400", "The body is malformed, or a field is bad: `errors` names every bad one"
            yield "413", "The body is larger than 64 KiB"
            yield "415", "The body is of a media type that is not listed here"
        elif security and {} not in security:
            yield "400", "More than one credential, or a malformed one"
        if security and {} not in security:
            yield "401", "No credential, or one that is not accepted"
            yield "403", "Not allowed to this caller, or a cross-site request with the cookie"
        if "{" in self.path:
            yield "404", "There is no such thing, or not for this caller"
        yield "503", "Overloaded, or the database cannot be reached: try again after `Retry-After` seconds"
        yield "default", "Any other error, e.g. `405`, `408`, `429`, `431` or `500`"

    def _problem(self, description: str) -> JsonSchema:
        """Return an error answer, registering the schemas it needs."""
        self._register(FieldError)
        self._add("Problem", PROBLEM)
        schema = {"$ref": REFERENCE.format(name="Problem")}
        return {"description": description or "An error", "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}

    def _register(self, wire_type: object) -> JsonSchema:
        """Add the components of a Struct, or a list of them, and return the schema that refers to them."""
        (schema,), components = msgspec.json.schema_components((wire_type,), ref_template=REFERENCE)
        for name, component in components.items():
            self._add(name, component)
        return schema

    def _add(self, name: str, schema: JsonSchema) -> None:
        """Add one component; the same name always means the same schema."""
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, name)  # type: ignore[no-untyped-call]  # same
        self.registry.register_on_missing(component)


def _is_wire_type(candidate: object) -> bool:
    """Return whether msgspec, not DRF, writes ``candidate``: a Struct, or a generic that holds or is one."""
    origin = get_origin(candidate)
    if origin is not None:
        return _is_wire_type(origin) or any(_is_wire_type(argument) for argument in get_args(candidate))
    return isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)

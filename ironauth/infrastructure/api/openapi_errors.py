"""The error answers of the OpenAPI document: which codes an operation can give, and one schema for each set of them.

Every set of codes has a component of its own, so that a generated client has a few dozen types instead of one for each
answer. Its name is the status, the kind of operation, and the codes that not every operation of its kind has.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPMethod
from typing import Any, Final, NamedTuple

from ironauth.config.error_codes import CHAPTERS, CODES, PAGE
from ironauth.infrastructure.core.errors import DomainError

type JsonSchema = dict[str, Any]

PROBLEM_MEDIA_TYPE = "application/problem+json"  # RFC 9457 §3
REFERENCE = "#/components/schemas/{name}"
_PROPERTIES: Final[JsonSchema] = {
    "type": {
        "type": "string",
        "format": "uri-reference",
        "description": "The code's place on this host's page of error codes",
    },
    "title": {"type": "string", "description": "What has happened, in a few words, for people"},
    "status": {"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status"},
    "detail": {"type": "string", "description": "What is wrong and what to do, for people; it may change"},
    "code": {"type": "string", "description": "What programs compare; it never changes its meaning"},
    "request_id": {"type": "string", "description": "As in X-Request-ID and in the log of the server"},
    "errors": {
        "type": "array",
        "items": {"$ref": REFERENCE.format(name="FieldError")},
        "description": "Every bad field, where fields are bad",
    },
}
#: Further members of the problem of a code (RFC 9457 §3.2).
_MEMBERS: Final[dict[str, JsonSchema]] = {
    "mfa_required": {
        "mfa_token": {"type": "string", "description": "With `mfa_required`: what the second step sends back"},
        "methods": {"type": "array", "items": {"type": "string"}, "description": "With `mfa_required`: what proves it"},
    },
}
#: What one status means everywhere, so that no name has to say it.
_ONLY: Final = {"404": "not_found", "429": "throttled"}
#: A schema of more OAuth errors than this is named by its operation.
_NAMED: Final = 2
_ANY_OPERATION: Final = frozenset(one.code for one in next(iter(CHAPTERS.values())))


class Kind(NamedTuple):
    """What decides which errors an operation can give before its own code runs."""

    method: str
    has_body: bool
    has_query: bool
    is_protected: bool
    has_path_parameters: bool
    is_for_staff: bool
    is_conditional: bool
    is_repeatable: bool

    @property
    def changes(self) -> bool:
        """Whether requests of this kind change something."""
        return self.method.upper() not in (HTTPMethod.GET, HTTPMethod.HEAD)


@dataclass(frozen=True)
class OAuthErrors:
    """The errors of RFC 6749 §5.2 that a view declares for one status: what ``error`` may be."""

    names: tuple[str, ...]


class Usual(NamedTuple):
    """An error that every operation of a kind can give. ``label``: names the kind, for the schema's name."""

    status: int
    description: str
    codes: tuple[str, ...]
    label: str = ""


def usual(kind: Kind) -> Iterator[Usual]:
    """Yield the errors that follow from the kind of operation, one for each status.

    Args:
        kind: What is known of the operation.
    """
    codes, label = ["bad_request", "bad_host", "bad_content_length", "two_credentials"], ""
    if kind.has_body or kind.has_query:
        codes, label = [*codes, "invalid"], "Query"
    if kind.has_body:
        codes, label = [*codes, "parse_error"], "Body"
    if kind.is_protected:
        codes, label = [*codes, "invalid_request"], f"{label}Credential"
    if kind.is_repeatable:
        codes, label = [*codes, "idempotency_key_invalid"], f"{label}Key"
    text = "The body is malformed, or a field is bad: `errors` names every bad one"
    text = text if kind.has_body else "The request is malformed, or brings more than one credential"
    yield Usual(400, text, tuple(codes), label)
    if kind.is_protected:
        unproved = ("not_authenticated", "invalid_token", "invalid_dpop_proof")
        yield Usual(401, "No credential, or one that is not accepted", unproved)
        refused = ["insufficient_scope", "permission_denied", "acting_session"]
        refused += ["cross_origin", "delegated_token"] if kind.changes else []
        refused += ["mfa_enrolment_required", "client_does_not_administer"] if kind.is_for_staff else []
        label = ("Change" if kind.changes else "") + ("Staff" if kind.is_for_staff else "")
        text = "Not allowed to this caller, or a cross-site request with the cookie"
        yield Usual(403, text, tuple(refused), label)
    if kind.has_path_parameters:
        yield Usual(404, "There is no such thing, or not for this caller", ("not_found",))
    yield from _of_conditions(kind)
    if kind.has_body:
        yield Usual(413, "The body is larger than 64 KiB", ("body_too_large",))
        yield Usual(415, "The body is of a media type that is not listed here", ("unsupported_media_type",))
    text = "Overloaded, or the database cannot be reached: try again after `Retry-After` seconds"
    yield Usual(503, text, ("overloaded", "unavailable"))


def _of_conditions(kind: Kind) -> Iterator[Usual]:
    """Yield the errors of If-Match and Idempotency-Key."""
    if kind.is_conditional:
        yield Usual(412, "It is not as If-Match says, or it is as If-None-Match says", ("precondition_failed",))
    if kind.is_repeatable:
        unrepeated = ("idempotency_in_flight", "idempotency_answer_not_repeated")
        yield Usual(409, "The first request with this key is in flight, or its answer had a secret", unrepeated, "Key")
        yield Usual(422, "The key stands for another request", ("idempotency_key_reused",))


#: Of any problem, for clients that look at no code.
PROBLEM: Final[JsonSchema] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details. `code` is stable, `title` and `detail` are for people.",
    "required": ["type", "title", "status", "detail", "code", "request_id"],
    "properties": _PROPERTIES,
    "examples": [
        {
            "type": f"{PAGE}#not_found",
            "title": "Not found",
            "status": 404,
            "detail": "There is nothing here.",
            "code": "not_found",
            "request_id": "01a1fd5323067109880a6a7906d2274d",
        }
    ],
}


def described(errors: Iterable[type[DomainError]]) -> str:
    """Return the words for these errors.

    Args:
        errors: The classes that a view declares.
    """
    return " ".join(f"`{error.code}`: {error.detail}" for error in errors)


def problem(codes: Iterable[str]) -> JsonSchema:
    """Return the schema of a problem document whose ``code`` is one of these.

    Args:
        codes: All of the registry (``ironauth.config.error_codes``).
    """
    known = sorted(set(codes))
    members = {name: schema for code in known for name, schema in _MEMBERS.get(code, {}).items()}
    meanings = "; ".join(f"`{code}`: {CODES[code].meaning}" for code in known)
    return {
        "type": "object",
        "description": f"RFC 9457 problem details. {meanings}",
        "required": ["type", "title", "status", "detail", "code", "request_id"],
        "properties": {**_PROPERTIES, "code": {**_PROPERTIES["code"], "enum": known}, **members},
    }


def problem_name(status: str, own: Sequence[str], kind: str = "") -> str:
    """Return the name of the component for a set of codes.

    Args:
        status: The status, or ``default``.
        own: The codes that the operation has beyond those of its kind.
        kind: The label of the kind.
    """
    return f"Problem{status.capitalize()}{kind}{_words([code for code in own if _ONLY.get(status) != code])}"


def oauth_error_name(status: str, errors: Sequence[str], operation_id: str) -> str:
    """Return the name of the component for a set of OAuth errors.

    Args:
        status: The status.
        errors: What ``error`` may be.
        operation_id: The operation, which names a long set.
    """
    return f"OAuthError{status}{_words(errors if len(errors) <= _NAMED else [operation_id])}"


def _words(codes: Sequence[str]) -> str:
    return "Or".join("".join(part.capitalize() for part in code.split("_")) for code in sorted(codes))


def anywhere() -> list[str]:
    """Return the codes of the answer that stands for every status that is not listed."""
    return sorted({*_ANY_OPERATION, "throttled"})


def oauth_error(errors: Iterable[str]) -> JsonSchema:
    """Return the schema of an error of RFC 6749 §5.2.

    Args:
        errors: What ``error`` may be.
    """
    return {
        "type": "object",
        "description": "An error of RFC 6749 §5.2",
        "required": ["error", "error_description"],
        "properties": {
            "error": {"type": "string", "enum": sorted(set(errors)), "description": "What programs compare"},
            "error_description": {"type": "string", "description": "What is wrong, for the client's developer"},
        },
    }

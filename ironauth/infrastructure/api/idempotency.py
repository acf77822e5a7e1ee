"""Requests that create something and may be sent again: Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07).

The key is read here; ``db.idempotency`` has the rows. A request without a key pays nothing.
"""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from rest_framework.response import Response

from ironauth.infrastructure.api.renderers import LeanResponse, MsgspecRenderer, encode
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.db import idempotency as store
from ironauth.infrastructure.db.idempotency import Answer, Keyed
from ironauth.infrastructure.db.unit_of_work import Unit

HEADER: Final = "Idempotency-Key"
#: True in an answer that is a repetition.
REPLAYED: Final = "Idempotency-Replayed"
LONGEST: Final = 255  # characters of a key
#: A string of RFC 9651 §3.3.3, as the draft has it, or the same without quotes, as most clients send it.
_QUOTED: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])+)"')
_BARE: Final = re.compile(r"[!#-+\--:<-\[\]-~]+")


class IdempotencyKeyInvalid(DomainError):
    """The header field has no key that can be read."""

    status = 400
    code = "idempotency_key_invalid"
    title = "Invalid idempotency key"
    detail = f"Send one Idempotency-Key of 1 to {LONGEST} printable ASCII characters, such as a UUID."


@dataclass(frozen=True)
class Created:
    """What the POST of a view makes; a view names it in ``creates``.

    Args:
        made: The class of what the unit of work and then the handler return.
        name: The field of it that ends the path of what was made; "" for no Location.
        once: The field that has a secret which is shown once; "" for none.
        status: Of the answer.
    """

    made: type[Any]
    name: str = ""
    once: str = ""
    status: int = 201

    def location(self, path: str, made: object) -> str:
        """Return where it is from now on; "" where it has no path.

        Args:
            path: Of the request.
            made: What was made.
        """
        return f"{path}/{quote(str(getattr(made, self.name)), safe='')}" if self.name else ""

    def answer(self, path: str, made: object) -> Response:
        """Return the answer to the first request.

        Args:
            path: Of the request.
            made: What was made.
        """
        where = self.location(path, made)
        return Response(made, status=self.status, headers={"Location": where} if where else None)

    def kept(self, path: str, made: object) -> Answer:
        """Return what is kept of it: no body where it has a secret.

        Args:
            path: Of the request.
            made: What was made.
        """
        has_secret = bool(self.once) and getattr(made, self.once) is not None
        return Answer(self.status, self.location(path, made), None if has_secret else encode(made))


class Once:
    """One request that creates something and has a key."""

    def __init__(self, request: HttpRequest, creates: Created, *, key: str, caller: str) -> None:
        """Bind a key to its caller and its request.

        Args:
            request: Django's request, with its body.
            creates: What it makes.
            key: The key.
            caller: Who asks.
        """
        asked = b"\n".join([(request.method or "").encode(), request.path.encode(), request.body])
        self.keyed = Keyed(caller=caller, key=key, request=asked, claim=new_id())
        self._creates = creates
        self._path = request.path
        self._is_recorded = False

    def around(self, unit: Unit) -> Unit:
        """Return the unit of work with its result kept in its transaction, where it is what the view makes.

        Args:
            unit: What the request has asked for.
        """

        def kept() -> Any:
            made = unit()
            if isinstance(made, self._creates.made):
                store.record(self.keyed, self._creates.kept(self._path, made))
                self._is_recorded = True
            return made

        return kept

    def require_recorded(self) -> None:
        """Make sure that nothing was made whose key is still free.

        Raises:
            RuntimeError: No unit of work has returned what ``creates`` names.
        """
        if not self._is_recorded:
            raise RuntimeError(f"no unit of work of {self._path} returns {self._creates.made.__name__}")


def key_of(request: HttpRequest) -> str | None:
    """Return the key of a request; None where it has none.

    Args:
        request: Django's request.

    Raises:
        IdempotencyKeyInvalid: It cannot be read, or is too long.
    """
    sent = request.headers.get(HEADER)
    if sent is None:
        return None
    quoted = _QUOTED.fullmatch(sent)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else sent
    if len(key) > LONGEST or not (quoted or _BARE.fullmatch(sent)):
        raise IdempotencyKeyInvalid
    return key


def repeated(answer: Answer) -> HttpResponse:
    """Return an answer once more, marked as such.

    Args:
        answer: What was kept.
    """
    response = LeanResponse(answer.body or b"", MsgspecRenderer.media_type, answer.status)
    if answer.location:
        response.headers["Location"] = answer.location
    response.headers[REPLAYED] = "true"
    return response

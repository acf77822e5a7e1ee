"""The admin's sessions in the database, under a digest of what the browser holds: a copy of the table opens nothing.

Django's own store keeps the cookie's value as the row's key. Here the key is the first 240 bits of its SHA-256, which
needs no salt: the value is random, with 165 bits.
"""

import base64
import hashlib
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from ironauth.infrastructure.core.asgi_types import Scope
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import cookies

KEY_CHARACTERS: Final = 40  # the column's width


def stored_key(session_key: str) -> str:
    """Return the key of the row of the session that a browser knows as ``session_key``."""
    return base64.urlsafe_b64encode(hashlib.sha256(session_key.encode()).digest())[:KEY_CHARACTERS].decode()


class SessionStore(db.SessionStore):
    """Django's store; every way to a row goes by its digest."""

    def exists(self, session_key: str) -> bool:
        """Tell whether there is such a session."""
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        """Tell whether there is such a session."""
        return await super().aexists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to be written."""
        return _under_digest(super().create_model_instance(data))

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        """Return the row to be written."""
        return _under_digest(await super().acreate_model_instance(data))

    def delete(self, session_key: str | None = None) -> None:
        """Delete a session, this one if none is named."""
        if known := session_key or self.session_key:
            super().delete(stored_key(known))

    async def adelete(self, session_key: str | None = None) -> None:
        """Delete a session, this one if none is named."""
        if known := session_key or self.session_key:
            await super().adelete(stored_key(known))

    def _get_session_from_db(self) -> Session | None:
        """Return the row; without one, what the browser sent is forgotten."""
        found = self._rows().first()
        if found is None:
            self._session_key = None
        return found

    async def _aget_session_from_db(self) -> Session | None:
        """Return the row; without one, what the browser sent is forgotten."""
        found = await self._rows().afirst()
        if found is None:
            self._session_key = None
        return found

    def _rows(self) -> QuerySet[Session]:
        key = stored_key(self.session_key or "")
        return Session.objects.order_by().filter(session_key=key, expire_date__gt=timezone.now())


def ends_at(session_key: str) -> datetime:
    """Return when a session ends unless it is saved again; now for one that is over. 1 query."""
    ends = Session.objects.order_by().filter(session_key=stored_key(session_key)).values_list("expire_date", flat=True)
    return ends.first() or timezone.now()


def is_signed_in(session_key: str) -> bool:
    """Return whether this session of the admin belongs to a user; a unit of work, one query."""
    return SESSION_KEY in SessionStore(session_key)


async def is_staff(scope: Scope) -> bool:
    """Return whether a request comes with the cookie of such a session.

    Nothing but the cookies is read: no lane has judged the rest of the head yet.

    Raises:
        Unavailable: The database does not answer.
        AmbiguousCookies: The cookie came twice, or under a name that looks like it.
    """
    fields = [value.decode("latin1") for name, value in scope["headers"] if name == b"cookie"]
    key = cookies.read("; ".join(fields)).get(settings.SESSION_COOKIE_NAME)
    return key is not None and await database().read(is_signed_in, key)


def _under_digest(row: AbstractBaseSession) -> AbstractBaseSession:
    row.session_key = stored_key(row.session_key)
    return row

"""Finding and making users; bulk writes that keep the promises of ``User.save``."""

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib.auth.base_user import BaseUserManager
from django.contrib.auth.hashers import make_password
from django.db import models, transaction
from django.db.models import F, Q

from accounts import email_address as emails
from accounts import names
from accounts.audit import recording as audit
from accounts.outbox import tokens as email_tokens
from accounts.users import invariants
from accounts.users.tags import sub_tag
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock

if TYPE_CHECKING:
    from accounts.users.models import User


class UserQuerySet(models.QuerySet["User"]):
    """Users; ``update`` and ``bulk_update`` end sessions and tell every worker, as ``save`` does."""

    def update(self, **changes: Any) -> int:
        """Update all rows in one statement; one more query finds them when a visible field changes.

        A changed password or ``is_active`` other than ``True`` raises the session epoch of every row, and either, or a
        changed address, makes every e-mail token of these users worthless (one query more). Where sessions end, the
        receivers of ``guarded.sessions_end`` come on top.
        """
        if not changes.keys() & invariants.VISIBLE:
            return super().update(**changes)
        if isinstance(changes.get("email"), str):
            changes["email"] = emails.normalise(changes["email"])
            changes["email_key"] = emails.fold(changes["email"])
        ends_sessions = "password" in changes or changes.get("is_active", True) is not True
        if ends_sessions:
            changes.setdefault("session_epoch", F("session_epoch") + 1)
        if "password" in changes:
            changes.setdefault("password_flagged_at", None)
        changes.setdefault("updated_at", clock.now())
        self._for_write = True
        with transaction.atomic(using=self.db, savepoint=False):
            ids = list(self.order_by().values_list("pk", flat=True))
            if not ids:
                return 0
            if "session_epoch" in changes:
                invariants.sessions_end.send(sender=self.model, user_ids=ids)
            # Only the rows found: one that starts to match meanwhile would be changed without being invalidated.
            count = super(UserQuerySet, self.order_by().filter(pk__in=ids)).update(**changes)
            if ends_sessions or "email" in changes:
                email_tokens.forget_all_of(ids, self.db)
            invalidate(*map(sub_tag, ids))
        return count

    update.alters_data = True  # type: ignore[attr-defined]  # Django's mark that templates must not call it

    def bulk_create(self, objs: Iterable["User"], *args: Any, **kwargs: Any) -> list["User"]:
        """Insert many users, with their folded addresses; ``save`` is not called, as with any model."""
        users = list(objs)
        for user in users:
            user.clean()
        return super().bulk_create(users, *args, **kwargs)

    def search(self, text: str) -> "UserQuerySet":
        """Return the users whose address or name contains every word of ``text``, without regard to case.

        Of names, SQLite folds the case of ASCII letters only.
        """
        found = self
        for word in text.split():
            found = found.filter(Q(email_key__contains=emails.fold(word)) | Q(name__icontains=word))
        return found

    def search_leaving(self, text: str) -> "UserQuerySet":
        """Do the same for people who are being deleted, by the addresses they had."""
        found = self
        for word in text.split():
            found = found.filter(Q(pending_deletion__email__icontains=word) | Q(name__icontains=word))
        return found

    def upgrade_hash(self, user_id: uuid.UUID, old: str, new: str) -> bool:
        """Store a costlier hash of the *same* password: no session ends; nothing happens if ``old`` has changed."""
        return bool(super(UserQuerySet, self.filter(pk=user_id, password=old)).update(password=new))

    upgrade_hash.alters_data = True  # type: ignore[attr-defined]  # as above


class UserManager(BaseUserManager["User"]):
    """Users by e-mail address."""

    def get_queryset(self) -> UserQuerySet:
        """Return all users, as the queryset above."""
        return UserQuerySet(self.model, using=self._db, hints=self._hints)  # type: ignore[attr-defined]  # Django's own

    def get_by_natural_key(self, username: str | None) -> "User":
        """Return the user of this address, folded; raises ``DoesNotExist``."""
        return self.get(email_key=emails.lookup_key(username or "") or None)

    async def aget_by_natural_key(self, username: str | None) -> "User":
        """Return the user of this address, folded; raises ``DoesNotExist``."""
        return await self.aget(email_key=emails.lookup_key(username or "") or None)

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        """Create a user; without a password the account cannot sign in with one.

        Blocks on the hash pool. Raises ``ValidationError`` for an address or name the rules refuse and
        ``IntegrityError`` when the address is taken.
        """
        user = self._prepared(email, fields)
        user.password = make_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> "User":
        """Create a user with every right, and record it; errors as ``create_user``.

        The address counts as verified: anybody who may run this on the server has named it.
        """
        fields.setdefault("email_verified_at", clock.now())
        user = self._prepared(email, fields | {"is_staff": True, "is_superuser": True})
        user.password = make_password(password)
        with transaction.atomic(using=self._db):
            user.save(using=self._db)
            verified = user.email_verified_at is not None
            details = {"email_verified": verified, "is_staff": True, "is_superuser": True}
            audit.record(audit.Event.USER_CREATED, user_id=user.pk, details=details)
        return user

    def hashed(self, *, email: str, encoded: str, **fields: Any) -> "User":
        """Return an unsaved user with a password hashed before; for units of work, which must not hash.

        Raises ``ValidationError`` for an address or name the rules refuse.
        """
        user = self._prepared(email, fields)
        user.password = encoded
        return user

    def _prepared(self, email: str, fields: dict[str, Any]) -> "User":
        """Return an unsaved user with a valid address and name."""
        user: User = self.model(email=email, **fields)
        user.clean()
        emails.validate_new(user.email)
        names.validate(user.name)
        return user

"""The user: one row per person, found by a folded e-mail address, with Django's groups as roles."""

import uuid
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from asgiref.sync import async_to_sync
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission, PermissionsMixin
from django.db import models, router, transaction
from django.db.models import F, Q
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from accounts import email_address as emails
from accounts import names, profile, search
from accounts.audit import recording as audit
from accounts.outbox import tokens as email_tokens
from accounts.passwords import formats
from accounts.passwords import hashing as passwords
from accounts.users import invariants
from accounts.users.invariants import sub_tag
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.telemetry.logs import get_logger

#: Fields whose change may end sessions or unverify the address: the stored row is compared before they are written.
_COMPARED: Final = frozenset({"email", "password", "is_active", "session_epoch"})


class UserQuerySet(models.QuerySet["User"]):
    """Users; ``update`` and ``bulk_update`` end sessions and tell every worker, as ``save`` does."""

    def update(self, **changes: Any) -> int:
        """Update all rows in one statement; one more query finds them when a visible field changes.

        A changed password, or ``is_active`` other than ``True``, raises the epoch of all rows, so sessions end; the
        signals of ``invariants`` are sent. That, or a changed address, makes their e-mail tokens worthless (1 query).
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
            if changes.get("is_active", True) is not True:
                invariants.deactivated.send(sender=self.model, user_ids=ids)
            if "session_epoch" in changes:
                invariants.sessions_end.send(sender=self.model, user_ids=ids)
            if "email" in changes:
                invariants.address_left.send(sender=self.model, user_ids=ids)
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
        """Return the users whose address or names have every word of ``text`` (``search.has``)."""
        return self.filter(*(search.has(word) for word in search.words(text)))

    def search_leaving(self, text: str) -> "UserQuerySet":
        """Do the same for people who are being deleted, by the addresses they had."""
        columns = ("pending_deletion__email", *search.COLUMNS[1:])
        return self.filter(*(search.has(word, *columns) for word in search.words(text)))

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


class User(AbstractBaseUser, PermissionsMixin, profile.Profile):
    """A person who can sign in.

    ``save()`` keeps four promises whatever route a change takes (API, admin, shell): the folded address follows the
    address; a changed password and a deactivation raise ``session_epoch``, which ends every session; the epoch never
    goes down, even from a stale instance; and every worker hears of it in the same transaction (``signals``).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # Unique twice: Django asks it of the login field; the folded form below is the rule that matters.
    email = models.CharField(
        _("e-mail address"),
        max_length=emails.MAX_LENGTH,
        unique=True,
        validators=[emails.validate],
        error_messages={"unique": _("An account with this e-mail address exists already.")},
    )
    email_key = models.CharField(
        _("folded e-mail address"), max_length=emails.MAX_KEY_LENGTH, unique=True, editable=False
    )
    password = models.CharField(_("password"), max_length=formats.MAX_ENCODED_LENGTH)
    is_active = models.BooleanField(
        _("active"),
        default=True,
        help_text=_("Without it the person cannot sign in, and every session has ended. Prefer this to deleting."),
    )
    is_staff = models.BooleanField(_("staff"), default=False, help_text=_("May open this admin site."))
    # The next four are Django's, in this product's words.
    is_superuser = models.BooleanField(
        _("superuser"), default=False, help_text=_("Holds every permission, without being given any.")
    )
    groups = models.ManyToManyField(  # type: ignore[assignment] # the stubs name the manager after the class
        Group,
        verbose_name=_("roles"),
        blank=True,
        help_text=_("The person holds every permission of these roles. Their names travel in the person's tokens."),
        related_name="user_set",
        related_query_name="user",
    )
    user_permissions = models.ManyToManyField(  # type: ignore[assignment] # as above
        Permission,
        verbose_name=_("single permissions"),
        blank=True,
        help_text=_("Held in addition to those of the roles; a role is easier to keep track of."),
        related_name="user_set",
        related_query_name="user",
    )
    last_login = models.DateTimeField(
        _("last sign-in to this admin"),
        blank=True,
        null=True,
        help_text=_("Sign-ins to applications are not counted here; live sessions say when they were last used."),
    )
    email_verified_at = models.DateTimeField(_("e-mail verified at"), null=True, blank=True)
    #: The version of the terms that was accepted when the account was made, and when; "" where nobody was asked.
    terms_version = models.CharField(max_length=32, blank=True, default="", db_default="", editable=False)
    terms_accepted_at = models.DateTimeField(null=True, editable=False)
    must_change_password = models.BooleanField(
        _("must change password"),
        default=False,
        db_default=False,  # the release before this one inserts without it while both serve
        help_text=_("Signing in is refused until the person has set another password by e-mail."),
    )
    password_flagged_at = models.DateTimeField(
        _("password found in a breach at"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("At a sign-in the present password was in the list of breached ones. A new password clears it."),
    )
    session_epoch = models.PositiveIntegerField(
        _("session epoch"), default=0, editable=False, help_text=_("Raised to end every session of the person at once.")
    )
    created_at = models.DateTimeField(_("created at"), default=clock.now, editable=False)
    updated_at = models.DateTimeField(_("updated at"), default=clock.now, editable=False)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        """Names, order and indexes."""

        verbose_name = _("user")
        verbose_name_plural = _("users")
        ordering = ("-created_at", "-id")
        permissions = (
            ("reset_mfa", "Can take away second factors"),
            ("verify_email", "Can say whether an e-mail address is verified"),
            ("sign_in_as", "Can sign in as a person for support"),
        )
        indexes = (
            # The staff list's orders (e-mail has its unique index), and the few that it is filtered for.
            models.Index(fields=("-created_at", "-id"), name="accounts_user_created"),
            models.Index(fields=("name", "id"), name="accounts_user_name"),
            models.Index(
                fields=("-created_at", "-id"),
                name="accounts_user_staff",
                condition=Q(is_staff=True) | Q(is_superuser=True),
            ),
            models.Index(fields=("-created_at", "-id"), name="accounts_user_off", condition=Q(is_active=False)),
            models.Index(
                fields=("-created_at", "-id"),
                name="accounts_user_flagged",
                condition=Q(must_change_password=True) | Q(password_flagged_at__isnull=False),
            ),
        )

    def __str__(self) -> str:
        """Return the address, or that the account is being deleted; since when, if its query has fetched that too."""
        fetched = User.pending_deletion.is_cached(self)  # no query of its own: an event loop asks as well
        pending = getattr(self, "pending_deletion", None) if fetched else None
        return emails.describe(self.email, pending.requested_at if pending else None)

    @property
    def is_being_deleted(self) -> bool:
        """Whether this account is being deleted. No query: only such a one has the stand-in for its address."""
        return self.email == emails.stand_in(self.pk)

    def get_full_name(self) -> str:
        """Return the name, or the address where there is none; Django's admin shows it."""
        return self.name or str(self)

    def get_short_name(self) -> str:
        """Return the name, or the address where there is none; Django's admin greets with it."""
        return self.get_full_name()

    def clean(self) -> None:
        """Normalise what a form wrote, before Django checks uniqueness."""
        self.email = emails.normalise(self.email)
        self.email_key = emails.fold(self.email)
        profile.normalise(self)

    def save(self, **kwargs: Any) -> None:
        """Write the row; see the class for what is kept true. One more query when a guarded field may change."""
        using = kwargs["using"] = kwargs.get("using") or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using, savepoint=False):  # no more than Django's own save() promises
            if kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = check_and_normalize(self, using, frozenset(kwargs["update_fields"]))
            else:
                check_and_normalize(self, using, frozenset(self.__dict__))
            super().save(**kwargs)

    def check_password(self, raw_password: str | None) -> bool:
        """Tell whether the password is right, on the hash pool, upgrading an outdated hash.

        An account that opens to nobody keeps its hash: the time of the upgrade would tell that a password was right.
        Blocks the calling thread; raises ``Overloaded`` when the pool is full and ``RuntimeError`` on an event loop.
        """
        verdict = async_to_sync(passwords.verify_password)(raw_password or "", self.password)
        opens = self.is_active and not emails.is_proof_awaited(self.email_verified_at)
        if raw_password and verdict.needs_rehash and opens:
            self._upgrade_hash(raw_password)
        return verdict.ok

    def _upgrade_hash(self, password: str) -> None:
        """Store the password under today's costs; a failure is logged and otherwise without effect."""
        try:
            encoded = make_password(password)
            with transaction.atomic():
                if User.objects.get_queryset().upgrade_hash(self.pk, self.password, encoded):
                    self.password = encoded
        except Exception:  # noqa: BLE001 - whatever it was, it is logged, and the docstring says what follows
            get_logger().exception("password_upgrade_failed", user_id=str(self.pk))

    async def acheck_password(self, raw_password: str | None) -> bool:
        """Tell whether the password is right, on the hash pool; the hash is upgraded at the next sign-in."""
        return (await passwords.verify_password(raw_password or "", self.password)).ok

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """Return what ties an admin session to this password *and* epoch: "end all sessions" ends it too."""
        return salted_hmac(
            "accounts.models.User.session", f"{self.password}:{self.session_epoch}", secret=secret, algorithm="sha256"
        ).hexdigest()

    @classmethod
    def normalize_username(cls, username: str) -> str:
        """Normalise the login as an e-mail address; Django's NFKC would merge addresses this rule keeps apart."""
        return emails.normalise(username)


def check_and_normalize(user: "User", using: str, fields: frozenset[str]) -> frozenset[str]:
    """Make ``user`` consistent before ``fields`` of it are written; return the fields to write.

    Runs inside the transaction of the write. Locks the stored row when a compared field is among ``fields``.

    Args:
        user: Changed in memory.
        using: The alias of the database it is written to.
        fields: The names of the fields to be written.
    """
    if "email" in fields:
        user.email = emails.normalise(user.email)
        user.email_key = emails.fold(user.email)
        fields |= {"email_key"}
    if fields & {"name", *profile.FIELDS}:
        profile.normalise(user)
    if not user._state.adding and fields & _COMPARED:  # noqa: SLF001 - documented by Django
        fields |= _compare(user, using, fields)
    if fields & invariants.VISIBLE:
        user.updated_at = clock.now()
        fields |= {"updated_at"}
    return fields


def _compare(user: "User", using: str, fields: frozenset[str]) -> frozenset[str]:
    """Raise the epoch and clear what was said of the old address or password; return the fields touched."""
    rows = type(user)._base_manager.using(using).select_for_update().filter(pk=user.pk)  # noqa: SLF001 - documented by Django
    before = rows.values("email_key", "password", "is_active", "session_epoch", "email_verified_at").first()
    if before is None:
        return frozenset()
    touched: set[str] = set()
    if deactivates := "is_active" in fields and before["is_active"] and not user.is_active:
        invariants.deactivated.send(sender=type(user), user_ids=[user.pk])
    if renewed := "password" in fields and before["password"] != user.password:
        user.password_flagged_at = None  # the new password is not the one that was found in a breach
        touched.add("password_flagged_at")
    ends_sessions, epoch = renewed or deactivates, user.session_epoch
    if isinstance(epoch, int) and (ends_sessions or "session_epoch" in fields):
        # The larger of both: an instance read before another process ended the sessions must not revive them.
        user.session_epoch = max(before["session_epoch"] + ends_sessions, epoch if "session_epoch" in fields else 0)
        touched.add("session_epoch")
        if user.session_epoch > before["session_epoch"]:
            invariants.sessions_end.send(sender=type(user), user_ids=[user.pk])
    if moved := "email" in fields and before["email_key"] != user.email_key:
        invariants.address_left.send(sender=type(user), user_ids=[user.pk])
        if before["email_verified_at"] is not None and user.email_verified_at == before["email_verified_at"]:
            user.email_verified_at = None  # the new address is not the one that was verified
            touched.add("email_verified_at")
    if ends_sessions or moved:  # what was mailed before must open nothing now
        email_tokens.forget_all_of([user.pk], using)
    return frozenset(touched)


class Role(Group):
    """Django's group under the name this product uses; its permissions stay ``auth.*_group``."""

    class Meta:
        """A name; the rows, and the rights over them, are Django's."""

        proxy = True
        default_permissions = ()
        verbose_name = _("role")
        verbose_name_plural = _("roles")

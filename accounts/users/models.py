"""The user: one row per person, found by a folded e-mail address, with Django's groups as roles."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Group, Permission, PermissionsMixin
from django.db import models, router, transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from accounts import email_address as emails
from accounts import names
from accounts.passwords import hashing as passwords
from accounts.privacy.models import describe
from accounts.users import invariants, proof
from accounts.users.managers import UserManager
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id


class User(AbstractBaseUser, PermissionsMixin):
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
    name = models.CharField(_("name"), max_length=names.MAX_LENGTH, blank=True, validators=[names.validate])
    password = models.CharField(_("password"), max_length=passwords.MAX_ENCODED_LENGTH)
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
        help_text=_("Held besides those of the roles; a role is easier to keep track of."),
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
        )
        indexes = (
            # The staff list's default order, and its order by name; e-mail has its unique index.
            models.Index(fields=("-created_at", "-id"), name="accounts_user_created"),
            models.Index(fields=("name", "id"), name="accounts_user_name"),
        )

    def __str__(self) -> str:
        """Return the address, or that the account is being deleted; since when, if its query has fetched that too."""
        fetched = User.pending_deletion.is_cached(self)  # no query of its own: an event loop asks as well
        pending = getattr(self, "pending_deletion", None) if fetched else None
        return describe(self.email, pending.requested_at if pending else None)

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
        self.name = names.normalise(self.name)

    def save(self, **kwargs: Any) -> None:
        """Write the row; see the class for what is kept true. One more query when a guarded field may change."""
        using = kwargs["using"] = kwargs.get("using") or router.db_for_write(type(self), instance=self)
        with transaction.atomic(using=using, savepoint=False):  # no more than Django's own save() promises
            if kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = invariants.check_and_normalize(
                    self, using, frozenset(kwargs["update_fields"])
                )
            else:
                invariants.check_and_normalize(self, using, frozenset(self.__dict__))
            super().save(**kwargs)

    def check_password(self, raw_password: str | None) -> bool:
        """Tell whether the password is right, on the hash pool, upgrading an outdated hash.

        An account that opens to nobody keeps its hash: by the time of the upgrade a right password could be told.
        Blocks the calling thread; raises ``Overloaded`` when the pool is full and ``RuntimeError`` on an event loop.
        """
        verdict = passwords.verify_blocking(raw_password or "", self.password)
        opens = self.is_active and not proof.is_awaited(self.email_verified_at)
        if raw_password and verdict.needs_rehash and opens:
            passwords.upgrade_blocking(self, raw_password)
        return verdict.ok

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


class Role(Group):
    """Django's group under the name this product uses; its permissions stay ``auth.*_group``."""

    class Meta:
        """A name; the rows, and the rights over them, are Django's."""

        proxy = True
        default_permissions = ()
        verbose_name = _("role")
        verbose_name_plural = _("roles")

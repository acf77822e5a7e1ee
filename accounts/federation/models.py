"""Providers that people may sign in with, their identities there, and sign-ins on the way to a provider and back."""

from typing import ClassVar

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Value

from accounts import names
from accounts.outbox.models import MAX_ADDRESS
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id

PROVIDERS_TAG = "upstream-providers"  # of cached entries that depend on the providers
URI_CHARACTERS = 2_000
SUBJECT_CHARACTERS = 255  # OpenID Connect Core §2
DIGEST_CHARACTERS = 64  # SHA-256 in hexadecimal


class UpstreamProvider(models.Model):
    """A provider that people may sign in with. Its secret is sealed, bound to its id."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(
        "short name",
        max_length=32,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9-]+\Z", "Use small letters, digits and hyphens.")],
        help_text="Part of the redirect URI that is registered at the provider. It cannot be changed later.",
    )
    name = models.CharField(max_length=64, help_text="What the button says: Continue with …")
    kind = models.CharField(max_length=16)
    issuer = models.CharField(
        max_length=URI_CHARACTERS, blank=True, help_text="Its address, as its discovery document has it."
    )
    client_id = models.CharField("client ID", max_length=255)
    sealed_secret = models.BinaryField(editable=False)
    master_key_id = models.CharField(max_length=16, editable=False)
    enabled = models.BooleanField(default=True, help_text="Without it nobody signs in with it, and its button is gone.")
    creates_accounts = models.BooleanField(
        "makes accounts",
        default=True,
        help_text="Who signs in with it for the first time gets an account, where people may sign up here.",
    )
    trusts_email = models.BooleanField(
        "verifies addresses",
        default=False,
        help_text="What it calls a verified address counts as verified here. It must prove addresses by mail.",
    )
    domains = models.JSONField(
        "mail domains",
        default=list,
        blank=True,
        help_text="Domains whose mailboxes this provider runs, for example example.com. Its verified addresses there "
        "are linked to the account that has proved the same address.",
    )
    second_factors = models.JSONField(
        "values that mean a second factor",
        default=list,
        db_default=Value([], models.JSONField()),
        blank=True,
        help_text="Values of its amr or acr, for example mfa. After a sign-in with one of them nobody is asked for "
        "their second factor here. Leave it empty unless the provider proves what it says.",
    )
    updates_name = models.BooleanField(
        "keeps names up to date",
        default=False,
        db_default=False,
        help_text="A person's names and time zone become what the provider says at each sign-in.",
    )
    more_scopes = models.JSONField(
        "further scopes",
        default=list,
        db_default=Value([], models.JSONField()),
        blank=True,
        help_text="Scopes to ask for beside those of a sign-in, for example offline_access. The provider may ask "
        "people for their consent to each.",
    )
    keep_tokens = models.BooleanField(
        "keeps tokens",
        default=False,
        db_default=False,
        help_text="The provider's tokens are kept after a sign-in, sealed, so that your services can act for people "
        "there. Switched off, the tokens that are kept are deleted.",
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        """In the order of their buttons. A superuser's alone: there are no permissions to give."""

        default_permissions = ()
        verbose_name = "sign-in provider"
        ordering = ("name", "id")

    def __str__(self) -> str:
        return self.name


class Identity(models.Model):
    """Who somebody is at a provider: (issuer, subject), never an address. It signs its account in."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="identities")
    provider = models.ForeignKey(UpstreamProvider, on_delete=models.DB_CASCADE, related_name="identities")
    issuer = models.CharField(max_length=URI_CHARACTERS)
    subject = models.CharField(max_length=SUBJECT_CHARACTERS)
    email = models.CharField(max_length=MAX_ADDRESS, blank=True)  # what the provider said last, for the person to see
    created_at = models.DateTimeField(default=clock.now)
    last_used_at = models.DateTimeField(default=clock.now)

    class Meta:
        """One account for each identity, and one identity of a provider for each account."""

        default_permissions = ()
        verbose_name_plural = "identities"
        constraints: ClassVar = (
            models.UniqueConstraint(fields=("issuer", "subject"), name="accounts_identity_subject"),
            models.UniqueConstraint(fields=("user", "provider"), name="accounts_identity_of_provider"),
        )

    def __str__(self) -> str:
        return f"identity {self.pk}"


class KeptTokens(models.Model):
    """What a provider has given for an identity: tokens with which a service acts for the person there.

    ``sealed``: the tokens, bound to the identity and its account. Of a provider with ``keep_tokens`` alone.
    """

    identity = models.OneToOneField(Identity, on_delete=models.DB_CASCADE, primary_key=True, related_name="tokens")
    #: Which one has given them: another provider of the same issuer may have the identity.
    provider = models.ForeignKey(UpstreamProvider, on_delete=models.DB_CASCADE, related_name="+")
    sealed = models.BinaryField(editable=False)
    master_key_id = models.CharField(max_length=16, editable=False)
    scope = models.CharField(max_length=URI_CHARACTERS, blank=True)
    #: The end of the access token; None where the provider does not say.
    expires_at = models.DateTimeField(null=True)
    can_refresh = models.BooleanField()
    kept_at = models.DateTimeField()
    #: Until then somebody asks the provider for new ones: a refresh token may be good once.
    refreshing_until = models.DateTimeField(null=True)

    class Meta:
        """No staff see them; a machine with the scope ``providers:tokens`` gets the access token."""

        default_permissions = ()
        verbose_name_plural = "kept tokens"

    def __str__(self) -> str:
        return f"tokens of identity {self.pk}"


class UpstreamSignIn(models.Model):
    """A sign-in on its way to a provider, and afterwards an identity that waits for its owner to sign in here.

    ``digest``: the SHA-256 of the ``state`` that the provider brings back; of something random once it is used.
    ``browser``: the SHA-256 of the browser's cookie. ``page``: where it began, or in which
    session, to go on there.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    digest = models.CharField(max_length=DIGEST_CHARACTERS, unique=True)
    browser = models.CharField(max_length=DIGEST_CHARACTERS)
    provider = models.ForeignKey(UpstreamProvider, on_delete=models.DB_CASCADE, related_name="+")
    #: Who is signed in here already and adds the identity to their account; None for a sign-in.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="+", null=True)
    page = models.TextField(blank=True)
    issuer = models.CharField(max_length=URI_CHARACTERS, blank=True)
    subject = models.CharField(max_length=SUBJECT_CHARACTERS, blank=True)
    email = models.CharField(max_length=MAX_ADDRESS, blank=True)
    #: The session at the provider, which may end what begins here.
    sid = models.CharField(max_length=SUBJECT_CHARACTERS, blank=True, default="", db_default="")
    #: What the provider calls the person, where an account is made once the terms are accepted.
    name = models.CharField(max_length=names.MAX_LENGTH, blank=True, default="", db_default="")
    #: What else the provider says of them, by the names of ``accounts.profile.FIELDS``; null for nothing.
    profile = models.JSONField(null=True)
    makes_account = models.BooleanField(default=False, db_default=False)
    #: The provider's tokens, sealed, until the identity is its person's (``kept_tokens``); null for none.
    tokens = models.BinaryField(null=True, editable=False)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        """Nobody has a use for these rows but the pages."""

        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)

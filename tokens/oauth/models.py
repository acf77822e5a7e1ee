"""What the OAuth 2.0 / OpenID Connect provider stores: clients, what people allowed them, and what is under way.

Nothing here opens anything: of secrets, codes and handles only SHA-256 digests are stored, each of 256 random bits.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Value

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.clients.models import CHALLENGE_CHARACTERS, DIGEST_CHARACTERS, SCOPE_CHARACTERS, URI_CHARACTERS, OAuthClient
from tokens.details.lists import MAX_BYTES as DETAILS_BYTES
from tokens.resources.identifiers import LIST_CHARACTERS

#: Of a nonce: clients may send a digest, or a signed text.
NONCE_CHARACTERS: Final = 512


class Consent(models.Model):
    """What a person has allowed a client; asking for no more than that asks nobody again.

    ``scope``: at this server's own audience. ``resources``: at registered APIs, an object of identifiers and scopes.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="+")
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="consents")
    scope = models.CharField(max_length=SCOPE_CHARACTERS, blank=True)
    resources = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    created_at = models.DateTimeField(default=clock.now)
    updated_at = models.DateTimeField(default=clock.now)

    class Meta:
        default_permissions = ("view", "delete")
        constraints = [models.UniqueConstraint(fields=["user", "client"], name="tokens_one_consent")]

    def __str__(self) -> str:
        return str(self.id)


class AuthorizationCode(models.Model):
    """A code on its way from the browser to its client: bound to client, redirect URI, challenge, person and nonce.

    ``id_claims``: the personal claims that the request named for the ID token. ``resources``: the APIs it named, "" for
    none; ``details``: its authorization details. ``organization_id``: what the person is to act for, None as a
    rule. ``used_at`` and ``session_id``: when it was redeemed, and the session it opened, which a second use revokes.
    """

    digest = models.CharField(primary_key=True, max_length=DIGEST_CHARACTERS)
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="+")
    epoch = models.PositiveIntegerField()
    scope = models.CharField(max_length=SCOPE_CHARACTERS, blank=True)
    redirect_uri = models.CharField(max_length=URI_CHARACTERS)
    code_challenge = models.CharField(max_length=CHALLENGE_CHARACTERS, blank=True)
    nonce = models.CharField(max_length=NONCE_CHARACTERS, blank=True)
    id_claims = models.CharField(max_length=SCOPE_CHARACTERS, blank=True, default="", db_default="")
    resources = models.CharField(max_length=LIST_CHARACTERS, blank=True, default="", db_default="")
    details = models.CharField(max_length=DETAILS_BYTES, blank=True, default="", db_default="")
    organization_id = models.UUIDField(null=True)
    dpop_jkt = models.CharField(max_length=CHALLENGE_CHARACTERS, blank=True)
    authenticated_at = models.DateTimeField()
    amr = models.CharField(max_length=64)
    sso_session_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)
    session_id = models.UUIDField(null=True)

    class Meta:
        """Nobody has a use for these rows but the token endpoint."""

        default_permissions = ()

    def __str__(self) -> str:
        return self.digest[:8]


class PushedRequest(models.Model):
    """The parameters of an authorization request that its client has pushed (RFC 9126).

    Its handle may be opened until somebody has finished, or it expires.
    """

    digest = models.CharField(primary_key=True, max_length=DIGEST_CHARACTERS)
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="+")
    parameters = models.JSONField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        """Nobody has a use for these rows but the authorization endpoint."""

        default_permissions = ()

    def __str__(self) -> str:
        return self.digest[:8]


class DeviceGrant(models.Model):
    """A device that waits for somebody to allow it on another one (RFC 8628).

    Attributes:
        user_code: A MAC of what the person types.
        details: Its authorization details (`details.lists`), "" for none.
        polled_at: When the device asked last.
        interval_s: Seconds that it has to wait between two questions.
    """

    class State(models.TextChoices):
        """``used``: its tokens have been handed out."""

        PENDING = "pending"
        APPROVED = "approved"
        DENIED = "denied"
        USED = "used"

    digest = models.CharField(primary_key=True, max_length=DIGEST_CHARACTERS)
    user_code = models.CharField(max_length=DIGEST_CHARACTERS, unique=True)
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="+")
    scope = models.CharField(max_length=SCOPE_CHARACTERS, blank=True)
    dpop_jkt = models.CharField(max_length=CHALLENGE_CHARACTERS, blank=True)
    resources = models.CharField(max_length=LIST_CHARACTERS, blank=True, default="", db_default="")
    details = models.CharField(max_length=DETAILS_BYTES, blank=True, default="", db_default="")
    state = models.CharField(max_length=8, choices=State, default=State.PENDING)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.DB_CASCADE, related_name="+", null=True)
    epoch = models.PositiveIntegerField(default=0)
    authenticated_at = models.DateTimeField(null=True)
    amr = models.CharField(max_length=64, blank=True)
    sso_session_id = models.UUIDField(null=True)
    interval_s = models.PositiveSmallIntegerField()
    polled_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(db_index=True)
    session_id = models.UUIDField(null=True)

    class Meta:
        """Nobody has a use for these rows but the token endpoint and the page."""

        default_permissions = ()

    def __str__(self) -> str:
        return self.digest[:8]


class MailedPage(models.Model):
    """Where to go on once the link of a message is opened: the page that asked for the message, in its browser.

    ``id``: of the message's token. No reference: a reset uses its token up before it goes on. ``browser``: the SHA-256
    of the browser's cookie. Written for every address alike, known or not.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    browser = models.CharField(max_length=64)
    page = models.TextField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        """Nobody has a use for these rows but the pages."""

        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)


class LogoutNotice(models.Model):
    """A back-channel logout (OpenID Connect Back-Channel Logout 1.0) that its client has not confirmed yet.

    Written in the transaction that ends the session, delivered afterwards, with growing delays until it succeeds.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="+")
    user_id = models.UUIDField()
    session_id = models.UUIDField()  # the ``sid`` of the client's ID tokens
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(default=clock.now, db_index=True)
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        """Nobody has a use for these rows but the delivery."""

        default_permissions = ()

    def __str__(self) -> str:
        return str(self.id)

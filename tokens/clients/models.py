"""Stored OAuth clients and their secrets."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.db import models, transaction
from django.db.models import Q, Value
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from tokens.keys.pairwise import make_salt, only_host
from tokens.protocol import DEFAULT_SCOPES, GrantType

DIGEST_CHARACTERS: Final = 64  # SHA-256 in hexadecimal
NAME_CHARACTERS: Final = 80
DOCUMENT_CHARACTERS: Final = 500  # of an address that is a client_id; it stands in every request of the client
URI_CHARACTERS: Final = 2_000  # what every browser and proxy carries in an address
SCOPE_CHARACTERS: Final = 255  # as of a session
DN_CHARACTERS: Final = 512  # a distinguished name has five or six parts of at most 64
CHALLENGE_CHARACTERS: Final = 43  # base64url of SHA-256: RFC 7636 §4.2; a JWK thumbprint too (RFC 9449 §6)


def digest_of(secret: str) -> str:
    """Return what stands for a code, handle or client secret in the database: no more is needed for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def client_tag(client_id: str) -> str:
    """Return the invalidation tag of everything that depends on one client."""
    return f"client:{client_id}"


def default_grants() -> list[str]:
    """Return what a client is for unless staff say otherwise: signing people in."""
    return [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value]


def default_scopes() -> list[str]:
    """Return the scopes a client may ask for unless staff say otherwise."""
    return [scope.value for scope in DEFAULT_SCOPES]


class OAuthClient(models.Model):
    """An application that signs its users in here. Its ``client_id`` is the text of ``id``.

    Lists are JSON arrays of strings, validated where they are entered (``clients.rules``). Writing a client publishes
    it in the same transaction, so that every worker stops using the former one.

    Attributes:
        access_token_s: Seconds; empty for the setting's own, as with the other lifetimes.
        session_idle_s: Seconds.
        session_absolute_s: Seconds.
        request_object_signing_alg: What has to sign request objects (RFC 9101 §10.5).
        authorization_signed_response_alg: What signs the answers that are JWTs (JARM §3, RFC 9701 §6); Ed25519 as for
            ID tokens.
        resources: Identifiers of the APIs that it may ask tokens for; empty for all that are registered.
        authorization_details_types: Registered types that it may ask for (RFC 9396 §10); empty: none.
        serves: Identifiers of the APIs that it is, as a resource server: it asks about their tokens. Empty for the
            tokens of this server's own audience.
        tls_client_auth_subject_dn: The subject of the certificate of ``tls_client_auth`` (RFC 8705 §2.1.2, RFC 4514).
        sector: The host that a pairwise client shares its ``sub`` values with. A change, once people have signed in,
            makes them strangers.
        jwks_uri: Where its public keys are, instead of ``jwks``; fetched when they are needed.
        request_uris: Addresses from which its request objects may be fetched, each as it stands in requests.
        logo_uri: Its picture; people are shown a copy of ours.
        policy_uri: What it says about people's data.
        tos_uri: Its terms.
        sector_identifier_uri: Where the list was that named all its ``redirect_uris``; the host is its ``sector``.
        document_url: The ``client_id`` of a client that its own document describes; empty for every other one.
        verified_at: When staff have looked at a client that nobody of them made.
        disabled_at: Ends everything the client holds at once.
    """

    class AuthMethod(models.TextChoices):
        """How the client proves who it is. ``none``: a public client, which can keep no secret (RFC 6749 §2.1)."""

        SECRET = "secret", "Secret (HTTP Basic or in the body)"
        PRIVATE_KEY_JWT = "private_key_jwt", "Signed assertion (private_key_jwt)"
        TLS = "tls_client_auth", "Certificate of an authority (tls_client_auth)"
        SELF_SIGNED_TLS = "self_signed_tls_client_auth", "Certificate of its own key (self_signed_tls_client_auth)"
        NONE = "none", "None: a public client"

    class Policy(models.TextChoices):
        """Whether sender-constrained tokens (RFC 9449) are given out."""

        OFF = "off", "Off: proofs are ignored"
        OPTIONAL = "optional", "Optional: who sends a proof gets bound tokens"
        REQUIRED = "required", "Required"

    class Subject(models.TextChoices):
        """OpenID Connect Core §8."""

        PUBLIC = "public", "Public: the same for all clients"
        PAIRWISE = "pairwise", "Pairwise: differs for each sector"

    class Profile(models.TextChoices):
        """The rules that the client keeps (``clients.profiles``)."""

        OAUTH21 = "oauth2.1", "OAuth 2.1: new applications"
        OIDC = "oidc", "OpenID Connect: older libraries without PKCE"
        NATIVE = "native", "Native: on people's devices"
        AGENT = "agent", "Agent: registers itself, asks people each time"
        FAPI2 = "fapi2", "FAPI 2.0 Security Profile"
        MESSAGE_SIGNING = "fapi2-message-signing", "FAPI 2.0 Message Signing"

    class Origin(models.TextChoices):
        """Who made the client."""

        STAFF = "staff", "Made by staff"
        REGISTERED = "registered", "Registered itself (RFC 7591)"
        DOCUMENT = "document", "Described by its own document"

    class IdTokenAlg(models.TextChoices):
        """What signs tokens for the client; Ed25519 goes by the name that IRONAUTH_JWT_ALG says."""

        ED25519 = "ed25519", "Ed25519"
        ES256 = "ES256", "ES256"
        RS256 = "RS256", "RS256"

    class RequestAlg(models.TextChoices):
        """What signs the client's request objects (RFC 9101); empty: it sends none."""

        NONE = "", "None: request objects are refused"
        PS256 = "PS256", "PS256"
        ES256 = "ES256", "ES256"
        EDDSA = "EdDSA", "EdDSA"
        RS256 = "RS256", "RS256"
        UNSIGNED = "none", "Unsigned, from its registered addresses alone"

    class UserinfoAlg(models.TextChoices):
        """What signs the answers of userinfo; empty: they are plain JSON (OpenID Connect Core §5.3.2)."""

        NONE = "", "Plain JSON"
        ED25519 = "ed25519", "Ed25519"
        ES256 = "ES256", "ES256"
        RS256 = "RS256", "RS256"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=NAME_CHARACTERS)
    profile = models.CharField(
        max_length=24, choices=Profile, default=Profile.OAUTH21, db_default=Profile.OAUTH21.value
    )
    auth_method = models.CharField(max_length=32, choices=AuthMethod, default=AuthMethod.SECRET)
    redirect_uris = models.JSONField(default=list, blank=True)
    post_logout_redirect_uris = models.JSONField(default=list, blank=True)
    backchannel_logout_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="")
    initiate_login_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="", db_default="")
    grants = models.JSONField(default=default_grants)
    scopes = models.JSONField(default=default_scopes, blank=True)
    strict_scopes = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Refuse a request that names a scope which is not in the list; otherwise such a scope is ignored.",
    )
    trusted = models.BooleanField(default=False, help_text="People are not asked for consent: one of your own.")
    require_pkce = models.BooleanField(default=True)
    require_par = models.BooleanField(default=False)
    resource_server = models.BooleanField(
        default=False, db_default=False, help_text="May ask about all access tokens, not only its own: an API of yours."
    )
    administers = models.BooleanField(
        default=False,
        db_default=False,
        help_text="May call the admin API with such of its scopes as users:read, by itself without a second factor.",
    )
    resources = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    serves = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    authorization_details_types = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    dpop = models.CharField(max_length=8, choices=Policy, default=Policy.OPTIONAL)
    certificate_bound = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Its tokens are good with the certificate of its connection alone (RFC 8705).",
    )
    subject_type = models.CharField(max_length=8, choices=Subject, default=Subject.PUBLIC)
    sector = models.CharField(max_length=255, blank=True, default="")  # host name; OpenID Connect Core §8.1
    id_token_alg = models.CharField(max_length=8, choices=IdTokenAlg, default=IdTokenAlg.ED25519)
    #: Of its access tokens: what the API can verify that they are for.
    access_token_alg = models.CharField(
        max_length=8, choices=IdTokenAlg, default=IdTokenAlg.ED25519, db_default=IdTokenAlg.ED25519.value
    )
    id_token_claims = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Put name, address and roles into the ID token too, for software that does not ask userinfo.",
    )
    request_object_signing_alg = models.CharField(
        max_length=8,
        choices=RequestAlg,
        default=RequestAlg.NONE,
        db_default=RequestAlg.NONE.value,
        blank=True,
        verbose_name="signed request objects",
    )
    authorization_signed_response_alg = models.CharField(
        max_length=8, choices=IdTokenAlg, default=IdTokenAlg.ED25519, db_default=IdTokenAlg.ED25519.value
    )
    tls_client_auth_subject_dn = models.CharField(
        max_length=DN_CHARACTERS, blank=True, default="", db_default="", verbose_name="subject of its certificate"
    )
    jwks = models.JSONField(null=True, blank=True)  # public keys of what the client signs: RFC 7517 §5
    jwks_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="", db_default="")
    request_uris = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    userinfo_signed_response_alg = models.CharField(
        max_length=8,
        choices=UserinfoAlg,
        default=UserinfoAlg.NONE,
        db_default=UserinfoAlg.NONE.value,
        blank=True,
    )
    logo_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="", db_default="")
    policy_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="", db_default="")
    tos_uri = models.CharField(max_length=URI_CHARACTERS, blank=True, default="", db_default="")
    sector_identifier_uri = models.CharField(
        max_length=URI_CHARACTERS, blank=True, default="", db_default="", editable=False
    )
    access_token_s = models.PositiveIntegerField(null=True, blank=True)
    session_idle_s = models.PositiveIntegerField(null=True, blank=True)
    session_absolute_s = models.PositiveIntegerField(null=True, blank=True)
    origin = models.CharField(
        max_length=12, choices=Origin, default=Origin.STAFF, db_default=Origin.STAFF.value, editable=False
    )
    document_url = models.CharField(
        max_length=DOCUMENT_CHARACTERS, blank=True, default="", db_default="", editable=False
    )
    verified_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    disabled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "id"]
        verbose_name = "OAuth client"
        constraints = [
            # RFC 9700 §2.1.1: a public client without PKCE hands its codes to anybody who reads the redirect.
            models.CheckConstraint(
                condition=~Q(auth_method="none") | Q(require_pkce=True), name="tokens_public_client_pkce"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, **kwargs: Any) -> None:
        """Write the row; a change to an existing one is published in the same transaction."""
        with transaction.atomic():
            if not self._state.adding:
                invalidate(client_tag(str(self.pk)))
            if self.is_pairwise:
                make_salt()
                if not self.sector:
                    self.sector = only_host(self.redirect_uris) or str(self.pk)  # of several hosts: shared with nobody
                    kwargs = _including("sector", kwargs)
            super().save(**kwargs)

    @property
    def by_staff(self) -> bool:
        """Whether staff made it, not a stranger."""
        return self.origin == self.Origin.STAFF

    @property
    def is_unverified(self) -> bool:
        """Whether a stranger made it, and nobody of staff has looked at it since."""
        return not self.by_staff and self.verified_at is None

    @property
    def sessions_ending(self) -> int | None:
        """How many of its sessions have ended so far, while they are being ended; None otherwise.

        1 query for a disabled client.
        """
        rows = EndingClient.objects.filter(pk=str(self.pk)) if self.disabled_at is not None else None
        return rows.values_list("ended", flat=True).first() if rows is not None else None

    @property
    def public_id(self) -> str:
        """The ``client_id`` by which it names itself, and others it."""
        return self.document_url or str(self.pk)

    @property
    def shows_certificate(self) -> bool:
        """Whether it proves who it is by a certificate (RFC 8705)."""
        return self.auth_method in CERTIFICATES

    @property
    def is_pairwise(self) -> bool:
        """Whether its people have a ``sub`` that other sectors do not know."""
        return self.subject_type == self.Subject.PAIRWISE


#: Ways to prove who one is by the certificate of the connection.
CERTIFICATES: Final = frozenset({OAuthClient.AuthMethod.TLS.value, OAuthClient.AuthMethod.SELF_SIGNED_TLS.value})


def _including(field: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a ``save()`` that writes this field too."""
    fields = kwargs.get("update_fields")
    return kwargs if fields is None else {**kwargs, "update_fields": [*fields, field]}


@receiver(pre_delete, sender=OAuthClient)
def _publish_deletion(instance: OAuthClient, **_: Any) -> None:
    """Publish the end of a client that is about to be deleted."""
    invalidate(client_tag(str(instance.pk)))


class EndingClient(models.Model):
    """A client whose sessions are being ended, a batch at a time (``sessions.ends.of_clients``); gone with the last.

    It refers to no client, since one that was deleted has sessions to be ended too.

    Attributes:
        after: The last session that was looked at; None before the first.
        ended: How many sessions have ended so far.
    """

    client_id = models.CharField(max_length=64, primary_key=True)
    after = models.UUIDField(null=True)
    ended = models.PositiveBigIntegerField(default=0)
    began_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return self.client_id


class OAuthClientSecret(models.Model):
    """One secret of a confidential client. Two may be in use at once, so that one replaces the other unnoticed.

    Attributes:
        hint: Its last four characters, to tell two apart.
        expires_at: Empty while it is not being replaced.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    client = models.ForeignKey(OAuthClient, on_delete=models.DB_CASCADE, related_name="secrets")
    digest = models.CharField(max_length=DIGEST_CHARACTERS)
    hint = models.CharField(max_length=4)
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        """Rights over clients are rights over their secrets."""

        default_permissions = ()

    def __str__(self) -> str:
        return f"…{self.hint}"

"""``manage.py oauth_client``, as a script uses it."""

import json
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from conftest import process_environment
from ironauth.infrastructure.core import clock
from tokens.clients import registry as clients
from tokens.clients.models import OAuthClient, OAuthClientSecret, digest_of
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys
from tokens.oauth.tests.material import ED25519_JWK, REDIRECT_URI, make_client, make_public_client
from tokens.protocol import GrantType
from tokens.resources.models import ApiResource

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rs256_key")]

WEB = ("create", "--name", "Wiki", "--redirect-uri", REDIRECT_URI)


def run(*arguments: str) -> tuple[Any, str]:
    """Return what the command prints: the JSON, and the messages."""
    out, err = StringIO(), StringIO()
    call_command("oauth_client", *arguments, stdout=out, stderr=err, no_color=True)
    return json.loads(out.getvalue()), err.getvalue()


def refused(*arguments: str) -> str:
    """Return why the command refuses."""
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert not OAuthClient.objects.filter(name="Wiki").exists()
    return str(error.value)


def test_create() -> None:
    """A confidential client: its secret is printed once, and stored as a digest alone."""
    made, said = run(*WEB)
    client = OAuthClient.objects.get()
    stored = OAuthClientSecret.objects.get()
    assert made["client_id"] == str(client.pk)
    assert (stored.digest, stored.hint) == (digest_of(made["client_secret"]), made["client_secret"][-4:])
    assert len(made["client_secret"]) == 43
    assert said.strip().endswith("make another with `manage.py oauth_client rotate_secret`.")
    assert made["client_secret"] not in said
    assert (made["grants"], made["scopes"]) == (
        ["authorization_code", "refresh_token"],
        ["openid", "profile", "email", "offline_access"],
    )
    assert (made["require_pkce"], made["trusted"], made["dpop"]) == (True, False, "optional")
    (listed,), said = run("list")
    assert "client_secret" not in listed
    assert listed["secrets"] == [{"hint": stored.hint, "expires_at": None}]
    assert said == ""
    assert made["client_secret"] not in json.dumps(listed)
    event = AuditEvent.objects.get()
    assert (event.event, event.actor_id, event.details) == (
        "client_created",
        None,
        {
            "client": made["client_id"],
            "name": "Wiki",
            "auth_method": "secret",
            "administers": False,
            "resource_server": False,
            "trusted": False,
        },
    )


def test_create_a_public_one() -> None:
    """It has no secret, and PKCE cannot be switched off."""
    made, said = run(*WEB, "--public", "--redirect-uri", "com.example.app:/callback")
    assert "client_secret" not in made
    assert (made["auth_method"], said) == ("none", "")
    assert not OAuthClientSecret.objects.exists()
    OAuthClient.objects.all().delete()
    assert "--no-pkce: " in refused(*WEB, "--public", "--no-pkce")


def test_a_profile_says_what_a_client_begins_with(tmp_path: Path) -> None:
    """FAPI 2.0 needs keys and nothing else to be said; what it misses is named with the option."""
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [ED25519_JWK]}))
    made, _ = run(*WEB, "--profile", "fapi2", "--jwks", str(keys))
    assert (made["auth_method"], made["require_par"], made["dpop"]) == ("private_key_jwt", True, "required")
    assert made["id_token_alg"] == "ed25519"
    OAuthClient.objects.all().delete()
    assert "--dpop: FAPI 2.0" in refused(*WEB, "--profile", "fapi2", "--jwks", str(keys), "--dpop", "off")
    assert "--no-pkce: Only the profile oidc" in refused(*WEB, "--profile", "oauth2.1", "--no-pkce")
    assert "--profile: " in refused(*WEB, "--profile", "implicit")


@pytest.fixture
def switched(settings: Settings) -> Settings:
    """The settings of a test, under another name than those of this module."""
    return settings


def test_create_with_everything(tmp_path: Path, switched: Settings) -> None:
    """Every option is stored; lists are given by repeating an option, scopes as one text as well."""
    switched.IRONAUTH_REQUEST_URIS, there = True, "https://app.example.com"
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [ED25519_JWK]}))
    create_first_keys(Family.RS256)
    for path in ("orders", "mail"):
        ApiResource.objects.create(identifier=f"https://api.example.com/{path}", name=path)
    made, said = run(
        *WEB, "--redirect-uri", "http://127.0.0.1/cb", "--auth-method", "private_key_jwt", "--jwks", str(keys),
        "--grant", "authorization_code", "--grant", "device_code", "--grant", "client_credentials",
        "--grant", "token_exchange", "--scope", "openid reports:read", "--scope", "roles", "--trusted", "--no-pkce",
        "--require-par", "--dpop", "required", "--id-token-alg", "RS256", "--access-token-alg", "RS256",
        "--subject-type", "pairwise",
        "--sector", "example.com", "--post-logout-redirect-uri", "https://app.example.com/bye",
        "--backchannel-logout-uri", "https://app.example.com/out",
        "--initiate-login-uri", "https://app.example.com/in", "--access-token-s", "60",
        "--session-idle-s", "3600", "--session-absolute-s", "7200", "--resource-server",
        "--administers", "--strict-scopes", "--id-token-claims", "--request-object-signing-alg", "EdDSA",
        "--authorization-signed-response-alg", "RS256", "--userinfo-signed-response-alg", "RS256",
        "--request-uri", f"{there}/r", "--logo-uri", f"{there}/l", "--policy-uri", f"{there}/p", "--tos-uri", there,
        "--administers", "--strict-scopes", "--id-token-claims", "--serves", "https://api.example.com/orders",
        "--resource", "https://api.example.com/mail", "--resource", settings.IRONAUTH_AUDIENCE,
    )  # fmt: skip
    assert made == {
        "client_id": str(OAuthClient.objects.get().pk),
        "name": "Wiki",
        "profile": "oidc",
        "auth_method": "private_key_jwt",
        "redirect_uris": [REDIRECT_URI, "http://127.0.0.1/cb"],
        "grants": [
            "authorization_code",
            "urn:ietf:params:oauth:grant-type:device_code",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "scopes": ["openid", "reports:read", "roles"],
        "strict_scopes": True,
        "id_token_claims": True,
        "trusted": True,
        "require_pkce": False,
        "require_par": True,
        "dpop": "required",
        "certificate_bound": False,
        "id_token_alg": "RS256",
        "access_token_alg": "RS256",
        "request_object_signing_alg": "EdDSA",
        "authorization_signed_response_alg": "RS256",
        "tls_client_auth_subject_dn": "",
        "subject_type": "pairwise",
        "sector": "example.com",
        "jwks": {"keys": [ED25519_JWK]},
        "authorization_details_types": [],
        "jwks_uri": "",
        "request_uris": [f"{there}/r"],
        "userinfo_signed_response_alg": "RS256",
        "logo_uri": f"{there}/l",
        "policy_uri": f"{there}/p",
        "tos_uri": there,
        "post_logout_redirect_uris": ["https://app.example.com/bye"],
        "backchannel_logout_uri": "https://app.example.com/out",
        "initiate_login_uri": "https://app.example.com/in",
        "access_token_s": 60,
        "session_idle_s": 3600,
        "session_absolute_s": 7200,
        "resource_server": True,
        "serves": ["https://api.example.com/orders"],
        "resources": ["https://api.example.com/mail", settings.IRONAUTH_AUDIENCE],
        "administers": True,
    }
    assert said == ""


def test_keys_at_an_address(tmp_path: Path) -> None:
    """Instead of a file; both at once are refused, and what cannot be fetched."""
    by_key = (*WEB, "--auth-method", "private_key_jwt", "--jwks-uri")
    assert run(*by_key, "https://app.example.com/jwks")[0]["jwks_uri"] == "https://app.example.com/jwks"
    OAuthClient.objects.all().delete()
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [ED25519_JWK]}))
    assert "--jwks-uri: " in refused(*by_key, "https://app.example.com/jwks", "--jwks", str(keys))
    assert "--jwks-uri: " in refused(*by_key, "https://10.0.0.1/jwks")
    assert "--jwks-uri: " in refused(*WEB, "--jwks-uri", "https://app.example.com/jwks")
    assert "--request-uri: " in refused(*WEB, "--request-uri", "https://app.example.com/r")


@pytest.mark.live
def test_a_machine_gets_no_personal_scopes() -> None:
    """With client_credentials alone nobody signs in: the scopes people are known by are not the default there."""
    made, _ = run("create", "--name", "Nightly report", "--grant", "client_credentials")
    assert (made["scopes"], made["redirect_uris"]) == ([], [])
    made, _ = run("create", "--name", "TV", "--public", "--grant", "device_code")
    assert made["scopes"] == ["openid", "profile", "email"]
    made, _ = run(*WEB, "--auth-method", "client_secret_post")
    assert made["auth_method"] == "secret"


@pytest.mark.parametrize("name", ["token-exchange", "token_exchange", GrantType.TOKEN_EXCHANGE.value])
def test_a_grant_has_a_short_name(name: str) -> None:
    """As the URN ends, as its neighbours are spelled, or the URN itself; anything near is refused."""
    made, _ = run("create", "--name", "Gateway", "--grant", name, "--scope", "reports:read")
    assert made["grants"] == [GrantType.TOKEN_EXCHANGE.value]
    assert "--grant: " in refused("create", "--name", "Gateway", "--grant", f"{name}s")


def test_every_bad_option_is_named(tmp_path: Path) -> None:
    """In one go, each with its remedy; nothing is stored."""
    said = refused(
        "create", "--name", "Wiki", "--redirect-uri", "http://app.example.com/cb", "--redirect-uri", "x", "--grant",
        "authorization_code", "--grant", "password", "--scope", 'a"b', "--dpop", "maybe", "--access-token-s", "0",
    )  # fmt: skip
    lines = said.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "--dpop", "--grant", "--scope", "--redirect-uri", "--redirect-uri", "--access-token-s",
    ]  # fmt: skip
    assert "write https://" in said
    assert "--jwks: private_key_jwt needs" in refused(*WEB, "--auth-method", "private_key_jwt")
    assert "no readable JSON" in refused(*WEB, "--auth-method", "private_key_jwt", "--jwks", str(tmp_path / "none"))
    assert "leave out --auth-method" in refused(*WEB, "--public", "--auth-method", "secret")


def test_rotate_secret() -> None:
    """The one before works for the stated time, a third never: two at most are in use."""
    client, first = make_client()
    second = run("rotate_secret", str(client.pk), "--expire-old-in-s", "60")[0]["client_secret"]
    assert in_use(client) == {digest_of(first), digest_of(second)}
    for after_s, expected in ((59, {first, second}), (61, {second})):
        with clock.shifted(after_s):
            assert in_use(client) == {digest_of(one) for one in expected}
    third = run("rotate_secret", str(client.pk))[0]["client_secret"]
    assert in_use(client) == {digest_of(second), digest_of(third)}
    answer, said = run("rotate_secret", str(client.pk), "--expire-old-in-s", "0")
    assert in_use(client) == {digest_of(answer["client_secret"])}
    assert answer["old_expires_in_s"] == 0
    assert "shown this one time" in said
    assert [event.event for event in AuditEvent.objects.all()] == ["client_secret_rotated"] * 3
    assert answer["client_secret"] not in str(AuditEvent.objects.values_list("details", flat=True))


def in_use(client: OAuthClient) -> set[str]:
    """Return the digests a request would be compared with."""
    found = clients.read_client(client.pk)
    assert found is not None
    now = clock.unix()
    return {one.digest for one in found.secrets if one.expires_at is None or one.expires_at > now}


def test_a_rotation_never_prolongs() -> None:
    """A secret that ends sooner than the rotation would let it keeps its end."""
    client, _ = make_client()
    soon = clock.now() + timedelta(seconds=30)
    OAuthClientSecret.objects.update(expires_at=soon)
    run("rotate_secret", str(client.pk), "--expire-old-in-s", "600")
    assert set(OAuthClientSecret.objects.values_list("expires_at", flat=True)) == {soon, None}


def test_disable_and_enable() -> None:
    """Disabled it is not found any more; doing it twice prints that and succeeds."""
    client, _ = make_client()
    assert run("disable", str(client.pk)) == (
        {"client_id": str(client.pk), "disabled": True, "sessions_ended": 0},
        "",
    )
    assert clients.read_client(client.pk) is None
    assert "disabled already" in run("disable", str(client.pk))[1]
    assert run("list")[0][0]["disabled_at"].endswith("Z")
    assert run("enable", str(client.pk)) == ({"client_id": str(client.pk), "disabled": False}, "")
    assert clients.read_client(client.pk) is not None
    assert "enabled already" in run("enable", str(client.pk))[1]
    assert [event.event for event in AuditEvent.objects.order_by("id")] == ["client_disabled", "client_enabled"]


@pytest.mark.parametrize("act", ["disable", "enable", "rotate_secret"])
def test_an_unknown_client(act: str) -> None:
    """Neither an id nobody has, nor what is no id, is a success."""
    for client_id in ("019aa000-0000-7000-8000-000000000000", "wiki", ""):
        with pytest.raises(CommandError, match="oauth_client list"):
            run(act, client_id)


def test_what_has_no_secret_cannot_be_given_another() -> None:
    """Nor can an old secret live for longer than a season."""
    client = make_public_client()
    with pytest.raises(CommandError, match="none to rotate"):
        run("rotate_secret", str(client.pk))
    for seconds in ("-1", "7776001"):
        with pytest.raises(CommandError, match="write 0 to 7776000"):
            run("rotate_secret", str(client.pk), "--expire-old-in-s", seconds)


@pytest.mark.live
@pytest.mark.storage
@pytest.mark.django_db(transaction=True)
def test_a_script_reads_what_a_process_prints() -> None:
    """Standard output is JSON and nothing else, the exit status says whether it worked."""
    command = [sys.executable, "manage.py", "oauth_client", *WEB]
    environment = process_environment()
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["client_id"] == str(OAuthClient.objects.get().pk)
    bad = [*command, "--dpop", "maybe"]
    done = subprocess.run(bad, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--dpop: This is none of the choices: write off, optional, required." in done.stderr

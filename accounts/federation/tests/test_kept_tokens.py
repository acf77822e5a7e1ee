"""Tokens that are kept open with their identity and its account alone, and go with them."""

import secrets
from io import StringIO

import msgspec
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import override_settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.federation import kept_tokens, removal, units
from accounts.federation.kept_tokens import Client, Tokens
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.kinds.registry import KINDS
from accounts.federation.models import Identity, KeptTokens, UpstreamProvider, UpstreamSignIn
from accounts.federation.secrets import seal_into
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.sealing import SealBrokenError

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
ACCESS, REFRESH = "access-token-of-the-provider", "refresh-token-of-the-provider"
US = Client("https://acme.example", "us")


@pytest.fixture
def two(make_user: MakeUser) -> list[KeptTokens]:
    """Two people's tokens at a provider."""
    row = UpstreamProvider(
        slug="acme", name="Acme", kind="oidc", issuer="https://acme.example", client_id="us", keep_tokens=True
    )
    seal_into(row, "s3cret")
    row.save()
    rows = []
    for number in range(2):
        user = make_user(email=f"p{number}@example.com")
        identity = Identity.objects.create(user=user, provider=row, issuer=row.issuer, subject=f"s{number}")
        columns = kept_tokens.columns(identity, row.pk, Tokens(f"at{number}", "", "", 0, 0))
        rows.append(KeptTokens.objects.create(identity=identity, **columns))
    return rows


@pytest.mark.parametrize("by", ["row", "identity", "account", "subject", "issuer"])
def test_moved_they_do_not_open(two: list[KeptTokens], by: str) -> None:
    """Neither in another row, nor with an identity of another account, subject or issuer."""
    mine, other = two
    assert kept_tokens.opened(mine).access_token == "at0"
    match by:
        case "row":
            mine.sealed = other.sealed
        case "identity":
            mine.identity = other.identity
        case "account":
            mine.identity.user_id = other.identity.user_id
        case _:
            setattr(mine.identity, by, "another")
    with pytest.raises(SealBrokenError):
        kept_tokens.opened(mine)


@pytest.mark.parametrize(
    "of", ["this", "another subject", "another issuer", "another provider", "garbage", "no key", "form"]
)
def test_what_waits_opens_for_its_identity_alone(two: list[KeptTokens], of: str) -> None:
    """Moved to another sign-in it is not kept, and the identity is linked as ever."""
    identity, provider = two[0].identity, two[0].provider
    KeptTokens.objects.all().delete()
    person = UpstreamPerson(identity.issuer, identity.subject)
    of_provider = provider.pk
    match of:
        case "another subject":
            person = person._replace(subject="s1")
        case "another issuer":
            person = person._replace(issuer="https://other.example")
        case "another provider":
            of_provider = identity.pk
    waiting = kept_tokens.on_their_way(Tokens("at", "", "", 0, 0), provider_id=of_provider, client=US, person=person)
    if of == "form":  # of another version
        whose = kept_tokens._identity(of_provider, identity.issuer, identity.subject)
        key_id, sealed = sealing.seal(msgspec.msgpack.encode(["at"]), kept_tokens._ON_THEIR_WAY, whose)
        waiting = key_id.encode() + b":" + sealed
    waiting = {"garbage": b"garbage", "no key": b"gone" + waiting[waiting.index(b":") :]}.get(of, waiting)
    with transaction.atomic():
        person = UpstreamPerson(identity.issuer, identity.subject, tokens=waiting)
        assert units.connect(user_id=identity.user_id, provider_id=provider.pk, person=person) is None
    assert KeptTokens.objects.exists() is (of == "this")


@pytest.mark.parametrize(
    ("given_to", "now"),
    [
        (US, {}),
        (US, {"name": "Acme & Co"}),
        (US, {"client_id": "another"}),
        (US, {"issuer": "https://other.example"}),
        (Client(US.issuer, "another"), {"client_id": "another"}),
    ],
)
def test_what_another_client_was_given_is_not_kept(
    two: list[KeptTokens], given_to: Client, now: dict[str, str]
) -> None:
    """Nor by another issuer: a refresh token is sent to nobody but those who have given it."""
    identity, provider = two[0].identity, two[0].provider
    KeptTokens.objects.all().delete()
    person = UpstreamPerson(identity.issuer, identity.subject)
    tokens = Tokens("at", "rt", "", 0, 0)
    waiting = kept_tokens.on_their_way(tokens, provider_id=provider.pk, client=given_to, person=person)
    UpstreamProvider.objects.update(**now)
    with transaction.atomic():
        kept_tokens.keep(identity, provider_id=provider.pk, waiting=waiting)
    provider.refresh_from_db()
    assert KeptTokens.objects.exists() is (given_to == (provider.issuer, provider.client_id))


def test_a_kind_with_an_issuer_of_its_own() -> None:
    """That one counts, as for those who ask it, whatever the row says."""
    row = UpstreamProvider(kind="github", issuer="", client_id="us")
    assert kept_tokens.client_of(row) == (KINDS["github"].issuer, "us")
    assert KINDS["github"].issuer


TEN_YEARS = 10 * 366 * 86_400


@pytest.mark.parametrize(
    ("said", "life_s"),
    [
        (3_600, 3_600),
        (3_599.9, 3_599),
        ("3600", 3_600),
        ("0", 0),
        (0, 0),
        (TEN_YEARS, TEN_YEARS),
        (TEN_YEARS + 1, TEN_YEARS),
        (1e300, TEN_YEARS),
        ("9" * 12, TEN_YEARS),
        ("9" * 13, 0),
        ("-1", 0),
        (-1, 0),
        ("", 0),
        ("3600s", 0),
        ("\u0663", 0),
        ("\u00b2", 0),
        (float("nan"), 0),
        (True, 0),
        ([3_600], 0),
        (None, None),
    ],
)
def test_when_an_access_token_ends(said: object, life_s: int | None) -> None:
    """Digits in a text count; what is no number ends at once; what is not said has no end."""
    answer = {"access_token": "at", "token_type": "Bearer", "expires_in": said}
    tokens = kept_tokens.told(answer, kind=KINDS["oidc"], asked="openid")
    assert tokens is not None
    assert tokens.expires_at == (0 if life_s is None else tokens.given_at + life_s)


@pytest.mark.parametrize(("age_s", "kept_is"), [(1, "at0"), (0, "later"), (-1, "later")])
def test_what_was_given_before_replaces_nothing(two: list[KeptTokens], age_s: int, kept_is: str) -> None:
    """A sign-in that is finished late, or a row that is put back, brings no older tokens."""
    identity, provider = two[0].identity, two[0].provider
    at = 1_800_000_000
    columns = kept_tokens.columns(identity, provider.pk, Tokens("at0", "", "", 0, at))
    KeptTokens.objects.filter(pk=identity.pk).update(**columns)
    person = UpstreamPerson(identity.issuer, identity.subject)
    later = Tokens("later", "", "", 0, at - age_s)
    waiting = kept_tokens.on_their_way(later, provider_id=provider.pk, client=US, person=person)
    with transaction.atomic():
        kept_tokens.keep(identity, provider_id=provider.pk, waiting=waiting)
    assert kept_tokens.opened(KeptTokens.objects.select_related("identity").get(pk=identity.pk)).access_token == kept_is


@pytest.mark.parametrize("by", ["identity", "account", "provider", "unlinked"])
def test_they_go_with(two: list[KeptTokens], by: str) -> None:
    """The identity, the account, the provider; and the other person's stay with theirs."""
    identity = two[0].identity
    match by:
        case "identity":
            identity.delete()
        case "account":
            identity.user.delete()
        case "provider":
            two[0].provider.delete()
        case _:
            with transaction.atomic():
                removal.unlink(user_id=identity.user_id, identity_id=identity.pk, session_id=None)
    assert KeptTokens.objects.count() == (0 if by == "provider" else 1)


def test_the_command(two: list[KeptTokens], capsys: pytest.CaptureFixture[str]) -> None:
    """It switches keeping on and off, and leaves an event for each."""
    call_command("upstream_provider", "drop-tokens", "acme")
    assert "those of 2 identities" in capsys.readouterr().out
    assert not KeptTokens.objects.exists()
    assert not UpstreamProvider.objects.get().keep_tokens
    call_command("upstream_provider", "keep-tokens", "acme")
    assert UpstreamProvider.objects.get().keep_tokens
    events = AuditEvent.objects.filter(event="provider_changed").values_list("details__fields", flat=True)
    assert list(events) == [["keep_tokens"]] * 2


def test_a_traceback_tells_none(two: list[KeptTokens]) -> None:
    """Neither tokens in clear nor what carries them have the text in their representation."""
    tokens = Tokens(ACCESS, REFRESH, "", 0, 0)
    person = UpstreamPerson("i", "s")
    sealed = kept_tokens.on_their_way(tokens, provider_id=two[0].provider_id, client=US, person=person)
    for one in (tokens, [tokens], person._replace(tokens=sealed)):
        assert ACCESS not in repr(one)
        assert REFRESH not in repr(one)


def resealed(ring: dict[str, bytes]) -> str:
    """Run the command under these master keys; return what it prints."""
    out = StringIO()
    with override_settings(IRONAUTH_MASTER_KEYS=ring):
        call_command("reseal_secrets", "--batch", "1", stdout=out)
    return out.getvalue().strip()


def test_they_move_to_the_newest_master_key(two: list[KeptTokens]) -> None:
    """With the provider's secret; then they open without the key of before, and a second run has nothing to do."""
    newest = {"t2": secrets.token_bytes(32)}
    assert resealed(newest | settings.IRONAUTH_MASTER_KEYS) == "resealed=3 left=0 newest=t2"
    with override_settings(IRONAUTH_MASTER_KEYS=newest):
        found = KeptTokens.objects.select_related("identity").order_by("pk")
        assert [kept_tokens.opened(row).access_token for row in found] == ["at0", "at1"]
    assert resealed(newest) == "resealed=0 left=0 newest=t2"


def test_what_is_lost_is_said(two: list[KeptTokens]) -> None:
    """Tokens that do not open are counted and left alone; the others go on."""
    KeptTokens.objects.filter(pk=two[0].pk).update(sealed=two[1].sealed)
    with pytest.raises(CommandError, match=r"1 secrets do not open.* Tokens at providers \(1\) come anew"):
        resealed({"t2": secrets.token_bytes(32)} | settings.IRONAUTH_MASTER_KEYS)
    assert list(KeptTokens.objects.order_by("pk").values_list("master_key_id", flat=True)) == ["t1", "t2"]


def test_given_anew_meanwhile_they_stay(two: list[KeptTokens], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who signs in while they are sealed anew keeps the new ones."""

    def overtaken(row: KeptTokens) -> Tokens:
        columns = kept_tokens.columns(row.identity, row.provider_id, Tokens("newer", "", "", 0, 0))
        KeptTokens.objects.filter(pk=row.pk).update(**columns)
        return Tokens("older", "", "", 0, 0)

    with override_settings(IRONAUTH_MASTER_KEYS={"t2": secrets.token_bytes(32)} | settings.IRONAUTH_MASTER_KEYS):
        monkeypatch.setattr(kept_tokens, "opened", overtaken)
        assert kept_tokens.reseal(batch=10) == (0, 0)
        monkeypatch.undo()
        rows = KeptTokens.objects.select_related("identity")
        assert {kept_tokens.opened(row).access_token for row in rows} == {"newer"}


def test_what_waits_is_in_no_row_of_others(two: list[KeptTokens]) -> None:
    """No more keeping deletes what waits at this provider too, with the sign-in left as it is."""
    provider = two[0].provider
    for of in (provider, None):
        row = of or UpstreamProvider(slug="b", name="B", kind="oidc", issuer="https://b.example", client_id="us")
        seal_into(row, "s3cret")
        row.save()
        UpstreamSignIn.objects.create(
            digest=row.slug, browser="b", provider=row, tokens=b"sealed", subject="s", expires_at=clock.now()
        )
    assert kept_tokens.forget(provider.pk) == 2
    found = UpstreamSignIn.objects.order_by("digest").values_list("digest", "subject", "tokens")
    assert [(digest, subject, tokens is None) for digest, subject, tokens in found] == [
        ("acme", "s", True),
        ("b", "s", False),
    ]

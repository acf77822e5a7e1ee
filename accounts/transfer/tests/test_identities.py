"""Identities at other providers come along where the operator names the provider, and are never taken over."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts.federation.models import Identity, UpstreamProvider
from accounts.transfer.models import UserImport
from accounts.users.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

GOOGLE = "https://accounts.google.com"
TENANT = "11111111-2222-4333-8444-555555555555"
OBJECT = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

type Import = Callable[..., list[dict[str, Any]]]


def provider(slug: str, kind: str, issuer: str = "") -> UpstreamProvider:
    """Store a provider."""
    known = {"client_id": "us", "sealed_secret": b"", "master_key_id": "t1"}
    return UpstreamProvider.objects.create(slug=slug, name=slug, kind=kind, issuer=issuer, **known)


@pytest.fixture(autouse=True)
def google() -> UpstreamProvider:
    """Return a provider that is here."""
    return provider("google", "google", GOOGLE)


@pytest.fixture
def run(tmp_path: Path) -> Import:
    """Return what imports a file and returns the lines of the report."""

    def imported(content: Any, *options: str, source: str = "jsonl") -> list[dict[str, Any]]:
        name = "people.csv" if source == "supabase" else "people.json"
        path, report = tmp_path / name, tmp_path / "report.jsonl"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        call_command("import_users", str(path), "--from", source, "--report", str(report), *options)
        return [json.loads(line) for line in report.read_text().splitlines()]

    return imported


def notes(lines: list[dict[str, Any]]) -> list[list[str]]:
    """Return what the report says of identities, of each record."""
    return [[note for note in line["notes"] if note.startswith("identity")] for line in lines]


def row(number: int, *identities: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return somebody with these identities."""
    person = {"external_id": str(number), "email": f"p{number}@example.com", "email_verified": True}
    return person | {"identities": list(identities)} | more


def at(alias: str, subject: str, **more: str) -> dict[str, str]:
    """Return an identity as a line has it."""
    return {"provider": alias, "subject": subject, **more}


MAPPED = ("--identities", "goog=google")


EXPORTS: dict[str, Any] = {
    "keycloak": {
        "users": [
            {
                "id": "1",
                "email": "a@example.com",
                "federatedIdentities": [{"identityProvider": "goog", "userId": "7", "userName": "a@gmail.com"}],
            }
        ]
    },
    "auth0": [
        {
            "user_id": "google-oauth2|7",
            "email": "a@example.com",
            "identities": [
                {"provider": "auth0", "connection": "Username-Password-Authentication", "user_id": "1"},
                {"provider": "oidc", "connection": "goog", "user_id": "goog|7", "isSocial": True},
            ],
        }
    ],
    "firebase": {
        "users": [
            {
                "localId": "1",
                "email": "a@example.com",
                "providerUserInfo": [
                    {"providerId": "password", "rawId": "a@example.com"},
                    {"providerId": "goog", "rawId": "7", "email": "a@gmail.com"},
                ],
            }
        ]
    },
    "supabase": "id,email,identities\n"
    '1,a@example.com,"[{""provider"": ""email"", ""provider_id"": ""1""},'
    ' {""provider"": ""goog"", ""provider_id"": ""7""}]"\n',
    "cognito": {
        "Users": [
            {
                "Username": "goog_7",
                "Attributes": [
                    {"Name": "sub", "Value": "1"},
                    {"Name": "email", "Value": "a@example.com"},
                    {
                        "Name": "identities",
                        "Value": '[{"userId":"7","providerName":"goog","providerType":"Google","issuer":null}]',
                    },
                ],
            }
        ]
    },
    "django": [
        {
            "model": "socialaccount.socialaccount",
            "pk": 1,
            "fields": {"user": 1, "provider": "goog", "uid": "7", "extra_data": {"email": "a@gmail.com"}},
        },
        {"model": "auth.user", "pk": 1, "fields": {"email": "a@example.com", "password": "!"}},
    ],
    "jsonl": [row(1, at("goog", "7"))],
}


@pytest.mark.parametrize("source", EXPORTS)
def test_each_system(run: Import, source: str) -> None:
    """Nothing is linked without a word of the operator's; with it the identity signs its person in."""
    assert notes(run(EXPORTS[source], source=source)) == [["identity"]]
    assert not Identity.objects.exists()
    assert notes(run(EXPORTS[source], "--update", *MAPPED, source=source)) == [["identity_linked"]]
    identity = Identity.objects.get()
    assert (identity.issuer, identity.subject, identity.provider.slug) == (GOOGLE, "7", "google")
    assert identity.user == User.objects.get()
    assert identity.email == ("a@gmail.com" if source in ("keycloak", "firebase", "django") else "")


def test_dry_run_counts(run: Import, capsys: pytest.CaptureFixture[str]) -> None:
    """It counts what would be linked, and names the aliases that are missing; nothing is stored."""
    people = [row(1, at("goog", "7")), row(2, at("face\nbook", "8")), row(3, at("face\nbook", "9"), at("goog", "3"))]
    assert notes(run(people, "--dry-run", *MAPPED)) == [
        ["identity_linked"],
        ["identity"],
        ["identity", "identity_linked"],
    ]
    said = capsys.readouterr().out
    assert "2  an identity at another provider that signs in here" in said
    assert "--identities facebook=SLUG is missing for 2 in the file" in said
    assert not Identity.objects.exists()


def test_nobody_is_taken_over(run: Import, google: UpstreamProvider) -> None:
    """An identity that an account here has stays there, however often it is imported; so does one within the file."""
    owner = User.objects.create(email="o@example.com", email_key="o@example.com", password="!")
    Identity.objects.create(user=owner, provider=google, issuer=GOOGLE, subject="7")
    people = [row(1, at("goog", "7")), row(2, at("goog", "8")), row(3, at("goog", "8"))]
    told = [["identity_taken"], ["identity_linked"], ["identity_taken"]]
    assert notes(run(people, "--dry-run", *MAPPED)) == told
    assert notes(run(people, *MAPPED)) == told
    run(people, "--update", *MAPPED)
    holders = Identity.objects.order_by("subject").values_list("subject", "user__email")
    assert list(holders) == [("7", "o@example.com"), ("8", "p2@example.com")]


def test_an_existing_account_gets_none(run: Import) -> None:
    """Who is refused because the address is taken, has no identity linked to the account that has it."""
    User.objects.create(email="p1@example.com", email_key="p1@example.com", password="!")
    assert [line["outcome"] for line in run([row(1, at("goog", "7"))], *MAPPED)] == ["email_taken"]
    assert not Identity.objects.exists()


def test_again_and_back(run: Import) -> None:
    """A second run links nothing twice, a used account nothing, and an undo takes identities with the accounts."""
    people = [row(1, at("goog", "7")), row(2)]
    run(people, *MAPPED)
    assert notes(run(people, *MAPPED)) == [[], []]
    assert notes(run(people, "--update", *MAPPED)) == [[], []]
    User.objects.filter(email="p2@example.com").update(last_login="2026-01-01T00:00:00Z")
    more = [row(1, at("goog", "70")), row(2, at("goog", "8"))]
    assert [line["outcome"] for line in run(more, "--update", *MAPPED)] == ["already_imported", "in_use"]
    assert list(Identity.objects.values_list("subject", flat=True)) == ["7"]
    call_command("import_users", "--undo", str(UserImport.objects.order_by("pk")[0].pk))
    assert not Identity.objects.exists()


def test_one_of_each_provider(run: Import) -> None:
    """Of two aliases for the same provider the first counts."""
    people = [row(1, at("goog", "7"), at("goog", "7"), at("g2", "8"))]
    assert notes(run(people, *MAPPED, "--identities", "g2=google")) == [["identity_linked", "identity_second"]]
    assert Identity.objects.get().subject == "7"


@pytest.mark.parametrize(
    ("kind", "issuer", "subject", "stored"),
    [
        ("github", "https://github.com", "583231", ("https://github.com", "583231")),
        ("github", "https://github.com", "octocat", None),
        ("oidc", "https://id.example", "x" * 255, ("https://id.example", "x" * 255)),
        ("oidc", "https://id.example", "x" * 256, None),
        ("oidc", "https://id.example", "a\x00b", None),
        (
            "entra", f"https://login.example/{TENANT}/v2.0", OBJECT,
            (f"https://login.example/{TENANT}/v2.0", f"{TENANT}:{OBJECT}"),
        ),
        ("entra", f"https://login.example/{TENANT}/v2.0", "pairwise-sub_of-another-application", None),
        ("entra", f"https://login.example/{TENANT}/v2.0", f"{OBJECT}:{OBJECT}", None),
        ("entra", "https://login.example/{tenantid}/v2.0", OBJECT, None),
        (
            "entra", "https://login.example/{tenantid}/v2.0", f"{TENANT}:{OBJECT}",
            (f"https://login.example/{TENANT}/v2.0", f"{TENANT}:{OBJECT}"),
        ),
    ],
)  # fmt: skip
def test_only_what_a_sign_in_here_would_name(
    run: Import, kind: str, issuer: str, subject: str, stored: tuple[str, str] | None
) -> None:
    """A subject of a form that this kind of provider has not is reported, for it would sign nobody in."""
    provider("other", kind, issuer)
    told = notes(run([row(1, at("there", subject))], "--identities", "there=other"))
    assert told == ([["identity_linked"]] if stored else [["identity_form"]])
    assert list(Identity.objects.values_list("issuer", "subject")) == ([stored] if stored else [])


def test_an_issuer_names_its_provider(run: Import) -> None:
    """A line with an issuer needs no alias; one whose issuer is another than the mapped provider's is not linked."""
    first = row(1, at("", "7", issuer=GOOGLE))
    wrong = row(2, at("goog", "8", issuer="https://evil.example"))
    unknown = row(3, at("", "9", issuer="https://evil.example"))
    assert notes(run([first, wrong, unknown], *MAPPED)) == [["identity_linked"], ["identity_form"], ["identity"]]
    assert Identity.objects.get().subject == "7"


def test_two_providers_of_one_issuer_are_for_the_operator(run: Import) -> None:
    """Without an alias neither is taken."""
    provider("google-two", "google", GOOGLE)
    assert notes(run([row(1, at("", "7", issuer=GOOGLE))])) == [["identity"]]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["google"], "ALIAS=SLUG"),
        (["=google"], "ALIAS=SLUG"),
        (["a=nowhere"], "There are: google"),
        (["a=google", "a=google"], "each alias once"),
    ],
)
def test_what_the_option_asks(tmp_path: Path, pairs: list[str], words: str) -> None:
    """A pair that cannot be meant ends the command before anything is read, with the remedy."""
    options = [part for pair in pairs for part in ("--identities", pair)]
    with pytest.raises(CommandError, match=words):
        call_command("import_users", str(tmp_path / "none"), "--from", "jsonl", *options)
    assert not UserImport.objects.exists()


@pytest.mark.parametrize("identities", ["no list", 7, {"a": 1}, [7], [None], '{"a": 1}', "[7]"])
def test_malformed_lists(run: Import, identities: Any) -> None:
    """A record whose identities are no list of objects is refused as malformed."""
    assert [line["outcome"] for line in run([row(1) | {"identities": identities}])] == ["malformed"]


def test_out_and_in_again(run: Import, tmp_path: Path) -> None:
    """What is exported has the identity with its issuer, and comes in again without an option."""
    run([row(1, at("goog", "7", email="a@gmail.com"))], *MAPPED)
    path = tmp_path / "all.jsonl"
    call_command("export_users", str(path))
    line = json.loads(path.read_text())
    assert line["identities"] == [{"provider": "google", "issuer": GOOGLE, "subject": "7", "email": "a@gmail.com"}]
    User.objects.all().delete()
    assert notes(run(path.read_text())) == [["identity_linked"]]
    assert list(Identity.objects.values_list("subject", "email")) == [("7", "a@gmail.com")]

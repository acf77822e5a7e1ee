"""The API under generated requests: whatever is sent to what the document describes, it describes the answer too."""

import json
import secrets
import traceback
import uuid
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
import requests
import schemathesis
from django.contrib.auth.models import Group
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from accounts.organizations.models import Membership, Organization
from accounts.organizations.roles import Role
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken
from accounts.outbox.tokens import Purpose
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess
from ironauth.infrastructure.api.openapi_errors import PROBLEM_MEDIA_TYPE
from ironauth.infrastructure.core import clock
from ironauth.pages import OPENAPI_FILE
from tokens.details.models import DetailType
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
from tokens.keys.units import create_first_keys
from tokens.oauth.codes import challenge_of
from tokens.oauth.models import Consent
from tokens.oauth.tests.flow import VERIFIER, approve, basic
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.protocol import GrantType, Scope
from tokens.resources.models import ApiResource
from tokens.tests.second_factor import App
from tokens.upstream.tests.walk import stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.live]

#: Requests of each kind for one operation: 400 in all, half a minute on two busy cores.
EXAMPLES: Final = 2
#: The same for requests with real values, each of which a new person is signed up for.
REAL_EXAMPLES: Final = 1
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STAFF: Final = (
    "/api/v1/users",
    "/api/v1/roles",
    "/api/v1/audit",
    "/api/v1/clients",
    "/api/v1/keys",
    "/api/v1/providers",
    "/api/v1/resources",
    "/api/v1/authorization-details-types",
    "/api/v1/staff",
)
ROLE: Final = "editors"

NEW_PASSWORD: Final = "seven amber kites over Lyon"
#: Operations whose ``token`` is that of a message.
MAILED: Final = {
    "POST /api/v1/access/email/verify": Purpose.VERIFY_EMAIL,
    "POST /api/v1/access/password/reset/confirm": Purpose.RESET_PASSWORD,
    "POST /api/v1/access/me/restore": Purpose.RESTORE_ACCOUNT,
}

#: Operations of people who have begun to set up an app for one-time codes, and of people who have one.
BEGUN: Final = {"POST /api/v1/access/mfa/totp/confirm"}
ENROLLED: Final = {
    "DELETE /api/v1/access/mfa/totp",
    "POST /api/v1/access/mfa/recovery-codes",
    "POST /api/v1/access/signin/mfa",
    "DELETE /api/v1/users/{user_id}/mfa",
}
#: Operations no request of this test succeeds at, and why; else the test would praise a server that refuses everything.
UNREACHED: Final = (
    dict.fromkeys(
        (
            "POST /api/v1/access/mfa/passkeys",
            "DELETE /api/v1/access/mfa/passkeys/{passkey_id}",
            "PATCH /api/v1/access/mfa/passkeys/{passkey_id}",
            "POST /api/v1/access/signin/passkey",
            "POST /api/v1/access/signin/mfa/options",
        ),
        "takes an authenticator, and is walked with one in tokens/sign_in/tests/test_passkeys.py",
    )
    | {
        "DELETE /api/v1/access/kept-devices/{device_id}": (
            "takes a kept device, and is walked with one in tokens/sign_in/tests/test_kept_devices.py"
        )
    }
    | dict.fromkeys(
        (
            "POST /api/v1/access/signin/email",
            "POST /api/v1/access/signin/email/confirm",
            "POST /api/v1/access/step-up/email",
        ),
        "takes a setting and a mailed code, and is walked with both in tokens/sign_in/tests/test_email_code.py",
    )
    | dict.fromkeys(
        (
            "POST /oauth/register",
            "GET /oauth/register/{client_id}",
            "PUT /oauth/register/{client_id}",
            "DELETE /oauth/register/{client_id}",
        ),
        "takes a setting, and is walked with it in tokens/clients/dynamic/tests",
    )
    | {
        "DELETE /api/v1/clients/registration-tokens/{token_id}": (
            "takes the id of a token, and is walked with one in tokens/clients/dynamic/tests/test_staff.py"
        )
    }
    | dict.fromkeys(
        ("POST /api/v1/access/identities", "DELETE /api/v1/access/identities/{identity_id}"),
        "takes another provider, and is walked with one in tokens/upstream/tests/test_identities.py",
    )
    | dict.fromkeys(
        (
            "DELETE /api/v1/users/{user_id}/mfa/totp",
            "DELETE /api/v1/users/{user_id}/mfa/passkeys/{passkey_id}",
            "DELETE /api/v1/users/{user_id}/identities/{identity_id}",
        ),
        "takes a second factor of the caller, and is walked with one in tokens/tests/test_ways_in_api.py",
    )
    | {"GET /oauth/authorize": "takes a client's own addresses, and is walked in tokens/oauth/authorize/tests"}
    | {
        "DELETE /api/v1/users/invitations/{invitation_id}": "takes an invitation, and is walked with one in "
        "accounts/invitations/tests/test_invitations.py",
        "POST /api/v1/users/invitations/{invitation_id}/send": "takes an invitation, and is walked with one in "
        "tokens/tests/test_acts_api.py",
        "POST /api/v1/users/{user_id}/messages/{message_id}/send": "takes a message that waits, and is walked with one "
        "in tokens/tests/test_ways_in_api.py",
        "DELETE /api/v1/users/{user_id}/kept-devices/{device_id}": "takes a kept device, and is walked with one in "
        "tokens/tests/test_ways_in_api.py",
        **dict.fromkeys(
            (
                "POST /api/v1/organizations/invitations/accept",
                "POST /api/v1/organizations/invitations/decline",
                "DELETE /api/v1/organizations/{organization_id}/invitations/{invitation_id}",
            ),
            "takes an invitation, and is walked with one in accounts/organizations/tests",
        ),
        "POST /api/v1/users/{user_id}/provider-tokens/{slug}": "takes a machine and kept tokens, and is walked with "
        "both in tokens/upstream/tests/test_tokens_given.py",
        "POST /api/v1/users/{user_id}/restore": "takes an account that is being deleted, and is walked with one in "
        "tokens/tests/test_acts_api.py",
    }
)
#: Endpoints of OAuth that answer with pages.
OPENED_BY_BROWSERS: Final = ("GET /oauth/authorize", "GET /oauth/logout")
#: Operations that clients call, as a client with a secret and a grant of its own.
OF_CLIENTS: Final = ("/oauth/token", "/oauth/introspect", "/oauth/revoke", "/oauth/par", "/oauth/device_authorization")
#: What such a client sends; "" for what counts as not sent.
AS_CLIENT: Final = {
    "grant_type": "client_credentials",
    "token": "any",
    **dict.fromkeys(("client_id", "client_secret", "client_assertion", "client_assertion_type", "scope"), ""),
    "resource": [],
    "authorization_details": "",
}
#: A client that may be made, and that any client may become.
OF_A_CLIENT: Final = {
    "preset": "machine", "name": "Robot", "profile": "oauth2.1", "auth_method": "secret", "redirect_uris": [],
    "post_logout_redirect_uris": [], "backchannel_logout_uri": "", "grants": ["client_credentials"], "scopes": [],
    "strict_scopes": False, "trusted": False,
    "require_pkce": True, "require_par": False, "resource_server": False,
    "serves": [], "resources": [], "authorization_details_types": [],
    "administers": False, "dpop": "off", "certificate_bound": False,
    "subject_type": "public", "sector": "", "id_token_alg": "ed25519", "id_token_claims": False, "jwks": None,
    "access_token_alg": "ed25519",
    "request_object_signing_alg": "", "authorization_signed_response_alg": "ed25519",
    "tls_client_auth_subject_dn": "", "jwks_uri": "", "request_uris": [], "userinfo_signed_response_alg": "",
    **dict.fromkeys(("logo_uri", "policy_uri", "tos_uri"), ""),
    "access_token_s": None,
    "session_idle_s": None, "session_absolute_s": None, "expire_old_in_s": 60, "newest": None,
}  # fmt: skip
#: A type of authorization details that may be registered, and that any may become.
OF_A_TYPE: Final = {
    "words": "Pay {amount}", "members": {"amount": {"kind": "text", "required": True}},
    "unattended": False, "active": True,
}  # fmt: skip
#: An API that may be registered, and that any may become.
OF_AN_API: Final = {
    "name": "Orders", "scopes": ["orders:read"], "signing_alg": "ed25519", "access_token_s": None, "active": True,
}  # fmt: skip
#: A sign-in provider that may be added, and that any may become; it is asked for nothing.
OF_A_PROVIDER: Final = {
    "name": "Hub", "kind": "github", "issuer": "", "client_id": "us", "secret": "a secret of the provider",
    "enabled": False, "creates_accounts": True, "trusts_email": False, "domains": [], "second_factors": [],
    "updates_name": False, "leave_without_way_in": True,
}  # fmt: skip
#: What a client pushes to have somebody signed in; "" as above.
PUSHED: Final = {
    "response_type": "code",
    "redirect_uri": REDIRECT_URI,
    "scope": Scope.OPENID.value,
    "code_challenge": challenge_of(VERIFIER),
    "code_challenge_method": "S256",
    **dict.fromkeys(("state", "response_mode", "nonce", "prompt", "max_age", "id_token_hint", "dpop_jkt"), ""),
}
#: Where the token is one that an application got for a person.
OF_APPLICATIONS: Final = "/oauth/userinfo"
MAKES_PEOPLE: Final = {"POST /api/v1/access/signup", "POST /api/v1/users"}

Headers = dict[str, str]
Values = dict[str, Any]


def bounded(examples: int) -> settings:
    """Return how many requests are made, the same in every run: a failure is a change of ours, not luck."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def described() -> dict[str, Any]:
    """Return the document without its catch-all answer, under which everything would be described."""
    document: dict[str, Any] = json.loads(OPENAPI_FILE.read_bytes())
    for item in document["paths"].values():
        for operation in item.values():
            operation["responses"].pop("default", None)
    return document


def body_fields(document: dict[str, Any], operation: Any) -> set[str]:
    """Return the names of the fields that the operation's body may have."""
    body = document["paths"][operation.path][operation.method.lower()].get("requestBody")
    if body is None:
        return set()
    schema = next(iter(body["content"].values()))["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return set(schema.get("properties", ()))


def operations() -> Iterator[Any]:
    """Yield every operation of the document."""
    for found in schemathesis.openapi.from_dict(described()).get_all_operations():
        assert isinstance(found, Ok)
        yield found.ok()


class Server:
    """A live server, people on it, and what it answered to each."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.document = described()
        self.http = requests.Session()
        self.answers: dict[str, set[int]] = defaultdict(set)
        self.failures: list[str] = []
        root = User.objects.create_superuser("root@example.com", PASSWORD)
        self.root = root.email
        grants = ["authorization_code", "client_credentials", GrantType.DEVICE_CODE.value]
        self.application, secret = make_client(grants=grants, scopes=[Scope.OPENID.value])
        self.client = basic(str(self.application.pk), secret)

    def signed_in(self, email: str) -> Values:
        """Return a new token pair."""
        body = {"email": email, "password": PASSWORD}
        answer = self.http.post(f"{self.base}/api/v1/access/signin", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def person(self) -> Values:
        """Sign somebody up and in; return every value of theirs that a request could name."""
        email = f"person-{secrets.token_hex(6)}@example.com"
        body = {"email": email, "password": PASSWORD}
        made = self.http.post(f"{self.base}/api/v1/access/signup", json=body, timeout=30)
        assert made.status_code == 201, made.text
        names = {"email": email, "username": email, "password": PASSWORD, "current_password": PASSWORD, "role": ROLE}
        new = {"new_password": NEW_PASSWORD, "new_email": f"new-{email}", "roles": [ROLE], "permissions": []}
        new["name"] = email.partition("@")[0]  # of a person, or a role
        return {**AS_CLIENT, **names, **new, **self.signed_in(email), "user_id": made.json()["id"]}

    def mailed(self, purpose: Purpose, person: Values) -> str:
        """Return the token of a message of this kind to ``person``."""
        if purpose == Purpose.RESTORE_ACCOUNT:
            headers = {"Authorization": f"Bearer {person['access_token']}"}
            body = {"password": PASSWORD}
            self.http.delete(f"{self.base}/api/v1/access/me", json=body, headers=headers, timeout=30)
        else:
            with transaction.atomic():
                email_tokens.issue(purpose=purpose, user_id=uuid.UUID(person["user_id"]))
        return email_tokens.text(EmailToken.objects.get(user_id=person["user_id"], purpose=purpose))

    def enrol(self, person: Values, *, confirm: bool) -> None:
        """Set an app up, at least as far as its first code; ``person`` has the code to send next, and a ticket."""
        headers = {"Authorization": f"Bearer {person['access_token']}"}
        access = f"{self.base}/api/v1/access"
        app = App(self.http.post(f"{access}/mfa/totp", headers=headers, timeout=30).json()["secret"])
        person["code"] = app.code()
        if confirm:
            body = {"code": app.code(-1)}
            done = self.http.post(f"{access}/mfa/totp/confirm", json=body, headers=headers, timeout=30)
            assert done.status_code == 200, done.text
            body = {"email": person["email"], "password": PASSWORD}
            person["mfa_token"] = self.http.post(f"{access}/signin", json=body, timeout=30).json()["mfa_token"]

    def let_in(self, person: Values) -> Values:
        """Let the application know who ``person`` is; return the tokens it gets."""
        code = approve(self.application, uuid.UUID(person["user_id"]), scope=PUSHED["scope"])
        body = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
        body["redirect_uri"] = REDIRECT_URI
        answer = self.http.post(f"{self.base}/oauth/token", data=body, headers=self.client, timeout=30)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def keys(self) -> Values:
        """Return a family whose keys may be rotated, and a key that nobody misses."""
        SigningKey.objects.filter(state="next").update(created_at=clock.now() - timedelta(days=1))
        create_first_keys(Family.ES256)
        spare = SigningKey.objects.get(family=Family.ES256, state="next")
        return {"family": Family.ED25519.value, "kid": spare.kid}

    def prepare_act(self, label: str, person: Values) -> None:
        """Make what an act of staff is about."""
        if "/api/v1/clients" in label:
            person.update(OF_A_CLIENT, client_id=str(make_client()[0].pk))
        if "/api/v1/providers" in label:
            slug = f"hub-{secrets.token_hex(6)}"
            person.update(OF_A_PROVIDER, slug=slug)
            if "{slug}" in label:
                stored(slug, "https://github.com", kind="github", enabled=False)
        if "/api/v1/resources" in label:
            identifier = f"https://{secrets.token_hex(6)}.example"
            person.update(OF_AN_API, identifier=identifier)
            if "{resource_id}" in label:
                person["resource_id"] = str(ApiResource.objects.create(identifier=identifier, name="Orders").pk)
        if "/api/v1/authorization-details-types" in label:
            identifier = f"payment-{secrets.token_hex(6)}"
            person.update(OF_A_TYPE, identifier=identifier)
            if "{type_id}" in label:
                person["type_id"] = str(DetailType.objects.create(identifier=identifier, words="Pay").pk)
        if "/api/v1/keys" in label:
            person.update(self.keys())
        if "/organizations" in label:
            self.organization(label, person)

    def organization(self, label: str, person: Values) -> None:
        """Make an organisation that can do without ``person``; a path of a member is the other owner's."""
        made = Organization.objects.create(name="Crew", slug=f"crew-{secrets.token_hex(6)}")
        person.update(organization_id=str(made.pk), owner=person["user_id"], role=Role.MEMBER.value, slug="")
        User.objects.filter(pk=person["user_id"]).update(email_verified_at=clock.now())
        other = self.person()["user_id"]
        for user_id in (person["user_id"], other):
            Membership.objects.create(organization=made, user_id=user_id, role=Role.OWNER.value)
        if "{user_id}" in label and "/members/" in label:
            person["user_id"] = other
        if label.endswith("/invitations"):
            person["email"] = person["new_email"]

    def prepare(self, label: str, person: Values) -> None:
        """Bring ``person`` to where this operation makes sense."""
        if label == "POST /oauth/par":
            person.update(PUSHED)
        if label == "POST /oauth/device_authorization":
            person["scope"] = PUSHED["scope"]
        Group.objects.get_or_create(name=ROLE)  # another request may have renamed or deleted it
        if label in (
            "DELETE /api/v1/access/consents/{client_id}",
            "DELETE /api/v1/users/{user_id}/consents/{client_id}",
        ):
            person["client_id"] = str(self.application.pk)
            Consent.objects.create(user_id=person["user_id"], client=self.application, scope=PUSHED["scope"])
        self.prepare_act(label, person)
        if label in MAILED:
            person["token"] = self.mailed(MAILED[label], person)
        if label in MAKES_PEOPLE:
            person["email"] = person["new_email"]
        if label in BEGUN | ENROLLED:
            self.enrol(person, confirm=label in ENROLLED)

    def credential(self, operation: Any, person: Values | None = None) -> Headers:
        """Return the header of who may: staff for staff, clients for theirs, else ``person``, or somebody new."""
        if operation.path in OF_CLIENTS:
            return self.client
        staff = operation.path.startswith(STAFF)
        found = self.signed_in(self.root) if staff else person or self.person()
        if operation.path == OF_APPLICATIONS:
            found = self.let_in(found)
        return {"Authorization": f"Bearer {found['access_token']}"}

    def send(self, case: Any, headers: Headers) -> None:
        """Send one request and judge the answer."""
        self.http.cookies.clear()
        response = case.call(base_url=self.base, session=self.http, headers=headers)
        if headers:
            self.answers[case.operation.label].add(response.status_code)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400 and case.operation.label not in ("GET /health", *OPENED_BY_BROWSERS):
            own = (
                ["application/json"] if case.operation.path.startswith(("/oauth/", "/.well-known/o")) else []
            )  # RFC 6749 §5.2
            assert response.headers["content-type"][0] in (PROBLEM_MEDIA_TYPE, *own)

    def generated(self, operation: Any, mode: GenerationMode, headers: Headers) -> None:
        """Send what fits the document, or what does not."""

        @bounded(EXAMPLES)
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            self.send(case, headers)

        self._collect(ask)

    def real(self, operation: Any) -> None:
        """Send what fits the document with real people's values in place of made-up ones."""
        fields = body_fields(self.document, operation)

        @bounded(REAL_EXAMPLES)
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            person = self.person()
            headers = self.credential(operation, person)
            self.prepare(operation.label, person)
            case.path_parameters.update({name: person[name] for name in case.path_parameters.keys() & person.keys()})
            if isinstance(case.body, dict):
                case.body.update({name: person[name] for name in fields & person.keys()})
            self.send(case, headers)

        self._collect(ask)

    def _collect(self, ask: Any) -> None:
        try:
            ask()
        except Unsatisfiable:
            pass  # without parameters there is nothing to get wrong
        except Exception as error:  # noqa: BLE001 - all operations are tried before the test fails
            self.failures.append("".join(traceback.format_exception(error, chain=False))[-3_000:])


def test_every_answer_is_in_the_document(serve_process: ServeProcess, signing_key: str) -> None:
    """No 5xx, no status, header or body that the document does not describe; signed in or not, sensible or not."""
    server = Server(serve_process(IRONAUTH_ORGANIZATIONS="anybody"))
    Group.objects.create(name=ROLE)
    labels = set()
    for operation in operations():
        labels.add(operation.label)
        for mode in GenerationMode:
            for headers in ({}, server.credential(operation)):
                server.generated(operation, mode, headers)
        server.real(operation)
    assert not server.failures, "\n\n".join(server.failures)
    assert len(labels) == sum(len(item) for item in server.document["paths"].values())
    refused = {label for label, statuses in server.answers.items() if min(statuses) >= 300}
    assert refused == UNREACHED.keys()

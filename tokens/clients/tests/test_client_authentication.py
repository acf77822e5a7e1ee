"""Who may call: HTTP Basic, the body, public clients; never two at once, never without end."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from joserfc.jwk import ECKey
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from tokens.clients.authentication import basic_credentials
from tokens.clients.models import OAuthClient, OAuthClientSecret, digest_of
from tokens.oauth.tests.flow import INTROSPECT, REVOKE, TOKEN, Party, basic
from tokens.tests.test_vectors import RFC

pytestmark = [pytest.mark.django_db(transaction=True)]

CHALLENGE = 'Basic realm="ironauth", charset="UTF-8"'
OWN = {"grant_type": "client_credentials"}


@pytest.mark.parametrize("name", ["rfc6749-2.3.1-basic", "rfc6749-2.3.1-basic-formencoded"])
def test_basic_is_form_decoded(name: str) -> None:
    """The examples of RFC 6749 §2.3.1 and appendix B give the id and secret they were made of."""
    vector = RFC[name]
    assert basic_credentials(vector["authorization"]) == (vector["client_id"], vector["client_secret"])


@pytest.mark.parametrize(
    "header",
    [
        *("Bearer x", "Basic", "Basic ", "Basic !", "Basic YQ==", "Basic /w==", "Basic JTgwOmE="),
        *("Digest czZCaGQ6c2VjcmV0", "Bearer czZCaGQ6c2VjcmV0", "Basics czZCaGQ6c2VjcmV0", "czZCaGQ6c2VjcmV0"),
        *("Basic czZC!aGQ6c2VjcmV0", "Basic czZC aGQ6c2VjcmV0", "Basic czZCaGQ6c2VjcmU", "Basic czZCaGQ6c2VjcmU=="),
        *("Basic czZCaGQ6c2VjcmV0=!", "Basic czZCaGQ6c2Vjcm-_", "Basic\tczZCaGQ6c2VjcmV0"),
    ],
)
def test_other_headers_are_no_credentials(header: str) -> None:
    """Another scheme, no base64 to the letter, no colon, what is not UTF-8: nobody, however good the rest is."""
    assert basic_credentials("Basic czZCaGQ6c2VjcmV0") == ("s6Bhd", "secret")
    assert basic_credentials(header) is None


async def test_the_log_has_the_cause(robot: Party, app: Party) -> None:
    """A wrong secret, no credentials, a client nobody knows and a header that cannot be read are told apart there."""
    client_id = str(robot.client.pk)
    with capture_logs() as lines:
        await robot.api.post(TOKEN, data={**OWN, "client_id": client_id, "client_secret": "a wrong secret"})
        await robot.api.post(TOKEN, data={**OWN, "client_id": client_id})
        await robot.api.post(TOKEN, data={**OWN, "client_id": "nobody", "client_secret": "a wrong secret"})
        await robot.api.post(TOKEN, data=OWN, headers={"Authorization": "Basic !"})
        await app.post(INTROSPECT, token="x")
    told = [(line["client_id"], line["cause"]) for line in lines if line["event"] == "client_refused"]
    assert told == [
        (client_id, "secret"),
        (client_id, "no_credentials"),
        (None, "unknown"),
        (None, "header"),
        (str(app.client.pk), "no_credentials"),
    ]
    assert "a wrong secret" not in str(lines)


async def test_secret_by_header_and_by_body(robot: Party) -> None:
    """Both ways of one client work, and a client_id beside the header that is the same."""
    client_id = str(robot.client.pk)
    headers = basic(client_id, robot.secret)
    answers = [
        await robot.post(TOKEN, **OWN),
        await robot.api.post(TOKEN, data=OWN, headers=headers),
        await robot.api.post(TOKEN, data={**OWN, "client_id": client_id}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [200] * 3


async def test_two_ways_at_once_are_refused(robot: Party, wiki: Party) -> None:
    """A header and a secret in the body, or another client's id there: invalid_request, whatever they are."""
    headers = basic(str(robot.client.pk), robot.secret)
    for more in (robot.credentials(), {"client_id": str(wiki.client.pk)}, {"client_secret": "x"}):
        answer = await robot.api.post(TOKEN, data={**OWN, **more}, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_failures_look_alike_and_only_the_header_is_challenged(robot: Party, app: Party) -> None:
    """Unknown, wrong, missing, and a secret of a client that has none: one body; a challenge for the header only."""
    client_id, public = str(robot.client.pk), str(app.client.pk)
    unknown = "018f0000-0000-7000-8000-000000000000"
    tried = [
        (client_id, "wrong"),
        (unknown, robot.secret),
        ("no uuid", "x"),
        (public, "x"),
        (client_id.upper(), robot.secret),
    ]
    by_body = [await robot.api.post(TOKEN, data={**OWN, "client_id": i, "client_secret": s}) for i, s in tried]
    by_header = [await robot.api.post(TOKEN, data=OWN, headers=basic(i, s)) for i, s in tried]
    nothing = [await robot.api.post(TOKEN, data=data) for data in (OWN, {**OWN, "client_id": client_id})]
    assert {answer.status_code for answer in (*by_body, *by_header, *nothing)} == {401}
    assert len({answer.content for answer in (*by_body, *by_header, *nothing)}) == 1
    assert by_body[0].json()["error"] == "invalid_client"
    assert not any("www-authenticate" in answer.headers for answer in (*by_body, *nothing))
    assert {answer.headers["www-authenticate"] for answer in by_header} == {CHALLENGE}


async def test_a_header_that_cannot_be_read_is_invalid_client(robot: Party) -> None:
    """A bearer token, or rubbish, is no client."""
    for header in ("Bearer abc", "Basic !"):
        answer = await robot.api.post(TOKEN, data=OWN, headers={"Authorization": header})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, CHALLENGE)


async def test_public_clients_may_not_ask_about_tokens(app: Party) -> None:
    """Introspection is for who can keep a secret; revocation is for all."""
    refused = await app.post(INTROSPECT, token="x")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert (await app.post(REVOKE, token="x")).status_code == 200


async def test_two_secrets_until_one_expires(robot: Party) -> None:
    """A second secret works beside the first; one that expires works until then, and not a second longer."""
    later = clock.now() + timedelta(seconds=100)
    await OAuthClientSecret.objects.acreate(
        client=robot.client, digest=digest_of("second"), hint="cond", expires_at=later
    )

    async def works(secret: str) -> bool:
        answer = await robot.api.post(TOKEN, data=OWN, headers=basic(str(robot.client.pk), secret))
        return answer.status_code == 200

    assert [await works(secret) for secret in (robot.secret, "second")] == [True, True]
    for after_s, good in ((98, True), (101, False)):
        with clock.shifted(after_s):
            assert [await works(secret) for secret in (robot.secret, "second")] == [True, good]


async def test_a_secret_stands_in_for_no_key(robot: Party) -> None:
    """A client that signs who it is is not let in by a secret, though one of before is still stored."""
    assert (await robot.post(TOKEN, **OWN)).status_code == 200
    robot.client.auth_method = OAuthClient.AuthMethod.PRIVATE_KEY_JWT
    robot.client.jwks = {"keys": [ECKey.generate_key("P-256").as_dict(private=False)]}
    await robot.client.asave()
    assert await OAuthClientSecret.objects.filter(client=robot.client).aexists()
    assert (await robot.post(TOKEN, **OWN)).status_code == 401


async def test_a_secret_made_elsewhere_works_at_once(robot: Party) -> None:
    """A worker that has not heard of a new secret looks again before it refuses; one that was never made is refused."""
    assert (await robot.post(TOKEN, **OWN)).status_code == 200  # the client is known from now on
    made = OAuthClientSecret(client=robot.client, digest=digest_of("newest"), hint="west")
    await OAuthClientSecret.objects.abulk_create([made])  # tells nobody, as another worker's has not yet
    for secret, status in (("newest", 200), ("newer", 401), (robot.secret, 200)):
        answer = await robot.api.post(TOKEN, data=OWN, headers=basic(str(robot.client.pk), secret))
        assert answer.status_code == status


async def test_disabled_clients_are_unknown(robot: Party) -> None:
    """Disabling is felt by the next request."""
    assert (await robot.post(TOKEN, **OWN)).status_code == 200
    robot.client.disabled_at = clock.now()
    await sync_to_async(robot.client.save)()
    assert (await robot.post(TOKEN, **OWN)).status_code == 401


async def test_failures_are_counted_by_address(throttled: None, robot: Party, settings: Any) -> None:
    """After as many as the setting allows the 401 becomes 429; the right secret is never counted."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 5
    wrong = {**OWN, "client_id": str(robot.client.pk), "client_secret": "wrong"}
    answers = [await robot.api.post(TOKEN, data=wrong) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert (answers[-1].json()["error"], "retry-after" in answers[-1].headers) == ("temporarily_unavailable", True)
    assert (await robot.post(TOKEN, **OWN)).status_code == 200


async def test_no_secret_is_kept(robot: Party) -> None:
    """Neither table nor trail holds what a client has sent."""
    await robot.post(TOKEN, **OWN)
    rows: list[Any] = [
        *[row async for row in OAuthClientSecret.objects.values()],
        *[row async for row in OAuthClient.objects.values()],
    ]
    rows += [row async for row in AuditEvent.objects.values()]
    assert not any(robot.secret in str(row) for row in rows)

"""Fill the database of the site that all journeys share, in a process of its own."""

import json
import sys
from typing import Any, Final

from django.contrib.auth.hashers import make_password

from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys
from tokens.oauth.tests.material import make_client
from tokens.protocol import GrantType

#: How many people and members of staff wait to be used; a walk takes two and one at most.
PEOPLE: Final = 1200
STAFF: Final = 60
PERSON: Final = "person{}@example.com"
HELPER: Final = "helper{}@example.com"
CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"
GRANTS: Final = [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value, GrantType.DEVICE_CODE.value]


def furnish(*, password: str, wiki: str, issuer: str | None) -> dict[str, Any]:
    """Make all of it; return the client's id and secret.

    Args:
        password: Everybody's.
        wiki: Origin of the application that people sign in to.
        issuer: The other provider, where there is one.
    """
    for family in (Family.ED25519, Family.RS256):
        create_first_keys(family)
    known: dict[str, Any] = {"encoded": make_password(password), "email_verified_at": clock.now()}
    people = [User.objects.hashed(email=PERSON.format(number), name="Mia", **known) for number in range(PEOPLE)]
    known |= {"is_staff": True, "is_superuser": True}
    staff = [User.objects.hashed(email=HELPER.format(number), name="Hedy", **known) for number in range(STAFF)]
    User.objects.bulk_create(people + staff)
    if issuer is not None:
        row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer=issuer, client_id=CLIENT_ID)
        row.trusts_email = True
        seal_into(row, SECRET)
        row.save()
    uris = {"redirect_uris": [f"{wiki}/callback"], "post_logout_redirect_uris": [f"{wiki}/gone"]}
    client, secret = make_client(grants=GRANTS, initiate_login_uri=f"{wiki}/start", **uris)
    return {"client": str(client.pk), "secret": secret}


def main() -> None:
    """Read what to furnish with from standard input, and print what was made, both as JSON."""
    sys.stdout.write(json.dumps(furnish(**json.load(sys.stdin))))

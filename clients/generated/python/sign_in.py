"""Sign in and ask who that is with the client of openapi-python-client; writes the answer's address and id."""

import json
import sys

from ironauth_generated.api.account import access_me
from ironauth_generated.api.sign_in import access_signin
from ironauth_generated.client import AuthenticatedClient, Client
from ironauth_generated.models.me_out import MeOut
from ironauth_generated.models.problem_401_invalid_credentials_or_mfa_required import (
    Problem401InvalidCredentialsOrMfaRequired,
)
from ironauth_generated.models.sign_in_input_request import SignInInputRequest
from ironauth_generated.models.token_pair import TokenPair

base, email, password = sys.argv[1:]
anonymous = Client(base_url=base)
refused = access_signin.sync(client=anonymous, body=SignInInputRequest(email=email, password=f"not {password}"))
assert isinstance(refused, Problem401InvalidCredentialsOrMfaRequired), refused
pair = access_signin.sync(client=anonymous, body=SignInInputRequest(email=email, password=password))
assert isinstance(pair, TokenPair), pair
me = access_me.sync(client=AuthenticatedClient(base_url=base, token=pair.access_token))
assert isinstance(me, MeOut), me
sys.stdout.write(json.dumps({"refused": str(refused.code), "email": me.email, "id": str(me.id)}))

"""What pages of an account ask for before an act that wants a recent proof of who somebody is."""

from typing import Any, Final

import msgspec
from django.utils.translation import gettext_noop as _

from accounts.email import code_method
from accounts.mfa.factors import FACTORS
from accounts.pages.acts import Act, Recent
from accounts.pages.calls import Answer
from accounts.pages.own_page import OwnPage, is_recent
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core import strict_json

#: The fields of a form that prove again who somebody is, and what they are called in the API.
PROOFS: Final = {
    "proof_password": "password",
    "proof_code": "code",
    "proof_recovery_code": "code",  # of the two the one that takes opening a part of the page
    "proof_email_code": "email_code",
    "proof_challenge_token": "challenge_token",
    "proof_credential": "credential",
}
MAILED: Final = _("A message with a code is on its way to your e-mail address.")


class ProvingPage(OwnPage):
    """A page whose forms may have to prove again who it is, by the API's step-up."""

    async def wants_proof(self, request: ApiRequest, recent: Recent) -> bool:
        """Tell whether a form has to prove again who it is before the API does what it asks for."""
        if recent is Recent.NO or is_recent(request):
            return False
        return recent is Recent.ALWAYS or bool((await self.held(("mfa",)))["mfa"]["methods"])

    async def prove(self, data: Any, act: Act) -> Answer | None:
        """Have the session's person prove again who they are, by what the form has; None where it has nothing."""
        body = {PROOFS[name]: str(data[name]) for name in PROOFS if data.get(name)}
        if act.password and "password" not in body and data.get(act.password):
            body["password"] = str(data[act.password])
        if "credential" in body:
            body["credential"] = object_of(body["credential"])
        return await self.api.call("POST", "step-up", body) if body else None

    async def proof(self, request: ApiRequest, mfa: Any) -> dict[str, Any]:
        """Return what the forms ask to prove again who it is; nothing within ten minutes of the last proof."""
        if mfa is None or is_recent(request):
            return {}
        methods = mfa["methods"]
        proof: dict[str, Any] = {
            "password": not methods and mfa["has_password"],
            "nothing": not methods and not mfa["has_password"],
            **{factor.name: factor.name in methods for factor in FACTORS},
        }
        if proof["password"]:
            proof["email_code"] = await code_method.serves_step_up(signed_in(request).id)
        if proof["passkey"]:
            answer = await self.api.call("POST", "step-up-options")
            proof["passkey"] = msgspec.json.encode(answer.body).decode() if answer.is_good else ""
        return proof


def object_of(text: str) -> Any:
    """Return the JSON value of a text; the text itself where it is none, for the API to refuse."""
    try:
        return strict_json.loads(text)
    except strict_json.InvalidJson:
        return text

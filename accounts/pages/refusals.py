"""What a page says of an act that was refused, where the fields are that it is about."""

from typing import Final, NamedTuple

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from accounts.mfa.errors import WRONG_RECOVERY_CODE
from accounts.pages.acts import Act
from accounts.pages.calls import Answer

_PROVE: Final = _("Prove once more who you are.")
#: What people read where the API's sentence, by its code, is about calls of the API.
_ON_PAGES: Final = {
    "last_superuser": _("This is the last account with all rights. Give them to another one first."),
    "mfa_not_enabled": _("That is not set up any more."),
    "mfa_not_started": _("There is nothing to confirm: begin again."),
    "not_found": _("That is not there any more."),
    "passkey_not_made": _("The passkey was not added. Try again."),
    "user_protected": _("This account cannot be deleted here. Ask the people who run this service."),
}
_OF_PASSKEYS: Final = frozenset({"challenge_token", "credential"})


class Refusal(NamedTuple):
    """What a page says of an act that was refused: which act, what to no field, and what to each field."""

    act: str
    status: int
    problem: str = ""
    errors: dict[str, list[str]] = {}
    wait_s: str = ""


def of_act(name: str, act: Act, answer: Answer) -> Refusal:
    """Return what the page says of an act that the API has refused.

    Args:
        name: What the row calls the act.
        act: The act.
        answer: What the API answered.
    """
    body = answer.body or {}
    errors: dict[str, list[str]] = {}
    for one in body.get("errors", ()):
        errors.setdefault(one["field"], []).append(one["message"])
    if body.get("code") == "invalid_credentials" and act.password:
        errors[act.password] = [body["detail"]]
    elif body.get("code") == "invalid_mfa_code" and "code" in act.fields:
        errors["code"] = [body["detail"]]
    elif body.get("code") == "invalid_email_code":
        errors["email_code"] = [body["detail"]]
    if body.get("code") == "step_up_required":
        return Refusal(name, answer.status, _PROVE)
    return _refusal(name, answer, errors, set(act.fields) - {"challenge_token", "credential", "provider"})


def of_proof(name: str, act: Act, answer: Answer | None, by_recovery: bool) -> Refusal:
    """Return what the page says of a proof that the API has refused, or that was not there.

    Args:
        name: What the row calls the act.
        act: The act that asks for the proof.
        answer: What the API answered; None where nothing was sent.
        by_recovery: Whether the code was typed as a recovery code.
    """
    if answer is None or answer.status == 400:  # noqa: PLR2004 - RFC 9110 §15.5.1: nothing of use was sent
        return Refusal(name, 401, _PROVE)
    body = answer.body or {}
    place = act.password or "proof_password"
    code = "proof_recovery_code" if by_recovery else "proof_code"
    places = {"invalid_credentials": place, "invalid_mfa_code": code, "invalid_email_code": "proof_email_code"}
    where = places.get(body.get("code", ""), "")
    reason = WRONG_RECOVERY_CODE if where == "proof_recovery_code" else body.get("detail", "")
    return _refusal(name, answer, {where: [reason]} if where else {}, {*places.values()})


def _refusal(name: str, answer: Answer, errors: dict[str, list[str]], fields: set[str]) -> Refusal:
    """Return a refusal: at the fields that the form has, the rest at none."""
    body = answer.body or {}
    at_fields = {field: reasons for field, reasons in errors.items() if field in fields}
    others = " ".join(gettext(reason) for field, reasons in errors.items() if field not in fields for reason in reasons)
    if _OF_PASSKEYS & errors.keys():  # what a script has made, not what somebody has typed
        return Refusal(name, answer.status, _ON_PAGES["passkey_not_made"])
    said = _ON_PAGES.get(body.get("code", "")) or body.get("detail") or _("The request could not be answered.")
    problem = others or ("" if at_fields else said)
    return Refusal(name, answer.status, problem, at_fields, answer.response.headers.get("Retry-After", ""))

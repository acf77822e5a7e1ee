"""The page of each row of an account: its forms, and what they do."""

from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema

from accounts.email import services as email_services
from accounts.pages import connected, meter, overview
from accounts.pages.acts import CONNECT, DELETE, EXPORT, ROWS, SECRET, SET_UP, Act, Row
from accounts.pages.calls import Answer
from accounts.pages.own_page import (
    EXPIRED,
    HEADERS,
    form_token,
    is_from_elsewhere,
    is_own_form,
    rendered,
    row_address,
    see_other,
)
from accounts.pages.proving import MAILED, PROOFS, ProvingPage, object_of
from accounts.pages.refusals import Refusal, of_act, of_proof
from accounts.profile import places
from accounts.users.signed_in import signed_in
from ironauth.infrastructure.api.views import ApiRequest
from ironauth.infrastructure.core.errors import DomainError, NotAuthenticated
from ironauth.infrastructure.http import client_context, second_clicks

_NOT_THERE: Final = "not-there"
_ABSENT: Final = _("It is not on the list, so nothing was changed. This is what is there now.")
_UNKNOWN: Final = _("There is no such act. Use one of the buttons.")


class RowPage(ProvingPage):
    """GET, POST /account/security/<row>, and /account/security/<row>/<id> of one thing in it."""

    @extend_schema(exclude=True)
    async def get(self, request: ApiRequest, section: str, item: UUID | None = None) -> HttpResponse:
        """Show the row's forms, and what was done before."""
        row = _row(section)
        if item is not None and not row.has_items:
            return see_other(row_address(section))
        told = request.query_params.get("done", "")
        done = _ABSENT if told == _NOT_THERE else row.acts[told].done if told in row.acts else ""
        context: dict[str, Any] = {"done": done} if done and not is_from_elsewhere(request) else {}
        if section == connected.SECTION:
            context |= connected.told(request)
        return await self._page(request, section, item, context=context)

    @extend_schema(exclude=True)
    async def post(self, request: ApiRequest, section: str, item: UUID | None = None) -> HttpResponse:
        """Do what the pressed button says, and go back to the row; or show its page again with what is wrong."""
        row, data = _row(section), request.data
        name = str(data.get("act", ""))
        act = row.acts.get(name)
        is_own = is_own_form(request)
        if not is_own or act is None or bool(act.item) != (item is not None):
            wrong = (400, _UNKNOWN) if is_own else (403, EXPIRED)
            return await self._page(request, section, item, refusal=Refusal(name, *wrong))
        if "mail_code" in data or (meter.FIELD in data and section == "password"):
            return await (self._mail_code if "mail_code" in data else self._checked)(request, section, item, name, act)
        proved = False
        if await self.wants_proof(request, act.recent):
            answer = await self.prove(data, act)
            if answer is None or not answer.is_good:
                by_recovery = bool(data.get("proof_recovery_code"))
                return await self._page(request, section, item, refusal=of_proof(name, act, answer, by_recovery))
            proved = True
        path = {act.item: item} if act.item else {}
        answer = await self.api.call(act.method, act.call, _members(act, data), **path)
        if answer.status == 401 and answer.body and answer.body["code"] in ("invalid_token", "not_authenticated"):  # noqa: PLR2004 - RFC 9110 §15.5.2
            raise NotAuthenticated
        if _is_gone(act, answer):
            return await self._not_there(request, section, name)
        if answer.is_good:
            return await self._after(request, section, name, act, answer)
        return await self._page(request, section, item, refusal=of_act(name, act, answer), proved=proved)

    async def _not_there(self, request: ApiRequest, section: str, name: str) -> HttpResponse:
        """Go back to the row where what was to be removed is not there: the first of two clicks has removed it.

        Where it was not that one, nobody here can tell whether it ever was there: then the row says that alone.
        """
        is_second = await second_clicks.first_of(request) is not None
        return see_other(f"{row_address(section)}?{urlencode({'done': name if is_second else _NOT_THERE})}")

    async def _checked(
        self, request: ApiRequest, section: str, item: UUID | None, _name: str, _act: Act
    ) -> HttpResponse:
        """Show the form again with how good the new password looks; nothing is kept of it."""
        me = (await self.held(("me",)))["me"]
        password, address = str(request.data.get("new_password", "")), client_context.address_of(request)
        shown = dict(await meter.shown(password=password, email=me["email"], name=me["name"], address=address))
        status, headers = shown.pop("status", 200), shown.pop("headers", {})
        page = await self._page(request, section, item, context=shown)
        page.status_code = status
        for name, value in headers.items():
            page.headers[name] = value
        return page

    async def _mail_code(
        self, request: ApiRequest, section: str, item: UUID | None, name: str, act: Act
    ) -> HttpResponse:
        """Have a code sent to the person, where that is offered, and show the page again, on which it is typed."""
        answer = await self.api.call("POST", "step-up-email")
        if not answer.is_good:
            return await self._page(request, section, item, refusal=of_act(name, act, answer))
        return await self._page(request, section, item, context={"done": MAILED, "code_sent": True})

    async def _after(self, request: ApiRequest, section: str, name: str, act: Act, answer: Answer) -> HttpResponse:
        """Return what follows an act that is done."""
        if act.item:
            await second_clicks.note(request)
        if act is EXPORT:
            file = HttpResponse(
                msgspec.json.format(answer.response.content, indent=2), content_type="application/json", headers=HEADERS
            )
            file["Content-Disposition"] = answer.response["Content-Disposition"]
            return file
        if act is CONNECT:
            return rendered("go_on", {"address": answer.body["url"]})
        is_codes = act.shows == "recovery_codes"
        if act.shows and (not is_codes or answer.body.get("recovery_codes")):
            context: dict[str, Any] = {"slug": section, "form": form_token(request), "typed": _typed(request)}
            if is_codes:
                context["file"] = _file_of(answer.body["recovery_codes"])
            if act is SET_UP:
                context |= _of_app(answer.body["secret"], answer.body["qr_svg"])
            if act is DELETE:
                context["grace_days"] = settings.IRONAUTH_DELETION_GRACE_DAYS
            if act.shows == "new_passkey":
                context["options"] = msgspec.json.encode(answer.body).decode()
            return rendered(act.shows, {**context, "answer": answer.body})
        return see_other(f"{row_address(section)}?{urlencode({'done': name})}")

    async def _page(
        self,
        request: ApiRequest,
        section: str,
        item: UUID | None,
        *,
        refusal: Refusal | None = None,
        proved: bool = False,
        context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = _row(section)
        held = await self.held(row.reads)
        found: Any = None
        if item is not None and row.has_items:
            things = held["mfa"]["passkeys"] if section == "passkeys" else held["identities"]["identities"]
            found = next((one for one in things if one["id"] == str(item)), None)
            if found is None and request.method == "POST":
                return await self._not_there(request, section, str(request.data.get("act", "")))
            if found is None:
                raise Http404
        proof = {} if proved else await self.proof(request, held.get("mfa"))
        template = section
        shown = {
            **held,
            **self.told,
            **(context or {}),
            "slug": section,
            "devices": held.get("kept-devices", ()),
            "browsers": overview.by_browser(held.get("sessions", ())),
            "title": row.title,
            "item": found,
            "form": form_token(request),
            "typed": _typed(request),
            "proof": proof,
            "refusal": refusal,
            "errors": refusal.errors if refusal else {},
            "languages": settings.LANGUAGES,
            "places": places() if section == "name" else (),
            "own_language": held.get("me-language", {}).get("language", ""),
            "pending": await email_services.pending_change(user_id=signed_in(request).id)
            if section == "email"
            else None,
            "grace_days": settings.IRONAUTH_DELETION_GRACE_DAYS,
            "shortest": settings.IRONAUTH_PASSWORD_MIN_LENGTH,
        }
        if refusal is not None and row.acts.get(refusal.act) is row.acts.get("confirm", EXPORT) and not proof:
            waiting = await _waiting(request, SET_UP)
            if waiting is not None:
                template = SET_UP.shows
                shown |= {"answer": waiting, **_of_app(waiting.secret, waiting.qr_svg)}
        headers = {"Retry-After": refusal.wait_s} if refusal and refusal.wait_s else {}
        return rendered(template, shown, status=refusal.status if refusal else 200, headers=headers)


def _row(section: str) -> Row:
    if section not in ROWS:
        raise Http404
    return ROWS[section]


def _is_gone(act: Act, answer: Answer) -> bool:
    """Tell whether what was to be removed is not there."""
    return bool(act.item) and act.method == "DELETE" and answer.status == 404  # noqa: PLR2004 - RFC 9110 §15.5.5


def _members(act: Act, data: Any) -> dict[str, Any]:
    """Return what the act sends of what the form has."""
    members: dict[str, Any] = {name: str(data[name]) for name in act.fields if name in data}
    if "credential" in members:
        members["credential"] = object_of(members["credential"])
    return members


def _typed(request: ApiRequest) -> dict[str, str]:
    """Return what was typed, but for secrets."""
    if request.method != "POST":
        return {}
    return {name: str(value) for name, value in request.data.items() if name not in SECRET and name not in PROOFS}


def _file_of(codes: list[str]) -> str:
    """Return the address of a text file with recovery codes, which a browser saves without asking anybody for it."""
    text = "\n".join([settings.IRONAUTH_BRAND_NAME, settings.IRONAUTH_ISSUER, "", *codes, ""])
    return f"data:text/plain;charset=utf-8,{quote(text)}"


def _of_app(secret: str, qr_svg: str) -> dict[str, str]:
    """Return what a page shows of the secret of an app: its QR code as an image, and the key in groups of four."""
    # An image is a document of its own, which has to name its namespace.
    image = qr_svg.replace("<svg", "<svg xmlns='http://www.w3.org/2000/svg'", 1)
    groups = [secret[start : start + 4] for start in range(0, len(secret), 4)]
    return {"qr": f"data:image/svg+xml,{quote(image)}", "key": " ".join(groups)}


async def _waiting(request: ApiRequest, act: Act) -> Any:
    """Return the answer of an act that still waits for the next one, if there is one."""
    try:
        return await act.waiting(user_id=signed_in(request).id) if act.waiting else None
    except DomainError:
        return None

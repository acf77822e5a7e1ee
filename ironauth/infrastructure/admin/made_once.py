"""Pages of the admin that make something and show its secret: once each, also where a page is loaded again."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.signing import BadSignature, Signer
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

#: What is known before it is stored, so that a page loaded again does not make the same a second time.
NEW_ID: Final = "new_id"
_ids: Final = Signer(salt="ironauth.admin.new_id")


def signed_id(row_id: UUID) -> str:
    """Return an id of ours as a form brings it back."""
    return _ids.sign(str(row_id))


def id_of(text: str) -> UUID | None:
    """Return the id of a form, None for a text this server has not signed.

    Nobody chooses an id: with a person's, the ``sub`` of a client's own tokens would be that person's (RFC 9700 §4.15).
    """
    try:
        return UUID(_ids.unsign(text))
    except BadSignature:
        return None


class NewIdField(forms.CharField):
    """The id a row will have; None for one that this server has not proposed, which gets another."""

    def __init__(self) -> None:
        super().__init__(required=False, widget=forms.HiddenInput)

    def to_python(self, value: Any) -> Any:
        """Return the id."""
        return id_of(value or "")


class MadeOnce:
    """Mixin of a ``ModelAdmin`` whose form has a ``NewIdField`` by the name ``NEW_ID``."""

    opts: Any
    model: Any
    #: What is said in place of making the same again.
    made_already: str

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Lead a page that is loaded again, which would make the same a second time, to what it has made."""
        page: Any = super()
        made = id_of(request.POST.get(NEW_ID, ""))
        if made is None or not self.model.objects.filter(pk=made).exists():
            try:
                answer: HttpResponse = page.add_view(request, *args, **kwargs)
            except IntegrityError:
                if made is None or not self.model.objects.filter(pk=made).exists():
                    raise
            else:
                return answer
        messages.warning(request, self.made_already)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return HttpResponseRedirect(reverse(name, args=[made]))


def secret_page(
    model_admin: "admin.ModelAdmin[Any]",
    request: HttpRequest,
    *,
    what: str,
    owner: str,
    page: str,
    advice: str,
    lines: Sequence[tuple[str, str]],
) -> HttpResponse:
    """Return the one page that has a secret; the admin's answers are kept by no cache.

    Args:
        model_admin: The admin of what was made.
        request: Of the member of staff who made it.
        what: What is shown, in a word, such as "secret".
        owner: Whose it is.
        page: The address of the owner's page, which is next.
        advice: What to do with it, and what where it is lost.
        lines: What is shown, by name, each with a button that copies it. It cannot be shown again.
    """
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{what.capitalize()} of {owner}",
        "opts": model_admin.opts,
        "what": what,
        "owner": owner,
        "page": page,
        "advice": advice,
        "lines": lines,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/secret.html", context)

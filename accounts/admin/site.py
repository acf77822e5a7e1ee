"""The admin's site: Django's, with a sign-in in two steps and a start page that shows what happened lately."""

from functools import partial, wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters

from accounts import email_address as emails
from accounts.admin import audited as audited_admin
from accounts.admin import start as admin_start
from accounts.admin.access import confirm as admin_confirm
from accounts.admin.access import second_factor as admin_second_factor
from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.access import step_up as admin_step_up
from accounts.admin.access.second_factor import PasswordView
from accounts.errors import StepUpRequired
from ironauth.config.cookies import ACTING
from ironauth.infrastructure.http import cookies


class StaffSite(AdminSite):
    """What ``django.contrib.admin.site`` is here."""

    site_title = site_header = "IronAuth"
    index_title = "Start"
    index_template = "admin/start.html"
    #: The way out, and the proof itself.
    pages_without_step_up = frozenset({"confirm", "confirm_code", "logout"})

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Add the pages of the second step, for people who are not signed in yet, and those that ask once more."""
        return [
            path("confirm/", self._confirmation(admin_confirm.confirm), name="confirm"),
            path("confirm/code/", self._confirmation(admin_confirm.confirm_code), name="confirm_code"),
            path("login/code/", self._step(admin_second_factor.prove), name="login_code"),
            path("login/set-up/", self._step(admin_second_factor.set_up), name="login_set_up"),
            *super().get_urls(),
        ]

    def has_permission(self, request: HttpRequest) -> bool:
        """Let staff in whose session has what this server asks of staff."""
        return super().has_permission(request) and admin_sign_in.may_enter(request)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Guard a page as Django does, and record who is refused: for missing rights, or for not being staff.

        A request that sends something sensitive, from a session proved too long ago, is led to the page that asks
        again.
        """

        @wraps(view)
        def proven(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            admin_step_up.require_for(request, free_pages=self.pages_without_step_up)
            shown: HttpResponse = view(request, *args, **kwargs)
            return shown

        guarded = super().admin_view(proven, cacheable)

        @wraps(guarded)
        def judged(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.user.is_authenticated and not self.has_permission(request):
                audited_admin.record_denial(request)
            try:
                answer: HttpResponse = guarded(request, *args, **kwargs)
            except PermissionDenied:
                audited_admin.record_denial(request)
                raise
            except StepUpRequired:
                return admin_confirm.lead(request)
            return answer

        return judged

    @method_decorator(never_cache)
    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Ask for address and password, as Django's site does."""
        redirect_url = PasswordView().get_redirect_url(request) or reverse("admin:index", current_app=self.name)
        if request.method == "GET" and self.has_permission(request):
            return HttpResponseRedirect(redirect_url)
        context = {
            **self.each_context(request),
            "title": "Sign in",
            "subtitle": None,
            "app_path": request.get_full_path(),
            "username": request.user.get_username(),
            "lacks_factor": super().has_permission(request),
            "proof_required": emails.is_proof_required(),
            REDIRECT_FIELD_NAME: redirect_url,
            **(extra_context or {}),
        }
        request.current_app = self.name  # Django's own convention
        view: Any = PasswordView.as_view(extra_context=context, template_name="admin/sign_in.html")
        answer: HttpResponse = view(request)
        return answer

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Sign out; pages of this browser tell of nobody any more who acts as a person, which ends with it."""
        answer: TemplateResponse = super().logout(request, extra_context)
        if cookies.name_of(ACTING) in request.COOKIES:
            cookies.give(answer, ACTING, "", max_age_s=0)
        return answer

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the figures the caller may see, and the lists."""
        shown = {"figures": admin_start.figures(request), "periods": admin_start.periods(request)}
        return super().index(request, {**shown, **(extra_context or {})})

    def _confirmation(self, view: Any) -> Any:
        """Return a view for anybody who is signed in, which is sent a password."""
        return self.admin_view(sensitive_post_parameters()(partial(view, self)))

    def _step(self, view: Any) -> Any:
        """Return a view that anybody may ask for, guarded as Django guards its sign-in."""
        return never_cache(csrf_protect(sensitive_post_parameters()(login_not_required(partial(view, self)))))

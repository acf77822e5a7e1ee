"""Sessions in Django's admin: to see and to end (signing keys: ``admin_keys``)."""

from collections.abc import Iterable
from itertools import batched
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html

from accounts.acts.change import BATCH
from accounts.admin.users import UserAdmin
from accounts.audit import recording as audit
from ironauth.infrastructure.admin.actions import (
    CONFIRMED,
    SHOWN,
    admin_action,
    ask,
    holds,
    is_danger,
    is_typed,
    page_act,
)
from ironauth.infrastructure.admin.lists import CheckedSelection, CountedPages, KnownValues
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.user_agents import short_name
from tokens.admin.read_only import ReadOnly, note
from tokens.rights import DELETE_SESSIONS
from tokens.sessions import ending
from tokens.sessions import queries as session_queries
from tokens.sessions import units as sessions
from tokens.sessions.ends import clocks, of_everybody
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import Session, SessionQuerySet

if TYPE_CHECKING:  # Django's class takes its models in brackets for type checkers only
    BaseFormSet = BaseInlineFormSet[Session, Any, Any]
else:
    BaseFormSet = BaseInlineFormSet

END_EVERYBODYS: Final = "End everybody's sessions"
OPENED_HERE: Final = "IronAuth"  # the application of sessions that no other one asked for
LISTED: Final = 20  # on a person's page: more than devices most people have; applications may open any number
SESSION_FIELDS = (
    "id", "user", "state", "created_at", "last_used_at", "idle_expires_at", "absolute_expires_at", "address",
    "user_agent", "application", "client_id", "scope", "generation", "revoked_at", "revoke_reason",
)  # fmt: skip


class LiveFilter(KnownValues):
    """Live sessions or ended ones."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the two."""
        return [("live", "Live"), ("ended", "Ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Return the sessions of the chosen state."""
        live = Session.objects.live(clock.now()).filter(user__is_active=True).values("pk")
        if self.value() == "live":
            return queryset.filter(pk__in=live)
        return queryset.exclude(pk__in=live) if self.value() == "ended" else queryset


class _Named(ChangeList):
    """The list, with the names of the applications that the sessions on a page are of."""

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page and the names."""
        super().get_results(request)
        found = list(self.result_list)
        self.result_list: Any = found
        _name_applications(found)


def _name_applications(found: Iterable[Any]) -> None:
    """Give each session the name of its application, for ``application``. 1 query, or none."""
    names = session_queries.applications_of(found)
    for session in found:
        session.application_name = names.get(session.client_id, OPENED_HERE)


class EndOfEverybody:
    """Mixin of the list of sessions: the button, the question and how far the newest end is."""

    admin_site: Any
    message_user: Any

    def has_end_everybody_permission(self, request: HttpRequest) -> bool:
        """Tell whether the caller may end the sessions of everybody: those of superusers are among them."""
        caller: Any = request.user
        return bool(caller.is_active and caller.is_superuser)

    def get_urls(self) -> list[URLPattern]:
        """Add the address of the button."""
        view = self.admin_site.admin_view(self.end_everybody)
        more: Any = super()
        return [path("end-everybody/", view, name="tokens_session_end_everybody"), *more.get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the button to those who may press it, and the progress."""
        context = {
            **(extra_context or {}),
            "may_end_everybody": self.has_end_everybody_permission(request),
            "end_everybody_danger": is_danger(self.end_everybody),
            "end_progress": of_everybody.progress(),
        }
        more: Any = super()
        answer: HttpResponse = more.changelist_view(request, context)
        return answer

    @page_act(danger=True)
    def end_everybody(self, request: HttpRequest) -> HttpResponse:
        """End them by POST, once the phrase was typed. A GET comes back from a proof, and changes nothing."""
        if not self.has_end_everybody_permission(request):
            raise PermissionDenied
        model_admin: Any = self
        if request.method == "POST" and not is_typed(request, of_everybody.PHRASE):
            return ask(
                model_admin,
                request,
                action="end_everybody",
                title=END_EVERYBODYS,
                question=f"{END_EVERYBODYS}?",
                warning="Everybody is signed out everywhere at once, staff too: of the admin's sessions only this one "
                "stays. People sign in again with what they have; programs with refresh tokens need them to. Access "
                "tokens of clients themselves go on. This cannot be undone.",
                shown=[],
                danger=is_danger(self.end_everybody),
                phrase=of_everybody.PHRASE,
            )
        if request.method == "POST":
            caller: Any = request.user
            try:
                of_everybody.begin(actor_id=caller.pk, spared=request.session.session_key)
            except clocks.ClockIsWrongError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, "Everybody's sessions have ended.", messages.SUCCESS)
        return redirect(reverse("admin:tokens_session_changelist"))


@admin.register(Session)
class SessionAdmin(EndOfEverybody, CheckedSelection, ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg] # Django's is not generic at run time
    """Every session; ending one takes effect at once."""

    lookups = frozenset({
        "state", "user__exact", "revoke_reason__exact", "revoke_reason__isnull",
        *(f"created_at__{part}" for part in ("gte", "lt", "isnull", "year", "month", "day")),
    })  # fmt: skip
    hidden = ("secret", "browser")
    list_display = ["user", "state", "last_used", "expires", "address", "application", "agent"]
    list_filter = [LiveFilter, "revoke_reason", "created_at"]
    search_fields = ["user__email", "=ip"]
    search_help_text = "E-mail address, or an exact IP address"
    date_hierarchy = "created_at"
    list_select_related = ["user__pending_deletion"]
    paginator = CountedPages
    show_full_result_count = False  # counting millions of rows is what makes an admin list slow
    show_facets = admin.ShowFacets.NEVER  # so does counting them for every filter
    fields = SESSION_FIELDS
    readonly_fields = SESSION_FIELDS
    actions = ["end_sessions"]

    def named(self, row: Session) -> str:
        """Return whose it is, where, and when it was used."""
        return _named(row)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Return the sessions with when they ended, also with those of everybody whose rows are not written yet."""
        found: Any = super().get_queryset(request)
        rows: QuerySet[Session] = found.with_end()
        return rows

    @admin.display(description="State")
    def state(self, session: Any) -> str:
        """Return whether the session lives, and if not, why."""
        if session.revoked_at is not None:
            return str(session.get_revoke_reason_display())
        if session.ended_at is not None:
            return "Ended with everybody's"
        if session.is_over(clock.now()):
            return "Expired"
        if session.epoch != session.user.session_epoch:
            return "Ended with all others"
        return "Live" if session.user.is_active else "User inactive"

    @admin.display(description="Last used", ordering="last_used_at")
    def last_used(self, session: Session) -> str:
        """Return when the session was opened or last refreshed."""
        return moment(session.last_used_at)

    @admin.display(description="Expires", ordering="idle_expires_at")
    def expires(self, session: Session) -> str:
        """Return when the session ends unless it is used."""
        return moment(session.idle_expires_at)

    @admin.display(description="Address", ordering="ip")
    def address(self, session: Session) -> str | None:
        """Return where the session was opened from."""
        return session.ip

    @admin.display(description="Application")
    def application(self, session: Any) -> str:
        """Return what was signed in to; read for the whole page of a list, for this session alone on its own."""
        if not hasattr(session, "application_name"):
            _name_applications([session])
        return str(session.application_name)

    @admin.display(description="Browser", ordering="user_agent")
    def agent(self, session: Session) -> str:
        """Return the browser in a few words, and the whole user agent as their tooltip."""
        return _browser(session)

    has_end_permission = holds(DELETE_SESSIONS)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list with the names."""
        return _Named

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Answer a date that does not exist as any other bad filter; Django's date hierarchy trips over year 9999."""
        try:
            return super().get_changelist_instance(request)
        except (ValueError, OverflowError) as error:
            raise IncorrectLookupParameters from error

    @admin_action("End selected sessions", permission="end", danger=True, step_up=False)
    def end_sessions(self, request: HttpRequest, queryset: SessionQuerySet) -> HttpResponse | None:
        """End the live ones, asking first; superusers' are spared unless the caller is one."""
        live = queryset.live(clock.now())
        caller: Any = request.user
        chosen = live if caller.is_superuser else live.filter(user__is_superuser=False)
        spared = live.count() - chosen.count()
        left = f"Left as they were: {_count(spared)} of superusers." if spared else ""
        if CONFIRMED not in request.POST and (total := chosen.count()):
            return ask(
                self,
                request,
                action="end_sessions",
                title="End sessions",
                question=f"End {_count(total)}?",
                warning="Anybody who uses them is signed out there at once. Signing in again is possible.",
                shown=[_named(session) for session in chosen.select_related("user__pending_deletion")[:SHOWN]],
                danger=is_danger(self.end_sessions),
                unshown=max(0, total - SHOWN),
                spared=left,
            )
        ended = self._end(request, chosen)
        if ended:
            self.message_user(request, f"{_count(ended)} ended.", messages.SUCCESS)
        if left:
            self.message_user(request, left, messages.WARNING)
        elif not ended:
            self.message_user(request, "No live session was selected.", messages.WARNING)
        return None

    def _end(self, request: HttpRequest, chosen: SessionQuerySet) -> int:
        """End the sessions and leave a trace of each; return how many.

        In short transactions: one for all of a long list would keep SQLite's writers waiting.
        """
        owned = list(chosen.values_list("user_id", "pk"))
        caller: Any = request.user
        for rows in batched(owned, BATCH):
            part = [session_id for _, session_id in rows]
            with transaction.atomic():
                note(request, Session.objects.filter(pk__in=part).defer("secret"), "Ended.", action="end_session")
                sessions.end_sessions(session_ids=part, reason=Session.RevokeReason.ENDED_BY_STAFF)
                session_ends.forget_devices(part)
                for user_id in {user_id for user_id, _ in rows}:
                    ending.under_way_ends.send(sender=Session, user_id=user_id, session_ids=part, keep=())
                audit.record_each(audit.Event.SESSION_ENDED, rows, actor_id=caller.pk)
        return len(owned)


def _named(session: Session) -> str:
    """Return a line that tells a session from a person's others."""
    where = "".join(f", {part}" for part in (session.ip, short_name(session.user_agent)) if part)
    return f"{session.user}{where}, last used {moment(session.last_used_at)}"


def _browser(session: Session) -> str:
    """Return the browser in a few words, with the whole user agent as their title; "" where there is none."""
    agent = session.user_agent
    return format_html('<span title="{}">{}</span>', agent, short_name(agent)) if agent else ""


def _count(number: int) -> str:
    """Return e.g. "1 session" or "3 sessions"."""
    return f"{number} session" if number == 1 else f"{number} sessions"


class _Newest(BaseFormSet):
    """The rows of a person that come first, and no more of them."""

    @cached_property
    def _first(self) -> list[Session]:
        first = list(super().get_queryset()[: LISTED + 1])
        _name_applications(first)
        return first

    @property
    def more(self) -> bool:
        """Tell whether there are more than these."""
        return len(self._first) > LISTED

    def get_queryset(self) -> Any:
        """Return them, read once."""
        return self._first[:LISTED]


class SessionInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg] # as above
    """The live sessions of a person that were used last, on the person's page.

    ``link_to``, ``link_text`` and ``note`` are for the page's template: where all of them are, and what these are where
    there are more.
    """

    model = Session
    formset = _Newest
    link_to = "admin:tokens_session_changelist"
    link_text = "All sessions of this person"
    note = f"The {LISTED} used last."
    hidden = ("secret", "browser")
    verbose_name_plural = "Live sessions"
    fields = ["opened", "last_used", "expires", "ip", "application", "agent"]
    readonly_fields = ["opened", "last_used", "expires", "ip", "application", "agent"]
    extra = 0

    @admin.display(description="Opened")
    def opened(self, session: Session) -> str:
        """Return since when the session lives, linked to its page."""
        page = reverse("admin:tokens_session_change", args=[session.pk])
        return format_html('<a href="{}">{}</a>', page, moment(session.created_at))

    @admin.display(description="Last used")
    def last_used(self, session: Session) -> str:
        """Return when the session was opened or last refreshed."""
        return moment(session.last_used_at)

    @admin.display(description="Expires")
    def expires(self, session: Session) -> str:
        """Return when the session ends unless it is used."""
        return moment(session.idle_expires_at)

    @admin.display(description="Application")
    def application(self, session: Any) -> str:
        """Return what was signed in to."""
        return str(session.application_name)

    @admin.display(description="Browser")
    def agent(self, session: Session) -> str:
        """Return the browser as the list of sessions does."""
        return _browser(session)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Return the live ones only."""
        return super().get_queryset(request).filter(pk__in=Session.objects.live(clock.now()).values("pk"))


UserAdmin.inlines.append(SessionInline)

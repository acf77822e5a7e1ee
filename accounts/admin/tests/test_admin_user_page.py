"""A person's page in the admin: state, trail and buttons, who sees them, and at what cost; likewise the list."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from accounts.conftest import MakeUser
from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.mfa.recovery.models import RecoveryCode
from accounts.mfa.totp.models import TotpFactor
from accounts.outbox import queue as outbox
from accounts.outbox.kinds import Kind
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.transfer.models import ImportedUser, UserImport
from accounts.users.models import User
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
LIST = "/admin/accounts/user/"
ENDING = {"forgive_failures", "end_all_sessions", "send_reset", "require_password_change", "deactivate"}


def _page(user: User) -> str:
    return f"{LIST}{user.pk}/change/"


def _buttons(client: Client, user: User) -> set[str]:
    """Return the actions the page offers."""
    page = client.get(_page(user)).content.decode()
    return set(re.findall(r'name="action" value="(\w+)"', page))


def _act(client: Client, action: str, *users: User, **more: str) -> Any:
    chosen: dict[str, Any] = {"action": action, "_selected_action": [str(user.pk) for user in users]}
    return client.post(LIST, chosen | more)


def _enrol(user: User) -> None:
    TotpFactor.objects.create(user=user, sealed=b"x", master_key_id="t1", confirmed_at=clock.now())
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, selector=f"aaa{n}", encoded="x") for n in range(8))


def test_identities_at_other_providers(client: Client, root: User, make_user: MakeUser) -> None:
    """Which provider, under which address, when last: as text and no markup, on the person's own page alone."""
    user, other = make_user(), make_user()
    row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer="https://acme.example", client_id="x")
    seal_into(row, "secret")
    row.save()
    Identity.objects.create(user=user, provider=row, issuer=row.issuer, subject="1", email="<b>@acme.example")
    page = client.get(_page(user)).content.decode()
    assert "Acme: &lt;b&gt;@acme.example, last used " in page
    assert "Acme" not in client.get(_page(other)).content.decode()


def test_state_of_sign_in_and_mail(client: Client, root: User, make_user: MakeUser) -> None:
    """Second factors, verified address, flags, and messages that wait or were given up, linked to their list."""
    user, other = make_user(), make_user()
    page = client.get(_page(user)).content.decode()
    assert "Nothing waits" in page
    assert re.search(r"Current password.*?>Set<", page, re.DOTALL)
    assert "None" in page[page.index("Second factor") : page.index("Other providers")]
    _enrol(user)
    for one in (user, user, other):
        outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=one.email, user_id=one.pk)
    first = OutgoingMail.objects.filter(user=user).order_by("pk")[:1]
    OutgoingMail.objects.filter(pk__in=[mail.pk for mail in first]).update(failed_at=clock.now())
    User.objects.filter(pk=user.pk).update(
        email_verified_at=clock.now(), must_change_password=True, password_flagged_at=clock.now()
    )
    User.objects.filter(pk=other.pk).update(password="!")
    assert re.search(r"Current password.*?>None<", client.get(_page(other)).content.decode(), re.DOTALL)
    page = client.get(_page(user)).content.decode()
    assert "Authenticator app, 8 recovery codes left" in page
    (link,) = re.findall(r'href="([^"]+)">1 waiting, 1 given up<', page)
    assert client.get(link).context["cl"].result_count == 2
    assert "Set; has to be changed before signing in; found in a list of breached passwords at " in page


def test_the_heading_names_the_person_and_leads_to_the_acts(client: Client, root: User, make_user: MakeUser) -> None:
    """The name where there is one, beside the address; a link to the acts where there are any."""
    named, nameless = make_user(name="Olga <Other>"), make_user(name="")
    page = client.get(_page(named)).content.decode()
    assert f"<h2>Olga &lt;Other&gt;, {named}</h2>" in page
    places = [page.index(one) for one in ('class="verdict', '<a href="#acts-heading">Acts</a>', '<nav class="tabs"')]
    assert places == sorted(places)
    assert f"<h2>{nameless}</h2>" in client.get(_page(nameless)).content.decode()
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert "#acts-heading" not in client.get(_page(named)).content.decode()


def test_the_record_says_who_was_imported(client: Client, root: User, make_user: MakeUser) -> None:
    """From which system, by which id there, and when; by a run, or at the first sign-in, or not at all."""
    run = UserImport.objects.create(source="jsonl")
    told = f"Imported from jsonl, id &lt;1&gt;, on {moment(run.started_at)}"
    for place, words in ((run, told), (None, "Imported from jsonl, id &lt;2&gt;, at the first sign-in")):
        user = make_user()
        ImportedUser.objects.create(user=user, source="jsonl", external_id="<1>" if place else "<2>", run=place)
        page = client.get(f"{_page(user)}?tab=record").content.decode()
        assert words in page
        assert "Imported from" not in client.get(_page(user)).content.decode()
    page = client.get(f"{_page(make_user())}?tab=record").content.decode()
    assert "Imported:" in page
    assert "Imported from" not in page


def test_the_trail_of_a_person(client: Client, root: User, make_user: MakeUser) -> None:
    """The newest twenty events about them and by them, each once, and a link to all; nothing of other people."""
    user, other = make_user(email="pia@example.com"), make_user()
    assert "No events yet." in client.get(_page(user)).content.decode()
    audit.record(Event.SIGN_UP, actor_id=user.pk, user_id=user.pk)
    for _ in range(19):
        audit.record(Event.SIGN_IN, actor_id=user.pk, user_id=user.pk)
    audit.record(Event.ROLE_GIVEN, actor_id=user.pk, user_id=other.pk)
    audit.record(Event.ROLE_TAKEN, actor_id=root.pk, user_id=user.pk)
    audit.record(Event.SIGN_OUT, actor_id=other.pk, user_id=other.pk)
    page = client.get(_page(user)).content.decode()
    trail = page[page.index('id="trail-heading"') :]
    assert trail.count("<tr>") == 1 + 20
    assert trail.count(">Sign-in<") == 18
    assert "Sign-up" not in trail
    assert "Sign-out" not in trail
    assert f"pia@example.com, to {other.email}" in trail
    assert "root@example.com" in trail
    assert f"{reverse('admin:accounts_auditevent_changelist')}?q={user.pk}" in trail


def test_the_trail_has_causes(client: Client, root: User, make_user: MakeUser) -> None:
    """Why something failed stands in its line: the reason, and what a provider was refused for."""
    user = make_user()
    refused = {"reason": Reason.PROVIDER_REFUSED, "provider": "acme", "cause": "nonce"}
    audit.record(Event.IDENTITY_LINKED, outcome=Outcome.FAILURE, user_id=user.pk, details=refused)
    audit.record(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=user.pk, details={"reason": Reason.WRONG_CODE})
    page = client.get(_page(user)).content.decode()
    assert "provider refused: nonce" in page
    assert re.search(r"wrong code\s*<", page)


@pytest.mark.parametrize(("refused", "words"), [
    (InvalidMfaCode, "Wrong code of the second factor"), (InvalidPasskey, "Passkey not accepted"),
])  # fmt: skip
def test_the_trail_finds_what_a_second_factor_was_refused_for(
    refused: type[SecondFactorRefused], words: str, client: Client, root: User, make_user: MakeUser
) -> None:
    """By the code of the error that was answered, which is what its event has; the line says it in words."""
    for reason in (refused.code, Reason.WRONG_PASSWORD):
        audit.record(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=make_user().pk, details={"reason": reason})
    page = client.get(reverse("admin:accounts_auditevent_changelist"), {"cause": refused.code}).content.decode()
    assert f'<option value="{refused.code}" selected>{words}</option>' in page
    assert f"failure: {words[0].lower()}{words[1:]}" in page
    assert "failure: wrong password" not in page


def test_the_trail_is_for_those_who_may_read_it(client: Client, make_user: MakeUser) -> None:
    """Without the right over the trail the page has none."""
    user = make_user()
    audit.record(Event.SIGN_IN, user_id=user.pk)
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert b"trail-heading" not in client.get(_page(user)).content
    client.force_login(make_user("accounts.view_user", "accounts.view_auditevent", is_staff=True))
    assert b"trail-heading" in client.get(_page(user)).content


def test_buttons_are_those_that_would_change_something(client: Client, root: User, make_user: MakeUser) -> None:
    """What is done already, or concerns nobody like this, is not offered; oneself cannot be locked out."""
    user = make_user()
    assert _buttons(client, user) == ENDING | {"resend_verification"}
    _enrol(user)
    changes = {"email_verified_at": clock.now(), "must_change_password": True}
    User.objects.filter(pk=user.pk).update(**changes)
    assert _buttons(client, user) == ENDING - {"require_password_change"} | {"accept_password", "reset_mfa"}
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert _buttons(client, user) == {
        "end_all_sessions",
        "forgive_failures",
        "accept_password",
        "reset_mfa",
        "activate",
    }
    _enrol(root)
    assert _buttons(client, root) == {"end_all_sessions", "forgive_failures", "send_reset", "resend_verification"}


def test_buttons_follow_the_callers_rights(client: Client, make_user: MakeUser) -> None:
    """Nothing about superusers, no take-over of people with more rights, no factors without the right over them."""
    boss = make_user(is_superuser=True)
    keeper, plain = make_user("tokens.view_signingkey"), make_user()
    for user in (boss, keeper, plain):
        _enrol(user)
    rights = ("accounts.view_user", "accounts.change_user")
    client.force_login(make_user(*rights, is_staff=True))
    assert _buttons(client, boss) == set()
    assert "reset_mfa" not in _buttons(client, plain)
    client.force_login(make_user(*rights, "accounts.reset_mfa", is_staff=True))
    assert "reset_mfa" in _buttons(client, plain)
    assert _buttons(client, keeper) == ENDING | {"resend_verification"}
    for user in (boss, keeper):
        _act(client, "reset_mfa", user, confirmed="yes")
    assert TotpFactor.objects.count() == 3
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert _buttons(client, plain) == set()


def test_a_button_asks_and_returns_to_the_page(client: Client, root: User, make_user: MakeUser) -> None:
    """The question keeps where one came from; an address made up leads nowhere else."""
    user = make_user()
    asked = _act(client, "send_reset", user, page="yes").content.decode()
    assert 'name="page" value="yes"' in asked
    assert not OutgoingMail.objects.exists()
    done = _act(client, "send_reset", user, page="yes", confirmed="yes")
    assert done.headers["location"] == _page(user)
    assert "Password reset sent: 1 user." in client.get(_page(user)).content.decode()
    assert _act(client, "send_reset", user, confirmed="yes").headers["location"] == LIST
    assert _act(client, "send_reset", user, page="https://evil.example", confirmed="yes").headers["location"] == _page(
        user
    )


@pytest.mark.parametrize(
    ("action", "kind", "event", "count"),
    [
        ("send_reset", "reset_password", "password_reset_requested", 3),
        ("resend_verification", "verify_email", "verification_requested", 2),
        ("require_password_change", "password_change_required", "password_change_required", 4),
    ],
)
def test_messages_to_many(
    client: Client, root: User, make_user: MakeUser, action: str, kind: str, event: str, count: int
) -> None:
    """Everybody concerned gets one, in more than one transaction, recorded with who had it sent; nobody else does."""
    chosen = [make_user() for _ in range(2)]
    chosen += [make_user(email_verified_at=clock.now()), make_user(is_active=False)]
    before = set(AuditEvent.objects.values_list("pk", flat=True))
    _act(client, action, *chosen, confirmed="yes")
    mails = OutgoingMail.objects.filter(kind=kind)
    reached = {
        user.pk for user in chosen if user.is_active and (action != "resend_verification" or not user.email_verified_at)
    }
    assert set(mails.values_list("user_id", flat=True)) == reached
    assert mails.count() == EmailToken.objects.count() == len(reached)
    events = AuditEvent.objects.exclude(pk__in=before)
    assert {(one.event, one.actor_id, one.outcome) for one in events} == {(event, root.pk, Outcome.SUCCESS.value)}
    assert events.count() == count


def test_a_long_list_is_done_in_short_transactions(client: Client, root: User) -> None:
    """Forty-five people are three transactions: nobody else waits for the whole list."""
    User.objects.bulk_create([User(email=f"crowd{n}@example.com", password="!") for n in range(45)])
    everything = {"action": "send_reset", "select_across": "1", "index": "0", "confirmed": "yes"}
    with CaptureQueriesContext(connection) as captured:
        client.post(f"{LIST}?q=crowd", everything | {"_selected_action": "all"})
    assert OutgoingMail.objects.count() == 45
    assert sum('INTO "django_admin_log"' in query["sql"] for query in captured.captured_queries) == 3


def _grow(number: int, role: Group) -> User:
    """Add people with a role; the first of them has a factor, a history and messages, each a tenth of the number."""
    users = [User(email=f"crowd{n}-of-{number}@example.com", password="!") for n in range(number)]
    User.objects.bulk_create(users)
    User.groups.through.objects.bulk_create([User.groups.through(user=user, group=role) for user in users])
    one = users[0]
    _enrol(one)
    audit.record_each(Event.SIGN_IN, ((user.pk, None) for user in users[:50]), actor_id=one.pk)
    for _ in range(number // 10):
        outbox.enqueue(Kind.PASSWORD_CHANGED, recipient=one.email, user_id=one.pk)
    return one


@pytest.mark.live
def test_lists_and_page_cost_the_same_at_any_size(client: Client, root: User) -> None:
    """The lists of ten and of a thousand people, and a page with a long history, take as many queries."""

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        return len(captured)

    def costs(one: User) -> list[int]:
        return [queries(path) for path in (*lists, _page(one))]

    lists = (
        LIST,
        f"{LIST}?q=crowd",
        f"{LIST}?factor=yes&is_active__exact=1",
        "/admin/accounts/auditevent/",
        "/admin/accounts/outgoingmail/",
    )
    role = Group.objects.create(name="editors")
    few = _grow(10, role)
    costs(few)  # Django remembers content types, and with Redis what roles grant
    before = costs(few)
    # Session, its user, roles of the filter, count, page, roles of the page; who is being deleted, by an index.
    search = 7 if connection.vendor == "postgresql" else 6
    assert before[:-1] == [6, search, 6, 5, 4]
    assert before[-1] <= 20
    assert costs(_grow(1_000, role)) == before


def test_nothing_of_a_hash_is_shown(client: Client, root: User, make_user: MakeUser) -> None:
    """Neither its parameters nor its beginning, who may change the person and who may only look; the button stays."""
    user = make_user(email="pia@example.com")
    assert (
        '<a role="button" class="button" href="../password/">Reset password</a>'
        in client.get(f"{_page(user)}?tab=profile").content.decode()
    )
    for caller in (root, make_user("accounts.view_user", is_staff=True)):
        client.force_login(caller)
        page = "".join(client.get(_page(user), {"tab": tab}).content.decode().lower() for tab in ("", "profile"))
        for word in ("argon2", "algorithm", "memory cost", "<bdi>", user.password[-12:].lower()):
            assert word not in page, (caller.email, word)

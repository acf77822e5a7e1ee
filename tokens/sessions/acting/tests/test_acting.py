"""A member of staff signed in as a person: to look, for 30 minutes, and only as long as they may."""

import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver
from joserfc.util import urlsafe_b64decode

from accounts.access import rights
from accounts.audit.models import AuditEvent
from accounts.pages.acts import ROWS
from accounts.pages.own_page import OwnPage
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.access import codec
from tokens.errors import ActingSession
from tokens.keys.store import key_store
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.material import make_client
from tokens.sessions import authentication, sso_session
from tokens.sessions.access_tokens import token_pair
from tokens.sessions.acting import rules
from tokens.sessions.acting import units as acting
from tokens.sessions.acting.rules import ACTING_S
from tokens.sessions.authentication import AccessTokenAuthentication
from tokens.sessions.ends import batches, of_everybody
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sessions.queries import OpenedSession
from tokens.sign_in.tests.test_web_user import address
from tokens.tests.browser import LOGOUT, ME, REFRESH, SAME_ORIGIN, VERIFY, Member, Pair

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("still_clock", "signing_key"),
]

SESSIONS, HOME = "/api/v1/access/sessions", "/account/security"
CONTEXT = ClientContext("192.0.2.7", "Support/1.0", "", "")
#: All that such a session may ask for.
OPEN = {
    ("GET", "/api/v1/access/me"),
    ("GET", "/api/v1/access/me/language"),
    ("GET", "/api/v1/access/kept-devices"),
    ("GET", "/api/v1/access/mfa"),
    ("GET", "/api/v1/access/sessions"),
    ("GET", "/api/v1/access/identities"),
    ("GET", "/api/v1/access/consents"),
    ("GET", "/api/v1/organizations"),
    ("GET", "/api/v1/organizations/<uuid:organization_id>"),
    ("GET", "/api/v1/organizations/<uuid:organization_id>/members"),
    ("POST", "/api/v1/access/logout"),
    ("GET", "/account/security"),
    ("POST", "/account/security"),
    ("GET", "/account/security/organizations"),
    ("GET", "/account/security/organizations/<uuid:organization_id>"),
    ("GET", "/account/security/organizations/<uuid:organization_id>/delete"),
    ("GET", "/account/security/organizations/<uuid:organization_id>/members/<uuid:user_id>"),
    ("GET", "/account/security/<slug:section>"),
    ("GET", "/account/security/<slug:section>/<uuid:item>"),
}


def permit(user: User, *names: str) -> None:
    """Give single permissions."""
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.IRONAUTH_SIGN_IN_AS = True


@pytest.fixture
def helper(signing_key: str) -> User:
    """A member of staff who may sign in as people, and nothing else."""
    user = User.objects.create_user(email="helper@example.com", name="Hedy", is_staff=True)
    permit(user, "sign_in_as")
    return user


def begin(actor: User, user_id: Any, **changes: Any) -> OpenedSession:
    """Open the session, as the admin does."""
    given = {"reason": "ticket 7", "context": CONTEXT, "until": clock.now() + timedelta(days=1), **changes}
    with transaction.atomic():
        return acting.begin(actor_id=actor.pk, user_id=uuid.UUID(str(user_id)), **given)


@pytest.fixture
async def seen(helper: User, member: Member) -> Pair:
    """The tokens of such a session."""
    return await tokens_of(await sync_to_async(begin)(helper, member["id"]))


async def tokens_of(opened: OpenedSession) -> Pair:
    """Return the pair as an answer has it."""
    mark = token_cache().mark()
    pair = token_pair(opened, await key_store().signing(), mark)
    return {name: getattr(pair, name) for name in pair.__struct_fields__}


async def get_me(api: httpx.AsyncClient, pair: Pair) -> httpx.Response:
    """Ask who that is."""
    return await api.get(ME, headers=bearer(pair))


def events(event: str) -> list[AuditEvent]:
    """Return the events of this code."""
    return list(AuditEvent.objects.filter(event=event).order_by("id"))


# ---------------------------------------------------------------- what it says
async def test_it_says_who_acts(api: httpx.AsyncClient, seen: Pair, helper: User, member: Member) -> None:
    """The answer is the person's, with who acts and until when; the token names them; the person's own says null."""
    said = (await get_me(api, seen)).json()
    assert (said["id"], said["acting"]["id"]) == (member["id"], str(helper.pk))
    assert (said["acting"]["email"], said["acting"]["name"]) == ("helper@example.com", "Hedy")
    session = await Session.objects.aget(actor_id=helper.pk)
    assert (session.absolute_expires_at - session.created_at).total_seconds() == ACTING_S == 1_800
    claims = codec.claims_of(seen["access_token"])
    assert claims.act == codec.Actor(str(helper.pk), kind="staff")
    assert b'"act":{"sub":"%b","kind":"staff"}' % str(helper.pk).encode() in payload(seen["access_token"])
    own = await api.post("/api/v1/access/signin", json={"email": member["email"], "password": member["password"]})
    assert (await get_me(api, own.json())).json()["acting"] is None


def payload(token: str) -> bytes:
    """Return the payload's bytes."""
    return urlsafe_b64decode(token.split(".")[1].encode())


async def test_the_token_brings_no_role(api: httpx.AsyncClient, helper: User, member: Member) -> None:
    """What another application opens to a role of the person stays closed to staff."""
    user = await User.objects.aget(pk=member["id"])
    await user.groups.aadd(await Group.objects.acreate(name="editors"))
    pair = await tokens_of(await sync_to_async(begin)(helper, member["id"]))
    assert codec.claims_of(pair["access_token"]).roles == ()
    assert (await get_me(api, pair)).json()["roles"] == ["editors"]


async def test_both_trails_say_so(api: httpx.AsyncClient, seen: Pair, helper: User, member: Member) -> None:
    """One event each, of the member of staff and about the person: it began, why and until when; and it ended."""
    began = (await sync_to_async(events)("sign_in_as"))[0]
    assert (began.actor_id, str(began.user_id)) == (helper.pk, member["id"])
    assert (began.details["reason"], str(began.session_id)) == ("ticket 7", str(seen["session_id"]))
    assert began.details["until"] == (await Session.objects.aget()).absolute_expires_at.isoformat(timespec="seconds")
    answer = await api.post(LOGOUT, headers=bearer(seen))
    assert answer.status_code == 204
    ended = (await sync_to_async(events)("sign_in_as_ended"))[0]
    assert (ended.actor_id, str(ended.user_id)) == (helper.pk, member["id"])
    assert not await sync_to_async(events)("sign_out")
    assert (await get_me(api, seen)).status_code == 401


async def test_the_person_sees_it_and_ends_it(api: httpx.AsyncClient, seen: Pair, pair: Pair, helper: User) -> None:
    """In the list of sessions, with the name of who it is; ending it there ends it."""
    listed = (await api.get(SESSIONS, headers=bearer(pair))).json()
    assert {one["id"]: one["actor"] for one in listed} == {str(seen["session_id"]): "Hedy", pair["session_id"]: None}
    assert (await api.delete(f"{SESSIONS}/{seen['session_id']}", headers=bearer(pair))).status_code == 204
    assert (await get_me(api, seen)).status_code == 401
    assert (await get_me(api, pair)).status_code == 200


# ---------------------------------------------------------------- to look, nothing more
def routes(resolver: URLResolver, prefix: str = "/") -> list[tuple[str, Any]]:
    """Return every address with its view."""
    found: list[tuple[str, Any]] = []
    for one in resolver.url_patterns:
        path = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            found += routes(one, path) if not path.startswith("/admin/") else []
        elif isinstance(one, URLPattern):
            found.append((path, getattr(one.callback, "view_class", None)))
    return found


def refused_to_all() -> list[tuple[str, str]]:
    """Return method and address of everything that asks who is there, except what is open; pages are apart."""
    found = []
    for path, view in routes(get_resolver()):
        if view is None or AccessTokenAuthentication not in getattr(view, "authentication_classes", ()):
            continue
        if issubclass(view, OwnPage):  # asks by cookie
            assert view.while_acting == {method for method, open_path in OPEN if open_path == path}
            continue
        filled = re.sub("<uuid:[a-z_]+>", str(uuid.uuid4()), path).replace("<str:role>", "editors")
        filled = re.sub("<slug:[a-z]+>", "password", filled)
        assert "<" not in filled, path
        methods = [name.upper() for name in view.http_method_names if name != "options" and hasattr(view, name)]
        found += [(method, filled) for method in (*methods, "OPTIONS") if (method, path) not in OPEN]
    return found


async def test_every_view_that_has_not_declared_itself_open_refuses(
    api: httpx.AsyncClient, seen: Pair, helper: User
) -> None:
    """By every method, the same way; also those of staff, though whose session it is might hold the right."""
    asked = refused_to_all()
    assert len(asked) > 60, asked  # the walk has found them
    for method, path in asked:
        answer = await api.request(method, path, json={}, headers=bearer(seen))
        assert (answer.status_code, answer.json().get("code")) == (403, "acting_session"), (method, path, answer.text)
    assert await Session.objects.filter(revoked_at=None).acount() == 1


@pytest.mark.parametrize(
    ("method", "path"),
    sorted(one for one in OPEN if one[0] == "GET" and one[1].startswith("/api/") and "<" not in one[1]),
)
async def test_what_is_open_shows_the_person(api: httpx.AsyncClient, seen: Pair, method: str, path: str) -> None:
    """The other side of the boundary; HEAD goes with GET."""
    assert (await api.request(method, path, headers=bearer(seen))).status_code == 200
    assert (await api.head(path, headers=bearer(seen))).status_code == 200


def in_browser(api: httpx.AsyncClient, pair: Pair) -> None:
    """Let the client be a browser that has the session in cookies."""
    for name in ("access_token", "refresh_token"):
        api.cookies.set(name, pair[name])
    api.headers.update(SAME_ORIGIN)


async def test_pages_say_who_looks_and_change_nothing(api: httpx.AsyncClient, seen: Pair, member: Member) -> None:
    """The overview and every row's page have the banner, their forms are off, and each act sent anyway is refused."""
    in_browser(api, seen)
    overview = (await api.get(HOME)).text
    for name in ROWS:
        shown = await api.get(f"{HOME}/{name}")
        assert shown.status_code == 200
        assert "<strong>Hedy (helper@example.com)</strong>" in shown.text
        assert '<fieldset class="look" disabled>' in shown.text
    form = re.search(r'name="form" value="([^"]+)"', overview)
    assert form is not None
    before = await User.objects.filter(pk=member["id"]).values().aget()
    for name, row in ROWS.items():
        for act in row.acts:
            sent = await api.post(
                f"{HOME}/{name}", data={"form": form[1], "act": act, "name": "X", "password": PASSWORD}
            )
            assert sent.status_code == 403, (name, act)
            assert "you can look, and change nothing" in sent.text
            assert "<strong>Hedy (helper@example.com)</strong>" in sent.text
    assert await User.objects.filter(pk=member["id"]).values().aget() == before
    assert await Session.objects.filter(revoked_at=None).acount() == 1


async def test_the_banner_ends_it(api: httpx.AsyncClient, seen: Pair, member: Member, pair: Pair) -> None:
    """Its button signs out here, leads back to the person's page in the admin, and ends no other session."""
    in_browser(api, seen)
    form = re.search(r'name="form" value="([^"]+)"', (await api.get(HOME)).text)
    assert form is not None
    assert (await api.post(HOME, data={"form": "x", "act": "end_acting"})).status_code == 403
    answer = await api.post(HOME, data={"form": form[1], "act": "end_acting"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/admin/accounts/user/{member['id']}/change/")
    api.cookies.clear()
    assert ((await get_me(api, seen)).status_code, (await get_me(api, pair)).status_code) == (401, 200)
    assert len(await sync_to_async(events)("sign_in_as_ended")) == 1


async def test_a_person_sees_no_banner(api: httpx.AsyncClient, pair: Pair) -> None:
    """The other side: their forms are on."""
    in_browser(api, pair)
    shown = (await api.get(f"{HOME}/password")).text
    assert 'class="acting"' not in shown
    assert "<fieldset" not in shown


async def test_what_a_person_may_do_is_not_refused_to_them(api: httpx.AsyncClient, pair: Pair) -> None:
    """The refusal is of the actor, not of the act."""
    assert (await api.patch(ME, json={"name": "Mia"}, headers=bearer(pair))).status_code == 200


# ---------------------------------------------------------------- other entrances
async def test_no_token_in_exchange_and_no_forward_auth(api: httpx.AsyncClient, seen: Pair, pair: Pair) -> None:
    """A client is given no token for it; a proxy lets nobody through by it. Both do for the person."""
    grant = "urn:ietf:params:oauth:grant-type:token-exchange"
    given = {"grants": [grant], "scopes": ["account"], "redirect_uris": []}
    party = Party(api, *await sync_to_async(make_client)(**given))
    for token, status in ((seen, 400), (pair, 200)):
        asked = {"subject_token": token["access_token"], "subject_token_type": ACCESS_TOKEN_TYPE}
        answer = await party.post("/oauth/token", grant_type=grant, **asked)
        assert answer.status_code == status, answer.text
    assert (await api.get(VERIFY, headers=bearer(seen))).json()["code"] == "acting_session"
    assert (await api.get(VERIFY, headers=bearer(pair))).status_code == 204


ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"


async def test_introspection_says_who_acts(api: httpx.AsyncClient, seen: Pair, helper: User) -> None:
    """An API that asks is told; of one whose actor lost the right it hears that it is not active."""
    gateway = Party(api, *await sync_to_async(make_client)(name="Gateway", resource_server=True))
    said = await gateway.introspect(seen["access_token"])
    assert (said["active"], said["act"]) == (True, {"sub": str(helper.pk), "kind": "staff"})
    await sync_to_async(helper.user_permissions.clear)()
    assert await gateway.introspect(seen["access_token"]) == {"active": False}


async def test_readers_that_have_not_asked_are_refused(seen: Pair) -> None:
    """Who verifies a token by another way than a view gets no such principal by default."""
    for reader in (authentication.by_text, authentication.verify):
        with pytest.raises(ActingSession):
            await reader(seen["access_token"])


async def test_views_of_a_project_see_nobody(seen: Pair, pair: Pair, member: Member) -> None:
    """Neither by the access token nor by the refresh token."""
    for name in ("access_token", "refresh_token"):
        assert await address({name: seen[name]}) == ""
        assert await address({name: pair[name]}) == member["email"]


async def test_it_is_no_sso_session(seen: Pair) -> None:
    """No cookie of single sign-on opens it, were its row one: no client gets a code."""
    await Session.objects.filter(pk=seen["session_id"]).aupdate(client_id=SSO_CLIENT)
    row = await Session.objects.aget(pk=seen["session_id"])
    text = sso_session.mint_cookie(session_id=row.pk, secret=bytes(row.secret), master_key_id=row.master_key_id)
    cookie = sso_session.parse_cookie(text)
    assert cookie is not None
    assert await sync_to_async(sso_session.find)(cookie) is None
    await Session.objects.filter(pk=row.pk).aupdate(actor_id=None)
    assert await sync_to_async(sso_session.find)(cookie) is not None


# ---------------------------------------------------------------- how long
async def test_it_ends_after_thirty_minutes_whatever_is_refreshed(api: httpx.AsyncClient, seen: Pair) -> None:
    """A refresh a second before the end moves nothing; at the end token and refresh token are dead."""
    with clock.shifted(ACTING_S - 1):
        answer = await api.post(REFRESH, json={"refresh_token": seen["refresh_token"]})
        assert answer.status_code == 200, answer.text
        renewed = answer.json()
        assert (await get_me(api, renewed)).status_code == 200
        assert (renewed["expires_in"], renewed["refresh_expires_in"]) == (1, 1)
        assert codec.claims_of(renewed["access_token"]).staff is not None
    with clock.shifted(ACTING_S):
        assert (await get_me(api, renewed)).status_code == 401
        assert (await api.post(REFRESH, json={"refresh_token": renewed["refresh_token"]})).status_code == 401


async def test_it_ends_with_the_session_it_was_begun_from(helper: User, member: Member) -> None:
    """No later than that one, when that ends sooner."""
    until = clock.now() + timedelta(seconds=60)
    opened = await sync_to_async(begin)(helper, member["id"], until=until)
    assert opened.expires_at == until


async def test_a_second_one_ends_the_first(api: httpx.AsyncClient, seen: Pair, helper: User, member: Member) -> None:
    """Staff act as one person at a time."""
    second = await tokens_of(await sync_to_async(begin)(helper, member["id"]))
    assert ((await get_me(api, seen)).status_code, (await get_me(api, second)).status_code) == (401, 200)


async def test_it_is_in_no_cache(api: httpx.AsyncClient, seen: Pair, pair: Pair) -> None:
    """Not when it is made, nor when it was used or refreshed; an ordinary token is."""
    renewed = (await api.post(REFRESH, json={"refresh_token": seen["refresh_token"]})).json()
    for _ in range(2):
        for one in (seen, renewed):
            assert (await get_me(api, one)).status_code == 200
            assert authentication.known(one["access_token"]) is None
            assert authentication.answers_of(one["access_token"].encode()) is None
            assert token_cache().peek(f"at:{codec.claims_of(one['access_token']).jti}") is None
    assert (await get_me(api, pair)).status_code == 200
    assert authentication.known(pair["access_token"]) is not None


async def right_taken(helper: User, _: Member) -> None:
    await sync_to_async(helper.user_permissions.clear)()


async def deactivated(helper: User, _: Member) -> None:
    await sync_to_async(User.objects.filter(pk=helper.pk).update)(is_active=False)


async def no_longer_staff(helper: User, _: Member) -> None:
    await sync_to_async(User.objects.filter(pk=helper.pk).update)(is_staff=False)


async def everywhere_signed_out(helper: User, _: Member) -> None:
    await sync_to_async(User.objects.filter(pk=helper.pk).update)(session_epoch=helper.session_epoch + 1)


async def deleted(helper: User, _: Member) -> None:
    await helper.adelete()


async def person_became_superuser(_: User, member: Member) -> None:
    await sync_to_async(User.objects.filter(pk=member["id"]).update)(is_superuser=True)


async def person_got_a_right(_: User, member: Member) -> None:
    await sync_to_async(permit)(await User.objects.aget(pk=member["id"]), "view_user")


ENDS = [
    right_taken,
    deactivated,
    no_longer_staff,
    everywhere_signed_out,
    deleted,
    person_became_superuser,
    person_got_a_right,
]


@pytest.mark.parametrize("change", ENDS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("by", ["access token", "refresh token"])
async def test_it_ends_when_who_acts_may_no_longer(
    api: httpx.AsyncClient,
    seen: Pair,
    helper: User,
    member: Member,
    change: Callable[[User, Member], Awaitable[None]],
    by: str,
) -> None:
    """With the very next request, for good, and the trail has it."""
    assert (await get_me(api, seen)).status_code == 200
    await change(helper, member)
    if by == "access token":
        assert (await get_me(api, seen)).status_code == 401
    else:
        assert (await api.post(REFRESH, json={"refresh_token": seen["refresh_token"]})).status_code == 401
    assert (await Session.objects.aget(pk=seen["session_id"])).revoked_at is not None
    ended = await sync_to_async(events)("sign_in_as_ended")
    assert [one.details for one in ended] == [{"reason": "no_longer_allowed"}]


async def test_switching_it_off_ends_what_is_open(api: httpx.AsyncClient, seen: Pair, settings: Any) -> None:
    """And switching it on again opens nothing that has ended."""
    settings.IRONAUTH_SIGN_IN_AS = False
    assert (await get_me(api, seen)).status_code == 401
    settings.IRONAUTH_SIGN_IN_AS = True
    assert (await get_me(api, seen)).status_code == 401


@pytest.mark.parametrize(("left_s", "recorded"), [(60, True), (-1, False)])
async def test_it_ends_with_those_of_everybody(
    api: httpx.AsyncClient, seen: Pair, helper: User, left_s: int, recorded: bool
) -> None:
    """And the trail has it, once its row is written; not of one that was over before. ``left_s``: until its own end."""
    session = await Session.objects.aget(pk=seen["session_id"])
    await Session.objects.filter(pk=session.pk).aupdate(idle_expires_at=clock.now() + timedelta(seconds=left_s))
    await sync_to_async(of_everybody.begin)(actor_id=None, despite_clocks=True)  # the test's stands still
    await sync_to_async(batches.end_all)()
    assert (await get_me(api, seen)).status_code == 401
    found = await sync_to_async(events)("sign_in_as_ended")
    said = [(one.actor_id, one.session_id, one.details["reason"]) for one in found]
    assert said == ([(helper.pk, session.pk, "everybodys_sessions_ended")] if recorded else [])


async def test_it_ends_with_all_sessions_of_the_person(api: httpx.AsyncClient, seen: Pair, pair: Pair) -> None:
    """Signing out everywhere signs staff out, too."""
    assert (await api.post("/api/v1/access/logout-all", headers=bearer(pair))).status_code == 204
    assert (await get_me(api, seen)).status_code == 401


# ---------------------------------------------------------------- who may begin
def test_who_may_begin(helper: User, settings: Any) -> None:
    """Who holds the permission, as a person whose every right they hold; nobody else, as nobody else."""
    person = User.objects.create_user(email="person@example.com")
    assert begin(helper, person.pk).account.id == person.pk
    refusals: list[tuple[User, User]] = []
    superuser = User.objects.create_superuser(email="root@example.com")
    reader = User.objects.create_user(email="reader@example.com", is_staff=True)
    permit(reader, "view_user")
    of_role = User.objects.create_user(email="role@example.com")
    role = Group.objects.create(name="readers")
    role.permissions.add(Permission.objects.get(codename="view_user"))
    of_role.groups.add(role)
    inactive = User.objects.create_user(email="inactive@example.com", is_active=False)
    without = User.objects.create_user(email="without@example.com", is_staff=True)
    permit(without, "change_user", "view_user", "reset_mfa")
    no_staff = User.objects.create_user(email="customer@example.com")
    permit(no_staff, "sign_in_as")
    refusals += [(helper, superuser), (helper, reader), (helper, of_role), (helper, inactive), (helper, helper)]
    refusals += [(without, person), (no_staff, person), (superuser, superuser)]
    before = Session.objects.count()
    for actor, target in refusals:
        with pytest.raises(PermissionDenied):
            begin(actor, target.pk)
        assert not rules.may_begin(actor, target), (actor, target)
    with pytest.raises(NotFound):
        begin(helper, uuid.uuid4())
    assert Session.objects.count() == before
    permit(helper, "view_user")
    for actor, target in ((User.objects.get(pk=helper.pk), reader), (helper, of_role), (superuser, reader)):
        assert rules.may_begin(User.objects.get(pk=actor.pk), target)
        assert begin(actor, target.pk).account.id == target.pk
    settings.IRONAUTH_SIGN_IN_AS = False
    with pytest.raises(NotFound):
        begin(helper, person.pk)
    assert not rules.may_begin(User.objects.get(pk=helper.pk), person)


def test_nobody_holds_the_right_unless_it_was_given(member: Member) -> None:
    """No role that migrations make has it; only superusers hold it unasked."""
    assert not Group.objects.filter(permissions__codename="sign_in_as").exists()
    staff = User.objects.create_user(email="plain@example.com", is_staff=True)
    assert not rights.rights_of(staff.pk).holds("accounts.sign_in_as")


# ---------------------------------------------------------------- tokens and rows must agree
async def forged(pair: Pair, **changes: Any) -> str:
    """Return the token with other claims, under a genuine signature."""
    claims = msgspec.structs.replace(codec.claims_of(pair["access_token"]), **changes)
    return codec.encode(claims, await key_store().signing())


async def test_token_and_row_name_the_same_actor(api: httpx.AsyncClient, seen: Pair, pair: Pair, helper: User) -> None:
    """No token without actor opens such a session, nor one with an actor another; nor one of another actor."""
    actor = codec.Actor(str(helper.pk), kind="staff")
    for token in (
        await forged(seen, act=None),
        await forged(seen, act=codec.Actor(str(uuid.uuid4()), kind="staff")),
        await forged(seen, act=codec.Actor(str(helper.pk))),
        await forged(pair, act=actor),
        await forged(seen, act=codec.Actor(str(helper.pk), codec.Actor("client"), kind="staff")),
        await forged(seen, act=codec.Actor("client", actor)),
        await forged(seen, client_id=str(uuid.uuid4())),
    ):
        assert (await api.get(ME, headers={"Authorization": f"Bearer {token}"})).status_code == 401
    assert (await api.get(ME, headers={"Authorization": f"Bearer {await forged(seen)}"})).status_code == 200


async def test_the_pool_asks_once(api: httpx.AsyncClient, seen: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request asks the row: one hop to the database pool."""
    asked = []
    read = type(database()).read

    async def counted(self: Any, unit: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(unit)
        return await read(self, unit, *args, **kwargs)

    monkeypatch.setattr(type(database()), "read", counted)
    for _ in range(2):
        assert (await get_me(api, seen)).status_code == 200
    assert asked == [acting.look, acting.look]

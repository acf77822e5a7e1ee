"""Every cookie the product sets is in the registry and has its flags: on the wire of a server with Secure cookies."""

import re
from typing import Any

import httpx
import pytest

from accounts.admin.tests.second_step import Enrolled
from accounts.users.models import User
from conftest import PASSWORD, ServeProcess
from ironauth.config import cookies as cookie_names
from ironauth.tests.cookie_hooks import fault_of
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import form_to, request_of
from tokens.tests.second_factor import App

EMAIL, HELPER = "mia@example.com", "helper@example.com"
ACCESS = "/api/v1/access"


class Browser:
    """A browser that keeps Secure cookies for a loopback address, and every line that set one."""

    def __init__(self, base: str) -> None:
        self.http = httpx.Client(base_url=base, timeout=30)
        self.base = base
        self.jar: dict[str, str] = {}
        self.lines: list[str] = []

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send a request as a page of this server does."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        headers = {"Origin": self.base, "Sec-Fetch-Site": "same-origin", **({"Cookie": cookie} if cookie else {})}
        answer = self.http.request(method, path, headers=headers, **given)
        self.http.cookies.clear()
        for line in answer.headers.get_list("set-cookie"):
            self.lines.append(line)
            name, _, value = line.partition(";")[0].partition("=")
            self.jar[name] = value.strip('"')
        assert answer.status_code < 400, (path, answer.status_code, answer.text)
        return answer


def through_the_api(browser: Browser) -> None:
    """Sign up and in by cookie, refresh, change the password, choose a language, sign out."""
    browser.ask("POST", f"{ACCESS}/signup", json={"email": EMAIL, "password": PASSWORD, "name": "Mia"})
    browser.ask("POST", f"{ACCESS}/signin", data={"username": EMAIL, "password": PASSWORD})
    browser.ask("POST", f"{ACCESS}/refresh")
    browser.ask("POST", f"{ACCESS}/password", json={"current_password": PASSWORD, "new_password": f"{PASSWORD} more"})
    browser.ask("POST", f"{ACCESS}/password", json={"current_password": f"{PASSWORD} more", "new_password": PASSWORD})
    browser.ask("PUT", f"{ACCESS}/me/language", json={"language": "en"})
    browser.ask("POST", f"{ACCESS}/logout")


def through_the_pages(browser: Browser) -> None:
    """Sign in at an application through this provider's pages, and sign out of them."""
    client, _ = make_client(trusted=True)
    page = browser.ask("GET", "/oauth/authorize", params={**request_of(client), "ui_locales": "en"})
    fields = {**form_to(page, "/oauth/signin").fields, "email": EMAIL, "password": PASSWORD}
    assert "code=" in browser.ask("POST", "/oauth/signin", data=fields).headers["location"]
    User.objects.create_user("beside@example.com", PASSWORD)
    page = browser.ask("GET", "/oauth/authorize", params={**request_of(client), "prompt": "select_account"})
    page = browser.ask("POST", "/oauth/account", data={**form_to(page, "/oauth/account").fields, "other": "1"})
    fields = {**form_to(page, "/oauth/signin").fields, "email": "beside@example.com", "password": PASSWORD}
    assert "code=" in browser.ask("POST", "/oauth/signin", data=fields).headers["location"]
    browser.ask("POST", "/oauth/logout", data={"confirmation": "account-page"})


def through_a_second_factor(browser: Browser) -> None:
    """Set up an app, sign in with a code of it, and keep the device."""
    browser.ask("POST", f"{ACCESS}/signin", data={"username": EMAIL, "password": PASSWORD})
    app = App(browser.ask("POST", f"{ACCESS}/mfa/totp").json()["secret"])
    browser.ask("POST", f"{ACCESS}/mfa/totp/confirm", json={"code": app.code(-1)})
    browser.ask("POST", f"{ACCESS}/logout")
    page = browser.ask("GET", "/account/signin")
    fields = {**form_to(page, "/oauth/signin").fields, "email": EMAIL, "password": PASSWORD}
    asked = browser.ask("POST", "/oauth/signin", data=fields)
    fields = {**form_to(asked, "/oauth/signin/code").fields, "code": app.code(), "keep_device": "1"}
    assert browser.ask("POST", "/oauth/signin/code", data=fields).status_code == 303


def through_the_admin(browser: Browser) -> None:
    """Sign in as staff, do what is answered with a message, and sign out."""
    person = User.objects.create_superuser("staff@example.com", PASSWORD)
    page = browser.ask("GET", "/admin/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token is not None
    form = {"csrfmiddlewaretoken": token[1], "next": "/admin/"}
    browser.ask("POST", "/admin/login/", data={**form, "username": person.email, "password": PASSWORD})
    page = browser.ask("GET", "/admin/accounts/role/add/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token is not None
    form = {"csrfmiddlewaretoken": token[1]}
    assert browser.ask("POST", "/admin/accounts/role/add/", data={**form, "name": "Readers"}).status_code == 302
    assert "was added successfully" in browser.ask("GET", "/admin/accounts/role/").text
    browser.ask("POST", "/admin/logout/", data=form)


def through_signing_in_as(browser: Browser) -> None:
    """Sign in to the admin with a second factor, and as a person from there."""
    person, helper = User.objects.create_user("petra@example.com"), User.objects.create_superuser(HELPER, PASSWORD)
    app = Enrolled(helper)
    form = {"username": HELPER, "password": PASSWORD, "next": "/admin/"}
    browser.ask("POST", "/admin/login/", data={**form, **csrf(browser, "/admin/login/")})
    browser.ask("POST", "/admin/login/code/", data={"code": app.code(), **csrf(browser, "/admin/login/code/")})
    path = f"/admin/accounts/user/{person.pk}/sign-in-as/"
    assert browser.ask("POST", path, data={"reason": "ticket 7", **csrf(browser, path)}).status_code == 302


def csrf(browser: Browser, path: str) -> dict[str, str]:
    """Return what the form of a page of the admin carries."""
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.ask("GET", path).text)
    assert token is not None
    return {"csrfmiddlewaretoken": token[1]}


@pytest.mark.django_db(transaction=True)
def test_every_cookie_on_the_wire(serve_process: ServeProcess, signing_key: str) -> None:
    """The flows of API, pages and admin set the cookies of the registry and no other; each is a __Host- cookie."""
    served = serve_process(IRONAUTH_COOKIE_SECURE="1", IRONAUTH_KEEP_DEVICE_DAYS="1", IRONAUTH_SIGN_IN_AS="1")
    browser = Browser(served)
    for flow in (
        through_the_api, through_the_pages, through_a_second_factor, through_the_admin, through_signing_in_as
    ):  # fmt: skip
        flow(browser)
    browser.http.close()
    known = {cookie_names.name_of(cookie, secure=True): cookie for cookie in cookie_names.REGISTRY}
    assert {line.partition("=")[0] for line in browser.lines} == known.keys()
    for line in browser.lines:
        name = line.partition("=")[0]
        flags = [flag.strip().partition("=") for flag in line.split(";")[1:]]
        said = {flag.lower(): value for flag, _, value in flags}
        assert name.startswith("__Host-")
        assert said["path"] == "/", line
        assert "secure" in said, line
        assert "domain" not in said, line
        assert said["samesite"] == known[name].samesite, line
        assert "httponly" in said or said["max-age"] == "0", line


def test_a_cookie_beside_the_registry_is_a_fault() -> None:
    """What watches all tests sees an unknown name, and a flag that is missing or another one's."""
    good = {"max_age": 60, "path": "/", "secure": False, "httponly": True, "samesite": "Lax"}
    assert fault_of("access_token", good) is None
    assert fault_of("messages", good)
    for change in ({"path": "/x"}, {"domain": "example.com"}, {"samesite": "None"}, {"httponly": False}):
        assert fault_of("access_token", {**good, **change}), change

"""Every flow by e-mail through a real server: requests over a socket, and the messages it leaves as files."""

from http import HTTPStatus as S
from pathlib import Path
from typing import Any

import httpx
import pytest

from accounts.outbox.models import OutgoingMail
from accounts.tests.mail_files import MailFiles, link_in, token_in
from conftest import PASSWORD, ServeProcess, bearer
from ironauth import settings_test

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

MIA, NEW, NOBODY = "mia@example.com", "mia@example.org", "nobody@example.com"
NEW_PASSWORD = "seven amber kites over Lyon"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Mobile/15E148 Safari/604.1"


class Server:
    """A server, as people without its pages reach it, and the mail it sends."""

    def __init__(self, serve_process: ServeProcess, folder: Path) -> None:
        self.mail = MailFiles(folder)
        port = settings_test._free_port()
        self.origin = f"http://127.0.0.1:{port}"
        settings = {"IRONAUTH_EMAIL_VERIFICATION": "required", "IRONAUTH_NEW_DEVICE_MAIL": "1"}
        serve_process(port=port, IRONAUTH_ISSUER=self.origin, EMAIL_URL=self.mail.url, **settings)

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, /, **body: str) -> httpx.Response:
        """Send JSON to the API, in a connection and without a cookie of its own."""
        address = f"{self.origin}/api/v1/access/{path}"
        return httpx.request(method, address, json=body or None, headers=headers, timeout=30)

    def sign_in(self, email: str, password: str, agent: str = "curl/8.9") -> httpx.Response:
        """Sign in with a program of this name."""
        return self.ask("POST", "signin", {"User-Agent": agent}, email=email, password=password)

    def may_sign_in(self, email: str, password: str) -> int:
        """Return the status of a sign-in."""
        return self.sign_in(email, password).status_code

    def me(self, headers: dict[str, str]) -> Any:
        """Return who a session is of."""
        return self.ask("GET", "me", headers).raise_for_status().json()

    def scan(self, link: str) -> None:
        """Fetch a link as scanners of mail do."""
        assert link.startswith(f"{self.origin}/")
        for method in ("HEAD", "GET", "GET"):
            assert httpx.request(method, link, timeout=30).status_code == S.OK

    def click(self, link: str, browser: str = "", **fields: str) -> int:
        """Send the form that a link shows, by a browser of this name; those without one are the same."""
        page, _, token = link.partition("?token=")
        cookie = {"Cookie": f"authorize={browser:_<43}"} if browser else {}
        return httpx.post(page, data={"token": token, **fields}, headers=cookie, timeout=30).status_code

    def same_for_nobody(self, path: str, email: str) -> None:
        """Ask for a message to a known address and to an unknown one: nothing tells them apart."""
        answers = [self.ask("POST", path, email=one) for one in (email, NOBODY)]
        assert {(answer.status_code, answer.content) for answer in answers} == {(S.ACCEPTED, b"")}


@pytest.fixture
def server(serve_process: ServeProcess, signing_key: str, tmp_path: Path) -> Server:
    """One server for all that happens to a person."""
    return Server(serve_process, tmp_path / "mail")


def verify(server: Server) -> None:
    """Sign up; of two messages the newer one's link works, with the password and once."""
    assert server.ask("POST", "signup", email=MIA, password=PASSWORD).status_code == S.ACCEPTED
    older = link_in(server.mail.take(MIA, "Confirm your e-mail address"))
    server.same_for_nobody("email/verify/resend", MIA)
    link = link_in(server.mail.take(MIA, "Confirm your e-mail address"))
    assert server.click(older, password=PASSWORD) == S.BAD_REQUEST
    server.scan(link)
    assert server.may_sign_in(MIA, PASSWORD) == S.UNAUTHORIZED
    shown: tuple[dict[str, str], ...] = ({}, {"password": PASSWORD}, {"password": PASSWORD, "browser": "another"})
    assert [server.click(link, **fields) for fields in shown] == [S.BAD_REQUEST, S.OK, S.BAD_REQUEST]


def change_address(server: Server, headers: dict[str, str]) -> None:
    """Move to another address, which takes effect by its own link and is announced to the one before."""
    answer = server.ask("POST", "email", headers, new_email=NEW, password=PASSWORD)
    assert (answer.status_code, answer.content) == (S.ACCEPTED, b"")
    assert "token" not in server.mail.take(MIA, "Your e-mail address is about to change")  # it confirms nothing
    link = link_in(server.mail.take(NEW, "Confirm your new e-mail address"))
    server.scan(link)
    assert server.me(headers)["email"] == MIA
    assert server.click(link, password=PASSWORD) == S.OK
    assert (server.me(headers)["email"], server.me(headers)["email_verified"]) == (NEW, True)
    server.mail.take(MIA, "Your e-mail address was changed")


def reset(server: Server, headers: dict[str, str]) -> None:
    """Choose another password by the token that is typed in; it works once and ends every session."""
    server.same_for_nobody("password/reset", NEW)
    text = server.mail.take(NEW, "Choose a new password")
    server.scan(link_in(text))
    assert server.may_sign_in(NEW, PASSWORD) == S.OK
    body = {"token": token_in(text), "new_password": NEW_PASSWORD}
    assert server.ask("POST", "password/reset/confirm", **body).status_code == S.NO_CONTENT
    assert server.ask("POST", "password/reset/confirm", **body).status_code == S.BAD_REQUEST
    assert server.ask("GET", "me", headers).status_code == S.UNAUTHORIZED
    assert server.may_sign_in(NEW, PASSWORD) == S.UNAUTHORIZED
    server.mail.take(NEW, "Your password was changed")


def delete_and_restore(server: Server) -> None:
    """Have the account deleted and take that back by the link."""
    headers = bearer(server.sign_in(NEW, NEW_PASSWORD).raise_for_status().json())
    assert server.ask("DELETE", "me", headers, password=NEW_PASSWORD).status_code == S.NO_CONTENT
    link = link_in(server.mail.take(NEW, "Your account is being deleted"))
    server.scan(link)
    assert server.may_sign_in(NEW, NEW_PASSWORD) == S.UNAUTHORIZED
    assert [server.click(link), server.click(link, "another")] == [S.OK, S.BAD_REQUEST]
    assert server.may_sign_in(NEW, NEW_PASSWORD) == S.OK


def test_a_person_is_reached_by_mail(server: Server) -> None:
    """Verification, another device, change of address, reset, deletion taken back; and no other message."""
    verify(server)
    headers = bearer(server.sign_in(MIA, PASSWORD).raise_for_status().json())
    assert server.sign_in(MIA, PASSWORD, agent=PHONE).status_code == S.OK
    assert "iPhone" in server.mail.take(MIA, "A sign-in from a new device")
    change_address(server, headers)
    reset(server, headers)
    delete_and_restore(server)
    assert not OutgoingMail.objects.exclude(recipient="").exists()
    assert server.mail.rest() == []

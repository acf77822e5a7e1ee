"""Who comes from an application that signs people in here: five requests, then both sessions are ended."""

import random
from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlencode

from locust import task
from locust.env import Environment

from perf.http_client import Reply
from perf.load.oauth_messages import (
    Application,
    Asking,
    Tokens,
    Wrong,
    check_introspection,
    code_in,
    sealed_in,
    subject_in,
    tokens_in,
)  # fmt: skip
from perf.swarm.answers import Answer
from perf.swarm.thresholds import APPLICANT
from perf.swarm.visitor import CREW, JourneyEnded, Visitor


class Applicant(Visitor):
    """Signs in at an application, each time in a browser without cookies; the application introspects and refreshes."""

    abstract = CREW.assignment.application is None
    weight = 1

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        # As browsers do: this machine is trusted with Secure cookies without TLS.
        self.client.cookiejar.set_policy(DefaultCookiePolicy(secure_protocols=("http", "https")))

    @task
    def visit(self) -> None:
        """One visit; nobody can stop it between the sign-in and the sign-out."""
        self.pause_s = 1.0  # should nobody be free
        if CREW.assignment.application is None:
            return
        email = CREW.people.take()
        try:
            self._walk(CREW.assignment.application, email)
            CREW.tally.count("journeys", APPLICANT)
        except JourneyEnded:
            pass  # counted where it happened
        finally:
            CREW.people.give_back(email)
            self.pause_s = random.uniform(2, 6) * CREW.assignment.think

    def _walk(self, application: Application, email: str) -> None:
        self.client.cookiejar.clear()
        asking = Asking.anew()
        sealed = self._step("GET", asking.target(application), 200, None, sealed_in)
        form = {"request": sealed, "email": email, "password": CREW.assignment.password}
        back = self._step(
            "POST", "/oauth/signin", 303, form,
            lambda reply: code_in(reply, state=asking.state, issuer=application.issuer),
        )  # fmt: skip
        CREW.tally.sessions_opened += 1
        tokens = self._tokens(application, "", asking.grant(back), asking.nonce)
        CREW.tally.sessions_opened += 1
        self._step(
            "POST", "/oauth/introspect", 200, {"token": tokens.access_token, **application.credentials},
            lambda reply: check_introspection(
                reply, application, subject_in(tokens.id_token, application, nonce=asking.nonce)
            ),
        )  # fmt: skip
        again = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        newer = self._tokens(application, " [refresh]", again, "")
        self._leave(application, newer)

    def _tokens(self, application: Application, note: str, grant: dict[str, str], nonce: str) -> Tokens:
        def look(reply: Reply) -> Tokens:
            tokens = tokens_in(reply, "token")
            subject_in(tokens.id_token, application, nonce=nonce)
            if tokens.refresh_token == grant.get("refresh_token"):
                raise Wrong("the refresh token again")
            return tokens

        return self._step("POST", "/oauth/token", 200, {**grant, **application.credentials}, look, note)

    def _leave(self, application: Application, tokens: Tokens) -> None:
        """End the application's session, which has offline_access, and the browser's."""
        with self.tidying():
            revoked = {"token": tokens.refresh_token, **application.credentials}
            self._step("POST", "/oauth/revoke", 200, revoked, lambda reply: None)
            CREW.tally.sessions_closed += 1
            target = f"/oauth/logout?{urlencode({'id_token_hint': tokens.id_token})}"
            self._step("GET", target, 200, None, lambda reply: None)
            CREW.tally.sessions_closed += 1

    def _step[T](
        self,
        method: str,
        path: str,
        expect: int,
        form: dict[str, str] | None,
        look: Callable[[Reply], T],
        note: str = "",
    ) -> T:
        """Send one request and return what ``look`` finds in the answer, which it calls wrong by raising."""
        found: list[T] = []

        def check(answer: Answer) -> str:
            try:
                found.append(look(self._reply(answer)))
            except Wrong as wrong:
                return str(wrong)
            return ""

        fields = {"Origin": CREW.assignment.host} if path == "/oauth/signin" else {}
        self.call(method, path, expect=expect, check=check, form=form, headers=fields, note=note)
        return found[0]

    def _reply(self, answer: Answer) -> Reply:
        """Return an answer with the cookies this browser has now: Locust joins the fields that set them."""
        fields: dict[str, Any] = {name: [value] for name, value in answer.headers.items()}
        fields["set-cookie"] = [f"{cookie.name}={cookie.value}" for cookie in self.client.cookiejar]
        return Reply(answer.status, fields, answer.body)

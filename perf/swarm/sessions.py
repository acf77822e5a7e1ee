"""Signed-in users of either transport: a bearer token kept by the client, or cookies kept by a browser."""

import random
import time
from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy

from locust.env import Environment

from perf.swarm.answers import Answer, Check, TokenPair, only_session, pair_in, token_pair, user_of
from perf.swarm.visitor import CREW, JourneyEnded, Visitor

EXPIRY_ROUNDING_S = 2.0  # a token's lifetime begins at a whole second before it was received


class Guest(Visitor):
    """Somebody who can sign in, read, renew what has expired, and sign out, without having to know how."""

    abstract = True
    note = ""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.email = ""
        self.signed_in = False
        self._expires_at = 0.0

    def visit_as_somebody(self, stay: Callable[[], None]) -> None:
        """Sign in as one of the prepared people, ``stay``, sign out; in good order also when it is cut short."""
        self.pause_s = 1.0  # should nobody be free
        email = CREW.people.take()
        try:
            self.sign_in(email, CREW.assignment.password)
            stay()
            self.sign_out()
            CREW.tally.count("journeys", type(self).__name__)
        except JourneyEnded:
            pass  # counted where it happened; the next visit is another person's
        finally:
            self.tidy()
            CREW.people.give_back(email)
            self.pause_s = random.uniform(1, 3) * CREW.assignment.think

    def sign_in(self, email: str, password: str) -> None:
        """Open a session. Raises ``JourneyEnded``, as all of these."""
        self.email = email
        self._sign_in(email, password)
        self.signed_in = True
        CREW.tally.sessions_opened += 1

    def read(self, path: str, *, expect: int = 200, check: Check | None = None) -> Answer:
        """GET with the credential; when it has expired, renew it first and ask once more, as clients do."""
        over = time.monotonic() >= self._expires_at - EXPIRY_ROUNDING_S
        answer = self.call(
            "GET", path, expect=expect, check=check, headers=self.credential(), note=self.note, expired=over
        )
        if over and answer.status == 401:
            CREW.tally.renewed += 1
            self.renew()
            answer = self.call("GET", path, expect=expect, check=check, headers=self.credential(), note=self.note)
        return answer

    def read_me(self) -> Answer:
        """Read one's own account, and see that it is one's own."""
        return self.read("/me", check=user_of(self.email))

    def read_sessions(self) -> None:
        """List the sessions: the people of this swarm are nobody else's, so there is one."""
        self.read("/sessions", check=only_session)

    def sign_out(self) -> None:
        """End the session, and see that what belonged to it is refused from then on."""
        was = self.credential()
        self._sign_out()
        self.signed_in = False
        CREW.tally.sessions_closed += 1
        if CREW.assignment.revocation:
            self.call("GET", "/me", expect=401, headers=was, note=f"{self.note} [signed out]")

    def tidy(self) -> None:
        """Sign out if the journey did not come to it; what fails here has been counted as a failure."""
        if self.signed_in:
            with self.tidying():
                self.sign_out()
            self.signed_in = False

    def renewed(self, lifetime_s: float) -> None:
        """Take note of a new access token."""
        self._expires_at = time.monotonic() + lifetime_s

    def credential(self) -> dict[str, str]:
        """Return the header that shows who asks; nothing for cookies, which go by themselves."""
        raise NotImplementedError  # each transport has its own

    def renew(self) -> None:
        """Trade the refresh token for new tokens."""
        raise NotImplementedError  # each transport has its own

    def _sign_in(self, email: str, password: str) -> None:
        raise NotImplementedError  # each transport has its own

    def _sign_out(self) -> None:
        raise NotImplementedError  # each transport has its own


class BearerGuest(Guest):
    """A client that keeps its token pair and sends ``Authorization``."""

    abstract = True

    def credential(self) -> dict[str, str]:
        """See ``Guest``."""
        return {"Authorization": f"Bearer {self._pair.access_token}"}

    def renew(self) -> None:
        """See ``Guest``; the refresh token must have been rotated."""
        old = self._pair.refresh_token

        def rotated(answer: Answer) -> str:
            return token_pair(answer) or ("the refresh token again" if pair_in(answer).refresh_token == old else "")

        self._keep(pair_in(self.call("POST", "/refresh", expect=200, check=rotated, body={"refresh_token": old})))

    def _sign_in(self, email: str, password: str) -> None:
        body = {"email": email, "password": password}
        self._keep(pair_in(self.call("POST", "/signin", expect=200, check=token_pair, body=body)))

    def _sign_out(self) -> None:
        # By the refresh token: it names the session also when the access token has expired.
        self.call("POST", "/logout", expect=204, body={"refresh_token": self._pair.refresh_token})

    def _keep(self, pair: TokenPair) -> None:
        self._pair = pair
        self.renewed(pair.expires_in)


class CookieGuest(Guest):
    """A browser: cookies out of the reach of scripts, and the origin with everything that changes something."""

    abstract = True
    note = " (cookie)"

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        # As browsers do: this machine is trusted with Secure cookies without TLS.
        self.client.cookiejar.set_policy(DefaultCookiePolicy(secure_protocols=("http", "https")))

    def credential(self) -> dict[str, str]:
        """See ``Guest``; a browser says where its request comes from."""
        return {"Sec-Fetch-Site": "same-origin"}

    def renew(self) -> None:
        """See ``Guest``; both cookies must be new."""
        before = self._cookies()
        self.call(
            "POST", "/refresh", expect=204, check=self._took_cookies(before), headers=self._origin(), note=self.note
        )
        self.renewed(self._lifetime_s())

    def _sign_in(self, email: str, password: str) -> None:
        self._forget()
        body = {"email": email, "password": password, "transport": "cookie"}
        check = self._took_cookies({})
        self.call("POST", "/signin", expect=204, check=check, body=body, headers=self._origin(), note=self.note)
        self.renewed(self._lifetime_s())

    def _sign_out(self) -> None:
        self.call("POST", "/logout", expect=204, check=self._lost_cookies, headers=self._origin(), note=self.note)

    def _origin(self) -> dict[str, str]:
        return {"Origin": CREW.assignment.host, "Sec-Fetch-Site": "same-origin"}

    def _cookies(self) -> dict[str, str]:
        """Return the tokens in the jar by name, without the prefix that Secure cookies have.

        Not the one by which the throttles know a device: it is no credential, and outlives the session on purpose.
        """
        named = {cookie.name.removeprefix("__Host-"): cookie.value or "" for cookie in self.client.cookiejar}
        named.pop("device", None)
        return named

    def _took_cookies(self, before: dict[str, str]) -> Check:
        def check(answer: Answer) -> str:
            now = self._cookies()
            if set(now) != {"access_token", "refresh_token"}:
                return "not the two cookies"
            if any(now[name] == before.get(name) for name in now):
                return "a cookie with the token of before"
            if not all(cookie.has_nonstandard_attr("HttpOnly") for cookie in self.client.cookiejar):
                return "a cookie that scripts can read"
            return "a body where there must be none" if answer.body else ""

        return check

    def _lost_cookies(self, answer: Answer) -> str:
        return "cookies that outlive the sign-out" if self._cookies() else ""

    def _lifetime_s(self) -> float:
        expiries = [cookie.expires for cookie in self.client.cookiejar if cookie.name.endswith("access_token")]
        return (expiries[0] or 0) - time.time() if expiries else 0.0

    def _forget(self) -> None:
        self.client.cookiejar.clear()

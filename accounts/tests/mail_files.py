"""The mail a real server writes into files: read as its recipients would, once each."""

import asyncio
import re
import time
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

#: Seconds until a message must have come: the server looks at its queue every two, and the machine may be busy.
LIMIT_S = 30.0
#: The line that Django ends each message of a file with.
END = b"\n" + b"-" * 79 + b"\n"
LINK = re.compile(r"^http\S+$", re.MULTILINE)
TOKEN = re.compile(r"\?token=([A-Za-z0-9_-]{64})$")


class MailFiles:
    """The folder of one server; which of its messages have been taken is remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._taken: set[tuple[str, int]] = set()

    @property
    def url(self) -> str:
        """The EMAIL_URL of a server that writes here."""
        return f"filemail://{self.folder}"

    def _complete(self) -> Iterator[tuple[tuple[str, int], EmailMessage]]:
        """Yield the messages that are there in full and not taken, each with its place."""
        for file in sorted(self.folder.glob("*.log")):
            for at, text in enumerate(file.read_bytes().split(END)[:-1]):
                if (file.name, at) not in self._taken:
                    yield (file.name, at), message_from_bytes(text, policy=policy.default)

    def take(self, recipient: str, subject: str) -> str:
        """Return the text of the oldest such message, waiting for it. Raises AssertionError when none comes."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            others = []
            for place, mail in self._complete():
                if (mail["To"], mail["Subject"]) == (recipient, subject):
                    self._taken.add(place)
                    plain = mail.get_body(("plain",))
                    assert plain is not None
                    assert mail.get_body(("html",)) is not None
                    return str(plain.get_content())
                others.append((mail["To"], mail["Subject"]))
            assert time.monotonic() < deadline, f"no {subject!r} to {recipient}, but {others}"
            time.sleep(0.05)

    async def search(self, recipient: str, pattern: re.Pattern[str]) -> str:
        """Return the first group of the oldest message in which there is such text, waiting for it.

        Whatever its subject is, in whatever language. Raises AssertionError when none comes.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            for file in sorted(self.folder.glob("*.log")):
                for at, text in enumerate(file.read_bytes().split(END)[:-1]):
                    if (file.name, at) in self._taken or f"\nTo: {recipient}\n".encode() not in text:
                        continue
                    plain = message_from_bytes(text, policy=policy.default).get_body(("plain",))
                    if plain is not None and (found := pattern.search(str(plain.get_content()))):
                        self._taken.add((file.name, at))
                        return found[1]
            assert time.monotonic() < deadline, f"no message to {recipient} with {pattern.pattern}"
            await asyncio.sleep(0.05)

    def rest(self) -> list[tuple[str, str]]:
        """Return recipient and subject of what nobody has taken."""
        return sorted((str(mail["To"]), str(mail["Subject"])) for _, mail in self._complete())


def link_in(text: str) -> str:
    """Return the one address in a message."""
    (link,) = LINK.findall(text)
    return str(link)


def token_in(text: str) -> str:
    """Return the token of the one link in a message, which shows it nowhere else."""
    (token,) = TOKEN.findall(link_in(text))
    assert text.count(token) == 1
    return str(token)


def digits_in(text: str) -> str:
    """Return the one code of six digits in a message."""
    (code,) = re.findall(r"^([0-9]{6})$", text, re.MULTILINE)
    return str(code)

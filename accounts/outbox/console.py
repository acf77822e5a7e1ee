"""Messages on the console of a developer's machine: recipient, subject and text, as people read them."""

from typing import Final

from django.core.mail import EmailMessage
from django.core.mail.backends import console

_RULE: Final = "-" * 79


class EmailBackend(console.EmailBackend):
    """Print what a message says, not how it travels.

    In MIME, letters beyond ASCII make the text quoted-printable, in which a link has an ``=3D`` and a break: nobody
    can copy it. The HTML part says the same.
    """

    def write_message(self, message: EmailMessage) -> None:
        """Write the recipients, the subject and the text; letters that the console does not have are escaped."""
        subject = " ".join(str(message.subject).split())
        text = f"To: {', '.join(message.to)}\nSubject: {subject}\n\n{str(message.body).strip()}\n{_RULE}\n"
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

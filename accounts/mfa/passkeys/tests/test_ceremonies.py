"""WebAuthn's ceremonies: what is asked, and which answers prove something."""

import os
import struct
import uuid
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url

from accounts.mfa.passkeys import ceremonies
from accounts.mfa.passkeys.facts import Assertion, Json, Known, NewCredential, UnusableAnswer
from accounts.tests.authenticator import EDDSA, ES256, PRESENT, RS256, VERIFIED, Authenticator

CHALLENGE = bytes(range(32))
MIA = uuid.uuid4()


def creation(present: list[Known] | None = None) -> Json:
    return ceremonies.registration_options(
        challenge=CHALLENGE, user_id=MIA, email="mia@example.com", name="Mia", present=present or []
    )


def registered(device: Authenticator) -> NewCredential:
    return ceremonies.verify_registration(device.create(creation()), challenge=CHALLENGE)


def asserted(device: Authenticator, *, verified: bool = True, challenge: bytes = CHALLENGE) -> Assertion:
    options = ceremonies.assertion_options(challenge=CHALLENGE, verified=verified)
    answer = device.get(options)
    return ceremonies.verify_assertion(answer, challenge=challenge, public_key=device.public_key(), verified=verified)


def test_a_registration_is_asked_for_as_the_contract_says() -> None:
    """The person's id is the user handle, no attestation is wanted, and what is there is not made again."""
    options = creation([Known(b"\1\2", "internal usb")])
    assert options["rp"] == {"id": "localhost", "name": "localhost"}
    assert base64url_to_bytes(options["user"]["id"]) == MIA.bytes
    assert (options["user"]["name"], options["user"]["displayName"]) == ("mia@example.com", "Mia")
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [ES256, EDDSA, RS256]
    assert options["attestation"] == "none"
    assert options["authenticatorSelection"] == {
        "residentKey": "preferred",
        "requireResidentKey": False,
        "userVerification": "preferred",
    }
    assert options["excludeCredentials"] == [{"id": "AQI", "type": "public-key", "transports": ["internal", "usb"]}]
    assert options["timeout"] == 300_000


def test_an_assertion_is_asked_for_as_the_contract_says() -> None:
    """Without a password the person is verified; as a second factor the present credentials are named."""
    alone = ceremonies.assertion_options(challenge=CHALLENGE, verified=True)
    assert (alone["userVerification"], alone["allowCredentials"], alone["rpId"]) == ("required", [], "localhost")
    second = ceremonies.assertion_options(challenge=CHALLENGE, allowed=[Known(b"\1", "")], verified=False)
    assert second["userVerification"] == "preferred"
    assert second["allowCredentials"] == [{"id": "AQ", "type": "public-key"}]


@pytest.mark.parametrize("algorithm", [ES256, EDDSA, RS256])
def test_a_credential_registers_and_proves_itself(algorithm: int) -> None:
    """Each algorithm that is offered works from end to end."""
    device = Authenticator(algorithm=algorithm)
    made = registered(device)
    assert made == NewCredential(
        device.credential_id, device.public_key(), 0, "hybrid internal", True, True, device.aaguid
    )
    assert asserted(device) == Assertion(0, True, True, MIA.bytes)


def test_the_counter_is_told_and_not_judged() -> None:
    """Which count was the last is known where the credential is stored."""
    device = Authenticator(counts=True)
    assert registered(device).backup_eligible is False
    assert [asserted(device).sign_count for _ in range(2)] == [1, 2]


Spoil = Callable[[Authenticator], None]


def _spoil(**attributes: Any) -> Spoil:
    def apply(device: Authenticator) -> None:
        for name, value in attributes.items():
            setattr(device, name, value)

    return apply


SPOILT: dict[str, tuple[Spoil, str]] = {
    "another origin": (_spoil(origin="https://evil.example"), "origin"),
    "another port": (_spoil(origin="http://localhost:8001"), "origin"),
    "a frame of another site": (_spoil(cross_origin=True), "cross_origin"),
    "another relying party": (_spoil(rp_id="evil.example"), "answer"),
    "nobody there": (_spoil(flags=VERIFIED), "answer"),
}


@pytest.mark.parametrize(("spoil", "reason"), SPOILT.values(), ids=SPOILT)
def test_an_answer_from_elsewhere_proves_nothing(spoil: Spoil, reason: str) -> None:
    """Neither ceremony takes an answer that was given on another site, to another party, or without a person."""
    device = Authenticator()
    spoil(device)
    with pytest.raises(UnusableAnswer) as refused:
        registered(device)
    assert refused.value.reason == reason
    device.user_handle = MIA.bytes
    with pytest.raises(UnusableAnswer) as refused:
        asserted(device)
    assert refused.value.reason == reason


def test_an_answer_to_another_challenge_proves_nothing() -> None:
    """The challenge is what makes an answer new."""
    device = Authenticator()
    answer = device.create(creation())
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_registration(answer, challenge=bytes(32))
    with pytest.raises(UnusableAnswer):
        asserted(device, challenge=bytes(32))


def test_a_registration_is_no_assertion() -> None:
    """The authenticator's client data says which ceremony it was."""
    device = Authenticator()
    answer = device.create(creation())
    data = cbor2.loads(base64url_to_bytes(answer["response"]["attestationObject"]))["authData"]
    answer["response"] |= {"authenticatorData": bytes_to_base64url(data), "signature": "AA"}
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_assertion(answer, challenge=CHALLENGE, public_key=device.public_key(), verified=False)


def test_a_person_who_was_not_verified_is_not_enough_without_a_password() -> None:
    """A found authenticator signs nobody in by itself; after the password its touch is a second factor."""
    device = Authenticator()
    device.flags = PRESENT
    registered(device)
    assert asserted(device, verified=False).user_handle == MIA.bytes
    with pytest.raises(UnusableAnswer):
        asserted(device, verified=True)


def test_another_key_proves_nothing() -> None:
    """The signature has to be of the key that was registered."""
    device, other = Authenticator(), Authenticator()
    answer = device.get(ceremonies.assertion_options(challenge=CHALLENGE, verified=True))
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_assertion(answer, challenge=CHALLENGE, public_key=other.public_key(), verified=True)


def _with_key(key: Any, algorithm: int = ES256) -> Authenticator:
    device = Authenticator()
    device.key, device.algorithm = key, algorithm
    return device


class _OffCurve(Authenticator):
    def public_key(self) -> bytes:
        """Return a point with a flipped bit."""
        key = cbor2.loads(super().public_key())
        return cbor2.dumps({**key, -3: bytes([key[-3][0] ^ 1]) + key[-3][1:]})


def test_a_key_that_could_not_be_used_is_not_registered() -> None:
    """Off its curve, on another curve, of an algorithm not offered, or of a size that is insecure or slow."""
    for device in (
        _OffCurve(),
        _with_key(ec.generate_private_key(ec.SECP384R1())),
        _with_key(ec.generate_private_key(ec.SECP256R1()), algorithm=-36),
        _with_key(rsa.generate_private_key(65_537, 1_024), algorithm=RS256),  # noqa: S505 - too short, on purpose
        _with_key(rsa.generate_private_key(3, 2_048), algorithm=RS256),
    ):
        with pytest.raises(UnusableAnswer):
            registered(device)


def test_an_attestation_nobody_asked_for_is_refused() -> None:
    """Certificates of strangers are not even read; one that the credential's own key signed is harmless."""
    device = Authenticator()
    for attestation in (
        {"fmt": "fido-u2f", "attStmt": {"sig": b"", "x5c": []}},
        {"fmt": "packed", "attStmt": {"alg": -7, "sig": b"", "x5c": [b"\x30"]}},
    ):
        device.attestation = attestation
        with pytest.raises(UnusableAnswer) as refused:
            registered(device)
        assert refused.value.reason == "attestation"


def test_a_credential_id_has_at_most_1023_bytes() -> None:
    """Longer ones are against the standard, and would not fit the index."""
    device = Authenticator()
    device.credential_id = os.urandom(1_023)
    assert registered(device).credential_id == device.credential_id
    device.credential_id = os.urandom(1_024)
    with pytest.raises(UnusableAnswer):
        registered(device)


def test_the_id_beside_the_answer_is_the_one_inside() -> None:
    """Who registers a credential cannot do so under the id of somebody else's."""
    device = Authenticator()
    answer = device.create(creation())
    answer["id"] = answer["rawId"] = bytes_to_base64url(b"somebody else's")
    with pytest.raises(UnusableAnswer) as refused:
        ceremonies.verify_registration(answer, challenge=CHALLENGE)
    assert refused.value.reason == "credential_id"


NONSENSE: dict[str, Any] = {
    "nothing": {},
    "numbers": {"id": 1, "rawId": 2, "response": 3, "type": 4},
    "lists": {"id": [], "rawId": [], "response": [], "type": []},
    "no base64": {"id": "é", "rawId": "é", "type": "public-key", "response": {"clientDataJSON": "é"}},
    "deep JSON": {
        "id": "AQ",
        "rawId": "AQ",
        "type": "public-key",
        "response": {
            name: bytes_to_base64url(b"[" * 20_000)
            for name in ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")
        },
    },
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused_and_nothing_worse(answer: Json) -> None:
    """Whatever a stranger sends, the one error comes out."""
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_registration(answer, challenge=CHALLENGE)
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_assertion(answer, challenge=CHALLENGE, public_key=b"\xa0", verified=False)


@pytest.mark.parametrize(
    "attested",
    [
        b"",
        b"\x9f" * 30_000,  # CBOR arrays without end
        b"\x5b" + struct.pack(">Q", 2**62),  # a byte string of exabytes
        cbor2.dumps({"fmt": [], "attStmt": 1, "authData": b""}),
        cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": bytes(37)}),
    ],
)
def test_hostile_cbor_is_refused_and_nothing_worse(attested: bytes) -> None:
    """Neither depth nor claimed length gets further than the one error."""
    answer = Authenticator().create(creation())
    answer["response"]["attestationObject"] = bytes_to_base64url(attested)
    with pytest.raises(UnusableAnswer):
        ceremonies.verify_registration(answer, challenge=CHALLENGE)

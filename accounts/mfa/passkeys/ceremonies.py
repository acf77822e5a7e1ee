"""WebAuthn's two ceremonies, through py_webauthn, which only this module touches: questions, and what answers prove.

No storage and no clock: the caller gives what an answer has to fit. Judging an answer takes 0.06 to 0.13 ms, no more
than verifying an access token, so it runs on the event loop. Importing this module is what takes long: see ``loading``.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import webauthn
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from django.conf import settings
from webauthn import helpers
from webauthn.helpers import structs
from webauthn.helpers.cose import COSECRV, COSEAlgorithmIdentifier
from webauthn.helpers.decode_credential_public_key import DecodedEC2PublicKey
from webauthn.helpers.options_to_json_dict import options_to_json_dict

from accounts.mfa.passkeys.challenges import LIFE_S
from accounts.mfa.passkeys.facts import Assertion, Json, Known, NewCredential, UnusableAnswer
from accounts.mfa.passkeys.models import MAX_CREDENTIAL_ID
from ironauth.infrastructure.core import strict_json

ALGORITHMS: Final = [
    COSEAlgorithmIdentifier.ECDSA_SHA_256,
    COSEAlgorithmIdentifier.EDDSA,
    COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
]
#: Bits. Fewer are not secure (SP 800-131A §3), and more let anybody who registers such a key slow everybody down.
RSA_BITS: Final = range(2_048, 4_096 + 1)
RSA_EXPONENT: Final = 65_537  # what every authenticator uses; the time to verify grows with the exponent
#: None is asked for; "packed" is what some authenticators send nevertheless, signed with the credential's own key.
_ATTESTATIONS: Final = frozenset({structs.AttestationFormat.NONE, structs.AttestationFormat.PACKED})
_TIMEOUT_MS: Final = LIFE_S * 1_000


# ------------------------------------------------------------------ what to ask
def registration_options(
    *, challenge: bytes, user_id: uuid.UUID, email: str, name: str, present: Iterable[Known]
) -> Json:
    """Return PublicKeyCredentialCreationOptionsJSON.

    An authenticator that holds one of ``present`` makes no second passkey. Preferred is a discoverable credential with
    user verification, because it signs in without a password. Any other is still a second factor.

    Args:
        challenge: Random bytes, which the authenticator signs.
        user_id: The user handle that the authenticator stores; it tells nothing about the person.
        email: What the authenticator's own dialogue shows.
        name: The display name; "" shows the address in its place.
        present: The passkeys that the person has.
    """
    options = webauthn.generate_registration_options(
        rp_id=settings.IRONAUTH_WEBAUTHN_RP_ID,
        rp_name=settings.IRONAUTH_WEBAUTHN_RP_ID,
        user_id=user_id.bytes,
        user_name=email,
        user_display_name=name or email,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        attestation=structs.AttestationConveyancePreference.NONE,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.PREFERRED,
        ),
        exclude_credentials=_descriptors(present),
        supported_pub_key_algs=ALGORITHMS,
    )
    return options_to_json_dict(options)


def assertion_options(*, challenge: bytes, allowed: Iterable[Known] = (), verified: bool) -> Json:
    """Return PublicKeyCredentialRequestOptionsJSON.

    Args:
        challenge: What is to be signed.
        allowed: The person's credentials; without any the authenticator shows what it has.
        verified: Whether the person must be verified (PIN, fingerprint), which makes it two factors at once.
    """
    requirement = structs.UserVerificationRequirement
    options = webauthn.generate_authentication_options(
        rp_id=settings.IRONAUTH_WEBAUTHN_RP_ID,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        allow_credentials=_descriptors(allowed),
        user_verification=requirement.REQUIRED if verified else requirement.PREFERRED,
    )
    return options_to_json_dict(options)


# ------------------------------------------------------------------ how to judge answers
def verify_registration(answer: Json, *, challenge: bytes) -> NewCredential:
    """Return the credential of a RegistrationResponseJSON (§7.1).

    Args:
        answer: What the browser returned, parsed from JSON and not yet judged.
        challenge: The bytes that have to stand in it.

    Raises:
        UnusableAnswer: It proves nothing.
    """
    with _distrustful():
        parsed = helpers.parse_registration_credential_json(dict(answer))
        _judge_page(parsed.response.client_data_json)
        attestation = helpers.parse_attestation_object(parsed.response.attestation_object)
        if attestation.fmt not in _ATTESTATIONS or attestation.att_stmt.x5c is not None:
            raise UnusableAnswer("attestation")
        attested = attestation.auth_data.attested_credential_data
        if attested is None or attested.credential_id != parsed.raw_id or len(parsed.raw_id) > MAX_CREDENTIAL_ID:
            raise UnusableAnswer("credential_id")
        _judge_key(attested.credential_public_key)
        made = webauthn.verify_registration_response(
            credential=parsed,
            expected_challenge=challenge,
            expected_rp_id=settings.IRONAUTH_WEBAUTHN_RP_ID,
            expected_origin=settings.IRONAUTH_WEBAUTHN_ORIGINS,
            supported_pub_key_algs=ALGORITHMS,
        )
        return NewCredential(
            credential_id=made.credential_id,
            public_key=made.credential_public_key,
            sign_count=made.sign_count,
            transports=" ".join(sorted({one.value for one in parsed.response.transports or ()})),
            backup_eligible=made.credential_device_type is structs.CredentialDeviceType.MULTI_DEVICE,
            backed_up=made.credential_backed_up,
            aaguid=uuid.UUID(made.aaguid),
        )


def credential_id_of(answer: Json) -> bytes:
    """Return which credential an AuthenticationResponseJSON claims to be of.

    Raises:
        UnusableAnswer: It names none.
    """
    with _distrustful():
        return helpers.parse_authentication_credential_json(dict(answer)).raw_id


def verify_assertion(answer: Json, *, challenge: bytes, public_key: bytes, verified: bool) -> Assertion:
    """Return what an AuthenticationResponseJSON says under the signature of ``public_key`` (§7.2).

    The signature counter is the caller's to judge: it knows by then that the authenticator itself has sent it.

    Args:
        answer: What the browser returned, parsed from JSON and not yet judged.
        challenge: The bytes that have to stand in it.
        public_key: The COSE key of the passkey that the answer names.
        verified: Whether the authenticator must have verified its user (PIN, fingerprint).

    Raises:
        UnusableAnswer: It proves nothing, or the person had to be ``verified`` and was not.
    """
    with _distrustful():
        parsed = helpers.parse_authentication_credential_json(dict(answer))
        _judge_page(parsed.response.client_data_json)
        found = webauthn.verify_authentication_response(
            credential=parsed,
            expected_challenge=challenge,
            expected_rp_id=settings.IRONAUTH_WEBAUTHN_RP_ID,
            expected_origin=settings.IRONAUTH_WEBAUTHN_ORIGINS,
            credential_public_key=public_key,
            credential_current_sign_count=0,
            require_user_verification=verified,
        )
        return Assertion(
            sign_count=found.new_sign_count,
            backup_eligible=found.credential_device_type is structs.CredentialDeviceType.MULTI_DEVICE,
            backed_up=found.credential_backed_up,
            user_handle=parsed.response.user_handle,
        )


@contextmanager
def _distrustful() -> Iterator[None]:
    """Turn whatever the block raises into ``UnusableAnswer``."""
    try:
        yield
    except UnusableAnswer:
        raise
    except Exception as error:  # parsers of a stranger's JSON, CBOR and keys raise far more than their own errors
        raise UnusableAnswer("answer") from error


def _judge_page(client_data: bytes) -> None:
    """Refuse an answer given on another site's page, or in a frame of ours within one (§7.2, steps 13 and 14).

    The library takes the last of members that come twice, and any of Unicode's encodings.
    """
    strict_json.loads(client_data)
    found = helpers.parse_client_data_json(client_data)
    if found.origin not in settings.IRONAUTH_WEBAUTHN_ORIGINS:
        raise UnusableAnswer("origin")
    if found.cross_origin:
        raise UnusableAnswer("cross_origin")


def _judge_key(public_key: bytes) -> None:
    """Refuse a key that could not be used, or not safely; the library looks no closer than its algorithm's number."""
    decoded = helpers.decode_credential_public_key(public_key)
    key = helpers.decoded_public_key_to_cryptography(decoded)  # an EC point that is not on its curve ends here
    if isinstance(decoded, DecodedEC2PublicKey) and decoded.crv != COSECRV.P256:
        raise UnusableAnswer("curve")
    if isinstance(key, RSAPublicKey) and (key.key_size not in RSA_BITS or key.public_numbers().e != RSA_EXPONENT):
        raise UnusableAnswer("rsa_key")


def _descriptors(credentials: Iterable[Known]) -> list[structs.PublicKeyCredentialDescriptor]:
    return [
        structs.PublicKeyCredentialDescriptor(
            id=one.credential_id,
            transports=[structs.AuthenticatorTransport(name) for name in one.transports.split()] or None,
        )
        for one in credentials
    ]

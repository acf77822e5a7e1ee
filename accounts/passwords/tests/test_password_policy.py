"""Which passwords may be chosen."""

import time

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.passwords import weak_patterns
from accounts.passwords.policy import PasswordPolicyValidator, policy_errors

MUST_WORK_AS_GIVEN = [
    "correct horse battery staple",  # four words, famous or not: only what is common as a whole is refused
    "correcthorsebatterystaple",
    "😀" * 15,
    "my password is a long sentence",
    "onlylowercaseletters",
    "ONLY UPPERCASE HERE",
    "  leading and trailing  ",
    "tab\tand\x00nul are kept",
    "ünïcödé is fïne hère",
    "密码是很长的一句话而且没有规律可言",
    "😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰",
    "x" * 72 + "a",
    "x" * 72 + "b",
    "839201748392013",
    "p4ssw0rd but with more words",
    "qwerty keyboards are old",
    "ironauth is what we use",
    "alice went to the market",
    "kV9#rT2$mQ7!wX4",
    "violet otter rides 9 trams",
    "tr0ub4dor&3 tr0ub4dor&4",
    "aaaaaaaaaaaaaaa but longer",
    "1234567890 bottles of beer",
]
BLOCKLIST = {
    "password_repetitive": [
        "aaaaaaaaaaaaaaa",
        "abababababababab",
        "abcabcabcabcabca",
        "111111111111111",
        "xyzzyxyzzyxyzzyx",
        "aaaaaaaaaaaaaa1",
        "abc-abc-abc-abc-",
        "12121212121212121",
        "!!!!!!!!!!!!!!!!",
        "                ",
        "AaAaAaAaAaAaAaAa",
    ],
    "password_sequential": [
        "123456789012345",
        "1234567890qwertyuiop",
        "qwertyuiopasdfgh",
        "qwertyuiopasdfghjkl",
        "1q2w3e4r5t6y7u8i",
        "QWERTYuiopASDFgh",
        "1qaz2wsx3edc4rfv",
        "abcdefghijklmnop",
        "zyxwvutsrqponmlk",
        "qwertzuiopasdfgh",
        "azertyuiopqsdfgh",
        "йцукенгшщзхъфыв",
        "!@#$%^&*()_+!@#$%^",
        "!QAZ@WSX#EDC$RFV",
        "112233445566778899",
        "aabbccddeeffgghhii",
        "987654321987654321",
        "a b c d e f g h i j",
        "1-2-3-4-5-6-7-8-9-0",
        "qwertyuiop12345!",
        "abcdefgh12345678",
        "poiuytrewqlkjhgfdsa",
        "qazwsxedcrfvtgb",
        "123456789987654321",
        "qwerty1234567890",
    ],
    "password_too_common": [
        "iloveyouiloveyou",
        "Monkey1Monkey1!!",
        "dragondragondragon",
        "m0nkeym0nkeym0nkey",
        "letmein12345678!",
        "!!!sunshine!!!2024",
        "football123456789",
        "princess-princess",
        "manchesterunited",
        "1234567sunshine",
        "superman superman",
        "trustno1trustno1",
        "enihsnus12345678",
    ],
    "password_contextual": [
        "ironauthironauth",
        "IronAuth12345678!",
        "ir0n@uth20242025",
        "passwordpassword",
        "admin1234567890!",
        "adminpassword123",
        "p@ssw0rdp@ssw0rd",
        "welcome-ironauth",
        "alice.liddell1852",
        "aliceliddell1852!",
        "liddellalice2024",
        "wonderland123456",
        "alice@wonderland.example",
        "AliceAliceAlice!",
        "4l1c3l1dd3ll!!!",
        "1852alice1852alice",
        "pleasance20242024",
    ],
}
WORDS = ["otter", "violet", "tram", "canyon", "marble", "quartz", "lantern", "fjord"]
PERSON = {"email": "alice.liddell@wonderland.example", "name": "Alice Pleasance Liddell"}


def _codes(password: str) -> list[str]:
    return [error.code for error in policy_errors(password, **PERSON)]


@pytest.mark.parametrize("password", MUST_WORK_AS_GIVEN)
def test_long_unpredictable_passwords_are_accepted_as_given(password: str) -> None:
    """No composition rule, no trimming, and a phrase that merely contains a bad word passes."""
    assert policy_errors(password, **PERSON) == []


@pytest.mark.parametrize(("code", "password"), [(code, one) for code, many in BLOCKLIST.items() for one in many])
def test_blocklisted_passwords_are_refused_with_their_reason(code: str, password: str) -> None:
    """A guessable password of sufficient length is refused, and the reason is one a person can act on."""
    (error,) = policy_errors(password, **PERSON)
    assert error.field == "password"
    assert error.message.endswith(".")
    if code in ("password_too_common", "password_contextual"):
        assert error.code in ("password_too_common", "password_contextual", "password_repetitive"), error
    else:
        assert error.code in (code, "password_repetitive"), error


@pytest.mark.parametrize("word", ["alice", "liddell", "alice.liddell", "wonderland", "Pleasance"])
@pytest.mark.parametrize("decoration", ["1234567890123", "!!!!2024!!!!!", "99999999999999"])
def test_own_name_or_address_with_decoration_is_refused(word: str, decoration: str) -> None:
    """A person's own name or address with digits and symbols around it is refused as such."""
    assert _codes(word + decoration) == ["password_contextual"]
    assert _codes(decoration + word) == ["password_contextual"]


@pytest.mark.parametrize(
    "password", ["football baseball", "Sunshine-Princess1!", "thisisapassword", "princesssunshine"]
)
def test_two_common_words_are_no_passphrase(password: str) -> None:
    """Two entries of the common list side by side, and sentences of filler words, are refused; three words are not."""
    assert [error.code for error in policy_errors(password)] == ["password_too_common"]
    assert not policy_errors("football violet baseball")


def test_one_emoji_repeated_counts_its_code_points() -> None:
    """Fourteen emoji are too short, fifteen are enough (ASVS 6.2.1)."""
    assert [error.code for error in policy_errors("😀" * 14)] == ["password_too_short"]
    assert not policy_errors("😀" * 15)


def test_length_counts_code_points_after_composition() -> None:
    """14 are refused and 15 accepted, whatever a character weighs in bytes or how it was typed."""
    emoji = "😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰"
    assert _codes(emoji[:14]) == ["password_too_short"]
    assert _codes(emoji) == []
    assert _codes("e\u0301 a\u0308 o\u0308 u\u0308 n\u0303 c\u0327 x") == [
        "password_too_short"
    ]  # 20 typed, 13 composed


def test_length_limit_is_1024_code_points() -> None:
    """1,024 pass and 1,025 do not; ten million are refused without being looked at."""
    text = "".join(chr(0x4E00 + i) for i in range(1025))
    assert _codes(text[:1024]) == []
    assert _codes(text) == ["password_too_long"]
    began = time.thread_time()
    assert _codes("x" * 10_000_000) == ["password_too_long"]
    assert time.thread_time() - began < 0.5


def test_minimum_length_is_a_setting(settings: Settings) -> None:
    """With the floor of 8 lowered on purpose, 8 characters pass and Django's common ones are still refused."""
    settings.IRONAUTH_PASSWORD_MIN_LENGTH = 8
    assert _codes("vq7 zmx2") == []
    assert _codes("vq7 zmx") == ["password_too_short"]
    assert _codes("baseball") == ["password_too_common"]
    assert _codes("Sunsh1ne") == ["password_too_common"]


def test_every_common_password_long_enough_is_refused() -> None:
    """All of Django's list that passes the length rule is refused (ASVS 6.2.4)."""
    long_enough = [word for word in weak_patterns.common_passwords() if len(word) >= 15]
    assert len(long_enough) > 40
    assert [word for word in long_enough if not _codes(word)] == []


def test_judging_is_quick_enough_for_the_event_loop() -> None:
    """The worst inputs a request can carry are judged in a few milliseconds: this runs on the loop."""
    weak_patterns.common_passwords()
    name = " ".join(f"{'a' * n}" for n in range(3, 17))
    worst = [
        "ab" * 511 + "c",
        "1a!" * 341,
        "a" * 1023 + "!",
        ("password" * 16)[:127] + "!",
        "a1" * 60 + "b",
        "aab" * 42 + "c!1",
    ]
    for password in worst:
        began = time.thread_time()
        policy_errors(password, email=f"{'a' * 60}@{'a.' * 90}com", name=name)
        assert time.thread_time() - began < 0.05, password[:20]


def test_django_validator_gives_the_same_reasons() -> None:
    """The admin and createsuperuser refuse the same passwords, with the same codes."""

    class Person:
        email, name = PERSON["email"], PERSON["name"]

    validator = PasswordPolicyValidator()
    validator.validate("correct horse battery staple", Person())
    for password, code in (("short", "password_too_short"), ("aliceliddell1852!", "password_contextual")):
        with pytest.raises(ValidationError) as refused:
            validator.validate(password, Person())
        assert [error.code for error in refused.value.error_list] == [code]
    assert "15" in validator.get_help_text()


@given(st.text(max_size=1100), st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_judged_without_error(password: str, email: str, name: str) -> None:
    """No input, however odd, makes the policy fail instead of answering."""
    assert len(policy_errors(password, email=email, name=name)) <= 1


@given(
    st.lists(
        st.sampled_from(WORDS),
        min_size=4,
        max_size=8,
        unique=True,
    )
)
def test_phrases_of_different_words_are_accepted(words: list[str]) -> None:
    """Four or more different words are a good password with or without spaces."""
    assert _codes(" ".join(words)) == []
    assert _codes("".join(words)) == []

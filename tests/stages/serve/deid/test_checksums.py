"""Check digits: published examples pass, and every change of one digit fails."""

from __future__ import annotations

import pytest

from osler.stages.serve.deid.checksums import CHECKS, luhn, nass, ssn

VALID = {
    "card": ["4111 1111 1111 1111", "378282246310005"],
    "npi": ["1234567893"],
    "dni": ["12345678Z", "00.000.001-R"],
    "nie": ["X1234567L"],
    "nass": ["28 12345678 40"],
    "bank_ccc": ["2100 0418 45 0200051332"],
    "nir": ["2 55 08 14 168 025 38", "1 85 05 78 006 084 91"],
    "nhs": ["943 476 5919", "401 023 2137"],
    "iban": ["ES91 2100 0418 4502 0005 1332", "GB82 WEST 1234 5698 7654 32", "FR14 2004 1010 0505 0001 3M02 606"],
    "ipv4": ["192.168.0.1"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in VALID.items() for text in texts])
def test_a_valid_identifier_passes_and_one_with_a_changed_digit_fails(name: str, text: str) -> None:
    check = CHECKS[name]
    assert check(text)
    if name == "ipv4":
        assert not check("192.168.0.256")
        return
    for place in [place for place, character in enumerate(text) if character.isdigit()]:
        assert not check(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])


@pytest.mark.parametrize(
    "text", ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567", "123-45-0000", "123-45-67"]
)
def test_social_security_numbers_that_were_never_given(text: str) -> None:
    assert ssn("123-45-6789")
    assert not ssn(text)


def test_an_employers_number_is_a_digit_shorter() -> None:
    digits = "28" + "1234567"
    assert nass(f"{digits}{int(digits) % 97:02d}")
    assert not nass(f"{digits}{(int(digits) + 1) % 97:02d}")


def test_no_digit_passes_nothing() -> None:
    assert not any(check("") or check("abc") for check in CHECKS.values())
    assert not luhn("0")

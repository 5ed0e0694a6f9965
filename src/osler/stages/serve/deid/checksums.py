"""Check digits of identifiers. By chance, one number in ten to one in ninety-seven passes.

Every function takes the identifier as written, with its spaces and punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_CONTROL = "TRWAGMYFPDXBNJZSQVHLCKE"
_SEPARATORS = re.compile(r"[\s.\-/]")


def _plain(text: str) -> str:
    return _SEPARATORS.sub("", text).upper()


def luhn(text: str) -> bool:
    """Whether digits pass the check of payment cards (ISO/IEC 7812)."""
    digits = [int(digit) for digit in _plain(text) if digit.isdecimal()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return len(digits) > 1 and (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def card(text: str) -> bool:
    """A payment card: 13 to 19 digits that pass Luhn, and not one digit repeated."""
    digits = _plain(text)
    return digits.isdecimal() and 13 <= len(digits) <= 19 and len(set(digits)) > 1 and luhn(digits)


def ssn(text: str) -> bool:
    """A US social security number by its format: areas 000, 666 and 900 to 999, group 00 and serial 0000 were never issued."""
    digits = _plain(text)
    if not digits.isdecimal() or len(digits) != 9:
        return False
    area, group, serial = int(digits[:3]), int(digits[3:5]), int(digits[5:])
    return area not in (0, 666) and area < 900 and group > 0 and serial > 0


def npi(text: str) -> bool:
    """A US National Provider Identifier: Luhn over the digits with the prefix 80840."""
    digits = _plain(text)
    return digits.isdecimal() and len(digits) == 10 and digits[0] in "12" and luhn(f"80840{digits}")


def nhs(text: str) -> bool:
    """A British NHS number: ten digits, the last a check digit modulo 11."""
    digits = _plain(text)
    if not digits.isdecimal() or len(digits) != 10 or len(set(digits)) == 1:
        return False
    rest = -sum(int(digit) * weight for digit, weight in zip(digits, range(10, 1, -1), strict=False)) % 11
    return rest == int(digits[-1])


def dni(text: str) -> bool:
    """A Spanish DNI: eight digits and their control letter."""
    plain = _plain(text)
    number = plain[:-1]
    return len(plain) in (8, 9) and number.isdecimal() and _CONTROL[int(number) % 23] == plain[-1]


def nie(text: str) -> bool:
    """A Spanish NIE: X, Y or Z, seven digits and their control letter."""
    plain = _plain(text)
    return len(plain) == 9 and plain[0] in "XYZ" and dni(f"{'XYZ'.index(plain[0])}{plain[1:]}")


def nass(text: str) -> bool:
    """A Spanish social security number of a person (12 digits) or of an employer, the CCC (11 digits)."""
    digits = _plain(text)
    if not digits.isdecimal() or len(digits) not in (11, 12):
        return False
    province, number, control = int(digits[:2]), int(digits[2:-2]), int(digits[-2:])
    short = 10 ** (len(digits) - 5)  # a smaller number is joined to the province without its leading zero
    base = province * short + number if number < short else province * short * 10 + number
    return 1 <= province <= 66 and base % 97 == control


def bank_ccc(text: str) -> bool:
    """A Spanish bank account (Código Cuenta Cliente): 20 digits, two of them check digits."""
    digits = _plain(text)
    if not digits.isdecimal() or len(digits) != 20 or len(set(digits)) == 1:
        return False

    def control(part: str) -> int:
        left = 11 - sum(int(digit) * pow(2, place, 11) for place, digit in enumerate(part)) % 11
        return {10: 1, 11: 0}.get(left, left)

    return digits[8:10] == f"{control('00' + digits[:8])}{control(digits[10:])}"


def nir(text: str) -> bool:
    """A French social security number: 13 characters and a key of two digits; Corsica writes 2A and 2B."""
    plain = _plain(text)
    if not re.fullmatch(r"[1-478]\d{4}(?:\d\d|2[AB])\d{8}", plain):
        return False
    number = int(plain[:13].replace("2A", "19").replace("2B", "18"))
    return 97 - number % 97 == int(plain[13:])


def iban(text: str) -> bool:
    """An IBAN: length and mod 97."""
    plain = _plain(text)
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", plain):
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1


def ipv4(text: str) -> bool:
    """An IPv4 address: four numbers up to 255. A version such as 1.2.3.4 looks the same."""
    parts = text.split(".")
    return len(parts) == 4 and all(part.isdecimal() and int(part) < 256 for part in parts)


CHECKS: dict[str, Callable[[str], bool]] = {
    check.__name__: check for check in (luhn, card, ssn, npi, dni, nie, nass, nhs, bank_ccc, nir, iban, ipv4)
}
"""Checks by their name in the rules."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from osler.stages.corpus.documents import BadRecord
from osler.stages.corpus.xml_records import XmlRecord, inner_text, iso_date, read_blocks, release_date, xml_records

HEAD = b'<?xml version="1.0"?>\n<!DOCTYPE set SYSTEM "http://nowhere.invalid/set.dtd">\n<set>\n'


def record(number: int) -> bytes:
    return b'<item id="%d"><p>text %d</p></item>\n' % (number, number)


def read(data: bytes, *tags: str, block: int = 7, without: tuple[str, ...] = ()) -> list[str | BadRecord]:
    """Rows and texts of the records, or what is wrong with them."""
    pieces = (data[start : start + block] for start in range(0, len(data), block))
    found = xml_records(pieces, *(tags or ("item",)), without=without)
    return [f"{r.row} {inner_text(r.element)}" if isinstance(r, XmlRecord) else r for r in found]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.integers(0, 5))
def test_records_do_not_depend_on_how_the_file_arrives(block: int, count: int) -> None:
    data = HEAD + b"".join(map(record, range(1, count + 1))) + b"<item/></set>\n"
    assert read(data, block=block) == [*(f"{n} text {n}" for n in range(1, count + 1)), f"{count + 1} "]


def test_a_broken_record_is_reported_with_its_line_and_byte_and_the_next_one_is_read() -> None:
    broken = b"<item>\n<p>secret</q>\n</item>\n"
    data = HEAD + record(1) + broken + record(3) + b"</set>"
    first, bad, third = read(data)
    assert (first, third) == ("1 text 1", "3 text 3")
    assert bad == BadRecord(2, data.index(broken), "not well-formed XML (tag name mismatch), line 6")
    assert "secret" not in str(bad)


def test_a_record_that_was_cut_off_does_not_take_the_next_one_with_it() -> None:
    found = read(HEAD + record(1) + b"<item><p>cut o" + record(2) + record(3) + b"</set>")
    assert [item for item in found if isinstance(item, str)] == ["1 text 1", "3 text 2", "4 text 3"]
    assert [item.row for item in found if isinstance(item, BadRecord)] == [2]


def test_bytes_that_are_not_utf8_and_control_characters_cost_one_record_each() -> None:
    found = read(HEAD + b"<item>\xff</item><item>\x01</item>" + record(3) + b"</set>")
    assert [type(item) for item in found] == [BadRecord, BadRecord, str]


def test_a_file_that_ends_too_early_is_reported() -> None:
    data = HEAD + record(1) + record(2)
    assert read(data)[2:] == [BadRecord(None, len(data), "the file ends before </set>, line 6")]
    found = read(data[:-10])
    assert found[0] == "1 text 1"
    assert [item.reason for item in found[1:]] == [
        "the element <item> does not end, line 5",
        "the file ends before </set>, line 5",
    ]


def test_a_truncated_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    data = HEAD + b"".join(record(n) for n in range(1, 20_001)) + b"</set>"
    path = tmp_path / "set.xml.gz"
    packed = gzip.compress(data)
    path.write_bytes(packed[: len(packed) // 2])
    *found, bad = xml_records(read_blocks(path), "item")
    assert isinstance(bad, BadRecord)
    assert "the compressed file is damaged or truncated, after line" in bad.reason
    assert len(found) > 5_000
    assert bad.byte is not None
    assert data[: bad.byte].count(b"<item") >= len([item for item in found if isinstance(item, XmlRecord)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is not XML"),
        (b"%PDF-1.5", "the file is not XML"),
        (b"<other><x/></other>", "there is no <item> in the file; its root element is <other>"),
    ],
)
def test_a_file_of_another_kind_is_reported(data: bytes, reason: str) -> None:
    assert read(data) == [BadRecord(None, 0, reason)]


def test_entities_are_never_resolved_but_named_characters_are() -> None:
    head = b'<!DOCTYPE set [<!ENTITY a "aaaa"><!ENTITY f SYSTEM "file:///etc/passwd">]>\n<set>'
    data = head + b"<item>&a;</item><item>&f;</item><item>3&nbsp;&micro;g &lt; &LT; &amp;alpha;</item></set>"
    *bad, good = read(data)
    assert [item.reason for item in bad] == ["not well-formed XML (undeclared entity), line 2"] * 2
    assert good == "3 3 µg < < &alpha;"


def test_namespaces_of_the_root_and_the_encoding_of_the_file_are_known_in_its_records() -> None:
    data = '<?xml version="1.0" encoding="ISO-8859-1"?><set xmlns="http://x" xmlns:m="http://m"><item>é <m:b>1</m:b></item></set>'
    assert read(data.encode("latin-1")) == ["1 é 1"]
    [found] = xml_records([data.encode("latin-1")], "item")
    assert isinstance(found, XmlRecord)
    assert [element.tag for element in found.element.iter()] == ["item", "b"]
    [bad] = read('<?xml version="1.0" encoding="utf-16"?><item>x</item>'.encode("utf-16"))
    assert isinstance(bad, BadRecord)


def test_parts_that_nobody_needs_are_not_parsed_and_lines_stay_right() -> None:
    data = HEAD + b"<item><list>\n\n<x>\n</list>a</item>\n<item><list>\n\n</list></b></item></set>"
    text, bad = read(data, without=("list",))
    assert text == "1 a"
    assert bad.reason.endswith("line 10")


def test_a_record_that_was_cut_off_inside_such_a_part_does_not_become_one_with_the_next() -> None:
    data = HEAD + b"<item>a<list><x>" + b"<item>b<list><x/></list></item></set>"
    bad, text = read(data, without=("list",))
    assert isinstance(bad, BadRecord)
    assert text == "2 b"


def test_memory_does_not_grow_with_the_file() -> None:
    def blocks(count: int) -> Iterator[bytes]:
        yield HEAD
        for start in range(0, count, 100):
            yield b"".join(map(record, range(start, start + 100)))
        yield b"</set>"

    def peak(count: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in xml_records(blocks(count), "item")) == count
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(1_000)
    assert peak(20_000) < 2 * peak(4_000)


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<t>a <i>b</i> c<sup>+</sup> d</t>", "a b c+ d"),
        ("<t>5 x 10<sup>6</sup> cells at 10<sup>-3</sup> M</t>", "5 x 10^6 cells at 10^-3 M"),
        (
            "<t>CD4<sup>+</sup>, 25<sup>+3</sup> weeks, 1<sup>st</sup>, Ca<sup>2+</sup>, m<sup>2</sup></t>",
            "CD4+, 25+3 weeks, 1st, Ca2+, m2",
        ),
        ("<t>\n  a\n  <b>b</b>\n</t>", "a b"),
        ("<t/>", ""),
    ],
)
def test_text_after_inner_tags_is_kept_and_powers_stay_powers(xml: str, text: str) -> None:
    assert inner_text(etree.fromstring(xml)) == text


def test_dates() -> None:
    assert iso_date("2018", "05", "7") == "2018-05-07"
    assert iso_date("2018", "May") == "2018-05"
    assert iso_date("2018", "Spring", "3") == "2018"
    assert iso_date("18", "05") is None
    assert release_date("oa_comm_xml.incr.2024-06-18.tar.gz") == 20240618
    assert release_date("1471-2180-11-174.nxml") == 0

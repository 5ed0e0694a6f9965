"""The page in Chromium: what people see and do, and what is saved of it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import CONTRAST, opened
from playwright.sync_api import expect

from osler.stages.serve.corrections import CorrectionLog

pytestmark = pytest.mark.browser

ATTACK = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
NOTE = f"💊💊 He took aspirin 81 mg. No fever, no rash.\n{ATTACK}\nMore aspirin for his rash.\n"


@pytest.fixture(scope="module")
def corrections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "corrections"


@pytest.fixture(scope="module")
def address(served: Callable[..., Any], corrections: Path) -> Iterator[str]:
    with served(corrections=corrections) as found:
        yield found


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    page, events = opened(browser, address, viewport={"width": 1280, "height": 900})
    annotate(page, NOTE)
    yield page
    assert [event for event in events if not event.startswith((address, "blob:", "data:"))] == []
    page.context.close()


def annotate(page: Any, text: str) -> None:
    page.locator("#format option").first.wait_for(state="attached")
    page.fill("#text", text)
    page.keyboard.press("Control+Enter")
    page.locator("#note mark").first.wait_for()


def marks(page: Any) -> list[list[str]]:
    """Words and chip of each entity, in text order."""
    return list(
        page.locator("#note mark[tabindex]").evaluate_all(
            "all => all.map(e => [e.textContent, (e.dataset.chip ?? e.querySelector('mark[data-chip]').dataset.chip)])"
        )
    )


ALL = [
    ["aspirin 81 mg", "DRUG"],
    ["aspirin", "DRUG"],
    ["81 mg", "DOSE"],
    ["fever", "DRUG · negated"],
    ["aspirin", "DRUG"],
]


def test_a_pasted_note_is_shown_as_text_with_its_entities(tab: Any) -> None:
    assert marks(tab) == ALL
    assert tab.locator("#note").evaluate("e => e.textContent") == NOTE
    assert tab.title() == "osler"
    assert tab.locator("#note img, #note script").count() == 0
    assert "cardiology" in tab.locator("#labels").text_content()
    assert tab.locator("#status").text_content().startswith("5 entities")


def test_pointing_at_an_entity_tells_score_head_and_attributes(tab: Any) -> None:
    tab.get_by_role("group", name="DRUG: fever").hover()
    tip = tab.locator("#tip")
    tip.wait_for()
    assert tip.locator("dd").all_text_contents() == ["0.710", "drugs", "yes"]
    tab.locator("#note mark mark").nth(1).hover()
    assert tip.locator("strong").all_text_contents() == ["DOSE", "DRUG"], "the entity around it is told, too"


def test_heads_labels_and_low_scores_can_be_hidden_and_relations_follow(tab: Any) -> None:
    assert tab.locator("#arcs .arc").count() == 1
    assert tab.locator("#relations li").all_text_contents() == ["81 mgdose of 0.80 →aspirin"]
    tab.locator(".head[data-head=farmacos]").click()
    assert marks(tab) == ALL[1:]
    tab.locator(".key[data-label=DOSE]").click()
    assert marks(tab) == [ALL[1], *ALL[3:]]
    assert tab.locator("#arcs .arc").count() == 0
    assert not tab.locator("#relations-panel").is_visible()
    tab.locator(".key[data-label=DOSE]").click()
    tab.locator("#minimum").fill("0.8")
    expect(tab.locator("#note mark")).to_have_count(2)
    assert marks(tab) == [ALL[1], ALL[4]]


def test_the_keyboard_is_enough(tab: Any) -> None:
    focused = "document.activeElement.getAttribute('aria-label')"
    tab.locator("#again").focus()
    tab.keyboard.press("Tab")
    assert tab.evaluate(focused) == "DRUG: aspirin 81 mg, score 0.31"
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate(focused) == "DOSE: 81 mg, score 0.52"
    assert tab.locator("#tip").is_visible()
    tab.keyboard.press("Enter")
    assert tab.get_by_role("dialog", name="DOSE").is_visible()
    assert tab.locator("#details :focus").text_content() == "Accept"
    tab.keyboard.press("Escape")
    assert not tab.locator("#details").is_visible()
    assert tab.evaluate(focused) == "DOSE: 81 mg, score 0.52"
    tab.keyboard.press("End")
    assert tab.evaluate(focused) == "DRUG: aspirin, score 0.93"
    tab.keyboard.press("Delete")
    assert marks(tab) == ALL[:4]
    tab.keyboard.press("Control+z")
    assert marks(tab) == ALL


def test_corrections_are_saved_with_characters_as_offsets(tab: Any, corrections: Path) -> None:
    tab.locator(".head[data-head=farmacos]").click()
    tab.get_by_role("group", name="DRUG: fever").click()
    tab.locator("[data-act=remove]").click()
    tab.get_by_role("group", name="DOSE: 81 mg").click()
    tab.locator("[data-act=accept]").click()
    tab.get_by_role("group", name="DRUG: aspirin").first.click()
    tab.locator("#all-equal").check()
    tab.locator("#relabel").select_option(label="DOSE")
    # Select "rash" in the text, and add it wherever it occurs.
    tab.evaluate(
        """() => {
          const walker = document.createTreeWalker(document.querySelector("#note"), NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const at = walker.currentNode.data.indexOf("rash");
            if (at >= 0) { getSelection().setBaseAndExtent(walker.currentNode, at, walker.currentNode, at + 4); break; }
          }
        }"""
    )
    tab.locator("#note").dispatch_event("mouseup")
    tab.get_by_role("dialog", name="New entity").get_by_role("checkbox").check()
    tab.locator("#details .primary").click()
    assert marks(tab) == [
        ["aspirin", "DOSE"],
        ["81 mg", "DOSE"],
        ["rash", "DRUG"],
        ["aspirin", "DOSE"],
        ["rash", "DRUG"],
    ]
    # "fever" is in the list of what was removed, and comes back with undo.
    assert tab.locator(".item.is-removed .words").all_text_contents() == ["fever"]
    tab.locator("#save").click()
    assert "name" in tab.locator("#status").text_content()
    tab.fill("#annotator", "ana")
    tab.locator("#save").click()
    expect(tab.locator("#status")).to_contain_text("Saved. 1 note by ana")
    (note,) = CorrectionLog(corrections).notes("ana")
    assert note.text == NOTE
    assert [(span.text_in(NOTE), span.label, span.attributes["head"]) for span in note.spans] == [
        ("aspirin", "DOSE", "drugs"),
        ("81 mg", "DOSE", "drugs"),
        ("rash", "DRUG", "drugs"),
        ("aspirin", "DOSE", "drugs"),
        ("rash", "DRUG", "drugs"),
    ]
    assert {key: note.meta[key] for key in ("heads", "accepted", "relabelled", "removed", "added")} == {
        "heads": "drugs",
        "accepted": "1",
        "relabelled": "2",
        "removed": "1",
        "added": "2",
    }
    # What is saved can be left without a question; what is not, only after one, which is answered with no here.
    asked: list[str] = []
    tab.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    tab.locator("#undo").click()
    annotate(tab, "aspirin")
    assert len(asked) == 1
    assert "not saved" in asked[0]
    for _ in range(3):
        tab.locator("#undo").click()
    assert marks(tab) == ALL[1:]
    assert tab.locator("#undo").is_disabled()


def test_the_most_uncertain_come_first_and_words_can_be_added_by_name(tab: Any) -> None:
    tab.locator("#order").select_option("uncertain")
    assert tab.locator("#list .score").all_text_contents() == ["0.52", "0.31", "0.71", "0.93", "0.93"]
    tab.locator("#list .item").first.click()
    assert tab.get_by_role("dialog", name="DOSE").is_visible()
    tab.keyboard.press("Escape")
    tab.fill("#adding-text", "rash")
    tab.keyboard.press("Enter")
    assert [words for words, _ in marks(tab)].count("rash") == 2


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_fits_the_screen_and_has_contrast(browser: Any, address: str, scheme: str, width: int) -> None:
    page, _ = opened(browser, address, color_scheme=scheme, viewport={"width": width, "height": 844})
    annotate(page, NOTE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pairs = [
        (".note-text", ".sheet"),
        ("#review-hint", ".sheet"),
        (".what", ".panel"),
        (".primary", ".primary"),
        ("#status", "body"),
    ]
    assert min(page.evaluate(CONTRAST, list(pair)) for pair in pairs) >= 4.5
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()  # auto, then light, then dark
    if scheme == "light":
        page.locator("#theme").click()
    assert page.evaluate(ground) != before
    page.context.close()


def test_labels_with_long_names_stay_within_the_details(tab: Any) -> None:
    tab.locator("#note mark[tabindex]").first.click()
    tab.evaluate("document.querySelector('#relabel').add(new Option('ID_TITULACION_PERSONAL_SANITARIO_DEL_PACIENTE'))")
    edge = tab.locator("#details").bounding_box()
    button = tab.locator("#details [data-act=remove]").bounding_box()
    assert button["x"] + button["width"] <= edge["x"] + edge["width"]


def test_a_file_is_read_as_it_is_and_downloaded(browser: Any, address: str, tmp_path: Path) -> None:
    page, _ = opened(browser, address, accept_downloads=True)
    page.locator("#format option").first.wait_for(state="attached")
    content = "aspirin\r\n81 mg 💊 aspirin\r\n"
    page.set_input_files("#file", {"name": "n.txt", "mimeType": "text/plain", "buffer": content.encode()})
    page.locator("#note mark").first.wait_for()
    assert page.locator("#note").evaluate("e => e.textContent") == content
    page.locator("#format").select_option("brat")
    with page.expect_download() as waiting:
        page.locator("#download").click()
    packed = zipfile.ZipFile(io.BytesIO(Path(waiting.value.path()).read_bytes()))
    assert packed.read("note.txt").decode() == content
    assert "T3\tDRUG 17 24\taspirin" in packed.read("note.ann").decode().splitlines()
    page.set_input_files("#file", {"name": "n.txt", "mimeType": "text/plain", "buffer": b"caf\xe9"})
    expect(page.locator("#status")).to_have_text("The file is not UTF-8 text.")
    page.context.close()


def test_a_long_note_is_drawn_whole_and_its_list_in_parts(browser: Any, address: str) -> None:
    page, _ = opened(browser, address)
    text = ("He took aspirin 81 mg. " + "Then he rested well for a long while. " * 7 + "\n") * 350
    page.locator("#format option").first.wait_for(state="attached")
    # Typing 100 kB takes the browser long; a paste does not.
    page.locator("#text").evaluate("(e, text) => { e.value = text; e.dispatchEvent(new Event('input')); }", text)
    page.locator("#annotate").click()
    page.locator("#note mark").first.wait_for()
    assert page.locator("#note").evaluate("e => e.textContent.length") == len(text) > 100_000
    assert page.locator("#note mark[tabindex]").count() == 1050
    assert page.locator("#list li").count() == 200
    page.locator("#more").click()
    assert page.locator("#list li").count() == 1050
    page.context.close()


def test_a_token_is_asked_for_and_kept_in_the_tab_alone(browser: Any, served: Callable[..., Any]) -> None:
    token = "a-long-enough-token"
    with served(tokens=(token,)) as address:
        page, _ = opened(browser, address)
        page.locator("#token-dialog").wait_for()
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-hint")).to_contain_text("That token was not accepted")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        annotate(page, "aspirin")
        assert page.evaluate("[...Object.values(sessionStorage)]") == [token]
        assert token not in json.dumps(page.evaluate("Object.values(localStorage)")) + page.url
        # Without --corrections, the page offers none.
        assert not page.locator("#review").is_visible()
        assert not page.locator("#adding").is_visible()
        page.context.close()


def test_the_de_identified_text_stands_beside_the_note(browser: Any, served: Callable[..., Any]) -> None:
    with served() as address:
        page, _ = opened(browser, address, viewport={"width": 1280, "height": 900})
        annotate(page, "Mrs. Jane Roe took aspirin <b>.")
        assert not page.locator("#deid").is_visible()
        page.locator("#show-deid").check()
        text = page.locator("#deid-text")
        expect(text).to_have_text("Mrs. *** took aspirin <b>.")
        page.locator("#deid-style").select_option("tag")
        expect(text).to_have_text("Mrs. [NAME] took aspirin <b>.")
        beside = "e => e.getBoundingClientRect().left"
        assert page.locator("#deid").evaluate(beside) > page.locator("#note").evaluate(beside) + 300
        page.context.close()

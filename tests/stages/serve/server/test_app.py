"""The routes: answers with the bytes of the command line, whatever is computed with them, and refusals that repeat nothing."""

from __future__ import annotations

import io
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from osler.artifacts.bundle import Bundle
from osler.stages.serve import annotate
from osler.stages.serve.config import AnnotateOptions, AnnotateRecipe
from osler.stages.serve.engine import AnnotationEngine

NOTE = "He was given aspirin 81 mg for chest pain.\n\nNo fever. Warfarin was stopped."
SECRET = "Zyxwvut-Patientenname"
NASTY = {
    "empty": "",
    "blank": " \n\t ",
    "emoji": "Aspirin 💊 81 mg 👩‍⚕️ für José 🇪🇸 … fin",
    "bidi": "Patient \u202easpirin\u202c תרופה אספירין 81 mg \u2066x\u2069",
    "combining": "Jose\u0301 n\u0303u a\u0301\u0323spirin Z\u0351\u036bA\u0343\u032aL\u0342\u0313G\u0353O",
    "wide": "𝒜𝓈𝓅𝒾𝓇𝒾𝓃 81 mg \U0001f9ec\u200d",
    "controls": "a\x01b\x0bc\x0c\x1b[31mred\x7f \u2028 \u2029 \ufeff end",
    "quotes": '"aspirin" \\n \'x\' </script> {"a": 1} %s {0}',
    "one word": "a" * 3000,
    "crlf": "Aspirin\r\n81 mg\r\rstopped\n\r",
}


def offline(bundle: Path, tmp_path: Path, records: list[dict], **options) -> list[str]:
    """The lines that `osler annotate` prints."""
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    target = io.StringIO()
    left = annotate.stream(AnnotateRecipe(files=(path,), bundle=bundle, device="cpu", **options), target)
    assert left == []
    return target.getvalue().split("\n")[:-1]


def random_notes(count: int, seed: int = 0) -> list[dict]:
    draw = random.Random(seed)
    english = ["He", "was", "given", "aspirin", "81", "mg", "for", "pain", ".", "No", "fever", "stopped", "💊", "José"]
    spanish = ["El", "paciente", "con", "dolor", "aspirina", "81", "mg", "para", ".", "Sin", "fiebre", "💊", "José"]
    sizes = [draw.choice([0, 1, 2, 5, 12, 40, 300]) for _ in range(count)]
    chosen = [draw.choice([english, english, spanish, english + spanish]) for _ in range(count)]
    texts = [" ".join(draw.choice(words) for _ in range(size)) for size, words in zip(sizes, chosen, strict=True)]
    return [{"id": f"n{number}", "text": text} for number, text in enumerate(texts)]


def test_one_document_has_the_bytes_of_the_command_line(client, bundle, tmp_path):
    note = {"id": "note-1", "text": NOTE, "meta": {"ward": "3", "empty": ""}}
    [line] = offline(bundle, tmp_path, [note])
    answer = client.post("/v1/annotate", json=note)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == f"{line}\n".encode()
    assert answer.json()["meta"] == {"ward": "3"}


def test_many_documents_have_the_bytes_of_the_command_line(client, bundle, tmp_path):
    notes = random_notes(70)
    lines = offline(bundle, tmp_path, notes)
    body = {"documents": notes}
    answer = client.post("/v1/annotate", json=body, headers={"accept": "application/x-ndjson"})
    assert answer.content.decode() == "".join(f"{line}\n" for line in lines)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert client.post("/v1/annotate", json=body).content.decode() == f'{{"documents": [{", ".join(lines)}]}}\n'
    assert client.post("/v1/annotate", json={"documents": []}).json() == {"documents": []}


def test_answers_do_not_depend_on_other_requests(serve, bundle, tmp_path):
    """Requests of all sizes and options at once: every answer is the one that its text has offline."""
    client = serve(batch_tokens=256)
    notes = random_notes(60, seed=1)
    options = [{}, {"min_score": 0.3}, {"heads": ["drugs"]}, {"language": "es"}, {"language": "all"}]
    lines = [offline(bundle, tmp_path, notes, **chosen) for chosen in options]
    asked = [(note, kind) for note in range(len(notes)) for kind in range(len(options))]
    random.Random(2).shuffle(asked)

    def ask(place: tuple[int, int]) -> bool:
        note, kind = place
        answer = client.post("/v1/annotate", json={**notes[note], "options": options[kind]})
        return answer.content.decode() == f"{lines[kind][note]}\n"

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, asked))
    shared = [line for line in client.get("/metrics").text.splitlines() if line.startswith("osler_pass_requests_")]
    alone = next(float(line.split()[-1]) for line in shared if 'le="1"' in line)
    every = next(float(line.split()[-1]) for line in shared if "_count" in line)
    assert alone < every  # some passes were shared, or this test says nothing


def test_a_request_that_fails_does_not_take_others_with_it(serve, bundle, tmp_path, monkeypatch):
    client = serve()
    notes = random_notes(40, seed=4)
    lines = offline(bundle, tmp_path, notes)
    whole = AnnotationEngine._annotate

    def fail(self, reading, records):
        if any(SECRET in record.text for record in records):
            raise ValueError(SECRET)
        return whole(self, reading, records)

    monkeypatch.setattr(AnnotationEngine, "_annotate", fail)

    def ask(number: int) -> bool:
        if number % 5 == 0:
            answer = client.post("/v1/annotate", json={"text": f"{notes[number]['text']} {SECRET}"})
            return answer.status_code == 500
        return client.post("/v1/annotate", json=notes[number]).content.decode() == f"{lines[number]}\n"

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(len(notes))))


def test_each_document_of_a_request_is_read_by_the_heads_for_its_language(client, bundle, tmp_path):
    texts = ["He was given aspirin for pain.", "Se dio aspirina para el dolor y la fiebre.", "Aspirin 81 mg."]
    notes = [{"text": text} for text in texts]
    found = client.post("/v1/annotate", json={"documents": notes}).json()["documents"]
    labels = [{span["attributes"]["head"] for span in note["spans"]} for note in found]
    assert labels == [{"drugs"}, {"farmacos"}, {"drugs", "farmacos"}]
    everything = {"documents": notes, "options": {"language": "all"}}
    for note in client.post("/v1/annotate", json=everything).json()["documents"]:
        assert {span["attributes"]["head"] for span in note["spans"]} == {"drugs", "farmacos"}
    for text, language in zip(texts, ("en", "es", None), strict=True):
        assert client.post("/v1/language", json={"text": text}).json() == {"language": language}


def test_documents_without_an_id_are_numbered_as_lines_are(client, bundle, tmp_path):
    notes = [{"text": "Aspirin."}, {"text": "No fever."}]
    lines = offline(bundle, tmp_path, notes)
    assert client.post("/v1/annotate", json={"documents": notes}).json()["documents"] == list(map(json.loads, lines))
    assert client.post("/v1/annotate", json=notes[0]).content.decode() == f"{lines[0]}\n"


def test_pairs_have_the_bytes_of_the_command_line(client, bundle, tmp_path):
    pairs = [{"id": "p", "first": "He has a fever.", "second": "He is febrile."}, {"first": "a", "second": ""}]
    for path, head in (("/v1/similarity", "similarity"), ("/v1/infer", "entailment")):
        lines = offline(bundle, tmp_path, pairs, heads=(head,))
        assert client.post(path, json=pairs[0]).content.decode() == f"{lines[0]}\n"
        answer = client.post(path, json={"pairs": pairs}, headers={"accept": "application/x-ndjson"})
        assert answer.content.decode().splitlines() == lines


@pytest.mark.parametrize("name", NASTY)
def test_offsets_slice_the_text_as_it_was_sent(client, bundle, tmp_path, name):
    text = NASTY[name]
    answer = client.post("/v1/annotate", json={"id": name, "text": text})
    assert answer.status_code == 200
    found = answer.json()
    assert found["text"] == text
    for span in found.get("spans", []):
        assert 0 <= span["start"] < span["end"] <= len(text)
        assert text[span["start"] : span["end"]].strip()
    assert answer.content.decode() == f"{offline(bundle, tmp_path, [{'id': name, 'text': text}])[0]}\n"


def test_a_megabyte_on_one_line(client):
    draw = random.Random(3)
    # Mostly words that are one token each: the length in characters is what is tested, the model need not read more.
    words = ["aspirin", "stopped", "Warfarin"] * 10 + ["81", "mg", "💊", "fever", "José", "\u202eNo"]
    text = " ".join(draw.choice(words) for _ in range(135_000))
    assert len(text) > 1_000_000
    answer = client.post("/v1/annotate", json={"text": text, "options": {"heads": ["drugs"]}})
    assert answer.status_code == 200
    found = answer.json()
    assert found["text"] == text
    assert max(span["end"] for span in found["spans"]) > len(text) - 1000
    assert all(text[span["start"] : span["end"]].strip() for span in found["spans"])


def test_short_texts_beside_long_ones(serve, bundle, tmp_path):
    """Texts that are read in a thread of their own have the bytes of the command line too, and so have those beside them."""
    client = serve(batch_tokens=512, threads=2)
    notes = random_notes(12, seed=5)
    notes += [{"id": f"l{n}", "text": " ".join(note["text"] for note in random_notes(60, n))} for n in (6, 7, 8)]
    assert max(len(note["text"]) for note in notes) > 20_000
    lines = offline(bundle, tmp_path, notes)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda note: client.post("/v1/annotate", json=note).content.decode(), reversed(notes)))
    assert found == [f"{line}\n" for line in reversed(lines)]


def test_what_the_bundle_can_do(client, bundle):
    found = client.get("/v1/labels").json()
    assert {head["name"]: head["labels"] for head in found["heads"]}["drugs"] == ["DRUG", "DOSE"]
    assert found["languages"] == ["en", "es"]
    card = client.get("/v1/card").json()
    assert card["heads"] == list(Bundle.load(bundle, "cpu").spec.heads)
    assert (card["name"], card["model_version"]) == (bundle.name, "")
    assert len(card["digest"]) == 64
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_a_bundle_without_the_head_that_is_asked_for(client):
    answer = client.post("/v1/infer", json={"first": "a", "second": "b", "options": {"heads": ["similarity"]}})
    assert (answer.status_code, answer.json()["code"]) == (422, "no_head")
    answer = client.post("/v1/annotate", json={"text": "a", "options": {"heads": ["drug"]}})
    assert answer.status_code == 422
    assert "Did you mean 'drugs'?" in answer.json()["message"]
    for options in ({"heads": [SECRET]}, {"language": SECRET}):
        answer = client.post("/v1/annotate", json={"text": "a", "options": options})
        assert (answer.status_code, answer.json()["code"]) == (422, "no_head")
        assert SECRET not in answer.text
    answer = client.post("/v1/annotate", json={"text": "a", "options": {"heads": ["drugs"], "language": "es"}})
    assert answer.status_code == 422


WRONG = {
    "nul": {"text": f"{SECRET}\0"},
    "surrogate": f'{{"text": "{SECRET}\\ud800"}}',
    "no text": {"txt": SECRET},
    "a list": [SECRET],
    "a string": f'"{SECRET}"',
    "a number as text": {"text": 5, "id": SECRET},
    "text as options": {"text": "a", "options": SECRET},
    "unknown option": {"text": "a", "options": {SECRET: 1}},
    "wrong option": {"text": "a", "options": {"min_score": SECRET}},
    "true as a score": {"text": "a", "options": {"min_score": True}},
    "a score in quotes": {"text": "a", "options": {"min_score": "0.5"}},
    "a head that is no list": {"text": "a", "options": {"heads": SECRET}},
    "thresholds of a command line": {"text": "a", "options": {"thresholds": [f"{SECRET}=0.5"]}},
    "score beyond 1": {"text": "a", "options": {"min_score": 2}},
    "not a number": '{"text": "a", "options": {"min_score": NaN}}',
    "text in the id": {"text": "a", "id": SECRET * 100},
    "meta": {"text": "a", "meta": {SECRET: [SECRET]}},
    "documents": {"documents": [{"text": "a"}, {"text": {"x": SECRET}}]},
    "both": {"documents": [], "text": SECRET},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_explained_without_repeating_it(client, name):
    body = WRONG[name]
    content = body if isinstance(body, str) else json.dumps(body)
    answer = client.post("/v1/annotate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert SECRET not in answer.text
    assert answer.json()["mistakes"]


def test_the_place_of_a_mistake_is_named(client):
    answer = client.post("/v1/annotate", json={"documents": [{"text": "a"}, {"text": 1}], "options": {"min_score": 2}})
    assert {item["where"] for item in answer.json()["mistakes"]} == {"body.documents.1.text", "body.options.min_score"}
    answer = client.post("/v1/annotate", json={"text": "ab\0"})
    assert "NUL character at offset 2" in answer.json()["mistakes"][0]["problem"]


@pytest.mark.parametrize(
    "content", [b"", b"{", f'{{"text": "{SECRET}'.encode(), b"\xff\xfe{}", b'{"a":' * 20_000, b'{"id": ' + b"9" * 6000]
)
def test_what_is_no_json_is_refused(client, content):
    answer = client.post("/v1/annotate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert SECRET not in answer.text
    assert answer.json()["code"] in ("invalid_json", "invalid")


def test_a_body_without_the_header_of_json_is_refused_with_the_header_to_send(client):
    for header in ({"content-type": "application/x-www-form-urlencoded"}, {"content-type": "text/plain"}):
        answer = client.post("/v1/annotate", content=f'{{"text": "{SECRET}"}}', headers=header)
        assert (answer.status_code, answer.json()["code"]) == (415, "not_json")
        assert "Content-Type: application/json" in answer.json()["message"]
        assert SECRET not in answer.text


def test_head_is_answered_like_get_without_a_body(client):
    for path in ("/", "/healthz", "/readyz", "/v1/card"):
        answer, full = client.head(path), client.get(path)
        assert (answer.status_code, answer.content) == (200, b""), path
        assert answer.headers["content-length"] == full.headers["content-length"]
        assert answer.headers["x-frame-options"] == "DENY"
    assert client.head("/v1/annotate").status_code == 405
    assert 'route="/healthz",method="HEAD",status="200"' in client.get("/metrics").text


def test_unknown_paths_and_methods(client):
    answer = client.get(f"/{SECRET}?q={SECRET}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert SECRET not in answer.text
    answer = client.get("/v1/annotate")
    assert (answer.status_code, answer.json()["code"]) == (405, "wrong_method")
    assert answer.headers["allow"] == "POST"


def test_limits_of_texts_and_documents(serve):
    client = serve(max_text=10, max_documents=2)
    assert client.post("/v1/annotate", json={"text": "a" * 10}).status_code == 200
    too_long = client.post("/v1/annotate", json={"documents": [{"text": "a"}, {"text": "💊" * 11}]})
    assert (too_long.status_code, too_long.json()["code"]) == (413, "too_large")
    too_many = client.post("/v1/annotate", json={"documents": [{"text": "a"}] * 3})
    assert (too_many.status_code, too_many.json()["code"]) == (413, "too_many")
    pair = client.post("/v1/similarity", json={"first": "a", "second": "b" * 11})
    assert pair.status_code == 413


def test_a_bug_gives_no_text_away(serve, monkeypatch, caplog):
    client = serve()

    def fail(*_):
        raise ValueError(SECRET)

    monkeypatch.setattr("osler.stages.serve.engine.AnnotationEngine._annotate", fail)
    with caplog.at_level("INFO"):
        answer = client.post("/v1/annotate", json={"text": SECRET})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert SECRET not in answer.text
    assert SECRET not in caplog.text
    assert "ValueError" in caplog.text
    assert "engine.py" in caplog.text


def test_options_of_the_command_line_are_those_of_a_request(client):
    schema = client.get("/openapi.json").json()["components"]["schemas"]["RequestOptions"]
    assert schema["properties"].keys() == AnnotateOptions.model_fields.keys()
    assert all(value["description"] for value in schema["properties"].values())
    assert schema["properties"]["heads"]["items"]["enum"] == ["drugs", "farmacos", "entailment", "similarity"]
    assert schema["properties"]["language"]["anyOf"][0]["enum"] == ["en", "es", "all"]


def test_the_description_says_what_offsets_count(client):
    found = client.get("/openapi.json").json()
    assert "Unicode code points" in found["info"]["description"]
    assert "Unicode code points" in found["components"]["schemas"]["AnnotatedSpan"]["description"]
    for path, methods in found["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert operation["description"], path
            if path.startswith("/v1/"):
                assert {"200", "401"} <= operation["responses"].keys()

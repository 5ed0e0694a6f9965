"""`osler serve` under load, on this machine alone: does it stay right, does it stay up, and what does sharing passes bring?

    python benchmarks/serve.py load --seconds 600 --json load.json
    python benchmarks/serve.py compare --seconds 60 --preset small
    python benchmarks/serve.py alone --requests 300 --preset compact

`load` starts the service and 64 clients that ask without pause: notes of all sizes, one or many in a request, with options, and
one request in eight that is broken: malformed JSON, wrong fields, bodies beyond the limit (announced or not), clients that send
byte by byte or not at all, and clients that hang up while they send or before the answer. Every answer is compared with the line that
`osler annotate` printed for that text. It fails if one differs, if there is a 5xx, or if memory keeps growing.

`compare` sends the same well-formed requests to the service and to a plain FastAPI application that annotates one request at a time,
in turns. `ratio` is by the clock, `processor` by the processor time of the server, which other work on the machine does not disturb.
With `--pass-ms 10` both servers have a simulated accelerator instead of a CPU that computes: outputs come from memory, and a pass takes
10 ms whatever it holds, and 1 µs more for each token.

`alone` asks one request after another, and calls the same engine in Python in between: what the service adds when nobody else asks.

Weights are random: they do not change the time. Every run is bounded in time and ends what it starts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

CALM = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
os.environ.update(CALM)  # before torch is imported

HEADS: dict[str, dict[str, Any]] = {
    "entities": {"kind": "tagging", "labels": ("DRUG", "DOSE", "PROBLEM")},
    "phi": {"kind": "tagging", "labels": ("NAME", "DATE", "ID")},
    "similarity": {"kind": "regression", "record": "pair", "symmetric": True, "labels": ()},
}
O_BIAS = 0.6
LIMIT = 2_000_000
"""Bytes of a request, as the service is started here."""
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"min_score": 0.4}, {"heads": ["phi"]})


def make_bundle(folder: Path, preset: str) -> Path:
    """A bundle with random weights and a vocabulary learned from synthetic notes."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    from osler.artifacts.bundle import Bundle
    from osler.artifacts.bundle_spec import BundleHead, BundleSpec
    from osler.artifacts.tokenizer import Tokenizer
    from osler.core.artifact import Workspace, produce
    from osler.core.config import Recipe
    from osler.nn.encoder import PackedEncoder
    from osler.nn.mlm import MaskedLM
    from osler.nn.multihead import MultiHeadModel
    from osler.nn.presets import preset_config
    from osler.tasks.card import TaskCard

    fast = Fast(models.BPE())
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4_000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    fast.train_from_iterator(note_texts(200, seed=1), trainer)
    fast.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    vocabulary = folder / "tokenizer"
    vocabulary.mkdir(parents=True)
    fast.save(str(vocabulary / "tokenizer.json"))
    heads = {}
    for name, values in HEADS.items():
        metric = {"tagging": "f1", "regression": "pearson"}[values["kind"]]
        card = {
            "name": name,
            "title": name,
            "language": "en",
            "protocol": "plain",
            "protocols": {"plain": {"metric": metric}},
            "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
        }
        heads[name] = BundleHead(card=TaskCard.model_validate(card | values), protocol="plain")
    spec = BundleSpec(max_length=256, overlap=32, heads=heads)

    class Sizes(Recipe):
        """What the bundle is made of."""

        preset: str

    def build(work: Workspace) -> None:
        config = preset_config(preset, vocab_size=fast.get_vocab_size(), pad_token_id=1, max_length=256)
        model = MultiHeadModel(PackedEncoder(MaskedLM.from_config(config, seed=0).model.base_model.eval()))
        bundle = Bundle.of(model, Tokenizer.open(vocabulary), spec)
        for name, builder in bundle.builders.items():
            head: Any = model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs)
            if builder.head == "tagging":
                head.classifier.bias.data[0] = O_BIAS  # a trained head finds a few entities, not one in every word
        bundle.save(work.path, tokenizer_from=vocabulary)

    return produce(folder / "bundle", kind="bundle", recipe=Sizes(preset=preset), parents={}, build=build).path


def note_texts(count: int, seed: int) -> list[str]:
    from osler.clinic.notes import notes

    return [note.text for note in notes(count, language="en", seed=seed, split="train")]


def make_notes(count: int, seed: int = 7) -> list[dict[str, str]]:
    """Notes of all sizes: a sentence, a note, several notes in one; some with characters of all kinds."""
    draw = random.Random(seed)
    whole = note_texts(60, seed)
    made = []
    for number in range(count):
        note = draw.choice(whole)
        size = draw.choices(["line", "part", "note", "long"], [4, 3, 3, 0.3])[0]
        start = draw.randrange(max(1, len(note) - 200))
        text = {
            "line": note[start : start + draw.randrange(0, 120)],
            "part": note[start : start + draw.randrange(200, 1200)],
            "note": note,
            "long": "\n\n".join(draw.choice(whole) for _ in range(6)),
        }[size]
        if draw.random() < 0.1:
            text = f"👩‍⚕️ {text} Jose\u0301 \u202ex\u202c 𝒜"
        made.append({"id": f"n{number}", "text": text})
    return made


def offline(bundle: Path, notes: Sequence[dict[str, str]], folder: Path, device: str) -> list[list[bytes]]:
    """The lines that `osler annotate` prints for each note, for each of OPTIONS."""
    path = folder / "notes.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    answers = []
    for options in OPTIONS:
        flags = [f"--min-score={options['min_score']}"] if "min_score" in options else []
        flags += [f"--head={head}" for head in options.get("heads", ())]
        command = [sys.executable, "-m", "osler", "-q", "annotate", str(path), "--bundle", str(bundle), *flags]
        command += ["--device", device]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        answers.append(done.stdout.splitlines())
        assert len(answers[-1]) == len(notes)
    return answers


@dataclass
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    port: int
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Seconds and MiB."""

    def resident(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*command: str) -> Iterator[Server]:
    """Start a server that prints its address, and stop it with SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env={**os.environ, **CALM}
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield Server(process, int(address.rpartition(":")[2]))
        process.send_signal(signal.SIGTERM)
        process.wait(90)
    finally:
        process.kill()
        process.wait()


def service(bundle: Path, device: str, *settings: str) -> Any:
    sets = [part for setting in (f"max_body={LIMIT}", "read_seconds=3", *settings) for part in ("--set", setting)]
    return started("-m", "osler", "-q", "serve", "--bundle", str(bundle), "--device", device, "--port", "0", *sets)


class Connection:
    """One client: HTTP/1.1 over a socket, without a library, because the clients share the cores with the server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        return self._streams

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(self, *parts: bytes, pause: float = 0.0) -> tuple[int, bytes]:
        """Send the parts of a request, and read the answer. Status 0: the connection was closed."""
        used = self._streams is not None
        try:
            reader, writer = await self.open()
            for part in parts:
                writer.write(part)
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            return await self._answer(reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            # A server that refuses a request while it is being sent may close before everything is sent.
            try:
                return await self._answer(reader)
            except (ConnectionError, asyncio.IncompleteReadError, UnboundLocalError):
                await self.close()
        if used:  # an idle connection was closed just as it was used again: every HTTP client asks once more
            return await self.ask(*parts, pause=pause)
        return 0, b""

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if b"connection: close" in head:
            await self.close()
        return int(head.split(b" ", 2)[1]), body


def request(body: Any, path: str = "/v1/annotate", accept: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@dataclass
class Load:
    """What the clients saw."""

    notes: Sequence[dict[str, str]]
    answers: Sequence[Sequence[bytes]]
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    compared: int = 0
    unexpected: Counter[str] = field(default_factory=Counter)

    async def client(self, port: int, number: int, until: float, *, broken: bool) -> None:
        draw = random.Random(number)
        connection = Connection(port)
        while time.monotonic() < until:
            if broken and draw.random() < 0.125:
                await self._break(connection, port, draw)
            else:
                await self._annotate(connection, draw)
        await connection.close()

    async def _annotate(self, connection: Connection, draw: random.Random) -> None:
        kind = draw.randrange(len(OPTIONS))
        if draw.random() < 0.1:
            chosen = [draw.randrange(len(self.notes)) for _ in range(draw.randrange(1, 12))]
            body = {"documents": [self.notes[n] for n in chosen], "options": OPTIONS[kind]}
            status, found = await connection.ask(request(body, accept="application/x-ndjson"))
        else:
            chosen = [draw.randrange(len(self.notes))]
            status, found = await connection.ask(request({**self.notes[chosen[0]], "options": OPTIONS[kind]}))
        self.statuses[f"annotate {status}"] += 1
        if status == 200:
            self.compared += len(chosen)
            expected = b"".join(self.answers[kind][n] + b"\n" for n in chosen)
            self.wrong += found != expected
        elif status == 429:
            await asyncio.sleep(0.05)
        else:
            self.unexpected[f"annotate {status}"] += 1

    async def _break(self, connection: Connection, port: int, draw: random.Random) -> None:
        text = self.notes[draw.randrange(len(self.notes))]["text"]
        kinds = ("json", "json", "fields", "nul", "huge", "endless", "slow", "stuck", "cut", "gone", "gone", "path")
        kind = draw.choice(kinds)
        own = Connection(port)  # may be closed by the server
        whole = request({"text": text})
        chunked = whole.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
        expected: tuple[int, ...] = (400, 422)
        if kind == "json":
            status, _ = await connection.ask(request(json.dumps({"text": text}).encode()[: -draw.randrange(1, 5)]))
        elif kind == "fields":
            status, _ = await connection.ask(request({"text": [text], "options": {"min_score": text}}))
        elif kind == "nul":
            status, _ = await connection.ask(request({"text": f"{text}\0"}))
        elif kind == "path":
            status, _ = await connection.ask(request({"text": text}, path="/v1/nothing"))
            expected = (404,)
        elif kind == "huge":
            status, _ = await own.ask(request(b'{"text": "' + b"x" * (LIMIT + 100_000)))
            expected = (413,)
        elif kind == "endless":
            piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            status, _ = await own.ask(chunked, *[piece] * (LIMIT // 65536 + 3), b"0\r\n\r\n")
            expected = (413, 429, 0)  # 429: all bodies that arrive at once are too large together
        elif kind == "slow":  # slow, but in time
            status, _ = await own.ask(whole[:9], whole[9:200], whole[200:], pause=0.3)
            expected = (200, 429)
        elif kind == "stuck":
            status, _ = await own.ask(whole[:-1])
            expected = (408,)
        elif kind == "cut":
            _, writer = await own.open()
            writer.write(whole[: draw.randrange(1, len(whole))])
            await writer.drain()
            status, expected = 0, (0,)
        else:
            _, writer = await own.open()
            writer.write(whole)
            await writer.drain()
            await asyncio.sleep(draw.random() * 0.02)
            status, expected = 0, (0,)
        await own.close()
        self.statuses[f"{kind} {status}"] += 1
        if status not in expected:
            self.unexpected[f"{kind} {status}"] += 1

    async def run(self, server: Server, clients: int, seconds: float, *, broken: bool) -> float:
        """Let the clients ask for so many seconds; returns the time until the last was answered."""
        began = time.monotonic()

        async def watch() -> None:
            while True:
                server.memory.append((time.monotonic() - began, server.resident()))
                await asyncio.sleep(1)

        watcher = asyncio.create_task(watch())
        until = began + seconds
        await asyncio.gather(*(self.client(server.port, n, until, broken=broken) for n in range(clients)))
        watcher.cancel()
        return time.monotonic() - began


def load(options: argparse.Namespace, bundle: Path, folder: Path) -> dict[str, Any]:
    notes = make_notes(options.notes)
    seen = Load(notes, offline(bundle, notes, folder, options.device))
    with service(bundle, options.device) as server:
        seconds = asyncio.run(seen.run(server, options.clients, options.seconds, broken=True))
        metrics = asyncio.run(scrape(server.port))
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(90)
    parts = [[mib for when, mib in server.memory if tenth <= 10 * when / seconds < tenth + 1] for tenth in range(10)]
    tenths = [round(median(part)) for part in parts if part]
    errors = sum(count for status, count in seen.statuses.items() if " 5" in status)
    result = {
        "seconds": round(seconds, 1),
        "requests": sum(seen.statuses.values()),
        "statuses": dict(sorted(seen.statuses.items())),
        "answers compared": seen.compared,
        "answers that differ": seen.wrong,
        "5xx": errors,
        "unexpected": dict(seen.unexpected),
        "notes per second": round(seen.compared / seconds, 1),
        "MiB in each tenth of the time": tenths,
        "requests that shared a pass, mean": metrics,
        "exit code": code,
    }
    result["ok"] = not (seen.wrong or errors or seen.unexpected or code) and flat(tenths)
    return result


def flat(tenths: list[int]) -> bool:
    """Whether memory has stopped growing: pools and caches fill in the first half of the time."""
    half = tenths[len(tenths) // 2 :]
    return median(half[len(half) // 2 :]) < 1.03 * median(half[: len(half) // 2 + 1])


async def scrape(port: int) -> float:
    connection = Connection(port)
    _, body = await connection.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await connection.close()
    values = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    return round(float(values["osler_pass_requests_sum"]) / float(values["osler_pass_requests_count"]), 2)


def compare(options: argparse.Namespace, bundle: Path, folder: Path) -> dict[str, Any]:
    notes = [note for note in make_notes(4 * options.notes) if len(note["text"]) < options.longest][: options.notes]
    answers = offline(bundle, notes, folder, options.device)
    compared = wrong = 0
    rates: dict[str, list[tuple[float, float]]] = {"osler": [], "one at a time": []}
    own = ["--bundle", str(bundle), "--pass-ms", str(options.pass_ms), "--device", options.device]
    ours_started = started(__file__, "simulated", *own) if options.pass_ms else service(bundle, options.device)
    with ours_started as ours, started(__file__, "plain", *own) as plain:
        for turn in range(2 * options.turns + 2):
            name, server = (("osler", ours), ("one at a time", plain))[turn % 2]
            seen = Load(notes, answers)
            before = server.processor()
            spent = options.seconds / options.turns / 2 if turn > 1 else 5.0  # the first two warm up
            seconds = asyncio.run(seen.run(server, options.clients, spent, broken=False))
            compared, wrong = compared + seen.compared, wrong + seen.wrong
            assert not wrong or options.device != "cpu", (
                name
            )  # on a GPU the batch may change the last digits of a score
            assert not seen.unexpected, seen.unexpected
            if turn > 1:
                rates[name].append((seen.compared / seconds, seen.compared / (server.processor() - before)))
        shared = asyncio.run(scrape(ours.port))
    clock, processor = ({name: median(pair[n] for pair in found) for name, found in rates.items()} for n in (0, 1))
    return {
        "notes per second": {name: round(value, 1) for name, value in clock.items()},
        "notes per second of processor time": {name: round(value, 1) for name, value in processor.items()},
        "ratio": round(clock["osler"] / clock["one at a time"], 2),
        "processor": round(processor["osler"] / processor["one at a time"], 2),
        "requests that shared a pass, mean": shared,
        "answers compared": compared,
        "answers that differ": wrong,
    }


def alone(options: argparse.Namespace, bundle: Path, folder: Path) -> dict[str, Any]:
    from osler.formats.jsonl import json_line
    from osler.stages.serve.config import AnnotateOptions
    from osler.stages.serve.engine import AnnotationEngine
    from osler.text.document import Document

    notes = [note for note in make_notes(4 * options.notes) if 200 < len(note["text"]) < options.longest]
    engine = AnnotationEngine.load(bundle, AnnotateOptions(), options.device)
    times: dict[str, list[float]] = {"service": [], "bare call": []}
    spent = {"service": 0.0, "bare call": 0.0}

    async def play(server: Server) -> None:
        connection = Connection(server.port)
        for number in range(options.requests + 20):
            if number == 20:  # after warming up
                spent["service"] -= server.processor()
            note = notes[number % len(notes)]
            began = time.perf_counter()
            _, found = await connection.ask(request(note))
            between = time.perf_counter()
            used = time.process_time()
            [record] = engine.annotate([Document(note["id"], note["text"])])
            line = json_line(record)
            used, ended = time.process_time() - used, time.perf_counter()
            assert found == f"{line}\n".encode()
            if number >= 20:
                times["service"].append(between - began)
                times["bare call"].append(ended - between)
                spent["bare call"] += used
        spent["service"] += server.processor()
        await connection.close()

    with service(bundle, options.device) as server:
        asyncio.run(play(server))
    result: dict[str, Any] = {}
    for name, found in times.items():
        found.sort()
        result[name] = {f"p{share}": round(1000 * found[int(len(found) * share / 100)], 2) for share in (50, 90, 99)}
    for name, seconds in spent.items():
        result[name]["processor"] = round(1000 * seconds / options.requests, 2)
    result["ratio"] = {p: round(result["service"][p] / result["bare call"][p], 2) for p in result["service"]}
    return result


class Simulated:
    """A runner that computes every input once, then has its outputs in memory; a pass takes a given time, as on a GPU."""

    def __init__(self, runner: Any, milliseconds: float) -> None:
        self._runner, self._seconds = runner, milliseconds / 1000
        self._known: dict[tuple[str, bytes], Any] = {}

    def outputs(self, instances: Any, heads: Any, advance: Any = None) -> Any:
        results: dict[str, list[Any]] = {head: [] for head in heads}
        for instance in instances:
            for head in heads:
                key = (head, instance.ids.tobytes())
                if key not in self._known:
                    self._known[key] = self._runner.outputs([instance], [head])[head][0]
                results[head].append(self._known[key])
        time.sleep(self._seconds + 1e-6 * sum(instance.length for instance in instances))
        return results

    def begin(self, instances: Any, heads: Any) -> Any:
        return partial(self.outputs, instances, heads)

    def transitions(self, head: str) -> Any:
        return self._runner.transitions(head)


def load_engine(bundle: Path, milliseconds: float, device: str) -> Any:
    from osler.stages.serve.config import AnnotateOptions
    from osler.stages.serve.engine import AnnotationEngine

    engine = AnnotationEngine.load(bundle, AnnotateOptions(), device)
    if not milliseconds:
        return engine
    return replace(engine, bundle=replace(engine.bundle, runner=Simulated(engine.bundle.runner, milliseconds)))


def simulated(bundle: Path, milliseconds: float, device: str) -> None:
    """The service over a simulated accelerator."""
    from osler.stages.serve.server.app import create_app
    from osler.stages.serve.server.run import AnnotationServer, listen
    from osler.stages.serve.server.settings import ServeRecipe

    recipe = ServeRecipe(bundle=bundle, port=0, batch_tokens=32_768)
    listener = listen(recipe)
    app = create_app(load_engine(bundle, milliseconds, device), recipe)
    AnnotationServer(app, recipe, listener, lambda address: print(address, flush=True)).run(sockets=[listener])


def plain(bundle: Path, milliseconds: float, device: str) -> None:
    """The usual way to serve a model: one request at a time, with a lock around it."""
    import socket
    import threading

    import uvicorn
    from fastapi import FastAPI, Response
    from pydantic import BaseModel

    from osler.formats.jsonl import json_line
    from osler.stages.serve.config import AnnotateOptions
    from osler.text.document import Document

    class Body(BaseModel):
        id: str | None = None
        text: str | None = None
        documents: list[dict[str, str]] | None = None
        options: dict[str, Any] = {}

    loaded = load_engine(bundle, milliseconds, device)
    engines = {json.dumps(o): replace(loaded, options=AnnotateOptions(**o)) for o in OPTIONS}
    lock = threading.Lock()
    app = FastAPI()

    def annotate(body: Body) -> Response:
        given = body.documents or [{"id": body.id, "text": body.text}]
        with lock:
            found = engines[json.dumps(body.options)].annotate([Document(d["id"], d["text"]) for d in given])
        return Response("".join(f"{json_line(record)}\n" for record in found))

    annotate.__annotations__ = {"body": Body, "return": Response}
    app.post("/v1/annotate")(annotate)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "compare", "alone", "plain", "simulated"])
    parser.add_argument("--bundle", type=Path, help="a bundle; by default one with random weights")
    parser.add_argument("--preset", default="tiny", help="size of the encoder with random weights")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; load is for a CPU")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--notes", type=int, default=300)
    parser.add_argument("--longest", type=int, default=2_000, help="characters of a note in compare and alone")
    parser.add_argument("--pass-ms", type=float, default=0.0, help="a simulated accelerator, in compare")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.what in ("plain", "simulated"):  # a server, which the others start
        {"plain": plain, "simulated": simulated}[options.what](options.bundle, options.pass_ms, options.device)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        bundle = options.bundle or make_bundle(folder, options.preset)
        result = {"load": load, "compare": compare, "alone": alone}[options.what](options, bundle, folder)
    machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    result = {"what": options.what, "preset": options.preset, "clients": options.clients, **machine, **result}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not result.get("ok", True):
        sys.exit(1)


if __name__ == "__main__":
    main()

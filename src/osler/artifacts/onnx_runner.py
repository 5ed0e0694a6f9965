"""Run a bundle that was exported to ONNX: numpy and onnxruntime, no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from osler.artifacts.runner import Advance, Outputs, Waiting
from osler.core.errors import ArtifactError, RecipeError
from osler.core.files import write_json
from osler.core.processes import cores
from osler.nn.shared_weights import SharedWeight, read_shared, shared_files
from osler.tasks.instances.base import Instance

_GRAPH, _DETAILS = "model.onnx", "onnx.json"
_FORMAT = 1
_BATCH_TOKENS = 512
"""Cells of a batch: its activations stay in a core's cache, which makes a token a fifth faster than in batches of 2,048."""
_BUSY = 0.7
"""Share of the cores that batches must keep busy, each on one core, to run side by side: about what a batch on all cores gets."""
_WASTE = 0.1
"""Largest share of padding in a batch."""


@dataclass(frozen=True)
class GraphHead:
    """Output of one head of a graph."""

    level: Literal["token", "sequence"]
    transitions: list[list[float]] | None = None
    """Scores [tag, next tag] of a CRF."""


@dataclass(frozen=True)
class GraphDetails:
    """Inputs and outputs of a graph. Besides `input_ids` and `attention_mask` [batch, length], it has the inputs named here."""

    precision: Literal["fp32", "int8"]
    pad_id: int
    max_length: int
    token_types: bool
    """Whether there is an input `token_type_ids` [batch, length]."""
    marks: int
    """Columns of the input `marks` [batch, marks], which marker heads read; 0 if there is none."""
    heads: Mapping[str, GraphHead]
    shared: Mapping[str, SharedWeight] = field(default_factory=dict)
    """Integer weights computed from the bundle's weights when the graph is opened."""

    @staticmethod
    def output(head: str) -> str:
        """The name of a head's output."""
        return f"logits.{head}"


class _Sessions:
    """The sessions and threads of one process."""

    def __init__(self, load: Callable[[int], Any], threads: int) -> None:
        self._load, self._threads = load, threads
        self.session = load(threads)

    @cached_property
    def single(self) -> Any:
        """A session that uses one thread, to run batches side by side."""
        return self._load(1)

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="osler-onnx")


@dataclass(frozen=True, eq=False)
class OnnxRunner:
    """Runs all heads of a graph with onnxruntime on the CPU.

    Many batches run side by side, each on one core. Few batches run in turn, each on all cores, so that a single note is answered
    sooner. A copy in another process, forked or pickled, opens the graph again.
    """

    details: GraphDetails
    threads: int
    folder: Path
    load: Callable[[int], Any]
    """Opens a session that uses a number of threads."""
    _opened: dict[int, _Sessions] = field(default_factory=dict)
    """Sessions by process. Those of a parent are kept: closing them would wait for threads that a fork does not copy."""

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder holds an exported graph."""
        return (folder / _DETAILS).is_file()

    @staticmethod
    def write(folder: Path, details: GraphDetails) -> None:
        """Write the details beside the graph, which must be at `graph(folder)`."""
        write_json(folder / _DETAILS, {"format": _FORMAT, **asdict(details)})

    @staticmethod
    def graph(folder: Path) -> Path:
        return folder / _GRAPH

    @staticmethod
    def files(folder: Path) -> list[Path]:
        """Files that determine the outputs of the heads."""
        shared = shared_files(folder) if _read_details(folder / _DETAILS).shared else []
        return [folder / _GRAPH, folder / _DETAILS, *shared]

    @classmethod
    def open(cls, folder: Path, threads: int | None = None) -> OnnxRunner:
        """Load the graph of a folder. By default, use one thread per core available to this process."""
        details = _read_details(folder / _DETAILS)
        values = read_shared(folder, details.shared) if details.shared else {}
        threads = threads or cores()
        runner = cls(details, threads, folder, partial(open_session, folder / _GRAPH, values=values))
        _ = runner.session  # a damaged graph is reported now
        return runner

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxRunner.open, (self.folder, self.threads)

    @property
    def session(self) -> Any:
        """A session that uses all threads."""
        return self._own.session

    @property
    def _own(self) -> _Sessions:
        """The sessions of this process. After a fork, those of its parent would wait for threads that are not there."""
        process = os.getpid()
        if process not in self._opened:
            self._opened.setdefault(process, _Sessions(self.load, self.threads))
        return self._opened[process]

    @property
    def ahead(self) -> bool:
        """Whether one pass can be computed while another is decoded."""
        return self.threads > 1

    def outputs(self, instances: Sequence[Instance], heads: Sequence[str], advance: Advance | None = None) -> Outputs:
        return self.begin(instances, heads)(advance)

    def begin(self, instances: Sequence[Instance], heads: Sequence[str]) -> Waiting:
        """Start batches that run side by side, and return a function that waits for them. Batches in turn are left to it."""
        longest = max((instance.length for instance in instances), default=0)
        if longest > self.details.max_length:
            raise ValueError(f"a sequence has {longest} tokens, the encoder takes {self.details.max_length}")
        batches = padded_batches([instance.length for instance in instances], _BATCH_TOKENS)
        cells = [len(indices) * instances[indices[0]].length for indices in batches]
        asked = [self.details.output(head) for head in heads]

        def compute(session: Any, indices: Sequence[int]) -> Any:
            return session.run(asked, self._inputs([instances[index] for index in indices]))

        if self.threads == 1 or sum(cells) <= _BUSY * self.threads * max(cells, default=0):
            computed: Iterator[Any] = (compute(self.session, indices) for indices in batches)
        else:
            computed = self._own.pool.map(partial(compute, self._own.single), batches)

        def wait(advance: Advance | None = None) -> Outputs:
            results: Outputs = {head: [np.empty(0)] * len(instances) for head in heads}
            for indices, found in zip(batches, computed, strict=True):
                for head, values in zip(heads, found, strict=True):
                    token = self.details.heads[head].level == "token"
                    for index, row in zip(indices, values, strict=True):
                        # A copy: a view would keep the whole batch alive.
                        results[head][index] = row[: instances[index].length].copy() if token else row.copy()
                if advance:
                    advance(len(indices))
            return results

        return wait

    def transitions(self, head: str) -> np.ndarray | None:
        scores = self.details.heads[head].transitions
        return None if scores is None else np.array(scores, dtype=np.float32)

    def _inputs(self, batch: Sequence[Instance]) -> dict[str, np.ndarray]:
        shape = (len(batch), max(instance.length for instance in batch))
        ids = np.full(shape, self.details.pad_id, dtype=np.int64)
        mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, instance in enumerate(batch):
            ids[row, : instance.length] = instance.ids
            mask[row, : instance.length] = 1
            if instance.types is not None:
                types[row, : instance.length] = instance.types
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.details.token_types:
            inputs["token_type_ids"] = types
        if self.details.marks:
            none = (0,) * self.details.marks
            inputs["marks"] = np.array([instance.marks or none for instance in batch], dtype=np.int64)
        return inputs


def open_session(graph: Path, threads: int, values: Mapping[str, np.ndarray] | None = None) -> Any:
    """Load a graph into onnxruntime. `values` are the tensors that it names without data."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Spinning threads took 1.7 times the processor time on a busy machine, and longer too.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Memory patterns are kept per batch shape, and there are many: without them, a quarter less memory at the same speed.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    if values:
        tensors = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)) for value in values.values()]
        options.add_external_initializers(list(values), tensors)
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common class of errors
        raise ArtifactError(
            "onnxruntime cannot load this graph", where=graph, fix="Export it again, or upgrade onnxruntime"
        ) from error


def padded_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group sequence indices into batches of similar length, longest first.

    A batch has at most `budget` cells, padding included, and little padding.
    """
    batches: list[list[int]] = []
    longest = used = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        rows = len(batches[-1]) + 1 if batches else 1
        used += lengths[index]
        full = longest * rows > budget or used < (1.0 - _WASTE) * longest * rows
        if not batches or full:
            batches.append([])
            longest = used = lengths[index]
        batches[-1].append(index)
    return batches


def check_cpu(device: str) -> None:
    """Raise an error for a device that graphs do not run on."""
    if device not in ("auto", "cpu"):
        raise RecipeError(
            f"device = {device!r}, but an ONNX bundle runs on the CPU",
            fix="Set device to 'auto' or 'cpu', or give the bundle that it was exported from",
        )


def _read_details(path: Path) -> GraphDetails:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        version = values.pop("format")
        heads = {name: GraphHead(**head) for name, head in values.pop("heads").items()}
        if version > _FORMAT:
            raise ArtifactError(
                f"the graph has format {version}, this osler reads up to {_FORMAT}", where=path, fix="Upgrade osler"
            )
        shared = {name: SharedWeight(**source) for name, source in values.pop("shared", {}).items()}
        return GraphDetails(heads=heads, shared=shared, **values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError("damaged", where=path, fix="Export the bundle again") from error

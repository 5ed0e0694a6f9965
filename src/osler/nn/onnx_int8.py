"""Quantise an ONNX graph: weights of matrix products and embeddings as int8, activations row by row at run time.

onnxruntime's own dynamic quantisation gives all rows of a batch one scale, so a text's result depends on the texts beside it, and one
large value costs all rows their precision. Here every row (token) has a scale of its own (docs/decisions.md has the figures).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from osler.nn.shared_weights import SharedWeight, make_integers

_LEVELS = 127
"""Activations go from -127 to 127, stored as 1 to 255."""
_WEIGHT_LEVELS = 63
"""Weights have seven bits: processors without VNNI add two products in 16 bits, and 2 x 255 x 127 does not fit there."""
_CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Fractions of a column's largest weight to try as the end of its scale."""
_NARROWEST = 128
"""Narrower matrices stay in float32: they are the heads', which are cheap and make the decision."""
_CENTRE = 128


def quantise(graph: bytes) -> bytes:
    """Return the graph with int8 weights."""
    import onnx

    model = onnx.load_from_string(graph)
    rewriting = _Rewriting(model)
    for node in list(model.graph.node):
        rewriting.add(node)
    rewriting.finish()
    made: bytes = model.SerializeToString()
    return made


def share(
    graph: bytes, weights: Mapping[str, np.ndarray]
) -> tuple[bytes, dict[str, SharedWeight], dict[str, np.ndarray]]:
    """Remove from a graph the integers that these weights can rebuild; return it, their sources and their scales."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load_from_string(graph)
    stored = {item.name: item for item in model.graph.initializer}
    shared: dict[str, SharedWeight] = {}
    scales: dict[str, np.ndarray] = {}
    for name in [name for name in stored if name.endswith(".int8")]:
        scale = name.removesuffix(".int8") + ".scale"
        integers, steps = numpy_helper.to_array(stored[name]), numpy_helper.to_array(stored[scale])
        levels = _LEVELS if steps.ndim == 2 else _WEIGHT_LEVELS
        for tensor, weight in weights.items():
            for transposed in (False, True):
                values = weight.T if transposed else weight
                if (
                    name not in shared
                    and values.shape == integers.shape
                    and np.array_equal(make_integers(values, steps, levels), integers)
                ):
                    shared[name] = SharedWeight(tensor, transposed, levels)
        if name in shared:
            scales[scale] = steps
            for item in (stored[name], stored[scale]):
                item.ClearField("raw_data")
                item.data_location = onnx.TensorProto.EXTERNAL
                item.external_data.add(key="location", value="shared")
    made: bytes = model.SerializeToString()
    return made, shared, scales


class _Rewriting:
    """Replaces nodes of a graph one by one."""

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self.model = model
        self.nodes: list[Any] = []
        self.weights = {item.name: item for item in model.graph.initializer}
        self.shared = _first_of_equal(self.weights.values())
        self.outputs = {item.name for item in model.graph.output}
        self.quantised: dict[str, Any] = {}
        self.rows: set[str] = set()
        self.array = numpy_helper.to_array
        self.tensor = numpy_helper.from_array

    def add(self, node: Any) -> None:
        for place, name in enumerate(node.input):
            node.input[place] = self.shared.get(name, name)
        if node.op_type == "Identity" and node.input[0] in self.weights and node.output[0] not in self.outputs:
            self.shared[node.output[0]] = node.input[0]
        elif node.op_type == "MatMul" and self._is_large(node.input[1]):
            self._product(node)
        elif node.op_type == "Gather" and self._is_large(node.input[0]) and _axis(node) == 0:
            self._lookup(node)
        else:
            self.nodes.append(node)

    def finish(self) -> None:
        """Put the new nodes and weights in place, and drop unused weights."""
        from onnx import helper

        graph = self.model.graph
        read = {name for node in self.nodes for name in node.input}
        kept = [weight for name, weight in (self.weights | self.quantised).items() if name in read]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(kept)
        if all(item.domain != "com.microsoft" for item in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))

    def _is_large(self, name: str) -> bool:
        weight = self.weights.get(name)
        return weight is not None and len(weight.dims) == 2 and min(weight.dims) >= _NARROWEST

    def _product(self, node: Any) -> None:
        """Activations times a weight: each row is divided by its largest value, multiplied as integers and scaled back."""
        source, weight = node.input
        step = self._constant("int8.step", np.float32(1.0 / _LEVELS))
        centre = self._constant("int8.centre", np.uint8(_CENTRE))
        largest, codes = f"{source}.largest", f"{source}.codes"
        if source not in self.rows:
            self.rows.add(source)
            smallest = self._constant("int8.smallest", np.float32(1e-12))
            self._node("Abs", [source], f"{source}.size")
            self._node("ReduceMax", [f"{source}.size"], f"{source}.peak", axes=[-1], keepdims=1)
            self._node("Max", [f"{source}.peak", smallest], largest)
            self._node("Div", [source, largest], f"{source}.unit")
            self._node("QuantizeLinear", [f"{source}.unit", step, centre], codes)
        if f"{weight}.int8" not in self.quantised:
            values, scales = _columns(self.array(self.weights[weight]))
            self._constant(f"{weight}.int8", values)
            self._constant(f"{weight}.scale", scales)
        result = f"{node.output[0]}.unit"
        inputs = [codes, f"{weight}.int8", step, f"{weight}.scale", centre]
        self._node("MatMulIntegerToFloat", inputs, result, domain="com.microsoft")
        self._node("Mul", [result, largest], node.output[0])

    def _lookup(self, node: Any) -> None:
        """Embedding lookup: each row has its own scale, and only the rows of a batch become float."""
        from onnx import TensorProto

        table, ids = node.input
        if f"{table}.int8" not in self.quantised:
            values = self.array(self.weights[table])
            scales = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-12) / _LEVELS
            self._constant(f"{table}.int8", np.round(values / scales).astype(np.int8))
            self._constant(f"{table}.scale", scales.astype(np.float32))
        result = node.output[0]
        self._node("Gather", [f"{table}.int8", ids], f"{result}.codes", axis=0)
        self._node("Cast", [f"{result}.codes"], f"{result}.unit", to=TensorProto.FLOAT)
        self._node("Gather", [f"{table}.scale", ids], f"{result}.scales", axis=0)
        self._node("Mul", [f"{result}.unit", f"{result}.scales"], result)

    def _constant(self, name: str, value: Any) -> str:
        if name not in self.quantised:
            self.quantised[name] = self.tensor(np.asarray(value), name)
        return name

    def _node(self, kind: str, inputs: list[str], output: str, **options: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}.{kind}", **options))


def _columns(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers and scales of the columns of a weight [inputs, outputs], with the clipping that leaves the smallest error."""
    peaks = np.maximum(np.abs(weight).max(axis=0), 1e-12)
    best = np.full(weight.shape[1], np.inf)
    scales = peaks / _WEIGHT_LEVELS
    for clip in _CLIPS:
        tried = peaks * clip / _WEIGHT_LEVELS
        error = np.square(_rounded(weight, tried) * tried - weight).sum(axis=0)
        scales = np.where(error < best, tried, scales)
        best = np.minimum(error, best)
    return _rounded(weight, scales).astype(np.int8), scales.astype(np.float32)


def _rounded(weight: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.round(weight / scales), -_WEIGHT_LEVELS, _WEIGHT_LEVELS))


def _axis(node: Any) -> int:
    return next((int(item.i) for item in node.attribute if item.name == "axis"), 0)


def _first_of_equal(weights: Any) -> dict[str, str]:
    """Map each weight to the first one with the same content: layers that share weights, as in ALBERT, may have copies."""
    first: dict[tuple[Any, ...], str] = {}
    return {
        weight.name: first.setdefault((weight.data_type, *weight.dims, weight.raw_data), weight.name)
        for weight in weights
        if weight.raw_data
    }

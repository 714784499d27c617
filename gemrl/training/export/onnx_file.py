"""Writes a policy as an ONNX model. Each operation is one function that returns its nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, helper, numpy_helper

from gemrl.core.policy_graph import ACTION, OBSERVATION, PolicyGraph, Port, Step
from gemrl.core.version import __version__

OPSET, IR_VERSION = 17, 8
"""The oldest opset with LayerNormalization, and its file format: newer runtimes read both."""


def onnx_bytes(graph: PolicyGraph) -> bytes:
    """The content of an ONNX file: input `observation` [batch, ...], output `action` [batch, ...]."""
    constants, nodes = dict(graph.arrays), list[NodeProto]()
    for step in graph.steps:
        nodes += NODES[step.operation](step, constants)
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    ends = _info(OBSERVATION, graph.observation), _info(ACTION, graph.action)
    body = helper.make_graph(nodes, "policy", [ends[0]], [ends[1]], initializers)
    versions = {"opset_imports": [helper.make_opsetid("", OPSET)], "ir_version": IR_VERSION}
    model = helper.make_model(body, producer_name="gemrl", producer_version=__version__, **versions)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def _info(name: str, port: Port) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _type(port.dtype), ["batch", *port.shape])


def _type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


Constants = dict[str, np.ndarray]
Nodes = Callable[[Step, Constants], list[NodeProto]]
"""The nodes of a step; they may add constants."""


def _node(kind: str, **attributes: Any) -> Nodes:
    """An operation that ONNX has."""
    return lambda step, _: [helper.make_node(kind, step.inputs, [step.output], **attributes)]


def _reshape(step: Step, constants: Constants) -> list[NodeProto]:
    shape = f"{step.output}.shape"
    constants[shape] = np.array([0, *step.settings["shape"]], np.int64)  # 0 keeps the batch
    return [helper.make_node("Reshape", [*step.inputs, shape], [step.output])]


def _columns(step: Step, constants: Constants) -> list[NodeProto]:
    start = step.settings.get("start", 0)
    ends = {"start": start, "end": start + step.settings["count"], "axis": 1}
    constants |= {f"{step.output}.{name}": np.array([value], np.int64) for name, value in ends.items()}
    return [helper.make_node("Slice", [*step.inputs, *(f"{step.output}.{name}" for name in ends)], [step.output])]


def _rows(step: Step, constants: Constants) -> list[NodeProto]:
    axis, index = f"{step.output}.axis", f"{step.output}.index"
    constants[axis] = np.array([1], np.int64)
    table, x = step.inputs
    return [helper.make_node("Squeeze", [x, axis], [index]), helper.make_node("Gather", [table, index], [step.output])]


def _one_hot(step: Step, constants: Constants) -> list[NodeProto]:
    x, states = step.inputs
    number, equal = f"{step.output}.number", f"{step.output}.equal"
    return [
        helper.make_node("Cast", [x], [number], to=_type("int64")),
        helper.make_node("Equal", [number, states], [equal]),
        helper.make_node("Cast", [equal], [step.output], to=_type("float32")),
    ]


def _linear(step: Step, constants: Constants) -> list[NodeProto]:
    x, weight, bias = step.inputs
    product = f"{step.output}.product"
    return [helper.make_node("MatMul", [x, weight], [product]), helper.make_node("Add", [product, bias], [step.output])]


def _clip(step: Step, constants: Constants) -> list[NodeProto]:
    x, low, high = step.inputs
    above = f"{step.output}.above"
    return [helper.make_node("Max", [x, low], [above]), helper.make_node("Min", [above, high], [step.output])]


def _centre(step: Step, constants: Constants) -> list[NodeProto]:
    (x,), mean = step.inputs, f"{step.output}.mean"
    return [helper.make_node("ReduceMean", [x], [mean], axes=[-1]), helper.make_node("Sub", [x, mean], [step.output])]


def _mean_normalize(step: Step, constants: Constants) -> list[NodeProto]:
    size, mean, divisor, least = (f"{step.output}.{name}" for name in ("size", "mean", "divisor", "least"))
    constants[least] = np.array([step.settings["smallest"]], np.float32)
    return [
        helper.make_node("Abs", step.inputs, [size]),
        helper.make_node("ReduceMean", [size], [mean], axes=[-1]),
        helper.make_node("Max", [mean, least], [divisor]),
        helper.make_node("Div", [*step.inputs, divisor], [step.output]),
    ]


NODES: dict[str, Nodes] = {
    "cast": lambda step, _: _node("Cast", to=_type(step.settings["dtype"]))(step, _),
    "reshape": _reshape,
    "transpose": lambda step, _: _node("Transpose", perm=step.settings["axes"])(step, _),
    "columns": _columns,
    "rows": _rows,
    "one_hot": _one_hot,
    "linear": _linear,
    "layer_norm": lambda step, _: _node("LayerNormalization", axis=-1, epsilon=step.settings["epsilon"])(step, _),
    "convolution": lambda step, _: _node("Conv", strides=[step.settings["stride"]] * 2)(step, _),
    "relu": _node("Relu"),
    "elu": _node("Elu"),
    "join": _node("Concat", axis=-1),
    "mean_normalize": _mean_normalize,
    "tanh": _node("Tanh"),
    "round": _node("Round"),
    "clip": _clip,
    "add": _node("Add"),
    "subtract": _node("Sub"),
    "multiply": _node("Mul"),
    "divide": _node("Div"),
    "centre": _centre,
    "minimum": _node("Min"),
    "mean": _node("Mean"),
    "argmax": _node("ArgMax", axis=-1, keepdims=0),
}
"""The function for each operation."""


def onnx_actions(file: Path, observations: np.ndarray) -> np.ndarray:
    """The actions of an ONNX model in onnxruntime."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (actions,) = session.run([ACTION], {OBSERVATION: observations})
    return np.asarray(actions)

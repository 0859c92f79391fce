"""Damages models in every way that a file may be damaged; any number: ``python -m tests.attack --only onnx_model``.

Each damaged model must load and run, or end in one of dmlvk's errors: no other exception, no crash, no hang.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import dmlvk as dml
import dmlvk.onnx as ort
from tests.damage import damage_bytes
from tests.onnx import decoder
from tests.onnx.models import model, two_branches

LONGEST = 60.0  # Seconds that a damaged model may take

_EXTREMES = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)


def _network() -> onnx.ModelProto:
    nodes = (
        "[conv] c = Conv <pads = [1, 1, 1, 1], strides = [2, 2], group = 1> (x, w, b)"
        " [norm] n = BatchNormalization <epsilon = 0.001> (c, b, b, b, v)  [bend] r = Relu (n)"
        " [pool] p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (r)"
        " [join] j = Concat <axis = 1> (p, p)  [flat] f = Flatten (j)"
        " [product] g = Gemm <alpha = 0.5, transB = 0> (f, m)  [soft] y = Softmax <axis = -1> (g)"
    )
    generator = np.random.default_rng(3)

    def numbers(*shape: int) -> Any:
        return generator.random(shape, np.float32)

    constants = {"w": numbers(4, 2, 3, 3), "b": numbers(4), "v": numbers(4), "m": numbers(32, 5)}
    return model(nodes, {"x": [1, 2, 8, 8]}, ["y"], constants)


def _copies() -> onnx.ModelProto:
    nodes = (
        '[slice] s = Slice (x, starts, ends, axes)  [pad] p = Pad <mode = "reflect"> (s, pads)'
        " [gather] g = Gather <axis = 1> (p, indices)  [tile] t = Tile (g, repeats)"
        ' [resize] r = Resize <mode = "nearest"> (t,, scales)  [mean] y = ReduceMean <axes = [1], keepdims = 1> (r)'
        " [top] v, i = TopK <axis = 0> (y, k)"
    )
    constants: dict[str, Any] = {
        "starts": np.array([1]),
        "ends": np.array([5]),
        "axes": np.array([0]),
        "pads": np.array([0, 1, 0, 1]),
        "indices": np.array([[0, -1], [2, 1]]),
        "repeats": np.array([1, 2, 1]),
        "scales": np.array([1, 2, 1], np.float32),
        "k": np.array([2]),
    }
    return model(nodes, {"x": [6, 4]}, ["v", "i"], constants)


def _loops() -> onnx.ModelProto:
    nodes = (
        "[loop] l = Loop (n,, x) <body = body (int64 i, bool go, float[3] s) => (bool on, float[3] t)"
        " {t = Add (s, x)  on = Identity (go)}>  [fill] c = ConstantOfShape (shape)"
        " [expand] e = Expand (l, shape)  [product] y = Mul (c, e)"
    )
    return model(nodes, {"x": [3]}, ["y"], {"n": np.array(4), "shape": np.array([2, 3])})


def sound_models() -> list[onnx.ModelProto]:
    return [two_branches(), _network(), _copies(), _loops(), decoder.with_cache(), decoder.of_onnx()]


def damaged(seed: int) -> bytes:
    choose = random.Random(seed)
    made = choose.choice(sound_models())
    contents = made.SerializeToString()
    if choose.random() < 0.35:
        return _flipped(contents, choose)
    for _ in range(choose.choice((1, 1, 2, 3))):
        choose.choice((_extreme, _renamed, _dropped, _other_type, _other_operator, _external))(made, choose)
    return bytes(made.SerializeToString())


def _flipped(contents: bytes, choose: random.Random) -> bytes:
    data = bytearray(contents)
    for _ in range(choose.randint(1, 4)):
        damage_bytes(data, choose.randrange(len(data)), choose)
    return bytes(data)


def _extreme(made: onnx.ModelProto, choose: random.Random) -> None:
    """A size, a number of an attribute, or one of a constant becomes extreme."""
    number = choose.choice(_EXTREMES)
    way = choose.randrange(4)
    if not made.graph.node:
        return
    node = choose.choice(made.graph.node)
    if way == 0 and node.attribute:
        attribute = choose.choice(node.attribute)
        if attribute.type == onnx.AttributeProto.INT:
            attribute.i = number
        elif attribute.ints:
            attribute.ints[choose.randrange(len(attribute.ints))] = number
        elif attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = choose.choice((float("nan"), float("inf"), -1e30, 0.0))
    elif way == 1 and made.graph.initializer:
        tensor = choose.choice(made.graph.initializer)
        if tensor.dims:
            tensor.dims[choose.randrange(len(tensor.dims))] = number
        else:
            tensor.dims.append(number)
    elif way == 2 and made.graph.initializer:
        tensor = choose.choice(made.graph.initializer)
        if tensor.data_type == TensorProto.INT64 and tensor.raw_data and not len(tensor.raw_data) % 8:
            values = np.frombuffer(tensor.raw_data, np.int64).copy()
            values[choose.randrange(len(values))] = number
            tensor.raw_data = values.tobytes()
    elif made.graph.input:
        shape = made.graph.input[0].type.tensor_type.shape
        if shape.dim:
            shape.dim[choose.randrange(len(shape.dim))].dim_value = number


def _renamed(made: onnx.ModelProto, choose: random.Random) -> None:
    """A node reads or writes something else: what is missing, what comes later, itself."""
    if not made.graph.node:
        return
    node = choose.choice(made.graph.node)
    names = [name for other in made.graph.node for name in (*other.input, *other.output)]
    names += ["", "nothing", *(tensor.name for tensor in made.graph.initializer)]
    side = node.input if node.input and choose.random() < 0.7 else node.output
    if side:
        side[choose.randrange(len(side))] = choose.choice(names)


def _dropped(made: onnx.ModelProto, choose: random.Random) -> None:
    if not made.graph.node:
        return
    node = choose.choice(made.graph.node)
    parts: list[Any] = [made.graph.node, made.graph.initializer, made.graph.input, made.graph.output]
    parts += [node.input, node.output, node.attribute, made.opset_import]
    part = choose.choice(parts)
    if len(part):
        del part[choose.randrange(len(part))]


def _other_type(made: onnx.ModelProto, choose: random.Random) -> None:
    element = choose.choice((*range(24), 99, -1))
    if made.graph.initializer and choose.random() < 0.5:
        choose.choice(made.graph.initializer).data_type = element
    elif made.graph.input:
        made.graph.input[0].type.tensor_type.elem_type = element


def _other_operator(made: onnx.ModelProto, choose: random.Random) -> None:
    names = ["", "Nonsense", "Add", "Conv", "MatMul", "Reshape", "Gather", "Cast", "Softmax", "Loop", "If", "Split"]
    names += ["Einsum", "NonZero", "Where", "ScatterND", "Range", "OneHot", "LSTM", "QLinearConv", "GridSample"]
    names += ["Attention", "RotaryEmbedding", "MultiHeadAttention", "GroupQueryAttention"]
    if made.graph.node:
        choose.choice(made.graph.node).op_type = choose.choice(names)


def _external(made: onnx.ModelProto, choose: random.Random) -> None:
    if made.graph.initializer:
        tensor = choose.choice(made.graph.initializer)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=choose.choice(("/etc/passwd", "../x", "", "x" * 5000)))


def try_damaged(seed: int, device: dml.Device) -> str:
    """Loads and runs a damaged model; says how it ended.

    Raises:
        Exception: what dmlvk must not raise.
        AssertionError: when it took too long.
    """
    contents = damaged(seed)
    start = time.perf_counter()
    outcome = "runs"
    try:
        session = ort.InferenceSession(contents, device=device)
        feed = {argument.name: input_of(argument) for argument in session.get_inputs()}
        session.run(None, feed)
    except dml.DmlError as error:
        outcome = type(error).__name__
        assert str(error), "an error without a message"
    seconds = time.perf_counter() - start
    assert seconds < LONGEST, f"seed {seed} took {seconds:.1f} s"
    return outcome


def input_of(argument: ort.NodeArg) -> Any:
    """An array that fits an input of a damaged model."""
    names = {"float": "float32", "double": "float64"}
    name = argument.type.removeprefix("tensor(").removesuffix(")")
    try:
        dtype = np.dtype(names.get(name, name))
    except (TypeError, ValueError):
        dtype = np.dtype(np.float32)
    shape = [min(size, 64) if isinstance(size, int) else 2 for size in argument.shape]
    return (np.arange(int(np.prod(shape[:8]))).reshape(shape[:8]) % 7).astype(dtype)

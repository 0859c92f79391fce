"""Mixtures of experts: only chosen matrices are read, with the bits of products with each of them alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
from dmlvk.kernels.target import GPU
from dmlvk.operators import ExpertProducts, FeatureLevel, check_operator
from dmlvk.operators.shapes import member_text
from tests.onnx import models

EXPERTS, TOKENS = 4, 3
KINDS = [(0, ""), (4, ""), (4, "packed"), (4, "floats"), (8, "packed"), (2, ""), (6, "factors"), (4, "table")]


def model_of(
    nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any], shape: list[Any], kind: int
) -> onnx.ModelProto:
    """A model of nodes whose output is y; sizes of the first axis are open."""
    kinds = {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), ["tokens", *array.shape[1:]])
        for name, array in inputs.items()
    }
    return models.model(nodes, kinds, {"y": (kind, ["tokens", *shape])}, constants)


def run(device: dml.Device, model: onnx.ModelProto, inputs: dict[str, Any]) -> Any:
    return models.by_device(device, model, inputs)[0]


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
@pytest.mark.parametrize(("columns", "terms"), [(8, 96), (4, 1120)])
@pytest.mark.parametrize(("bits", "zeros"), KINDS)
def test_each_row_has_the_bits_of_its_matrix(
    device: dml.Device, data_type: Any, columns: int, terms: int, bits: int, zeros: str
) -> None:
    check_rows(device, data_type, (columns, terms), bits, zeros)


@pytest.mark.every_driver  # one driver skips some
@pytest.mark.parametrize(
    ("bits", "zeros", "data_type"),
    [(4, "packed", np.float32), (8, "", np.float16), (6, "factors", np.float32), (4, "table", np.float32)],
)
def test_kernels_of_gpus_give_the_same_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, data_type: Any, bits: int, zeros: str
) -> None:
    if device.target.is_naive and data_type is np.float16:
        pytest.skip("SwiftShader compiles a GPU's products by integers for minutes, in gigabytes")
    monkeypatch.setattr(dml.Device, "target", property(lambda _: dataclasses.replace(GPU, buffers=16)))
    check_rows(device, data_type, (4, 1120), bits, zeros)


def check_rows(device: dml.Device, data_type: Any, sizes: tuple[int, int], bits: int, zeros: str) -> None:
    """Compares rows with products by each matrix alone."""
    columns, terms = sizes
    random_ = np.random.default_rng(terms + bits)
    chosen = np.array([[2, 0], [3, 2], [1, 1]], np.int64)
    x = random_.standard_normal((TOKENS, 1, terms)).astype(data_type)
    x[1] *= data_type(1e-4 if data_type is np.float16 else 1e-30)
    blocks = terms // 16
    constants: dict[str, Any] = {"numbers": random_.standard_normal((EXPERTS, columns, terms)).astype(data_type)}
    attributes: dict[str, Any] = {"N": columns} | ({"bits": bits, "block_size": 16} if bits else {})
    if bits:
        constants["numbers"] = random_.integers(0, 256, (EXPERTS, columns, blocks, 2 * bits), np.uint8)
        constants["scales"] = random_.uniform(0.01, 0.02, (EXPERTS, columns, blocks)).astype(data_type)
    if zeros == "factors":
        constants["scales"] = constants["scales"][..., ::2].astype(np.float16)
        constants["factors"] = random_.integers(-128, 128, (EXPERTS, columns, blocks), np.int8)
        attributes["zero_point"] = 32
    elif zeros == "table":
        if data_type is np.float32:
            constants["scales"] = random_.integers(110, 130, constants["scales"].shape, np.uint8)
        attributes["table"] = 1
    elif zeros:
        packed = random_.integers(0, 256, (EXPERTS, columns, -(-blocks * bits // 8)), np.uint8)
        floats = random_.uniform(1, 9, (EXPERTS, columns, blocks)).astype(data_type)
        constants["zeros"] = packed if zeros == "packed" else floats
    given = {"x": x, "chosen": chosen, **constants}
    names = models.in_order(["x", "numbers", "chosen", "scales", "zeros", "factors"], given)
    node = helper.make_node("MatMulExperts", names, ["y"], domain="dmlvk", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(data_type))
    inputs = {"x": x, "chosen": chosen}
    found = run(device, model_of([node], inputs, constants, [2, columns], kind), inputs)
    operator, domain = (
        "MatMulNBits" if bits else "FusedMatMul",
        "com.microsoft" if zeros in ("", "packed", "floats") else "dmlvk",
    )
    names = models.in_order(["x", "numbers", "scales", "zeros", "", "", "factors"], given)
    more: dict[str, Any] = attributes | {"K": terms} if bits else {"transB": 1}
    for expert in range(EXPERTS):
        own = {name: array[expert] for name, array in constants.items()}
        single = helper.make_node(operator, names, ["y"], domain=domain, **more)
        expected = run(device, model_of([single], {"x": x}, own, [1, columns], kind), {"x": x})
        for token, place in zip(*np.nonzero(chosen == expert), strict=True):
            assert found[token, place].tobytes() == expected[token, 0].tobytes()


def test_an_expert_that_there_is_not_reads_nothing_outside(device: dml.Device) -> None:
    x, chosen = np.ones((1, 1, 32), np.float32), np.array([[9, 1, -1]], np.int64)
    weights = np.arange(3 * 2 * 32, dtype=np.float32).reshape(3, 2, 32)
    node = helper.make_node("MatMulExperts", ["x", "w", "chosen"], ["y"], domain="dmlvk", N=2)
    inputs = {"x": x, "chosen": chosen}
    found = run(device, model_of([node], inputs, {"w": weights}, [3, 2], TensorProto.FLOAT), inputs)
    np.testing.assert_allclose(found[0], weights.sum(2)[[2, 1, 2]])


@pytest.mark.parametrize("member", ["weight_tensor", "scale_tensor", "factor_tensor", "expert_tensor"])
def test_tensors_that_do_not_lie_in_order_are_refused(member: str) -> None:
    tensors: dict[str, Any] = {
        "a_tensor": dml.TensorDesc(dml.FLOAT32, (3, 64)),
        "weight_tensor": dml.TensorDesc(dml.UINT8, (8, 32)),
        "scale_tensor": dml.TensorDesc(dml.FLOAT32, (8, 4)),
        "factor_tensor": dml.TensorDesc(dml.INT8, (8, 4)),
        "expert_tensor": dml.TensorDesc(dml.UINT32, (1, 3)),
        "output_tensor": dml.TensorDesc(dml.FLOAT32, (3, 4)),
    }
    own = tensors[member]
    apart = dml.TensorDesc(own.data_type, own.sizes, [2 * step for step in own.element_strides])
    with pytest.raises(dml.InvalidArgumentError, match=f"{member_text(member)}.Strides must be those of packed"):
        check_operator(ExpertProducts(**{**tensors, member: apart}, bits=4, block_size=16), FeatureLevel.LEVEL_6_4)


MIXTURES: list[dict[str, Any]] = [
    {"activation_type": "relu", "k": 1},
    {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1},
    {"activation_type": "gelu", "k": 3},
    {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "normalize_routing_weights": 1, "swiglu_limit": 0.7}
    | {"activation_alpha": 1.702, "activation_beta": 1.0},
]


@pytest.mark.parametrize("attributes", MIXTURES, ids=lambda each: str(each["activation_type"]))
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_mixtures_are_those_of_onnx_runtime(device: dml.Device, attributes: dict[str, Any], bits: int) -> None:
    hidden, inner, block, random_ = 64, 32, 32, np.random.default_rng(bits)
    wide = inner * (2 if attributes["activation_type"] == "swiglu" else 1)
    x, scores = (random_.standard_normal((7, size)).astype(np.float32) for size in (hidden, EXPERTS))
    constants: dict[str, Any] = {}
    inputs = ["x", "scores"]
    for number, (rows, terms) in enumerate(((wide, hidden), (hidden, inner)), 1):
        name = f"fc{number}"
        if bits:
            constants[name] = random_.integers(0, 256, (EXPERTS, rows, terms * bits // 8), np.uint8)
            limits = (0.01, 0.1) if bits == 4 else (0.001, 0.01)
            constants[f"{name}.scales"] = random_.uniform(*limits, (EXPERTS, rows, terms // block)).astype(np.float32)
        else:
            constants[name] = random_.standard_normal((EXPERTS, rows, terms)).astype(np.float32) / 8
        constants[f"{name}.bias"] = random_.standard_normal((EXPERTS, rows)).astype(np.float32) / 8
        inputs += [each for each in (name, f"{name}.scales", f"{name}.bias") if each in constants]
    more = attributes | ({"expert_weight_bits": bits, "block_size": block} if bits else {})
    node = helper.make_node("QMoE" if bits else "MoE", inputs, ["y"], domain="com.microsoft", **more)
    feed = {"x": x, "scores": scores}
    model = model_of([node], feed, constants, [hidden], TensorProto.FLOAT)
    told = model
    if bits == 8:  # ONNX Runtime rounds what it multiplies these by to 8 bits, too: the same weights as numbers
        for name in ("fc1", "fc2"):
            scale = constants.pop(f"{name}.scales")
            numbers = constants[name].reshape(*scale.shape, block) - np.float32(128)
            constants[name] = (numbers * scale[..., None]).reshape(constants[name].shape)
        floats = [name for name in inputs if not name.endswith(".scales")]
        more = attributes | {"normalize_routing_weights": 1}
        node = helper.make_node("MoE", floats, ["y"], domain="com.microsoft", **more)
        told = model_of([node], feed, constants, [hidden], TensorProto.FLOAT)
    (expected,) = models.by_onnx_runtime(told, feed)
    found = run(device, model, feed)
    np.testing.assert_allclose(found, expected, atol=3e-5 * np.abs(expected).max())
    few = run(device, model, {name: array[2:3] for name, array in feed.items()})
    assert few[0].tobytes() == found[2].tobytes()

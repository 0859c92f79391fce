"""GroupQueryAttention with caches of integers, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort

_HEADS, _KEY_HEADS, _SIZE, _CAPACITY = 4, 2, 16, 24
_WIDTHS = (_HEADS * _SIZE, _KEY_HEADS * _SIZE, _KEY_HEADS * _SIZE)
_CACHES = ("past_key", "past_value")
_STEPS = (5, 1, 1, 3, 1)
_KINDS = [(kind, bits) for kind in ("PER_TENSOR", "PER_CHANNEL") for bits in (8, 4)]

Array = npt.NDArray[Any]


def _model(kind: str, bits: int) -> bytes:
    element, line = (TensorProto.INT8, _SIZE) if bits == 8 else (TensorProto.UINT8, _SIZE // 2)
    scales = 1 if kind == "PER_TENSOR" else _KEY_HEADS * _SIZE
    kinds: dict[str, tuple[int, list[str | int | None]]]
    kinds = {name: (TensorProto.FLOAT, ["batch", "tokens", width]) for name, width in zip("qkv", _WIDTHS, strict=True)}
    kinds |= dict.fromkeys(_CACHES, (element, ["batch", _KEY_HEADS, "rows", line]))
    kinds |= {"ends": (TensorProto.INT32, ["batch"]), "total": (TensorProto.INT32, [1])}
    kinds |= dict.fromkeys(("cos", "sin"), (TensorProto.FLOAT, [_CAPACITY, _SIZE // 2]))
    kinds |= dict.fromkeys(("k_scale", "v_scale"), (TensorProto.FLOAT, [scales]))
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", *_CACHES, "ends", "total", "cos", "sin", "", "", "", "k_scale", "v_scale"],
        ["y", "key", "value"],
        domain="com.microsoft",
        num_heads=_HEADS,
        kv_num_heads=_KEY_HEADS,
        do_rotary=1,
        k_quant_type=kind,
        v_quant_type=kind,
        kv_cache_bit_width=bits,
    )
    outputs = [("y", TensorProto.FLOAT), ("key", element), ("value", element)]
    graph = helper.make_graph(
        [node],
        "attention",
        [helper.make_tensor_value_info(name, *given) for name, given in kinds.items()],
        [helper.make_tensor_value_info(name, made, None) for name, made in outputs],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    return made


def _constants(kind: str, bits: int) -> dict[str, Array]:
    rng = np.random.default_rng(bits)
    angles = rng.standard_normal((_CAPACITY, _SIZE // 2))
    count = 1 if kind == "PER_TENSOR" else _KEY_HEADS * _SIZE
    scales = rng.uniform(1, 3, (2, count)).astype(np.float32) / (64 if bits == 8 else 4)
    found = {"cos": np.cos(angles), "sin": np.sin(angles), "k_scale": scales[0], "v_scale": scales[1]}
    return {name: array.astype(np.float32) for name, array in found.items()}


def _tokens(batch: int = 1) -> list[dict[str, Array]]:
    """What each step brings."""
    rng, found, total = np.random.default_rng(1), [], 0
    for tokens in _STEPS:
        total += tokens
        feed = {
            name: rng.standard_normal((batch, tokens, width)).astype(np.float32)
            for name, width in zip("qkv", _WIDTHS, strict=True)
        }
        found.append(feed | {"ends": np.full(batch, total - 1, np.int32), "total": np.array([total], np.int32)})
    return found


def _empty(bits: int, batch: int = 1, rows: int = _CAPACITY) -> dict[str, Array]:
    line, dtype = (_SIZE, np.int8) if bits == 8 else (_SIZE // 2, np.uint8)
    return {name: np.zeros((batch, _KEY_HEADS, rows, line), dtype) for name in _CACHES}


def _expected(model: bytes, constants: dict[str, Array], bits: int, **more: int) -> list[list[Array]]:
    """ONNX Runtime's outputs of each step."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    caches, found = _empty(bits, **more), []
    for feed in _tokens():
        outputs = session.run(None, {**feed, **constants, **caches})
        caches = dict(zip(_CACHES, outputs[1:], strict=True))
        found.append(outputs)
    return found


@pytest.mark.parametrize(("kind", "bits"), _KINDS)
def test_integers_in_a_shared_buffer_are_onnx_runtime_s(any_device: dml.Device, kind: str, bits: int) -> None:
    model, constants = _model(kind, bits), _constants(kind, bits)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    binding, kept = session.io_binding(), []
    for (past, array), present in zip(_empty(bits).items(), ("key", "value"), strict=True):
        kept.append(ort.OrtValue.ortvalue_from_numpy(array, "dml"))
        binding.bind_ortvalue_input(past, kept[-1])
        binding.bind_ortvalue_output(present, kept[-1])
    binding.bind_output("y")
    total = 0
    for feed, (y, *caches) in zip(_tokens(), _expected(model, constants, bits), strict=True):
        for name, array in {**feed, **constants}.items():
            binding.bind_cpu_input(name, array)
        binding.run()
        total += feed["q"].shape[1]
        np.testing.assert_allclose(binding.get_outputs()[-1].numpy(), y, rtol=1e-5, atol=1e-5)
        for own, cache in zip(kept, caches, strict=True):
            np.testing.assert_array_equal(own.numpy()[:, :, :total], cache[:, :, :total])


@pytest.mark.parametrize("bits", [8, 4])
def test_integers_in_caches_that_grow_are_onnx_runtime_s(any_device: dml.Device, bits: int) -> None:
    model, constants = _model("PER_CHANNEL", bits), _constants("PER_CHANNEL", bits)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    caches: dict[str, Array] = _empty(bits, rows=0)
    for feed, (y, *expected) in zip(_tokens(), _expected(model, constants, bits, rows=0), strict=True):
        found, *made = session.run(None, {**feed, **constants, **caches})
        np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-5)
        for own, cache in zip(made, expected, strict=True):
            np.testing.assert_array_equal(own, cache)
        caches = dict(zip(_CACHES, made, strict=True))


def test_a_sequence_has_the_same_bits_whatever_the_batch(device: dml.Device) -> None:
    model, constants = _model("PER_TENSOR", 8), _constants("PER_TENSOR", 8)
    session = ort.InferenceSession(model, device=device, strict=True)
    (first, *_) = _tokens(batch=3)
    together = session.run(None, {**first, **constants, **_empty(8, batch=3)})
    one = {name: array if name == "total" else array[1:2] for name, array in first.items()}
    for own, cut in zip(session.run(None, {**one, **constants, **_empty(8)}), together, strict=True):
        assert own.tobytes() == cut[1:2].tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_cache_bit_width": 5}, "kv_cache_bit_width must be 4 or 8; got 5"),
        ({"v_quant_type": "NONE"}, "v_quant_type"),
    ],
)
def test_contradictions_are_named(device: dml.Device, change: dict[str, Any], message: str) -> None:
    proto = onnx.load_from_string(_model("PER_TENSOR", 8))
    node = proto.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name not in change]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in change.items())])
    (first, *_) = _tokens()
    with pytest.raises(dml.DmlError, match=message):
        ort.InferenceSession(proto.SerializeToString(), device=device, strict=True).run(
            None, {**first, **_constants("PER_TENSOR", 8), **_empty(8)}
        )

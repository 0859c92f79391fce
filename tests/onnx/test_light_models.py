"""Real architectures: right beside ONNX Runtime, and the same bits on every device."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from tests.counted_calls import calls_of
from tests.onnx.light import by_onnx_runtime, in_halves, input_of, load, with_random_weights

SQUEEZENET_BITS = 3185388594  # The checksum of the results on all devices

DIGITS_BITS = 1323317520  # Likewise

DIGITS_BITS_IN_HALVES = 3048153359  # Likewise

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def _small(model: onnx.ModelProto, side: int) -> onnx.ModelProto:
    """For smaller pictures; a network that ends in a global pool takes any."""
    constants = {tensor.name for tensor in model.graph.initializer}
    info = next(info for info in model.graph.input if info.name not in constants)
    for axis in (2, 3):
        info.type.tensor_type.shape.dim[axis].dim_value = side
    del model.graph.value_info[:]
    return model


def test_squeezenet_has_the_same_bits_on_every_device_and_agrees_with_onnx_runtime(device: dml.Device) -> None:
    model = _small(with_random_weights(load("squeezenet")), 64)
    name, picture = input_of(model)
    session = ort.InferenceSession(model, device=device, strict=True)
    (scores,) = session.run(None, {name: picture})
    expected = by_onnx_runtime(model, {name: picture})
    assert np.abs(scores - expected).max() <= 1e-5 * np.abs(expected).max()
    assert zlib.crc32(scores.tobytes()) == SQUEEZENET_BITS


def test_memory_is_hardly_more_than_what_no_plan_could_do_without(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocated = calls_of(monkeypatch, type(any_device.engine), "allocate")
    any_device.arrays.pool.clear()
    session = ort.InferenceSession(load("shufflenet"), device=any_device, strict=True)
    usage = session.usage
    assert usage.device_bytes <= 1.2 * usage.least_bytes
    assert usage.device_bytes <= sum(size for _, size in allocated) <= 1.2 * usage.least_bytes
    assert 50 < usage.waits < usage.launches
    largest_picture = 224 * 224 * 3 * 4
    assert usage.least_bytes > largest_picture


def test_no_picture_depends_on_its_neighbours(any_device: dml.Device) -> None:
    one, two = (_small(with_random_weights(load("squeezenet"), batch=batch), 64) for batch in (1, 2))
    name, pictures = input_of(one, 2)
    (scores,) = ort.InferenceSession(two, device=any_device, strict=True).run(None, {name: pictures})
    (alone,) = ort.InferenceSession(one, device=any_device, strict=True).run(None, {name: pictures[1:]})
    assert alone[0].tobytes() == scores[1].tobytes()


def test_digits_are_read_in_halves_with_the_same_bits_on_every_device(device: dml.Device) -> None:
    made = onnx.load(EXAMPLES / "digits.onnx")
    session = ort.InferenceSession(in_halves(made), device=device, strict=True)
    pictures = np.random.default_rng(5).random((3, 1, 8, 8), np.float32)
    (shares,) = session.run(None, {"image": pictures.astype(np.float16)})
    assert shares.dtype == np.float16
    np.testing.assert_allclose(shares, by_onnx_runtime(made, {"image": pictures}), atol=4e-3)
    assert zlib.crc32(shares.tobytes()) == DIGITS_BITS_IN_HALVES


def test_digits_are_read_with_the_same_bits_whatever_the_device_and_the_batch(device: dml.Device) -> None:
    session = ort.InferenceSession(EXAMPLES / "digits.onnx", device=device, strict=True)
    generator = np.random.default_rng(5)
    pictures = generator.random((7, 1, 8, 8), np.float32)
    (shares,) = session.run(None, {"image": pictures})
    expected = by_onnx_runtime(onnx.load(EXAMPLES / "digits.onnx"), {"image": pictures})
    np.testing.assert_allclose(shares, expected, rtol=2e-5, atol=1e-7)
    assert zlib.crc32(shares.tobytes()) == DIGITS_BITS
    for number in range(7):
        (alone,) = session.run(None, {"image": pictures[number : number + 1]})
        assert alone[0].tobytes() == shares[number].tobytes()

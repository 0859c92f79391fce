"""Large memory of a discrete GPU has a copy on the host only while the host works with it; contents are never lost.

CPU drivers have no memory of a device's own: the tests make engines take theirs for such.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.runtime import staging
from dmlvk.runtime.kompute import Engine
from tests.onnx.models import model, two_branches

_BYTES = 4096
_ROOM = 3 * _BYTES


@pytest.fixture
def discrete(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[dml.Device]:
    """A device whose memory has staging buffers that come and go, of which there is room for three."""
    monkeypatch.setattr(Engine, "_needs_staging", property(lambda engine: True))
    monkeypatch.setattr(staging, "SMALLEST_BYTES", 4)
    monkeypatch.setattr(staging, "STAGING_BYTES", _ROOM)
    with dml.Device(device.info.index) as opened:
        if not hasattr(opened.engine._manager, "device_tensor"):
            pytest.skip("Kompute as it is on PyPI makes a staging buffer with each tensor")
        yield opened


def _staged(device: dml.Device) -> int:
    claims = device.engine._staging._claims
    return sum(allocation.size_in_bytes for allocation in claims if not allocation.is_pinned)


def test_memory_that_the_host_does_not_touch_has_no_copy_there(discrete: dml.Device) -> None:
    arrays = [discrete.empty((_BYTES // 4,)) for _ in range(8)]
    assert _staged(discrete) == 0
    filled = discrete.array(np.ones(_BYTES // 4, np.float32))
    total = filled + filled
    for array in arrays:
        discrete.run(_add(), {"ATensor": total, "BTensor": filled}, keep=True, out={"OutputTensor": array})
    assert _staged(discrete) <= 2 * _BYTES
    assert all(np.array_equal(array.numpy(), np.full(_BYTES // 4, 3, np.float32)) for array in arrays)
    assert _staged(discrete) <= _ROOM


def _add() -> dml.OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (_BYTES // 4,))
    return dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)


@pytest.mark.parametrize("seed", range(4))
def test_contents_are_those_that_were_written_last(discrete: dml.Device, seed: int) -> None:
    """By the host, in whole and in part, or by the device, while copies on the host come and go."""
    draw = random.Random(seed)
    buffers = [discrete.create_buffer(_BYTES) for _ in range(8)]
    contents = [np.zeros(_BYTES // 4, np.float32) for _ in buffers]
    compiled = discrete.compile_operator(discrete.create_operator(_add()))
    for step in range(60):
        number = draw.randrange(len(buffers))
        match draw.choice(("whole", "part", "read", "add", "add")):
            case "whole":
                contents[number] = np.full(_BYTES // 4, step, np.float32)
                buffers[number].upload(contents[number])
            case "part":
                first = draw.randrange(_BYTES // 4 - 8)
                contents[number][first : first + 8] = step
                buffers[number].upload(np.full(8, step, np.float32), 4 * first)
            case "read":
                found = buffers[number].download(np.float32, (_BYTES // 4,))
                assert np.array_equal(found, contents[number]), f"step {step}: buffer {number}"
            case "add":
                a, b = (draw.randrange(len(buffers)) for _ in "ab")
                if number in (a, b):
                    continue
                table = discrete.create_binding_table(compiled)
                table.bind_inputs([dml.BufferBinding(buffers[a]), dml.BufferBinding(buffers[b])])
                table.bind_outputs([dml.BufferBinding(buffers[number])])
                recorder = discrete.create_command_recorder()
                recorder.record_dispatch(compiled, table)
                recorder.execute()
                contents[number] = contents[a] + contents[b]
    for number, buffer in enumerate(buffers):
        assert np.array_equal(buffer.download(np.float32, (_BYTES // 4,)), contents[number]), f"buffer {number}"
    assert _staged(discrete) <= _ROOM


def test_sessions_and_graphs_give_the_same_bits(discrete: dml.Device, device: dml.Device) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    wanted = ort.InferenceSession(two_branches(), device=device).run(None, {"x": x})
    session = ort.InferenceSession(two_branches(), device=discrete)
    for _ in range(4):
        found = session.run(None, {"x": x})
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    value = ort.OrtValue.ortvalue_from_numpy(x, "dml")
    for _ in range(4):
        bound = session.run_with_ort_values(None, {"x": value})
        assert [np.asarray(a.numpy()).tobytes() for a in bound] == [a.tobytes() for a in wanted]


def test_weights_are_uploaded_piece_by_piece_and_leave_no_copies(discrete: dml.Device, device: dml.Device) -> None:
    draw = np.random.default_rng(2)
    constants = {f"w{n}": draw.standard_normal((64, 64)).astype(np.float32) for n in range(6)}
    from onnx import helper

    nodes = [helper.make_node("MatMul", [f"x{n}" if n else "x", f"w{n}"], [f"x{n + 1}"]) for n in range(6)]
    proto = model(nodes, {"x": [4, 64]}, ["x6"], constants)
    x = draw.standard_normal((4, 64)).astype(np.float32)
    (wanted,) = ort.InferenceSession(proto, device=device).run(None, {"x": x})
    session = ort.InferenceSession(proto, device=discrete)
    for _ in range(3):
        assert session.run(None, {"x": x})[0].tobytes() == wanted.tobytes()

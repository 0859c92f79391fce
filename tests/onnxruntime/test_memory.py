"""Values that stay on the device between runs of ONNX Runtime's sessions."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlvk.onnx
import dmlvk.onnxruntime
from dmlvk.onnxruntime.memory import Memory
from tests.onnx.models import parsed
from tests.onnxruntime.models import WIDTH, chain, inputs, model_of, session_of

VENDOR = dmlvk.onnxruntime.VENDOR_ID


def on_device(array: Any) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", 0, VENDOR)


def test_values_on_the_device_come_back_as_they_are() -> None:
    large = np.arange(2048, dtype=np.float32)
    for array in (np.array(5, np.int64), np.array([True, False]), np.empty((0, 3), np.float32), large):
        value = on_device(array)
        assert value.device_name().lower() != "cpu"
        np.testing.assert_array_equal(value.numpy(), array)
    gc.collect()  # what other tests have left
    before = dmlvk.onnxruntime.memory_blocks()
    del value
    assert dmlvk.onnxruntime.memory_blocks() == before - 1


def test_a_state_stays_on_the_device_from_run_to_run() -> None:
    """As decoders keep their caches: the output of a run is an input of the next one."""
    model = model_of(parsed("a = MatMul (state, w0)  after = Tanh (a)"), {"state": [200, WIDTH]}, ["after"])
    session = session_of(model)
    binding = session.io_binding()
    wanted = np.random.default_rng(3).normal(size=(200, WIDTH)).astype(np.float32)
    binding.bind_ortvalue_input("state", on_device(wanted))
    for run in range(6):
        bind(binding, "after", wanted.shape)
        session.run_with_iobinding(binding)
        if run == 0:
            before = dmlvk.onnxruntime.traffic()
        (state,) = binding.get_outputs()
        binding.bind_ortvalue_input("state", state)
    after = dmlvk.onnxruntime.traffic()
    assert (after.to_device, after.to_host) == (before.to_device, before.to_host)
    expected = wanted
    for _ in range(6):
        (expected,) = session.run(None, {"state": expected})
    assert state.numpy().tobytes() == expected.tobytes()


def bind(binding: Any, name: str, shape: Any) -> None:
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32, "gpu", 0, VENDOR)
    binding.bind_ortvalue_output(name, value)


def test_an_output_that_is_kept_survives_later_runs() -> None:
    session = session_of(chain())
    binding = session.io_binding()
    kept, wanted = [], []
    for seed in range(4):
        given = inputs(2, seed)
        binding.bind_ortvalue_input("x", on_device(given["x"]))
        bind(binding, "y", (2, WIDTH))
        session.run_with_iobinding(binding)
        kept.append(binding.get_outputs()[0])
        wanted.append(session.run(None, given)[0])
    for value, array in zip(kept, wanted, strict=True):
        assert value.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("batch", ["batch", 2])
def test_runs_that_repeat_give_what_each_would_give_alone(batch: int | str) -> None:
    """From the host to the host, in sizes that change, between runs whose outputs stay on the device."""
    session, alone = session_of(chain(batch)), dmlvk.onnx.InferenceSession(chain(batch).SerializeToString())
    binding = session.io_binding()
    kept: list[tuple[Any, bytes]] = []
    before = dmlvk.onnxruntime.traffic()
    counts = [2, 2, 2, 5, 5, 5, 2, 70, 70, 70, 2, 5] if batch == "batch" else [2] * 12
    for seed, count in enumerate(counts):
        given = inputs(count, seed)
        wanted = alone.run(None, given)[0].tobytes()
        assert session.run(None, given)[0].tobytes() == wanted
        if seed % 4 == 3:
            for _ in range(3):
                binding.bind_cpu_input("x", given["x"])
                bind(binding, "y", (count, WIDTH))
                session.run_with_iobinding(binding)
                kept.append((binding.get_outputs()[0], wanted))
    after = dmlvk.onnxruntime.traffic()
    assert after.to_device - before.to_device >= sum(counts) * WIDTH * 4, "what goes to the device is counted"
    for value, wanted in kept:
        assert value.numpy().tobytes() == wanted


def test_an_input_that_stays_on_the_device_goes_there_once_and_one_from_the_host_with_each_run() -> None:
    model = model_of(parsed("a = MatMul (x, w0)  z = Add (a, y)"), {"x": [200, WIDTH], "y": [200, WIDTH]}, ["z"])
    session, alone = session_of(model), dmlvk.onnx.InferenceSession(model.SerializeToString())
    binding, other = session.io_binding(), inputs(200, 9)["x"]
    binding.bind_ortvalue_input("y", on_device(other))
    moved = []
    for seed in range(8):
        given = inputs(200, seed)["x"]
        before = dmlvk.onnxruntime.traffic().to_device
        binding.bind_cpu_input("x", given)
        binding.bind_output("z", "cpu")
        session.run_with_iobinding(binding)
        moved.append(dmlvk.onnxruntime.traffic().to_device - before)
        (found,) = binding.copy_outputs_to_cpu()
        assert found.tobytes() == alone.run(None, {"x": given, "y": other})[0].tobytes()
    assert moved[3:] == [other.nbytes] * 5


def test_bytes_of_any_place_are_those_that_were_written() -> None:
    """As one array of the host holds them; ONNX Runtime puts several tensors into one block."""
    random = np.random.default_rng(0)
    memory, mirror = Memory(), np.zeros(1000, np.uint8)
    base = memory.allocate(1000)
    for _ in range(300):
        start, stop = sorted(random.integers(0, 1001, 2))
        if random.random() < 0.6:
            written = random.integers(0, 256, stop - start, np.uint8)
            memory.put(base + int(start), int(stop - start), written)
            mirror[start:stop] = written
        assert memory.contents(base + int(start), int(stop - start)).tobytes() == mirror[start:stop].tobytes()
    memory.free(base)
    assert memory.count == 0
    with pytest.raises(dmlvk.errors.DmlError, match="are no memory of the device's"):
        memory.contents(base, 4)


def test_memory_of_large_inputs_is_used_again_only_when_nothing_looks_at_it() -> None:
    memory = Memory()
    contents = [np.full(2**17, value, np.uint8) for value in (1, 2, 3)]
    address = memory.allocate(2**17)
    memory.put_from(address, 2**17, contents[0].ctypes.data)
    seen = memory.contents(address, 2**17)[5:].view(np.uint8)
    for values in contents[1:]:
        memory.put_from(address, 2**17, values.ctypes.data)
        assert memory.contents(address, 2**17).tobytes() == values.tobytes()
    assert set(seen) == {1}, "a view keeps what it looks at"
    del seen
    memory.free(address)
    assert len({memory._staging.array(2**17).ctypes.data for _ in range(3)}) == 1, "what nothing looks at is used again"

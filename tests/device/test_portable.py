"""Models between processes: they pickle as what they were made from, and open a device where they arrive."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk import functions as F
from dmlvk.objects import portable
from tests.device.processes import output_of
from tests.onnx.models import two_branches

TENSOR = dml.TensorDesc(dml.FLOAT32, (2, 3))
VALUES = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@pytest.fixture(autouse=True)
def nothing_arrived(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process to which nothing came yet, in which DMLVK_DEVICE names the device under test."""
    shared = portable._ProcessState()
    monkeypatch.setattr(portable, "_process", shared)
    assert device.info.uuid is not None
    monkeypatch.setenv("DMLVK_DEVICE", device.info.uuid)
    yield
    for opened in shared.devices.values():
        opened.close()


def copied(value: Any) -> Any:
    """What another process would get."""
    return pickle.loads(pickle.dumps(value, protocol=5))


def model(device: dml.Device) -> dml.CompiledGraph:
    graph = dml.Graph(device)
    x = graph.input("x", dml.FLOAT32, TENSOR.sizes)
    scale = graph.input("scale", dml.FLOAT32, (2, 1))
    return graph.compile(y=F.relu(x * scale + np.array([1, 2, 3], np.float32)), z=x.T)


def test_compiled_operators_and_graphs_open_nothing_where_they_arrive_until_they_are_used(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = dml.ElementWiseSign(input_tensor=TENSOR, output_tensor=TENSOR)
    made = [device.compile_operator(device.create_operator(sign)), model(device)]
    inputs: list[dict[str, Any]] = [{"InputTensor": VALUES}, {"x": VALUES, "scale": np.array([[2], [-1]], np.float32)}]
    with monkeypatch.context() as patched:
        patched.setattr(dml.Device, "__init__", None)  # opening one would raise
        arrived = [copied(each) for each in made]
        assert all(isinstance(each, dml.CompiledOperator) and each.is_pending for each in arrived)
        assert [copied(each) for each in arrived] == arrived  # passed on, and the same ones when they come back
        assert "not compiled yet" in repr(arrived[0])
        assert [each.__dask_tokenize__() for each in arrived] == [each.__dask_tokenize__() for each in made]
    for original, other, given in zip(made, arrived, inputs, strict=True):
        assert other.device is dml.default_device() and other.device is not device
        results = other.device.run(other, given)
        for name, expected in device.run(original, given).items():
            assert results[name].tobytes() == expected.tobytes()
        with pytest.raises(dml.InvalidArgumentError, match="was compiled by another device"):
            device.run(other, given)


def test_what_arrived_is_compiled_by_the_device_that_runs_it_first(device: dml.Device) -> None:
    arrived = copied(model(device))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"x": x, "scale": np.array([[1], [2]], np.float32)}
    np.testing.assert_array_equal(device.run(arrived, given)["y"], x * given["scale"] + np.array([1, 2, 3], np.float32))
    assert arrived.device is device
    other = arrived.on(dml.default_device())
    assert other.device is dml.default_device() and other.input_tensors == arrived.input_tensors
    np.testing.assert_array_equal(other.device.run(other, given)["z"], x.T)


def test_graph_descriptions_arrive_with_operators_that_every_device_compiles(device: dml.Device) -> None:
    desc = model(device).desc
    arrived = copied(desc)
    assert arrived.__dask_tokenize__() == desc.__dask_tokenize__()
    first = device.compile_graph(arrived)
    with dml.Device(device.info.index) as second:
        again = second.compile_graph(arrived)
        given = {"Input0": VALUES, "Input1": np.array([[1, 1, 1], [2, 2, 2]], np.float32)}
        for one, other in zip(device.run(first, given).values(), second.run(again, given).values(), strict=True):
            assert one.tobytes() == other.tobytes()
    with (
        dml.Device(device.info.index, feature_level=dml.FeatureLevel.LEVEL_2_0) as older,
        pytest.raises(dml.UnsupportedError, match="needs feature level"),
    ):
        older.compile_graph(arrived)


def test_a_feature_level_travels_too(device: dml.Device) -> None:
    sign = dml.ElementWiseSign(input_tensor=TENSOR, output_tensor=TENSOR)
    with dml.Device(device.info.index, feature_level=dml.FeatureLevel.LEVEL_3_0) as older:
        arrived = copied(older.compile_operator(older.create_operator(sign)))
    assert arrived.device.feature_level is dml.FeatureLevel.LEVEL_3_0
    assert arrived.device is dml.default_device(dml.FeatureLevel.LEVEL_3_0) is not dml.default_device()


def test_sessions_arrive_with_weights_from_wherever_they_lay(device: dml.Device, tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "model.onnx"
    onnx.save(two_branches(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with ort.InferenceSession(path, device=device) as session:
        expected = session.run(None, {"x": VALUES})
        token = session.__dask_tokenize__()
        contents = pickle.dumps(session, protocol=5)
    (tmp_path / "weights.bin").unlink()
    arrived = pickle.loads(contents)
    assert arrived.is_pending and arrived.__dask_tokenize__() == token and "not opened yet" in repr(arrived)
    for one, other in zip(arrived.run(None, {"x": VALUES}), expected, strict=True):
        assert one.tobytes() == other.tobytes()
    assert pickle.loads(contents) is arrived and arrived.device is dml.default_device()
    assert arrived.get_inputs()[0].name == "x" and str(path) in repr(arrived)
    arrived.close()  # the device stays open: it is the process's
    assert not dml.default_device().engine.is_closed

    other_weights = two_branches()
    other_weights.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, -2, 4], np.float32), "bias"))
    assert ort.InferenceSession(other_weights, device=device).__dask_tokenize__() != token


def test_what_belongs_to_a_device_refuses_to_be_pickled_and_says_what_to_do(device: dml.Device) -> None:
    array = device.array(VALUES)
    refused: list[tuple[Any, str]] = [
        (device, r"^Device: belongs to a device of this process and cannot be pickled; .*default_device"),
        (array, r"^Array: .* array\.numpy\(\)"),
        (device.create_buffer(4), r"^Buffer: .* buffer\.download\(\)"),
        (dml.Graph(device), "^Device: "),
        (device.create_command_recorder(), "^Device: "),
    ]
    for each, message in refused:
        with pytest.raises(dml.UnsupportedError, match=message):
            pickle.dumps(each)


def test_a_device_that_is_gone_is_opened_anew_and_models_are_made_again(device: dml.Device) -> None:
    contents = pickle.dumps(model(device))
    first = pickle.loads(contents)
    first.settle()
    shared = dml.default_device()
    assert dml.default_device() is shared
    shared.close()
    assert dml.default_device() is not shared
    second = pickle.loads(contents)
    assert second is not first
    assert second.device.run(second, {"x": VALUES, "scale": np.array([[1], [1]], np.float32)})["z"].shape == (3, 2)


def test_only_the_last_arrivals_are_kept(device: dml.Device) -> None:
    def signs() -> Iterator[dml.CompiledOperator]:
        for size in range(1, portable._KEPT_ARRIVALS + 3):
            tensor = dml.TensorDesc(dml.FLOAT32, (size,))
            operator = device.create_operator(dml.ElementWiseSign(input_tensor=tensor, output_tensor=tensor))
            yield device.compile_operator(operator)

    made = list(signs())
    arrived = [copied(each) for each in made]
    assert copied(made[-1]) is arrived[-1]
    assert copied(made[0]) is not arrived[0]
    assert len(portable._process.arrivals) == portable._KEPT_ARRIVALS


def test_threads_that_use_one_arrival_at_once_compile_it_once(device: dml.Device) -> None:
    from concurrent.futures import ThreadPoolExecutor

    arrived = copied(model(device))
    given = {"x": VALUES, "scale": np.array([[1], [1]], np.float32)}

    def run(_: int) -> tuple[int, bytes]:
        return id(arrived.steps), arrived.device.run(arrived, given)["y"].tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(run, range(16)))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_models_refuse_to_be_used_after_a_fork(device: dml.Device) -> None:
    """What the parent has opened raises at once; what only arrived opens a device of the child's own, where it can."""
    program = """
import os, pickle, warnings
import dmlvk.onnx as ort
from tests.onnx.models import two_branches
warnings.simplefilter("ignore", DeprecationWarning)
parent = dml.Device(index)
os.environ["DMLVK_DEVICE"] = str(index)
made = parent.compile_operator(parent.create_operator(desc))
session = ort.InferenceSession(two_branches(), device=parent)
pending = pickle.loads(pickle.dumps(made))
used = pickle.loads(pickle.dumps(session))
used.run(None, {"x": np.ones((2, 3), np.float32)})
session._lock.acquire()  # as another thread of the parent might have

child = os.fork()
if not child:
    calls = (
        lambda: made.device.run(made, {"InputTensor": values}),
        lambda: session.run(None, {"x": np.ones((2, 3), np.float32)}),
        lambda: used.run(None, {"x": np.ones((2, 3), np.float32)}),
    )
    for call in calls:
        try:
            call()
        except dml.DeviceRemovedError as error:
            assert "was opened by another process, of which this one is a fork" in str(error), error
        else:
            raise AssertionError(call)
    session.close()
    try:
        assert (pending.device.run(pending, {"InputTensor": values})["OutputTensor"] == np.sign(values)).all()
        assert pending.device is dml.default_device()
    except dml.UnsupportedError as error:
        assert "SwiftShader" in str(error) and "spawn" in str(error), error
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert output_of(program, device.info.index) == "7\n"


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = values.copy()
    values.flags.writeable = False
    return values


def mapped(values: npt.NDArray[Any], folder: Path) -> npt.NDArray[Any]:
    np.save(folder / "values.npy", values)
    opened: npt.NDArray[Any] = np.load(folder / "values.npy", mmap_mode="r")
    return opened


def test_read_only_mapped_and_foreign_arrays_are_taken_as_they_are(device: dml.Device, tmp_path: Path) -> None:
    sign = dml.ElementWiseSign(input_tensor=TENSOR, output_tensor=TENSOR)
    session = ort.InferenceSession(two_branches(), device=device)
    expected = session.run(None, {"x": VALUES})
    buffers: list[pickle.PickleBuffer] = []
    apart = pickle.dumps(VALUES, protocol=5, buffer_callback=buffers.append)  # as Dask sends arrays
    layouts = [
        read_only(VALUES),
        mapped(VALUES, tmp_path),
        np.frombuffer(VALUES.tobytes(), np.float32).reshape(2, 3),
        np.asfortranarray(VALUES),
        VALUES[::-1, ::-1][::-1, ::-1],
        VALUES.astype(">f4"),
        pickle.loads(apart, buffers=[bytes(buffer) for buffer in buffers]),
    ]
    for given in layouts:
        before = given.tobytes()
        for operator in (sign, device.compile_operator(device.create_operator(sign))):
            result = device.run(operator, {"InputTensor": given})["OutputTensor"]
            np.testing.assert_array_equal(result, np.sign(VALUES))
            assert result.flags.writeable and result.flags.owndata
        assert device.array(given).numpy().tobytes() == VALUES.tobytes()
        for one, other in zip(session.run(None, {"x": given}), expected, strict=True):
            assert one.tobytes() == other.tobytes() and one.flags.writeable
        assert given.tobytes() == before

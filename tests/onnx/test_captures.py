"""Runs that come again are captured and replayed: with the contents of each run, and at the cost of one submission."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.models import model, parsed, two_branches
from tests.processes import in_threads

_RUNS = 5


def _relu(shape: list[int | str]) -> onnx.ModelProto:
    return model("y = Relu (x)", {"x": shape}, ["y"])


def _x(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _python_calls(work: Callable[[], object]) -> int:
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", [[4, 3], ["n", 3]], ids=["fixed", "open"])
def test_a_session_costs_python_little_more_than_a_device(any_device: dml.Device, shape: list[int | str]) -> None:
    """Python's calls in a run that comes again, beside those of an operator that was compiled by hand."""
    tensor = dml.TensorDesc(dml.FLOAT32, (4, 3))
    operator = any_device.compile_operator(
        any_device.create_operator(dml.ActivationRelu(input_tensor=tensor, output_tensor=tensor))
    )
    session = ort.InferenceSession(_relu(shape), device=any_device)
    feed = {"x": _x(1, 4, 3)}
    for _ in range(3):
        session.run(None, feed)
        any_device.run(operator, {"InputTensor": feed["x"]})
    most = 1.5 * _python_calls(lambda: any_device.run(operator, {"InputTensor": feed["x"]}))
    assert _python_calls(lambda: session.run(None, feed)) <= most
    binding = session.io_binding()
    for name, bind in (("x", binding.bind_ortvalue_input), ("y", binding.bind_ortvalue_output)):
        bind(name, ort.OrtValue.ortvalue_from_numpy(_x(2, 4, 3), "dml"))
    for _ in range(3):
        session.run_with_iobinding(binding)
    assert _python_calls(lambda: session.run_with_iobinding(binding)) <= 99  # 1.5 times 66
    binding.bind_output("y", "dml")
    for _ in range(3):
        session.run_with_iobinding(binding)
    assert _python_calls(lambda: session.run_with_iobinding(binding)) <= 132  # memory of its own: twice 66


@pytest.mark.parametrize("rows", [(4,), (4, 5, 6, 7)], ids=["one size", "sizes in turn"])
@pytest.mark.parametrize("given", ["cpu", "dml"])
@pytest.mark.parametrize("asked", ["cpu", "dml", "run", "run_with_ort_values"])
def test_results_that_are_held_stay_whatever_door_runs_pass(
    device: dml.Device, rows: tuple[int, ...], given: str, asked: str
) -> None:
    nodes = parsed("y = Relu (x)  s = Shape (x)")
    session = ort.InferenceSession(model(nodes, {"x": ["n", 3]}, ["y", "s"]), device=device)
    binding = session.io_binding()
    held = []
    for run in range(3 * _RUNS):
        x = _x(run, rows[run % len(rows)], 3)
        value = ort.OrtValue.ortvalue_from_numpy(x, given)
        if asked.startswith("run"):
            found = getattr(session, asked)(["s", "y"], {"x": value})
        else:
            binding.bind_ortvalue_input("x", value)
            binding.bind_output("y", asked)
            binding.bind_output("s", asked)
            session.run_with_iobinding(binding)
            found = binding.get_outputs()[::-1]
            assert [each.device_name() for each in found] == [asked] * 2
        held.append((x, found))
    for run, (x, found) in enumerate(held):
        s, y = (each if isinstance(each, np.ndarray) else each.numpy() for each in found)
        assert s.tolist() == [*x.shape] and np.array_equal(y, np.maximum(x, 0)), f"run {run}"


@pytest.mark.parametrize("shape", [[4, 3], ["n", 3]], ids=["fixed", "open"])
def test_each_run_has_its_own_contents_and_outputs(device: dml.Device, shape: list[int | str]) -> None:
    session = ort.InferenceSession(_relu(shape), device=device)
    before: list[tuple[npt.NDArray[Any], bytes]] = []
    for run in range(_RUNS):
        x = _x(run, 4, 3)
        given = np.asfortranarray(x) if run == 3 else x  # laid out in another way, of the same type and shape
        (y,) = session.run(["y"], {"x": given})
        assert np.array_equal(y, np.maximum(x, 0)), f"run {run}"
        before.append((y, y.tobytes()))
        y_again = y.copy()
        y[:] = 7  # an output is the caller's own
        assert not np.array_equal(session.run(["y"], {"x": x})[0], y)
        y[:] = y_again
    assert all(array.tobytes() == contents for array, contents in before)


def test_sizes_types_and_outputs_that_take_turns_are_told_apart(device: dml.Device) -> None:
    nodes = parsed("y = Relu (x)  z = Neg (y)")
    session = ort.InferenceSession(model(nodes, {"x": ["n", "m"]}, ["y", "z"]), device=device)
    for run in range(4 * _RUNS):
        shape = ((4, 3), (3, 4), (12, 1), (4, 3))[run % 4]
        names = (None, ["z"], ["z", "y"])[run % 3]
        x = _x(run, *shape)
        for _ in range(3):
            found = session.run(names, {"x": x})
            y = np.maximum(x, 0)
            wanted = {"y": y, "z": -y}
            for name, array in zip(names or ["y", "z"], found, strict=True):
                assert np.array_equal(array, wanted[name]), f"run {run}: {name}"


def test_what_contents_decide_is_decided_anew(device: dml.Device) -> None:
    nodes = parsed("y = Reshape (x, shape)  z = Gather (table, indices)")
    table = _x(3, 5, 2)
    made = model(nodes, {"x": [2, 6]}, ["y", "z"], {"table": table})
    for name, size in (("shape", 2), ("indices", 3)):
        made.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [size]))
    session = ort.InferenceSession(made, device=device)
    x = _x(4, 2, 6)
    for run, shape in enumerate(([3, 4], [3, 4], [3, 4], [4, 3], [12, 1], [3, 4])):
        indices = np.array([run % 5, 0, 4])
        y, z = session.run(None, {"x": x, "shape": np.array(shape), "indices": indices})
        assert y.shape == tuple(shape) and np.array_equal(z, table[indices]), f"run {run}"
        with pytest.raises(dml.InvalidArgumentError, match="5"):
            session.run(None, {"x": x, "shape": np.array(shape), "indices": np.array([0, 5, 0])})


def test_what_does_not_fit_is_refused_as_in_the_first_run(device: dml.Device) -> None:
    session = ort.InferenceSession(_relu(["n", 3]), device=device)
    x = _x(1, 4, 3)
    for _ in range(3):
        session.run(["y"], {"x": x})
    for names, feed, said in (
        (["y"], {"x": x.astype(np.float64)}, "dtype"),
        (["y"], {"x": x[:, :2]}, "shape"),
        (["y"], {}, "missing"),
        (["y"], {"x": x, "w": x}, "no input 'w'"),
        ("y", {"x": x}, "output_names"),
        ([["y"]], {"x": x}, "no output"),
    ):
        with pytest.raises(dml.InvalidArgumentError, match=said):
            session.run(names, feed)  # type: ignore[arg-type]
    assert np.array_equal(session.run(["y"], {"x": x})[0], np.maximum(x, 0))
    session.close()
    with pytest.raises(dml.DeviceRemovedError):
        session.run(["y"], {"x": x})


def test_a_bound_value_is_written_where_it_lies(device: dml.Device) -> None:
    session = ort.InferenceSession(_relu([4, 3]), device=device)
    x, y = (ort.OrtValue.ortvalue_from_numpy(_x(seed, 4, 3), "dml") for seed in (1, 2))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    lies = None
    for run in range(_RUNS):
        contents = _x(run, 4, 3)
        x.update_inplace(contents)
        session.run_with_iobinding(binding)
        assert np.array_equal(y.numpy(), np.maximum(contents, 0)), f"run {run}"
        there = y.array()
        assert there is not None and lies in (None, there.storage), "another memory was put in its place"
        lies = there.storage
        assert binding.get_outputs() == [y]


def test_a_value_bound_as_input_and_output_is_read_before_it_is_written(device: dml.Device) -> None:
    nodes = parsed("t = Transpose <perm = [1, 0]> (x)  y = MatMul (x, t)")
    session = ort.InferenceSession(model(nodes, {"x": [8, 8]}, ["y"]), device=device)
    contents = np.eye(8, dtype=np.float32) * 2
    value = ort.OrtValue.ortvalue_from_numpy(contents, "dml")
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", value)
    for run in range(4):
        session.run_with_iobinding(binding)
        contents = contents @ contents.T
        assert np.array_equal(value.numpy(), contents), f"run {run}"


def test_values_bound_anew_are_the_ones_that_are_read_and_written(device: dml.Device) -> None:
    session = ort.InferenceSession(_relu(["n", 3]), device=device)
    binding = session.io_binding()
    kept = []
    for run in range(4 * _RUNS):
        if run % 4 == 0:
            rows = 4 + run % 3
            x, y = (ort.OrtValue.ortvalue_from_numpy(_x(run + seed, rows, 3), "dml") for seed in (0, 100))
            binding.bind_ortvalue_input("x", x)
            binding.bind_ortvalue_output("y", y)
            kept.append((x, y))
        session.run_with_iobinding(binding)
    for x, y in kept:
        assert np.array_equal(y.numpy(), np.maximum(x.numpy(), 0))


def test_outputs_are_the_values_that_are_bound_also_where_a_run_is_replayed(device: dml.Device) -> None:
    session = ort.InferenceSession(_relu([4, 3]), device=device)
    x, first, other = (ort.OrtValue.ortvalue_from_numpy(_x(seed, 4, 3), "dml") for seed in range(3))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    for run, y in enumerate([first, first, first, other, first, first]):
        if run == 5:
            binding.clear_binding_outputs()
            assert binding.get_outputs() == []
        binding.bind_ortvalue_output("y", y)
        session.run_with_iobinding(binding)
        assert binding.get_outputs() == [y], f"run {run}"


def _captured(device: dml.Device) -> Any:
    """A session that ran some times over one binding, which it has therefore captured, and the values there."""
    session = ort.InferenceSession(_relu([4, 3]), device=device)
    binding = session.io_binding()
    x, y = (ort.OrtValue.ortvalue_from_numpy(_x(seed, 4, 3), "dml") for seed in (1, 2))
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for _ in range(3):
        session.run_with_iobinding(binding)
    return session, binding, x, y


def test_captures_keep_nothing_alive_that_a_user_has_let_go(device: dml.Device) -> None:
    session, binding, x, y = _captured(device)
    there = y.array()
    gone = weakref.ref(there)
    binding.clear_binding_outputs()
    del y, there
    gc.collect()
    assert gone() is None
    z = ort.OrtValue.ortvalue_from_numpy(_x(3, 4, 3), "dml")
    binding.bind_ortvalue_output("y", z)
    session.run_with_iobinding(binding)
    assert np.array_equal(z.numpy(), np.maximum(x.numpy(), 0))


def test_memory_that_was_closed_is_not_run_on(device: dml.Device) -> None:
    session, binding, x, _ = _captured(device)
    array = x.array()
    assert array is not None
    array.close()
    with pytest.raises(dml.InvalidArgumentError, match="closed"):
        session.run_with_iobinding(binding)


def test_threads_that_share_a_session_get_their_own_results(device: dml.Device) -> None:
    session = ort.InferenceSession(two_branches(), device=device)
    wanted = {seed: [a.tobytes() for a in session.run(None, {"x": _x(seed, 2, 3)})] for seed in range(4)}
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = _x(seed, 2, 3)
        for _ in range(20):
            if [a.tobytes() for a in session.run(None, {"x": x})] != wanted[seed]:
                wrong.append(seed)

    in_threads(work, wanted)
    assert not wrong

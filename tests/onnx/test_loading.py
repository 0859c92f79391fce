"""Whatever is wrong with a model ends in one error that names what; weights stay in files, and are computed once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import dmlvk as dml
import dmlvk.onnx
import dmlvk.onnx as ort
from dmlvk.onnx.model.loading import load
from dmlvk.runtime.vulkan.devices import DeviceLimits
from dmlvk.support.mapped_files import file_of, files_of
from tests.onnx import models
from tests.onnx.models import model, two_branches

_OPSET = helper.make_opsetid("", 17)


def _with_external(folder: Path, location: str, *, length: int = 12, offset: int = 0) -> Path:
    made = two_branches()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_is_read_from_the_model_s_folder(any_device: dml.Device, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1234" + np.array([5, 6, 7], np.float32).tobytes())
    session = ort.InferenceSession(_with_external(tmp_path, "weights", offset=4), device=any_device)
    _, z = session.run(None, {"x": np.zeros((1, 3), np.float32)})
    np.testing.assert_allclose(z[:, 0], np.exp([5.0, 6.0, 7.0]), rtol=1e-6)


def test_large_weights_stay_in_their_file(any_device: dml.Device, tmp_path: Path) -> None:
    """They are mapped, wherever they begin, and give what a copy gives."""
    weights = np.random.default_rng(0).standard_normal((600, 512)).astype(np.float32)
    nodes = models.parsed("y = MatMul (x, w)")
    made = model(nodes, {"x": (1, 600)}, ["y"], {"w": weights})
    whole = ort.InferenceSession(made.SerializeToString(), device=any_device)
    initializer = made.graph.initializer[0]
    initializer.ClearField("raw_data")
    initializer.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights"), ("offset", "12"), ("length", str(weights.nbytes))):
        initializer.external_data.add(key=key, value=value)
    (tmp_path / "weights").write_bytes(bytes(12) + weights.tobytes())
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    assert file_of(load(tmp_path / "model.onnx").constants["w"]) is not None
    session = ort.InferenceSession(tmp_path / "model.onnx", device=any_device)
    given = {"x": np.ones((1, 600), np.float32)}
    assert session.run(None, given)[0].tobytes() == whole.run(None, given)[0].tobytes()


def _products(folder: Path, weights: np.ndarray[Any, Any]) -> Path:
    """A model of a weight that is an initializer, and another that a Constant node holds; rows are open."""
    nodes = [
        helper.make_node("Constant", [], ["second"], value=numpy_helper.from_array(weights * 2)),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "second"], ["y"]),
    ]
    element = helper.np_dtype_to_tensor_dtype(weights.dtype)
    path = folder / "model.onnx"
    onnx.save(model(nodes, {"x": (element, ["rows", len(weights)])}, ["y"], {"w": weights}), path)
    return path


def test_weights_inside_of_a_model_s_file_stay_there_and_give_the_same(any_device: dml.Device, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((192, 192)).astype(np.float32)
    path = _products(tmp_path, weights)
    loaded = load(path)
    assert len(files_of(loaded.constants.values())) == 1
    assert loaded.proto.ByteSize() < 1000
    np.testing.assert_array_equal(loaded.constants["second"], weights * 2)
    contents = path.read_bytes()
    constants = load(contents).constants
    assert all(np.shares_memory(constants[name], np.frombuffer(contents, np.uint8)) for name in ("w", "second"))
    whole, mapped = (ort.InferenceSession(source, device=any_device) for source in (onnx.load(path), path))
    np.testing.assert_array_equal(constants["second"], weights * 2)
    given = {"x": np.ones((3, 192), np.float32)}
    np.testing.assert_array_equal(mapped.run(None, given)[0], whole.run(None, given)[0])


def test_a_model_s_file_may_be_written_over_as_soon_as_there_is_a_session(
    any_device: dml.Device, tmp_path: Path
) -> None:
    weights = np.random.default_rng(0).standard_normal((192, 192)).astype(np.float32)
    sessions = [ort.InferenceSession(_products(tmp_path, weights * sign), device=any_device) for sign in (1, -3)]
    given = {"x": np.ones((3, 192), np.float32)}
    first, second = (session.run(None, given)[0] for session in sessions)
    np.testing.assert_allclose(second, first * 9, rtol=1e-4, atol=1e-3)


def test_weights_that_the_host_needs_from_a_file_that_was_written_over_are_refused(
    any_device: dml.Device, tmp_path: Path
) -> None:
    nodes = models.parsed("y = Compress <axis = 0> (w, which)")
    weights = {"w": np.ones((192, 192), np.float32)}
    path = tmp_path / "model.onnx"
    onnx.save(model(nodes, {"which": [192]}, ["y"], weights, element=TensorProto.BOOL), path)
    session = ort.InferenceSession(path, device=any_device)
    given = {"which": np.arange(192) < 3}
    assert session.run(None, given)[0].shape == (3, 192)
    path.write_bytes(b"another")
    with pytest.raises(dml.ModelFileError, match=r"model\.onnx: was written to after the model was loaded"):
        session.run(None, given)


def test_external_data_outside_the_folder_or_of_another_size_is_refused(any_device: dml.Device, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "weights").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path / "secret")
    for location in ("../secret", str(tmp_path / "secret"), "link", "", ".", "nothing", "a\0b"):
        with pytest.raises(dml.ModelFileError, match="inside the model's folder"):
            ort.InferenceSession(_with_external(folder, location), device=any_device)
    with pytest.raises(dml.ModelFileError, match=f"there is no file {folder / 'nothing'}"):
        ort.InferenceSession(_with_external(folder, "nothing"), device=any_device)
    for length, offset in ((8, 0), (12, 4), (12, -4), (2**62, 0)):
        with pytest.raises(dml.ModelFileError, match="12 bytes are needed"):
            ort.InferenceSession(_with_external(folder, "weights", length=length, offset=offset), device=any_device)
    contents = _with_external(folder, "weights").read_bytes()
    with pytest.raises(dml.ModelFileError, match="give the model as a path"):
        ort.InferenceSession(contents, device=any_device)


def _broken() -> dict[str, tuple[onnx.ModelProto, str]]:
    def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, outputs, name="bad", **attributes)

    cases = {
        "missing input": ([node("Add", ["x", "w"], ["y"])], r"node 'bad' \(Add\): reads 'w', which nothing computes"),
        "cycle": (
            [
                node("Add", ["x", "b"], ["a"]),
                helper.make_node("Neg", ["a"], ["b"]),
                helper.make_node("Abs", ["a"], ["y"]),
            ],
            "form a cycle",
        ),
        "two writers": ([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], "the value 'y' is there already"),
        "unknown operator": ([node("Nonsense", ["x"], ["y"])], r"node 'bad' \(Nonsense\)"),
        "wrong count": ([node("Add", ["x"], ["y"])], "needs 2 to 2 inputs; got 1"),
        "absent input": ([node("Add", ["x", ""], ["y"])], "its input B is missing"),
        "unknown attribute": ([node("Neg", ["x"], ["y"], depth=1)], "attribute 'depth' is none of Neg's"),
        "unknown word": (
            [node("MaxPool", ["x"], ["y"], kernel_shape=[2], auto_pad="SAME")],
            "attribute 'auto_pad' must be one of NOTSET, SAME_UPPER, SAME_LOWER, VALID; got 'SAME'",
        ),
        "wrong attribute": ([node("Transpose", ["x"], ["y"], perm="no")], "attribute 'perm' must be INTS; got STRING"),
        "missing attribute": ([node("Cast", ["x"], ["y"])], "attribute 'to' is missing"),
        "missing output": ([node("Neg", ["x"], ["z"])], "the output 'y' is computed by no node"),
        "wrong permutation": ([node("Transpose", ["x"], ["y"], perm=[0, 0])], "node 'bad'"),
        "shapes that do not fit": ([node("Add", ["x", "five"], ["y"])], "node 'bad'"),
    }
    five = {"five": np.zeros(5, np.float32)}
    return {name: (model(nodes, {"x": [2, 3]}, ["y"], five), text) for name, (nodes, text) in cases.items()}


@pytest.mark.parametrize("case", _broken().values(), ids=_broken())
def test_a_broken_node_is_named(any_device: dml.Device, case: tuple[onnx.ModelProto, str]) -> None:
    made, message = case
    with pytest.raises(dml.ModelFileError, match=message):
        session = ort.InferenceSession(made, device=any_device)
        session.run(None, {"x": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_shape_with_sizes_below_minus_one_is_none(is_constant: bool, device: dml.Device) -> None:
    """NumPy takes all of them for -1."""
    shape = np.array([-2, 3])
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="bad")
    made = model([node], {"x": ["n", 3]}, ["y"], {"shape": shape} if is_constant else {})
    feed = {"x": np.zeros((2, 3), np.float32)}
    if not is_constant:
        made.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
        feed["shape"] = shape
    with pytest.raises(dml.ModelFileError, match=r"node 'bad'.*\[-2, 3\] has a size below -1"):
        ort.InferenceSession(made, device=device).run(None, feed)


def test_results_of_negative_sizes_are_not_called_too_large(device: dml.Device) -> None:
    node = helper.make_node("Tile", ["x", "times"], ["y"], name="bad")
    with pytest.raises(dml.ModelFileError, match=r"node 'bad'.*the shape \[-2, 3\]: sizes are not below 0"):
        ort.InferenceSession(model([node], {"x": [2, 3]}, ["y"], {"times": np.array([-1, 1])}), device=device).run(
            None, {"x": np.zeros((2, 3), np.float32)}
        )


@pytest.mark.parametrize("shape", [[2**40, 2**40], [-1], [2**31, 2**31]])
def test_impossible_sizes_never_reach_an_allocation(any_device: dml.Device, shape: list[int]) -> None:
    nodes = models.parsed("[bad] c = ConstantOfShape (shape)  y = Add (x, c)")
    with pytest.raises(dml.ModelFileError, match="node 'bad'"):
        ort.InferenceSession(model(nodes, {"x": [1]}, ["y"], {"shape": np.array(shape)}), device=any_device)
    expand = model("[bad] y = Expand (x, shape)", {"x": [1]}, ["y"])
    expand.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, ["n"]))
    session = ort.InferenceSession(expand, device=any_device)
    with pytest.raises(dml.DmlError):
        session.run(None, {"x": np.zeros(1, np.float32), "shape": np.array(shape)})


def test_what_is_no_model_is_refused(any_device: dml.Device, tmp_path: Path) -> None:
    for contents in (b"", b"no model", bytes(100), b"\xff" * 50):
        with pytest.raises(dml.ModelFileError):
            ort.InferenceSession(contents, device=any_device)
    with pytest.raises(dml.ModelFileError, match="No such file"):
        ort.InferenceSession(tmp_path / "nothing.onnx", device=any_device)
    future = two_branches()
    future.opset_import[0].version = 999
    with pytest.raises(dml.ModelFileError, match="version 999 of ONNX's operators"):
        ort.InferenceSession(future, device=any_device)


def test_an_initializer_whose_bytes_do_not_fit_its_shape_is_named(any_device: dml.Device) -> None:
    for dims in ([4], [-3], [2**62], [2**33, 2**33]):
        made = two_branches()
        made.graph.initializer[0].dims[:] = dims
        with pytest.raises(dml.ModelFileError, match="the initializer 'bias'"):
            ort.InferenceSession(made, device=any_device)


WIDTH = 48

WEIGHT = 4 * WIDTH * WIDTH


def _normalized(kind: str, number: int) -> list[tuple[str, list[str], list[str], dict[str, Any]]]:
    """Nodes that make ``w`` of ``v``, as weight_norm, weight standardization and a transposed export write them."""
    v, w = f"v{number}", f"w{number}"
    a, b, c, d = (f"{letter}{number}" for letter in "abcd")
    if kind == "norm":
        return [
            ("ReduceL2", [v], [a], {"axes": [0], "keepdims": 1}),
            ("Div", [v, a], [b], {}),
            ("Mul", [b, f"g{number}"], [w], {}),
        ]
    if kind == "standardized":
        return [
            ("ReduceMean", [v], [a], {"axes": [0], "keepdims": 1}),
            ("Sub", [v, a], [b], {}),
            ("Mul", [b, b], [c], {}),
            ("ReduceMean", [c], [d], {"axes": [0], "keepdims": 1}),
            ("Add", [d, "epsilon"], [f"e{number}"], {}),
            ("Sqrt", [f"e{number}"], [f"r{number}"], {}),
            ("Div", [b, f"r{number}"], [f"s{number}"], {}),
            ("Mul", [f"s{number}", f"g{number}"], [w], {}),
        ]
    return [("Tanh", [v], [a], {}), ("Transpose", [a], [b], {"perm": [1, 0]}), ("Softmax", [b], [w], {"axis": 0})]


def _model(kinds: list[str], rows: int | str, seed: int) -> ModelProto:
    draw = np.random.default_rng(seed)
    nodes, weights = [], {"epsilon": np.array([1e-5], np.float32)}
    for number, kind in enumerate(kinds):
        weights[f"v{number}"] = draw.normal(0, 1, (WIDTH, WIDTH)).astype(np.float32)
        weights[f"g{number}"] = draw.uniform(0.05, 0.2, (1, WIDTH)).astype(np.float32)
        nodes += [helper.make_node(op, reads, writes, **more) for op, reads, writes, more in _normalized(kind, number)]
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]))
    return models.model(nodes, {"x0": [rows, WIDTH]}, [f"x{len(kinds)}"], weights)


@pytest.mark.parametrize("rows", [3, "n"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_that_are_normalized_in_the_model_take_several_buffers_and_their_room_once(
    rows: int | str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceLimits, "largest_buffer", 2 * WEIGHT + 1024)
    kinds = random.Random(seed).choices(["norm", "standardized", "transposed"], k=9)
    model = _model(kinds, rows, seed).SerializeToString()
    session = dmlvk.onnx.InferenceSession(model)
    reference = onnxruntime.InferenceSession(model)
    for count in (3,) if rows == 3 else (3, 7, 2):
        x = np.random.default_rng(count).normal(0, 1, (count, WIDTH)).astype(np.float32)
        for _ in range(2):
            (result,) = session.run(None, {"x0": x})
            (expected,) = reference.run(None, {"x0": x})
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))
    assert session.usage.device_bytes < (len(kinds) + 2) * WEIGHT, "weights, or what is between, stay on the device"

"""Small files that ask for much end in one error before anything is computed; the bounds can be set."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.kernels import registry
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.plan.planning import Planner
from tests.onnx.models import model, parsed

X = np.arange(6, dtype=np.float32).reshape(2, 3)
node = helper.make_node


class _Callback:
    def __init__(self) -> None:
        self.messages: list[str] = []
        self._came = threading.Event()

    def __call__(self, outputs: list[Any], data: Any, message: str) -> None:
        self.messages.append(message)
        self._came.set()

    def came(self) -> bool:
        return self._came.wait(60)


def _body(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], depth: int = 0) -> onnx.GraphProto:
    kinds: dict[str, Any] = {f"i{depth}": (TensorProto.INT64, []), f"go{depth}": (TensorProto.BOOL, [])}
    inputs, results = [*kinds, f"s{depth}"], [f"go{depth}", *outputs]
    given, made = (
        [helper.make_tensor_value_info(name, *kinds.get(name, (TensorProto.FLOAT, None))) for name in names]
        for names in (inputs, results)
    )
    return helper.make_graph(list(nodes), f"body{depth}", given, made)


def _loops(depth: int, trips: complex) -> onnx.ModelProto:
    inner = node("Add", ["s0", "s0"], ["t0"])
    for level in range(1, depth):
        inner = node("Loop", ["n", "", f"s{level}"], [f"t{level}"], body=_body([inner], [f"t{level - 1}"], level - 1))
    loop = node("Loop", ["n", "", "x"], ["y"], body=_body([inner], [f"t{depth - 1}"], depth - 1))
    return model([loop], {"x": [2, 3]}, ["y"], {"n": np.array(trips)})


def _doubling(levels: int) -> onnx.ModelProto:
    def function(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.FunctionProto:
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, ["a"], ["b"], list(nodes), imports)

    made = model([node(f"f{levels}", ["x"], ["y"], domain="own")], {"x": [2, 3]}, ["y"])
    made.opset_import.add(domain="own", version=1)
    made.functions.append(function("f0", parsed("b = Neg (a)")))
    for level in range(1, levels + 1):
        calls = [node(f"f{level - 1}", [a], [b], domain="own") for a, b in (("a", "c"), ("c", "b"))]
        made.functions.append(function(f"f{level}", calls))
    return made


def _of_constant(op_type: str, value: Any, outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.ModelProto:
    inputs = ["x", "c"] if value is not None else ["x"]
    constants = {} if value is None else {"c": np.asarray(value)}
    return model([node(op_type, inputs, outputs, name="n", **attributes)], {"x": [2, 3]}, outputs, constants, opset=18)


def _gathering() -> onnx.ModelProto:
    body = _body(parsed("t = Identity (s0)  u = Expand (s0, large)"), ["t", "u"])
    loop = node("Loop", ["n", "", "x"], ["z", "y"], name="loop", body=body)
    return model([loop], {"x": [2, 3]}, ["y"], {"n": np.array(30000), "large": np.array([100000, 2, 3])})


def _summed_view(count: int) -> onnx.ModelProto:
    nodes = parsed("[view] e = Expand (x, c)  y = ReduceSum (e)")
    return model(nodes, {"x": [2, 3]}, ["y"], {"c": np.array([count, 2, 3])})


def _frames_of_nothing() -> onnx.ModelProto:
    """ONNX Runtime would divide by their length, which ends its process."""
    nodes = parsed("signal = Unsqueeze (x, axis)  [n] y = STFT (signal, step,, length)")
    return model(nodes, {"x": [2, 3]}, ["y"], {"axis": np.array([2]), "step": np.array(1), "length": np.array(0)})


HOSTILE: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "loops in loops": (lambda: _loops(3, 3000), "3000 iterations, 3000 times.*most_iterations"),
    "an endless loop": (lambda: _loops(1, 2**62), "4611686018427387904 iterations.*most_iterations"),
    "a complex number of iterations": (lambda: _loops(1, 3j), "must be an integer; got complex128"),
    "functions that double": (lambda: _doubling(24), "has 16777216 nodes.*most_nodes"),
    "a view of 2^42 bytes": (lambda: _summed_view(2**40), r"'view' \(Expand\): its result.*most_result_bytes"),
    "a view beyond any array": (lambda: _summed_view(2**62), r"'view' \(Expand\): its result.*most_result_bytes"),
    "rows that a loop gathers": (_gathering, r"'loop' \(Loop\): .*gathers 72000000000 bytes.*most_result_bytes"),
    "outputs that are not there": (lambda: _of_constant("Split", None, num_outputs=2**30), "num_outputs is 1073741824"),
    "frames of nothing": (_frames_of_nothing, r"'n' \(STFT\): its frames have the length 0"),
    "more axes than a value has": (lambda: _of_constant("Unsqueeze", np.arange(70)), r"'n' \(Unsqueeze\): .*axes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_small_files_that_ask_for_much_are_refused_at_once(name: str, device: dml.Device) -> None:
    make, message = HOSTILE[name]
    made, began = make(), time.process_time()
    with pytest.raises(dml.ModelFileError, match=message):
        ort.InferenceSession(made, device=device).run(None, {"x": X})
    assert time.process_time() - began < 10


def test_boxes_that_are_all_compared_are_refused_before(device: dml.Device) -> None:
    constants = {"most": np.array([2**62]), "overlap": np.array([1.0], np.float32)}
    made = model("[n] y = NonMaxSuppression (b, s, most, overlap)", {}, [], constants)
    for name, shape in (("b", [1, None, 4]), ("s", [1, 80, None])):
        made.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    made.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    session = ort.InferenceSession(made, device=device)
    feed = {"b": np.zeros((1, 20_000, 4), np.float32), "s": np.zeros((1, 80, 20_000), np.float32)}
    with pytest.raises(dml.ModelFileError, match=r"'n' \(NonMaxSuppression\): would take the host 1280\d+ steps"):
        session.run(None, feed)


def test_a_claimed_number_of_axes_takes_no_memory(device: dml.Device) -> None:
    made = model("[e] y = Expand (x, s)", {"x": [1]}, ["y"])
    made.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2**32 - 1]))
    assert ort.InferenceSession(made, device=device).get_inputs()[1].shape == [2**32 - 1]
    made.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    session = ort.InferenceSession(made, device=device)
    feed = {"x": X[0, :1], "s": np.ones(2**18, np.int64)}  # large enough that a plan would not look at it
    with pytest.raises(dml.ModelFileError, match=r"'e' \(Expand\): the 262144 elements of 's' are for as many axes"):
        session.run(None, feed)
    callback = _Callback()
    session.run_async(None, feed, callback)
    assert callback.came() and "262144" in callback.messages[0]


def test_the_bounds_can_be_set(device: dml.Device) -> None:
    options = ort.SessionOptions()
    options.most_iterations = 8
    small = ort.InferenceSession(_loops(2, 3), options, device=device)
    with pytest.raises(dml.ModelFileError, match="3 iterations, 3 times: a run may have 8"):
        small.run(None, {"x": X})
    options.most_iterations = 12  # three of the outer loop, nine of the inner one
    for _ in range(2):  # each run has its own
        (y,) = ort.InferenceSession(_loops(2, 3), options, device=device).run(None, {"x": X})
        np.testing.assert_array_equal(y, X * 2.0**9)
    options.most_nodes = 15
    with pytest.raises(dml.ModelFileError, match=r"has 16 nodes, with its functions in place; 15 at most"):
        ort.InferenceSession(_doubling(4), options, device=device)
    options.most_nodes = 0
    with pytest.raises(dml.InvalidArgumentError, match="most_nodes must be a positive integer; got 0"):
        ort.InferenceSession(_doubling(4), options, device=device)


def test_a_callback_comes_whatever_goes_wrong(device: dml.Device) -> None:
    session = ort.InferenceSession(_of_constant("Neg", None), device=device)
    callback = _Callback()

    class Feed(dict[str, Any]):
        def __iter__(self) -> Any:
            raise LookupError("no such luck")

    session.run_async(None, Feed(x=X), callback)
    assert callback.came() and callback.messages == ["LookupError: no such luck"]
    with pytest.raises(dml.InvalidArgumentError, match="no output is bound"):
        session.run_with_iobinding(session.io_binding())


@pytest.mark.parametrize("axes", [9, 12])
def test_the_host_computes_values_of_more_axes_than_the_device_has(axes: int, device: dml.Device) -> None:
    sizes = [2, 1, 3, 1, 2, 1, 1, 2, 1, 1, 1, 3][:axes]
    nodes = (
        "t = Transpose (x)  f = Reshape (t, flat)  r = Relu (f)  y = Reshape (r, many)"
        f" z = Transpose <perm = {[1, 0, *range(2, axes)]}> (y)"
    )
    constants = {"flat": np.array([-1, 2]), "many": np.array(sizes)}
    x = np.random.default_rng(3).standard_normal(sizes).astype(np.float32)
    session = ort.InferenceSession(model(nodes, {"x": [None] * axes}, ["y", "z"], constants), device=device)
    y, z = session.run(None, {"x": x})
    wanted = np.maximum(x.T.reshape(-1, 2), 0).reshape(sizes)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(z, np.swapaxes(wanted, 0, 1))


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "a*b?c", "(ab|a)(bc|c)?", r"\d{2,4}", r"\w+@\w+\.com", "(?i)AbC", "(a|b|ab)*c", r"a\Bb", "[^ab]*"],
)
def test_texts_are_matched_as_by_pythons_engine_in_time_that_grows_with_them(pattern: str, device: dml.Device) -> None:
    choose, other = random.Random(3), re.compile(pattern.removesuffix("$"), re.ASCII)
    texts = ["".join(choose.choice("aabbcC x1@.y") for _ in range(choose.randrange(9))) for _ in range(300)]
    nodes = [node("RegexFullMatch", ["x"], ["y"], pattern=pattern)]
    made = model(nodes, {"x": (TensorProto.STRING, [301])}, {"y": TensorProto.BOOL}, opset=20)
    (found,) = ort.InferenceSession(made, device=device).run(None, {"x": np.array([*texts, "a" * 5000 + "!b"], object)})
    assert found[:-1].tolist() == [other.fullmatch(text) is not None for text in texts]


def test_what_nobody_reads_is_not_computed(device: dml.Device) -> None:
    nodes = parsed("[unread] e = Exp (x)  z = NonZero (e)  y = Neg (x)")
    session = ort.InferenceSession(model(nodes, {"x": [2, 3]}, ["y"]), device=device, strict=True)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -X)
    assert [item.reason for item in session.partition] == ["nothing reads what it gives"] * 2 + [""]


@pytest.mark.parametrize("kind", ["wide", "long"])
def test_time_to_load_grows_with_the_number_of_nodes_alone(kind: str, device: dml.Device) -> None:
    def seconds(count: int) -> float:
        names = [f"v{number}" for number in range(count)]
        sources = ["x", *names[:-1]] if kind == "long" else ["x"] * count
        nodes = [node("Relu", [a], [b]) for a, b in zip(sources, names, strict=True)]
        nodes.append(node("Concat", names if kind == "wide" else names[-1:], ["y"], axis=0))
        began = time.process_time()
        ort.InferenceSession(model(nodes, {"x": [2, 3]}, ["y"]), device=device)
        return time.process_time() - began

    seconds(100)
    assert seconds(1600) < 3 * 8 * max(seconds(200), 0.02)  # quadratic, it would be 64 times as much


def test_what_follows_a_type_that_no_device_has_is_no_round_for_each_node(
    device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    """The device computes on both sides; ONNX Runtime computes the same."""
    names = [f"v{number}" for number in range(300)]
    pairs = zip(["wide", *names[:-1]], names, strict=True)
    chain = [
        node(("Sin", "Abs", "Mul")[number % 3], [a] if number % 3 < 2 else [a, "one"], [b])
        for number, (a, b) in enumerate(pairs)
    ]
    behind = (
        f"sizes = Shape ({names[-1]})  w = Where (c, {names[-1]}, wide)  f = Cast <to = 1> (w)"
        " g = Greater (w, one)  y = Where (g, f, n)"
    )
    nodes = [*parsed("n = Neg (x)  wide = Cast <to = 11> (n)"), *chain, *parsed(behind)]
    made = model(nodes, {"x": ["rows", 3], "c": ["rows", 3]}, ["y", "sizes"], {"one": np.array(1.5)})
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    session = ort.InferenceSession(made, device=device)
    other = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows in (2, 5):
        x = np.linspace(-3, 3, 3 * rows, dtype=np.float32).reshape(rows, 3)
        feed = {"x": x, "c": x > 1}
        for found, expected in zip(session.run(None, feed), other.run(None, feed), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    assert len([line for line in caplog.messages if "the host computes" in line]) <= 2
    assert session.partition[-1].place == "device"


def test_rounds_in_turn_on_device_and_host_look_at_each_node_a_few_times(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, looked_at = 600, 0

    def assign(self: Planner, step: Step) -> None:
        nonlocal looked_at
        looked_at += 1
        placed(self, step)

    placed = Planner._assign
    monkeypatch.setattr(Planner, "_assign", assign)
    to = [TensorProto.DOUBLE, TensorProto.FLOAT]
    names = ["x", *(f"v{number}" for number in range(2 * count))]
    pairs = itertools.pairwise(names)
    nodes = [
        node("Cast", [a], [b], to=to[number // 2 % 2])
        if number % 2 == 0
        else node("Add", [a, f"one {number // 2 % 2}"], [b])
        for number, (a, b) in enumerate(pairs)
    ]
    apart = node("Sqrt", ["x"], ["apart"])  # behind all others, and needs none of them
    ones: dict[str, Any] = {"one 0": np.array(1, np.float64), "one 1": np.array(1, np.float32)}
    session = ort.InferenceSession(model([*nodes, apart], {"x": [2, 3]}, [names[-1], "apart"], ones), device=device)
    found, root = session.run(None, {"x": X})
    np.testing.assert_array_equal(found, X + count)
    np.testing.assert_allclose(root, np.sqrt(X), rtol=1e-6)
    assert looked_at < 50 * len(nodes)  # with all nodes in each round it is 300 times


def test_a_constant_s_shape_is_known_where_its_results_are_too_large_to_keep(device: dml.Device) -> None:
    nodes = parsed("c = ConstantOfShape (s)  e = EyeLike (c)  y = Mul (e, x)")
    made = model(nodes, {"x": [1, 2]}, ["y"], {"s": np.array([2**20, 2])})
    (found,) = ort.InferenceSession(made, device=device).run(None, {"x": np.array([[3, 4]], np.float32)})
    np.testing.assert_array_equal(found[:3], [[3, 0], [0, 4], [0, 0]])


def test_more_axes_than_an_array_has_are_loaded(device: dml.Device) -> None:
    """ONNX Runtime loads such a model, too."""
    session = ort.InferenceSession(model("y = Relu (x)", {"x": [1] * 80}, ["y"]), device=device)
    with pytest.raises(dml.InvalidArgumentError, match="must have the shape"):
        session.run(None, {"x": X})


def test_a_value_that_no_buffer_holds_is_named_with_its_node(device: dml.Device) -> None:
    most = device.info.limits.max_storage_buffer_range // 4
    size = min(most + 64, 2**32 - 1)
    nodes = parsed('e = Expand (x, c)  ["too large"] y = Exp (e)')
    made = model(nodes, {"x": [1]}, ["y"], {"c": np.array([size])})
    if size <= most or size > 2**27:
        pytest.skip("such a value is refused for another reason")
    with pytest.raises(
        dml.DeviceLimitError, match=r"'y', which the node 'too large' gives: .*max_storage_buffer_range"
    ):
        ort.InferenceSession(made, device=device).run(None, {"x": X[0, :1]})


def test_work_that_cannot_be_launched_is_named_with_its_node(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "WORK_GROUPS_PER_ROW", 0)
    made = model('["too wide"] y = Softmax <axis = 0> (x)', {"x": ["rows", 3]}, ["y"])
    session = ort.InferenceSession(made, device=any_device)
    message = r"the value 'y': the node 'too wide', which gives FLOAT32 .*work groups in a row"
    with pytest.raises(dml.DeviceLimitError, match=message):
        session.run(None, {"x": X})


@pytest.mark.parametrize(
    ("where", "message"),
    [("constant", r"'w', which the node 'wide' \(Mul\) reads"), ("between", r"'m', which the node 'wide' gives, ")],
)
def test_a_constant_and_a_value_between_are_named_where_no_buffer_holds_them(
    where: str, message: str, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device's limit is set lower: tensors of its real one take gigabytes."""
    make = dml.Device.create_buffer

    def small(self: dml.Device, size_in_bytes: int, **how: Any) -> Any:
        if size_in_bytes > 2**16:
            raise dml.DeviceLimitError(f"{size_in_bytes} bytes")
        return make(self, size_in_bytes, **how)

    monkeypatch.setattr(dml.Device, "create_buffer", small)
    given = {"w": np.ones(2**15, np.float32)} if where == "constant" else {"s": np.array([300, 300])}
    first = node("Mul", ["x", "w"], ["m"], name="wide") if where == "constant" else node("Expand", ["x", "s"], ["e"])
    rest = [] if where == "constant" else parsed("[wide] m = Softmax <axis = 0> (e)")
    made = model([first, *rest, node("ReduceMax", ["m"], ["y"])], {"x": [1]}, ["y"], given)
    with pytest.raises(dml.DeviceLimitError, match=f"the value {message}"):
        ort.InferenceSession(made, device=device).run(None, {"x": X[0, :1]})


def test_integers_that_onnx_runtime_would_cut_off_do_not_reach_it(any_device: dml.Device) -> None:
    """It computes with the lower 32 bits of an attribute, which are 2 and 0 of the larger ones here."""
    feed: dict[str, Any] = {"tokens": np.ones((1, 4), np.int64), "scores": np.ones((1, 8), np.float32)}

    def run(ngram_size: int) -> Any:
        made = f"y = com.microsoft.NGramRepeatBlock <ngram_size = {ngram_size}> (tokens, scores)"
        return ort.InferenceSession(model(made, feed, ["y"]), device=any_device).run(None, feed)[0]

    assert np.isneginf(run(2)).sum() == 1
    for size in (2**40 + 2, 2**40):
        with pytest.raises(dml.ModelFileError, match=rf"NGramRepeatBlock.*ngram_size is {size}, .* more than 32 bits"):
            run(size)


def test_a_region_of_any_size_is_sampled_in_a_moment(any_device: dml.Device) -> None:
    def run(ratio: int, extent: float) -> Any:
        node = f"y = RoiAlign <sampling_ratio = {ratio}, output_height = 1, output_width = 1> (x, r, b)"
        feed: dict[str, Any] = {
            "x": np.ones((1, 1, 8, 8), np.float32),
            "r": np.array([[0, 0, extent, extent]], np.float32),
            "b": np.zeros(1, np.int64),
        }
        return ort.InferenceSession(model(node, feed, ["y"], opset=16), device=any_device).run(None, feed)[0]

    start = time.process_time()
    np.testing.assert_allclose(run(0, 1e9), 0, atol=1e-3)
    with pytest.raises(dml.ModelFileError, match="RoiAlign"):
        run(2**20, 8)
    with pytest.raises(dml.ModelFileError, match="RoiAlign"):
        run(2**15 + 1, 8)
    assert time.process_time() - start < 30


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Mean", "Concat", "Einsum", "SequenceConstruct"])
@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_one_of_any_number_of_inputs_that_is_absent_is_refused(
    op_type: str, element: int, any_device: dml.Device
) -> None:
    """It ended ONNX Runtime's process."""
    of_operators: dict[str, dict[str, Any]] = {"Concat": {"axis": 0}, "Einsum": {"equation": "i,i,i->i"}}
    attributes = of_operators.get(op_type, {})
    node = helper.make_node(op_type, ["a", "", "b"], ["y"], **attributes)
    proto = model([node], {"a": (2,), "b": (2,)}, ["y"], element=element)
    feed = {name: np.ones(2, helper.tensor_dtype_to_np_dtype(element)) for name in "ab"}
    with pytest.raises(dml.ModelFileError, match=f"{op_type}.*its input 1 is absent"):
        ort.InferenceSession(proto, device=any_device).run(None, feed)

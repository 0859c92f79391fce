"""What fused kernels leave out cannot be seen, whatever the numbers; every function compiles in a fused kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.cases import attribute_sets
from dmlvk.conformance.execution import Workbench
from dmlvk.graphs import GraphDesc, InputGraphEdge, IntermediateGraphEdge, OperatorGraphNode, OutputGraphEdge, stages
from dmlvk.graphs.fusion import forms, kernel
from dmlvk.graphs.fusion.functions import function_of
from dmlvk.graphs.fusion.grouping import _Grouping
from dmlvk.graphs.fusion.ranges import Range, SpecialBits, largest_vanishing, of_constant, of_sum
from dmlvk.graphs.network import network
from dmlvk.graphs.stages import fused_stages
from dmlvk.kernels.library import glsl
from dmlvk.kernels.variants import supported_operands
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc
from dmlvk.support import faults
from scripts.shader_tools.operations import operations
from scripts.shader_tools.spirv import Module
from tests.effort import IS_QUICK
from tests.graphs.support import X

E = dml.Expression

Words = npt.NDArray[np.uint32]

MAGNITUDES = [
    0x00000000, 0x00000001, 0x00000FFF, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x0B800000,
    0x0C800000, 0x0D000000, 0x0D800000, 0x1F800000, 0x20000000, 0x3EFFFFFF, 0x3F000000, 0x3F7FFFFF, 0x3F800000,
    0x3F800001, 0x3FC00000, 0x40400000, 0x5F000000, 0x7E800000, 0x7F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001,
    0x7FC00000, 0x7FC12345, 0x7FFFFFFF,
]  # fmt: skip
"""Zero, denormals, numbers where sums and products begin to vanish or to overflow, infinity, NaN of several kinds."""

SPECIAL = np.array([*MAGNITUDES, *(magnitude | 0x80000000 for magnitude in MAGNITUDES)], np.uint32)


def words(random: Random, count: int) -> Words:
    rng = np.random.default_rng(random.getrandbits(32))
    chosen = np.where(rng.random(count) < 0.6, rng.choice(SPECIAL, count), rng.integers(0, 2**32, count))
    return chosen.astype(np.uint32)


class Chain:
    """Expressions at random, of operators that have several forms, and of some that have one."""

    def __init__(self, random: Random, inputs: list[E]) -> None:
        self.random = random
        self.values = list(inputs)

    def number(self) -> float:
        choice = self.random.choice(
            [float(words(self.random, 1).view(np.float32)[0]), 0.75, -1.5, 0.0, 2.0**-100, -3.0]
        )
        return choice

    def operand(self) -> Any:
        return self.number() if self.random.random() < 0.5 else self.random.choice(self.values[-4:])

    def add(self) -> None:
        x = self.random.choice(self.values[-3:])
        binary: list[Callable[[Any, Any], E]] = [
            lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: b * a, lambda a, b: b - a,
            lambda a, b: F.if_(a > b, a, x), lambda a, b: a / b, F.max, F.min,
        ]  # fmt: skip
        unary: list[Callable[[E], E]] = [
            abs, lambda a: -a, F.activation_relu, F.tanh, F.sign, F.identity, F.sqrt, F.activation_sigmoid, F.sin,
            lambda a: F.clip(a, min=self.number(), max=self.number()),
            lambda a: F.clip(a, min=-2, max=6),
            lambda a: (a.reinterpret(a.sizes, data_type=dml.UINT32) & 0xFFFFFFF0).reinterpret(
                a.sizes, data_type=dml.FLOAT32
            ),
        ]  # fmt: skip
        if self.random.random() < 0.6:
            self.values.append(self.random.choice(binary)(x, self.operand()))
        else:
            self.values.append(self.random.choice(unary)(x))


def outside(known: Range, bits: Words) -> npt.NDArray[np.bool_]:
    """Which of an operator's results contradict what was known of them before."""
    magnitude = bits & 0x7FFFFFFF
    exponent = (magnitude >> 23).astype(np.int64) - 127
    is_nan, is_infinite = magnitude > 0x7F800000, magnitude == 0x7F800000
    is_zero, is_denormal = magnitude == 0, (magnitude > 0) & (magnitude < 0x00800000)
    is_normal = ~(is_nan | is_infinite | is_zero | is_denormal)
    wrong = is_normal & (exponent < known.lowest)
    if known.highest is not None:
        wrong |= is_infinite | (is_normal & (exponent > known.highest))
    if not known.may_be_zero:
        wrong |= is_zero | is_denormal
    if known.denormals is not SpecialBits.ITSELF:
        wrong |= is_denormal
    if known.nans is not SpecialBits.ITSELF:
        wrong |= is_nan & ((known.nans is SpecialBits.NOTHING) | (bits != 0x7FC00000))
    return np.asarray(wrong)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_out_cannot_be_seen(benches: list[Workbench], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused bits are unfused bits on every device; and every value is what the kernel's writer knew of it.

    The operators are run one by one on a single device: ``tests/operators`` shows that their bits are those of all.
    """
    writers: list[Any] = []

    class SingleFormWriter(kernel._FunctionWriter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            writers.append(self)

    monkeypatch.setattr(kernel, "_FunctionWriter", SingleFormWriter)
    count = 2048
    values: dict[str, npt.NDArray[Any]] = {}
    for bench in benches:
        random = Random(seed)
        graph = dml.Graph(bench.device)
        a, b = (graph.input(name, dml.FLOAT32, (count,)) for name in "ab")
        chain = Chain(random, [a, b])
        for _ in range(random.randint(3, 14)):
            chain.add()
        fused = graph.compile({"y": chain.values[-1], "z": chain.values[-2], "both": a + b})
        assert fused.fusion_remark == ""
        inputs = {name: words(random, count).view(np.float32) for name in "ab"}
        results = bench.device.run(fused, inputs)
        values = values or fused.node_values(inputs)
        for (value, _), point in zip(fused.network.outputs, fused.outputs, strict=True):
            got, wanted = (array.view(np.uint32) for array in (results[point.name], values[fused.network.names[value]]))
            indices = np.nonzero(got != wanted)[0]
            assert not indices.size, (
                f"{point.name} on {bench.device.info.name} at {indices[0]}: {got[indices[0]]:#010x} instead of "
                f"{wanted[indices[0]]:#010x} for "
                f"{[hex(int(array.view(np.uint32)[indices[0]])) for array in inputs.values()]} in {fused.stages}"
            )
    checked = 0
    for writer in writers:
        for value, (_, known) in writer._values.items():
            bits = values[fused.network.names[value]]
            if bits.dtype.itemsize == 4:
                wrong = outside(known, bits.view(np.uint32))
                assert not wrong.any(), f"{fused.network.names[value]}: {known} was said of {bits[wrong][:3]}"
                checked += 1
    assert checked or all(len(stage.nodes) == 1 for stage in fused.stages)


def test_numbers_that_outweigh_denormals(device: dml.Device) -> None:
    """Sums with numbers so small that a denormal would be seen beside them, and with the next larger ones."""
    x = np.array([*range(0x00800000 - 64, 0x00800000), *range(64)], np.uint32)
    x = np.concatenate([x, x | 0x80000000]).view(np.float32)
    for exponent in (-126, -125, -110, -103, -102, -101, -100, -99):
        for constant in (np.ldexp(np.float32(1), exponent), -np.nextafter(np.ldexp(np.float32(1), exponent + 1), 0)):
            graph = dml.Graph(device)
            y = abs(graph.input("x", dml.FLOAT32, (256,)) + float(constant))
            (fused,) = device.run(graph.compile(y), {"x": x}).values()
            assert (fused == abs(np.float32(constant))).all(), (exponent, constant)


CALCULATING = sorted(
    name
    for name, kind in REGULAR_OPERATORS.items()
    if kind.declaration.accuracy.promise != "exact" and kind.declaration.pattern != "rows"
)


@pytest.mark.parametrize("operator", CALCULATING)
def test_operators_that_calculate_know_one_nan_and_no_denormals(benches: list[Workbench], operator: str) -> None:
    """What kernels leave out between operators rests on it: of FLOAT32, in what they read and in what they give."""
    device = benches[-1].device
    kind = REGULAR_OPERATORS[operator]
    rng = np.random.default_rng(len(operator))
    types = min(
        (types for types, _ in supported_operands(kind) if dml.FLOAT32 in types.values()),
        key=lambda types: len(set(types.values())),  # all of them are FLOAT32, where that is possible
    )
    *inputs, output = types
    tensors = {name: dml.TensorDesc(data_type, (2048,)) for name, data_type in types.items()}
    arrays = {name: random_array(rng, types[name]) for name in inputs}
    settled = {name: settle(array) if types[name] is dml.FLOAT32 else array for name, array in arrays.items()}
    sets = attribute_sets(kind, types[inputs[0]])
    for attributes in (sets[0], sets[-1]):
        desc = kind(**tensors, **attributes)
        (bits,) = (result.view(np.uint32) for result in device.run(desc, named(desc, arrays)).values())
        (expected,) = (result.view(np.uint32) for result in device.run(desc, named(desc, settled)).values())
        assert (bits == expected).all(), attributes
        assert types[output] is not dml.FLOAT32 or (bits == settle(bits).view(np.uint32)).all(), attributes


def random_array(rng: np.random.Generator, data_type: dml.DataType) -> npt.NDArray[Any]:
    """Special numbers of FLOAT32, any bits of other data types."""
    if data_type is dml.FLOAT32:
        return rng.choice(SPECIAL, 2048).view(np.float32)
    return rng.integers(0, 256, 2048 * data_type.size_in_bytes, np.uint8).view(data_type.numpy_dtype)


def settle(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Zeros in the places of denormals, the canonical NaN in the places of all others."""
    bits = numbers.view(np.uint32)
    magnitude = bits & 0x7FFFFFFF
    flushed = np.where(magnitude < 0x00800000, bits & 0x80000000, bits)
    return np.where(magnitude > 0x7F800000, 0x7FC00000, flushed).astype(np.uint32).view(np.float32)


def named(desc: dml.OperatorDesc, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Arrays by DirectML's names of the members, of arrays by the Python names."""
    return {field.name: arrays[field.attribute] for field, _ in desc.inputs if field.attribute in arrays}


def test_sums_that_cancel_leave_no_less_than_was_said() -> None:
    """Neighbours of opposite signs, and a number beside one that cannot be zero."""
    for exponent in range(-126, 100):
        power = np.ldexp(np.float32(1), exponent)
        above, below = np.nextafter(power, np.float32(np.inf)), np.nextafter(power, np.float32(0))
        numbers = Range(lowest=exponent, denormals=SpecialBits.NOTHING)
        bound = Range(lowest=exponent, denormals=SpecialBits.NOTHING, may_be_zero=False)
        anything = Range(denormals=SpecialBits.NOTHING)
        for known, left in ((of_sum(numbers, numbers), above - power), (of_sum(bound, anything), power - below)):
            assert float(left) >= 2.0**known.lowest or (
                known.denormals is SpecialBits.STAND_IN and known.lowest == -126
            )
            assert known.denormals is SpecialBits.NOTHING or float(left) < 2.0**-126


def test_largest_vanishing_magnitudes() -> None:
    """Against products in float64, which hold them exactly."""
    random = Random(5)
    limit = 2.0**-126 * (1 - 2.0**-25)
    numbers = [0x3F800000, 0x3F000000, 0x3F400000, 0x3EAAAAAB, 0x00800000, 0x7F7FFFFF, 0x3F7FFFFF, 0x3F800001]
    numbers += [random.randrange(0x00800000, 0x7F800000) for _ in range(2000)]
    undecided = 0
    for number in numbers:
        factor = float(np.uint32(number).view(np.float32))
        found = largest_vanishing(number | random.choice((0, 0x80000000)))
        if found is None:
            undecided += 1
            continue
        assert 0x007FFFFF <= found <= 0x7F7FFFFF
        vanishing, kept = (float(np.uint32(bits).view(np.float32)) for bits in (found, found + 1))
        assert found == 0x007FFFFF or vanishing * factor < limit
        assert kept * factor >= 2.0**-126
    assert 0 < undecided < len(numbers) // 4
    assert largest_vanishing(0x80000000) == 0x007FFFFF


def test_a_chain_of_arithmetic_takes_few_operations(any_device: dml.Device) -> None:
    """Twelve operators, of which one by one each takes up to 21."""

    def compiled(build: Callable[[E], E]) -> dml.CompiledGraph:
        graph = dml.Graph(any_device)
        return graph.compile(build(graph.input("x", dml.FLOAT32, (4, 6), (7, 1))))

    def chain(x: E) -> E:
        t = F.max((abs(F.clip(x * 1.5 + 0.25, min=-3, max=3)) - 0.5) * 2.0, 0.125)
        result: E = F.activation_relu((-(t * 0.75) + 1.0) * t)
        return result

    made, nothing = compiled(chain), compiled(lambda x: -abs(x))
    (stage,) = made.stages
    assert len(stage.nodes) == 12
    counts = [operations(Module(graph.stages[0].program.steps[0].kernel.spirv())) for graph in (made, nothing)]
    assert (counts[0] - counts[1]) / 4 <= 26, "in the walk of any strides, which has the functions four times"
    x = np.float32
    t = np.maximum((np.abs(np.clip(X * x(1.5) + x(0.25), -3, 3)) - x(0.5)) * 2, x(0.125))
    expected = np.maximum((-(t * x(0.75)) + 1) * t, 0)
    assert (any_device.run(made, {"x": X})["output"] == expected).all()


BOUNDED: dict[str, Callable[[E], E]] = {
    "activation/hard_sigmoid.comp": lambda x: F.activation_hard_sigmoid(x, alpha=1e30, beta=-3.0),
    "activation/sigmoid.comp": F.activation_sigmoid,
    "activation/softsign.comp": F.activation_softsign,
    "activation/tanh.comp": F.activation_tanh,
    "elementwise/asin.comp": F.asin,
    "elementwise/atan.comp": F.atan,
    "elementwise/cos.comp": F.cos,
    "elementwise/erf.comp": F.erf,
    "elementwise/sin.comp": F.sin,
    "elementwise/tanh.comp": F.tanh,
}


@pytest.mark.parametrize("path", sorted(forms._BELOW_TWO))
def test_results_that_are_said_to_be_below_two_are(device: dml.Device, path: str) -> None:
    x = np.concatenate([SPECIAL, np.random.default_rng(8).integers(0, 2**32, 2**16, np.uint32)]).view(np.float32)
    graph = dml.Graph(device)
    y = device.run(graph.compile(y=BOUNDED[path](graph.input("x", dml.FLOAT32, x.shape))), {"x": x})["y"]
    assert np.all(np.isnan(y) | (abs(y) < 2)) and not np.isnan(y).all()


def test_products_have_the_shortest_form_that_suits_them() -> None:
    below_two, below_two_to_16 = (Range(highest=highest, denormals=SpecialBits.NOTHING) for highest in (0, 15))
    anything, sixteenth = Range(), of_constant(0x3D800000)
    for a, b, macro, order in (
        (below_two, below_two, "OPERATION_OF_BOUNDED", (0, 1)),
        (below_two, below_two_to_16, "OPERATION_OF_BOUNDED", (0, 1)),
        (below_two_to_16, below_two_to_16, "OPERATION_WITH_BOUNDED", (0, 1)),  # up to 2^32
        (below_two, anything, "OPERATION_WITH_BOUNDED", (1, 0)),
        (anything, below_two, "OPERATION_WITH_BOUNDED", (0, 1)),
        (anything, sixteenth, "OPERATION_WITH_NUMBER", (0, 1)),
        (anything, anything, "OPERATION", None),
        (below_two, of_constant(0x41800000), "OPERATION_PLAIN", None),
    ):
        form = forms.product(a, b)
        assert (form.macro, form.order) == (macro, order), (a, b)


@pytest.mark.parametrize("bounded", ["both", "the second", "the first"])
def test_products_with_a_bounded_factor_vanish_where_others_do(any_device: dml.Device, bounded: str) -> None:
    """TANH is its argument where that is tiny: products on both sides of the least normal number, and special ones."""
    random = np.random.default_rng(6)
    exponents = random.integers(1, 100, 4096)
    a = (exponents << 23 | random.integers(0, 2**23, 4096)).astype(np.uint32)
    # The other factor's exponent makes the product's about -126; a half of these are such that it is rounded up to it.
    quotient = 2.0**-126 / a.view(np.float32).astype(np.float64) * random.choice([1 - 2.0**-25, 1, 1 + 2.0**-24], 4096)
    b = quotient.astype(np.float32).view(np.uint32) + random.integers(-2, 3, 4096).astype(np.uint32)
    a, b = np.concatenate([a, *(SPECIAL,) * 60]), np.concatenate([b, np.repeat(SPECIAL, 60)])
    a ^= random.integers(0, 2, a.size, np.uint32) << np.uint32(31)
    inputs = {"a": a.view(np.float32), "b": b.view(np.float32)}
    graph = dml.Graph(any_device)
    x, y = (graph.input(name, dml.FLOAT32, a.shape) for name in "ab")
    product = {
        "both": lambda: F.tanh(x) * F.tanh(y),
        "the second": lambda: x * F.tanh(y),
        "the first": lambda: F.tanh(x) * y,
    }[bounded]()
    made, one_by_one = (
        any_device.run(graph.compile(y=product, fuse=fuse), inputs)["y"].view(np.uint32) for fuse in (True, False)
    )
    indices = np.nonzero(made != one_by_one)[0]
    assert not indices.size, [hex(int(array[index])) for index in indices[:1] for array in (a, b, made, one_by_one)]
    assert {0x00800000, 0x80800000, 0, 0x80000000, 0x7FC00000} <= set(map(int, made))


def test_quotients_by_powers_of_two_are_products(any_device: dml.Device) -> None:
    """With the bits of quotients, also where they vanish or overflow; by other numbers they are quotients."""
    random = np.random.default_rng(7)
    x = np.concatenate([SPECIAL, random.integers(0, 2**32, 4096, np.uint32)]).view(np.float32)
    powers = [2.0, -0.5, 2.0**-126, -(2.0**126), 2.0**60, 1.0, 8.0]
    others = [3.0, 2.0**127, 0.0, float("inf"), float("nan"), 2.0**-130]

    def built(fuse: bool, divisor: float) -> dml.CompiledGraph:
        graph = dml.Graph(any_device)
        return graph.compile(y=abs(graph.input("x", dml.FLOAT32, x.shape) / divisor), fuse=fuse)

    counts = []
    for divisor in (*powers, *others):
        fused = built(True, divisor)
        made, one_by_one = (
            any_device.run(graph, {"x": x})["y"].view(np.uint32) for graph in (fused, built(False, divisor))
        )
        indices = np.nonzero(made != one_by_one)[0]
        assert not indices.size, (divisor, [hex(int(a[indices[0]])) for a in (x.view(np.uint32), made, one_by_one)])
        (stage,) = fused.stages
        counts.append(operations(Module(stage.program.steps[0].kernel.spirv())))
    assert max(counts[: len(powers)]) + 40 < min(counts[len(powers) :]), counts


SIZES = (2, 3, 50)

CARRIERS = {8: dml.UINT8, 16: dml.UINT16, 32: dml.UINT32, 64: dml.UINT64}


def _descriptions(kind: type[OperatorDesc], device: dml.Device) -> Iterator[OperatorDesc]:
    """With each combination of types, with attributes and without; of the quick command each type of each tensor."""
    seen: set[tuple[str, object]] = set()
    for types, _ in supported_operands(kind):
        if IS_QUICK and seen.issuperset(types.items()):
            continue
        members: dict[str, Any] = {name: dml.TensorDesc(data_type, SIZES) for name, data_type in types.items()}
        first = next(types[field.attribute] for field in kind.fields if field.attribute in types)
        sets = attribute_sets(kind, first)
        for attributes in sets[-1:] if IS_QUICK else (sets[0], sets[-1])[: len(sets)]:
            try:
                desc = device.create_operator(kind(**members, **attributes)).desc
            except dml.DmlError:
                continue  # not at this feature level, or not with these attributes
            seen.update(types.items())
            if function_of(desc, device.target) is not None:
                yield desc


def _around(desc: OperatorDesc, device: dml.Device, *, is_first: bool) -> GraphDesc:
    """The operator in front of another one; or between others, and its result among the outputs, too."""
    nodes = [OperatorGraphNode(device.create_operator(desc), "it")]
    inputs: list[InputGraphEdge] = []
    between: list[IntermediateGraphEdge] = []

    def identity(tensor: dml.TensorDesc) -> int:
        carried = dml.TensorDesc(CARRIERS[tensor.data_type.size_in_bits], SIZES)
        kind = dml.ElementWiseIdentity(input_tensor=carried, output_tensor=carried)
        nodes.append(OperatorGraphNode(device.create_operator(kind), f"n{len(nodes)}"))
        return len(nodes) - 1

    for number, (_, tensor) in enumerate(desc.inputs):
        if tensor is None:
            continue
        if is_first:
            inputs.append(InputGraphEdge(len(inputs), 0, number))
        else:
            node = identity(tensor)
            inputs.append(InputGraphEdge(len(inputs), node, 0))
            between.append(IntermediateGraphEdge(node, 0, 0, number))
    (result,) = (tensor for _, tensor in desc.outputs if tensor is not None)
    last = identity(result)
    between.append(IntermediateGraphEdge(0, 0, last, 0))
    outputs = [OutputGraphEdge(last, 0, 0), *([] if is_first else [OutputGraphEdge(0, 0, 1)])]
    return GraphDesc(len(inputs), len(outputs), nodes, inputs, outputs, between)


OPERATORS = sorted(name for name, kind in REGULAR_OPERATORS.items() if kind.declaration.pattern == "elementwise")


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_function_compiles_at_every_place_of_a_kernel(
    operator: str, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Grouping, "_is_quickly_compiled", lambda *_: True)
    for desc in _descriptions(REGULAR_OPERATORS[operator], device):
        for is_first in (True, False):
            graph = network(_around(desc, device, is_first=is_first), device)
            made = fused_stages(graph, device.target, ())
            assert made.remark == "", f"{desc}: {made.remark}"
            assert len(made.stages) == 1, f"{desc} is not fused: {made.stages}"


def test_a_kernel_that_dmlvks_own_compiler_refuses_is_a_fault(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Users' graphs run one operator at a time, which the log tells; tests end."""
    monkeypatch.setattr(stages, "fused_kernel", lambda *_: glsl.compiled("#version 450\nthis is no shader"))

    def build() -> dml.CompiledGraph:
        graph = dml.Graph(device)
        return graph.compile(y=abs(-graph.input("x", dml.FLOAT32, (3,))))

    with pytest.raises(faults.FaultError, match=r"compiling .* as one kernel: .*refuses a fused kernel"):
        build()
    faults.reported.pop()
    monkeypatch.setenv("DMLVK_RAISE_FAULTS", "0")
    made = build()
    assert len(made.stages) == 2
    assert "a fault of dmlvk while compiling" in caplog.text
    assert (device.run(made, {"x": [1, -2, 3]})["y"] == [1, 2, 3]).all()

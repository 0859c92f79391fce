"""Lowers operators whose results depend on windows over the spatial axes: shaders/patterns/windows/window.glsl."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.elementwise.elementwise import lower_elementwise_shader
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products.integer_products import stride_of
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.rows.reduction import (
    MAXIMUM,
    MEAN,
    MEAN_OF_FEW,
    NORM_OF_SQUARES,
    SUM_OF_MAGNITUDES,
    Reduction,
    Rows,
    add_reduction,
)
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ACCESS_ORDERS, ShaderVariant, elementwise_variant
from dmlvk.kernels.windows import local_response
from dmlvk.kernels.windows.local_response import factor_of, kernel_of_channels, quarters_of, response_numbers
from dmlvk.operators import OPERATORS
from dmlvk.operators.local_response import LocalResponseNormalization, LocalResponseNormalizationGrad
from dmlvk.operators.pooling import (
    AveragePooling,
    AveragePooling1,
    LpPooling,
    LpPooling1,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    dilations_of,
)
from dmlvk.operators.quantized_products import QuantizedLinearAveragePooling
from dmlvk.tensors import TensorDesc

_Pooling: TypeAlias = (
    MaxPooling
    | MaxPooling1
    | MaxPooling2
    | AveragePooling
    | AveragePooling1
    | LpPooling
    | LpPooling1
    | QuantizedLinearAveragePooling
)

_AXES = 5  # Batch, channel, depth, height and width

_BYTES = (DataType.INT8, DataType.UINT8)

_TAPS_AT_ONCE = 32768  # Taps of a window that one of several launches takes

_STATE_BYTES = 20  # What such a launch hands on to the next for each element of the output: STATE_WORDS in the shaders

_WINDOWS_OF_BLOCK = 4  # Windows that an invocation goes through at once: WINDOWS_OF_BLOCK in the shaders

_MOST_TAPS_OF_BLOCK = 64  # Of a window: beyond, sharing its rows gains nothing

_FEWEST_TAPS_OF_ROWS = 257
"""Of windows that are the whole input: from here on they are rows of a reduction, in whose order their sums are made.
FLOAT16 means of fewer are rounded correctly."""

_FEWEST_TAPS_OF_LANES = 17
"""The same on GPUs where any order has the same results: several invocations share a row from here on."""

_SPATIAL = ("DEPTH", "HEIGHT", "WIDTH")  # What the shader calls the axes that windows move along

_LARGEST_NORM_BY_SUM = 2  # From P = 3 on LP_POOLING takes powers


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in OPERATORS["MAX_POOLING2"].declaration.support[-1].data_types["input_tensor"]:
        yield _variant("max_pooling", "max_pooling", data_type)
    for data_type in (DataType.FLOAT32, DataType.FLOAT16):
        yield _variant("average_pooling", "average_pooling", data_type)
        yield _variant("lp_pooling.1", "lp_pooling", data_type, P="1")
        yield _variant("lp_pooling.2", "lp_pooling", data_type, P="2")
        yield _variant("lp_pooling.power", "lp_pooling_power", data_type)
        yield _variant("local_response_normalization", "local_response_normalization", data_type)
        yield _variant("local_response_base", "local_response_base", data_type, result=DataType.FLOAT32)
        for access_order in ACCESS_ORDERS:
            types = (data_type, data_type, DataType.FLOAT32, DataType.FLOAT32)
            name = "local_response_term"
            yield elementwise_variant(name, f"normalization/{name}.comp", types, access_order, {}, attributes=2)
            of_result = (data_type, data_type, DataType.FLOAT32, DataType.FLOAT32, data_type)
            name = "local_response_gradient"
            yield elementwise_variant(name, f"normalization/{name}.comp", of_result, access_order, {}, attributes=1)
    yield _variant("window_sum", "sum", DataType.FLOAT32)
    yield from local_response.variants()
    for source in _BYTES:
        for result in _BYTES:
            yield _quantized_variant(source, result)


def _quantized_variant(source: DataType, result: DataType) -> ShaderVariant:
    names = {"INPUT": source.name.lower(), "OUTPUT": result.name.lower()}
    defines = {**names, "INPUT_BITS": "8", "OUTPUT_BITS": "8"}
    name = ".".join(("quantized_average_pooling", *names.values()))
    return ShaderVariant(name, "window/quantized_average_pooling.comp", tuple(sorted(defines.items())))


def _variant(name: str, source: str, data_type: DataType, result: DataType | None = None, **more: str) -> ShaderVariant:
    result = result or data_type
    names = {"INPUT": data_type.name.lower(), "OUTPUT": result.name.lower()}
    bits = {"INPUT_BITS": str(data_type.size_in_bits), "OUTPUT_BITS": str(result.size_in_bits)}
    defines = {**names, **bits, **more}
    return ShaderVariant(f"{name}.{names['INPUT']}", f"window/{source}.comp", tuple(sorted(defines.items())))


@dataclasses.dataclass(frozen=True)
class _WindowTensor:
    """Sizes and strides in elements along the five axes; strides of axes of size 1 are 0."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: TensorDesc) -> _WindowTensor:
        sizes, strides = list(tensor.sizes), list(tensor.element_strides)
        missing = _AXES - len(sizes)
        sizes[2:2] = [1] * missing
        strides[2:2] = [0] * missing
        return cls(tuple(sizes), tuple(step if size > 1 else 0 for size, step in zip(sizes, strides, strict=True)))

    @property
    def numbers(self) -> tuple[int, ...]:
        """What a step along each axis adds to an element's number in logical order."""
        return tuple(math.prod(self.sizes[axis + 1 :]) for axis in range(_AXES))


class _Channels(_WindowTensor):
    @property
    def numbers(self) -> tuple[int, ...]:
        """A step along the channels alone goes to another one."""
        return (0, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True)
class _WindowGeometry:
    """Where windows lie, along three axes."""

    axes: tuple[int, int, int]  # which of the five these are
    taps: tuple[int, ...]  # elements of a window
    dilations: tuple[int, ...]  # how far apart they are
    steps: tuple[int, ...]  # how far apart windows are
    start: tuple[int, ...]  # elements of padding before the input

    @classmethod
    def of(cls, desc: _Pooling) -> _WindowGeometry:
        return cls(
            axes=(2, 3, 4),
            taps=_of_depth(desc.window_size, 1),
            dilations=_of_depth(dilations_of(desc), 1),
            steps=_of_depth(desc.strides, 1),
            start=_of_depth(desc.start_padding, 0),
        )

    @classmethod
    def around(
        cls,
        desc: LocalResponseNormalization | LocalResponseNormalizationGrad,
        source: _WindowTensor,
        is_mirrored: bool = False,  # whether those elements are meant around which the element lies
    ) -> _WindowGeometry:
        """Those around each element: across channels, or over height and width."""
        before, behind = (desc.local_size - 1) // 2, desc.local_size // 2
        if is_mirrored:
            before, behind = behind, before
        axes = (1, 3, 4)
        is_used = (True, False, False) if desc.cross_channel else (False, True, True)
        furthest = [source.sizes[axis] - 1 if used else 0 for axis, used in zip(axes, is_used, strict=True)]
        start = tuple(min(before, extent) for extent in furthest)
        taps = tuple(first + min(behind, extent) + 1 for first, extent in zip(start, furthest, strict=True))
        return cls(axes=axes, taps=taps, dilations=(1, 1, 1), steps=(1, 1, 1), start=start)

    def most_inside(self, source: _WindowTensor) -> tuple[int, ...]:
        """Of a window, the most elements along each axis that can lie inside the input."""
        rows = zip(self.axes, self.taps, self.dilations, strict=True)
        return tuple(min(taps, -(-source.sizes[axis] // dilation)) for axis, taps, dilation in rows)

    def iterations(self, source: _WindowTensor) -> int:
        """The most turns of loops that going through a window takes, with each loop's last one, which only ends it."""
        depth, height, width = self.most_inside(source)
        return (depth + 1) + depth * (height + 1) + depth * height * (width + 1)


_NO_BLOCK = {"IN_BLOCKS": 0, "ROW_STEP": 1, "ROW_OUTPUT_STEP": 0, "OUTPUT_ROWS": 1}
_BITS_OF_BLOCKS = (16, 32)  # Of elements for which there is a shader of blocks


@dataclasses.dataclass(frozen=True)
class _WindowBlock:
    """Windows one below the other that an invocation of a GPU goes through at once."""

    axis: int  # the axis of height among the five
    rows: int  # the output's elements along it
    row_step: int  # rows of the input from one window to the next
    row_output_step: int  # elements of the output from one row to the next

    @classmethod
    def of(cls, pools: _Pools, target: Target, order: Sequence[int]) -> _WindowBlock | None:
        """The block of maxima whose output is packed, if there is one."""
        windows, source, result, bits = pools.windows, pools.source, pools.result, pools.bits
        axis = windows.axes[1]
        is_fit = bits in _BITS_OF_BLOCKS and not target.is_cpu
        is_fit = is_fit and result.sizes[axis] >= _WINDOWS_OF_BLOCK and math.prod(windows.taps) <= _MOST_TAPS_OF_BLOCK
        if not is_fit or any(dilation > 1 for dilation in windows.dilations):
            return None
        rows = zip(windows.axes, windows.taps, windows.steps, windows.start, strict=True)
        if not all(
            start < taps and (result.sizes[along] - 1) * step - start < source.sizes[along]
            for along, taps, step, start in rows
        ):
            return None
        innermost = next((along for along in order if result.sizes[along] > 1), axis)
        if innermost == axis or (bits == 16 and result.sizes[innermost] % 2):
            return None
        return cls(axis, result.sizes[axis], windows.steps[1], result.strides[axis])

    def items(self, elements: int, bits: int) -> int:
        """How many invocations there are, for so many elements of the output."""
        return elements // self.rows * -(-self.rows // _WINDOWS_OF_BLOCK) * bits // 32

    @property
    def constants(self) -> dict[str, int]:
        return {
            "IN_BLOCKS": 1,
            "ROW_STEP": self.row_step,
            "ROW_OUTPUT_STEP": self.row_output_step,
            "OUTPUT_ROWS": self.rows,
        }


def _of_depth(values: Sequence[int], missing: int) -> tuple[int, ...]:
    """Values for depth, height and width, of which the first may be absent."""
    return (*[missing] * (_AXES - 2 - len(values)), *values)


@dataclasses.dataclass(frozen=True)
class _Pools:
    """What is made of windows, and where it lies."""

    variant: str  # the shader
    source: _WindowTensor  # what the windows lie in
    result: _WindowTensor  # what is made of them
    windows: _WindowGeometry  # where they lie
    bits: int  # of an element of the result
    rounds: int  # how often a window's elements are gone through: sums may have to be made again, of scaled elements
    numbers: tuple[int, ...]  # what the shader computes with
    # where indices go, and their data type's words; ``None``: nowhere
    positions: tuple[_WindowTensor, int] | None = None
    is_maximum: bool = False  # whether windows may be gone through in blocks
    counts_padding: bool = False  # whether padding counts
    # the constants that only some operators' shaders have
    own: Mapping[str, int] = dataclasses.field(default_factory=dict)


def _pools_of(desc: _Pooling, shader: str, source: _WindowTensor, rounds: int) -> _Pools:
    data_type = desc.output_tensor.data_type
    variant, result = f"{shader}.{data_type.name.lower()}", _WindowTensor.of(desc.output_tensor)
    return _Pools(variant, source, result, _WindowGeometry.of(desc), data_type.size_in_bits, rounds, numbers=(0,))


def _are_rows(desc: _Pooling, target: Target, *, has_any_order: bool = False) -> bool:
    """Whether there is one window for each channel, of all that there is, and many elements are in it.

    Args:
        has_any_order: whether the order of elements changes no result: then fewer are many on a GPU.
    """
    is_whole = tuple(desc.window_size) == tuple(desc.input_tensor.sizes[2:]) and not any(desc.start_padding)
    fewest = _FEWEST_TAPS_OF_LANES if has_any_order and not target.is_cpu else _FEWEST_TAPS_OF_ROWS
    return is_whole and not any(desc.end_padding) and math.prod(desc.window_size) >= fewest


def _reduced(desc: _Pooling, target: Target, reduction: Reduction) -> Program:
    builder, output = ProgramBuilder(desc, target), desc.output_tensor
    rows = Rows.of(desc.input_tensor, range(2, len(output.sizes)), output)
    read, written = builder.reads["input_tensor"], builder.writes["output_tensor"]
    add_reduction(builder, reduction, rows, read, written, width=output.data_type.size_in_bits)
    return builder.program()


@lowering(MaxPooling, MaxPooling1, MaxPooling2)
def _maxima(desc: MaxPooling | MaxPooling1 | MaxPooling2, target: Target) -> Program:
    indices = None if isinstance(desc, MaxPooling) else desc.output_indices_tensor
    if indices is None and _are_rows(desc, target, has_any_order=True):
        return _reduced(desc, target, MAXIMUM)
    positions = None if indices is None else (_WindowTensor.of(indices), indices.data_type.size_in_bits // 32)
    pools = _pools_of(desc, "max_pooling", _WindowTensor.of(desc.input_tensor), rounds=1)
    builder = ProgramBuilder(desc, target)
    output = builder.writes["output_tensor"]
    writes = [output, builder.writes.get("output_indices_tensor", output)]
    pools = dataclasses.replace(pools, positions=positions, is_maximum=True)
    _launch(builder, pools, [builder.reads["input_tensor"]], writes)
    return builder.program()


@lowering(AveragePooling, AveragePooling1)
def _averages(desc: AveragePooling | AveragePooling1, target: Target) -> Program:
    is_half = desc.output_tensor.data_type is DataType.FLOAT16
    if _are_rows(desc, target, has_any_order=is_half or target.device_arithmetic):
        is_exact = is_half and math.prod(desc.window_size) < _FEWEST_TAPS_OF_ROWS
        return _reduced(desc, target, MEAN_OF_FEW if is_exact else MEAN)
    pools = _pools_of(desc, "average_pooling", _WindowTensor.of(desc.input_tensor), rounds=2)
    pools = dataclasses.replace(pools, counts_padding=desc.include_padding)
    builder = ProgramBuilder(desc, target)
    _launch(builder, pools, [builder.reads["input_tensor"]], [builder.writes["output_tensor"]])
    return builder.program()


@lowering(QuantizedLinearAveragePooling)
def _quantized_averages(desc: QuantizedLinearAveragePooling, target: Target) -> Program:
    shader = f"quantized_average_pooling.{desc.input_tensor.data_type.name.lower()}"
    pools = _pools_of(desc, shader, _Channels.of(desc.input_tensor), rounds=1)
    builder = ProgramBuilder(desc, target)
    reads = [builder.reads["input_tensor"]]
    own = _scales(desc, builder, reads)
    pools = dataclasses.replace(pools, counts_padding=desc.include_padding, own=own)
    _launch(builder, pools, reads, [builder.writes["output_tensor"]])
    return builder.program()


@lowering(LpPooling, LpPooling1)
def _norms(desc: LpPooling | LpPooling1, target: Target) -> Program:
    if desc.p <= _LARGEST_NORM_BY_SUM and _are_rows(desc, target):
        return _reduced(desc, target, SUM_OF_MAGNITUDES if desc.p == 1 else NORM_OF_SQUARES)
    shader = f"lp_pooling.{desc.p}" if desc.p <= _LARGEST_NORM_BY_SUM else "lp_pooling.power"
    pools = _pools_of(desc, shader, _WindowTensor.of(desc.input_tensor), rounds=2)
    builder = ProgramBuilder(desc, target)
    pools = dataclasses.replace(pools, numbers=(desc.p,))
    _launch(builder, pools, [builder.reads["input_tensor"]], [builder.writes["output_tensor"]])
    return builder.program()


@lowering(LocalResponseNormalization)
def _local_responses(desc: LocalResponseNormalization, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    source, reads, output = _WindowTensor.of(desc.input_tensor), [builder.reads["input_tensor"]], desc.output_tensor
    writes = [builder.writes["output_tensor"]]
    windows = _WindowGeometry.around(desc, source)
    kernel = kernel_of_channels(desc, windows.start[0], windows.taps[0])
    if kernel is not None:
        builder.launch(kernel, reads, writes)
        return builder.program()
    variant = f"local_response_normalization.{output.data_type.name.lower()}"
    bits, numbers, own = output.data_type.size_in_bits, response_numbers(desc), {"QUARTERS": quarters_of(desc)}
    _launch(
        builder, _Pools(variant, source, _WindowTensor.of(output), windows, bits, 2, numbers, own=own), reads, writes
    )
    return builder.program()


def _launch(builder: ProgramBuilder, pools: _Pools, reads: Sequence[Region], writes: Sequence[Region]) -> None:
    """Adds the launches that go through windows: several where these have more elements than loops have turns."""
    source, result, windows = pools.source, pools.result, pools.windows
    order = _order_of_memory(result)
    elements_at_once = max(1, 32 // pools.bits) if _is_packed(result, order) else 1
    is_in_parts = elements_at_once * (pools.rounds * windows.iterations(source) + 1) > MAX_LOOP_ITERATIONS
    is_packed = _is_packed(result, order) and not is_in_parts
    elements = math.prod(result.sizes)
    items = -(-elements * pools.bits // 32) if is_packed and pools.bits < 32 else elements
    block = None
    if pools.is_maximum and is_packed and pools.positions is None:
        block = _WindowBlock.of(pools, builder.target, order)
    if block is not None:
        items = block.items(elements, pools.bits)
    groups = launch_size(builder.operator_name, items)
    positions, words_of_index = pools.positions or (result, 0)
    has_blocks = pools.is_maximum and pools.bits in _BITS_OF_BLOCKS
    constants = {
        "OUTPUT_PACKED": int(is_packed),
        "WORDS_OF_INDEX": words_of_index,
        "COUNTS_PADDING": int(pools.counts_padding),
        **_axes(windows, order, source, result, positions, block),
        **_windows(windows, source),
        **pools.own,
        "IN_PARTS": int(is_in_parts),
        **(block.constants if block is not None else _NO_BLOCK if has_blocks else {}),
    }
    state = builder.scratch(_STATE_BYTES * elements) if is_in_parts else writes[0]
    parts = [(0, 0, 0)]
    if is_in_parts:
        firsts, most = [0], math.prod(windows.most_inside(source))
        while firsts[-1] + _TAPS_AT_ONCE < most:  # no range(): a plan for open sizes is for all with as many launches
            firsts.append(firsts[-1] + _TAPS_AT_ONCE)
        parts = [(first, first + _TAPS_AT_ONCE, round) for round in range(pools.rounds) for first in firsts]
    for part in parts:
        kernel = PlainKernel(
            variant=pools.variant,
            work_groups=groups,
            constants={name: number & 0xFFFFFFFF for name, number in constants.items()},
            parameters=(items, elements, *part, *pools.numbers),
        )
        builder.launch(kernel, reads, [*writes, state])


def _scales(desc: QuantizedLinearAveragePooling, builder: ProgramBuilder, reads: list[Region]) -> dict[str, int]:
    """The constants of scales and zero points, which are put behind what is read."""
    members = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")
    stand_in = reads[0]
    reads += [builder.reads.get(member, stand_in) for member in members]
    return {
        "HAS_SOURCE_ZERO": int("input_zero_point_tensor" in builder.reads),
        "HAS_ZERO": int("output_zero_point_tensor" in builder.reads),
        "SOURCE_SCALE_STEP": stride_of(desc.input_scale_tensor),
        "SOURCE_ZERO_STEP": stride_of(desc.input_zero_point_tensor),
        "SCALE_STEP": stride_of(desc.output_scale_tensor),
        "ZERO_STEP": stride_of(desc.output_zero_point_tensor),
    }


@lowering(LocalResponseNormalizationGrad)
def _local_response_gradient(desc: LocalResponseNormalizationGrad, target: Target) -> Program:
    """What is divided by, a term of each element, the terms' sums around each element, and the gradients."""
    builder = ProgramBuilder(desc, target)
    x, gradient = desc.input_tensor, desc.input_gradient_tensor
    of_x, of_gradient = builder.reads["input_tensor"], builder.reads["input_gradient_tensor"]
    wide = TensorDesc(DataType.FLOAT32, x.sizes)
    base, terms, sums = (builder.scratch(wide.size_in_bytes) for _ in range(3))
    numbers = response_numbers(desc)

    def around(name: str, source: TensorDesc, reads: Region, result: Region, is_mirrored: bool) -> None:
        tensor = _WindowTensor.of(source)
        windows = _WindowGeometry.around(desc, tensor, is_mirrored)
        variant = f"{name}.{source.data_type.name.lower()}"
        _launch(builder, _Pools(variant, tensor, _WindowTensor.of(wide), windows, 32, 2, numbers), [reads], [result])

    def each(name: str, tensors: Sequence[TensorDesc], words: tuple[int, ...], *regions: Region) -> None:
        kernel = lower_elementwise_shader(desc.operator_name, name, tensors, target, words)
        builder.launch(kernel, regions[:-1], regions[-1:], label=name)

    around("local_response_base", x, of_x, base, False)
    factor = 2.0 * float(factor_of(desc)) * float(np.float32(desc.beta))
    with np.errstate(over="ignore"):
        words = (numbers[0], float32_bits(float(np.float32(factor))))
    each("local_response_term", (x, gradient, wide, wide), words, of_x, of_gradient, base, terms)
    around("window_sum", wide, terms, sums, True)
    result = builder.writes["output_gradient_tensor"]
    tensors = (x, gradient, wide, wide, desc.output_gradient_tensor)
    each("local_response_gradient", tensors, numbers[:1], of_x, of_gradient, base, sums, result)
    return builder.program()


def _order_of_memory(tensor: _WindowTensor) -> list[int]:
    """The axes from the innermost one in memory to the outermost; those of size 1 come first."""
    return sorted(range(_AXES), key=lambda axis: (tensor.strides[axis], -axis))


def _is_packed(tensor: _WindowTensor, order: Sequence[int]) -> bool:
    """Whether the elements are one run of neighbours in this order of axes."""
    expected = 1
    for axis in order:
        if tensor.sizes[axis] > 1 and tensor.strides[axis] != expected:
            return False
        expected *= tensor.sizes[axis]
    return True


def _axes(
    windows: _WindowGeometry,
    order: Sequence[int],
    source: _WindowTensor,
    result: _WindowTensor,
    positions: _WindowTensor,
    block: _WindowBlock | None,
) -> dict[str, int]:
    """The constants of the output's axes; the last one's size is left out, for what is left is its coordinate."""
    steps = [1] * _AXES
    for axis, step in zip(windows.axes, windows.steps, strict=True):
        steps[axis] = step
    constants: dict[str, int] = {}
    for position, axis in enumerate(order):
        is_last = position == _AXES - 1
        at_once = _WINDOWS_OF_BLOCK if block is not None and axis == block.axis else 1
        step = steps[axis] * at_once
        along = zip(_SPATIAL, windows.axes, strict=True)
        constants |= {
            f"SIZE_{position}": 0 if is_last else -(-result.sizes[axis] // at_once),
            f"INPUT_STEP_{position}": source.strides[axis] * step,
            **{f"{name}_STEP_{position}": step if axis == spatial else 0 for name, spatial in along},
            f"OUTPUT_STEP_{position}": result.strides[axis] * at_once,
            f"INDICES_STEP_{position}": positions.strides[axis],
            f"NUMBER_STEP_{position}": source.numbers[axis] * step,
        }
    return constants


def _windows(windows: _WindowGeometry, source: _WindowTensor) -> dict[str, int]:
    """The constants of the windows' axes, and how far the padded input begins before the input."""
    constants: dict[str, int] = {}
    starts = [0, 0]
    rows = zip(_SPATIAL, windows.axes, windows.taps, windows.dilations, windows.start, strict=True)
    for name, axis, taps, dilation, padding in rows:
        stride, number = source.strides[axis], source.numbers[axis]
        constants |= {
            f"TAPS_{name}": taps,
            f"DILATION_{name}": dilation,
            f"PADDING_{name}": padding,
            f"EXTENT_{name}": source.sizes[axis],
            f"TAP_STEP_{name}": stride * dilation,
            f"TAP_NUMBER_{name}": number * dilation,
        }
        starts[0] += padding * stride
        starts[1] += padding * number
    return {**constants, "INPUT_START": starts[0], "NUMBER_START": starts[1]}

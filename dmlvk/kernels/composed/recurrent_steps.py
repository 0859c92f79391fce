"""The kernels of a step of RNN, LSTM and GRU: behind products that GEMM's kernels have made, or with their own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.kernels.elementwise.elementwise import converted_bits
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.products.matrix_tiles import MEDIUM, SINGLE
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import FusedActivation
from dmlvk.operators.type_groups import FLOATS

_ACTIVATIONS = (
    "SIGMOID", "TANH", "RELU", "IDENTITY", "CELU", "ELU", "GELU", "HARD_SIGMOID", "LEAKY_RELU", "LINEAR",
    "PARAMETRIC_SOFTPLUS", "SCALED_ELU", "SCALED_TANH", "SHRINK", "SOFTPLUS", "SOFTSIGN", "THRESHOLDED_RELU",
)  # fmt: skip
"""As ``shaders/include/any_activation.glsl`` counts them."""

_USUAL = 4  # The first so many have kernels of their own

_APART, _ON_GPUS, _ON_PROCESSORS = range(3)
"""Where products are made, as in ``patterns/composed/recurrent.glsl``: by kernels of GEMM, or by those of the step."""

_BLOCKS_AT_ONCE = 8  # Invocations of a work group on processors

_FLAG_BITS = 8  # What stands below the activations' kinds, as in ``shaders/patterns/composed/recurrent.glsl``


@dataclasses.dataclass(frozen=True)
class _StepKernel:
    file: str  # below ``shaders/recurrent``
    product_gates: int  # gates whose products of the state it makes, where it does
    defines: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of its own


_SOURCES: Mapping[str, _StepKernel] = {
    "rnn": _StepKernel("rnn", 1),
    "lstm": _StepKernel("lstm", 4),
    "gru": _StepKernel("gru", 1, {"LINEAR_BEFORE_RESET": "0"}),
    "gru_linear": _StepKernel("gru", 3, {"LINEAR_BEFORE_RESET": "1"}),
    "gru_reset": _StepKernel("gru_reset", 2),
}
"""By variant."""


@dataclasses.dataclass(frozen=True)
class StepTile:
    """Units of sequences that a work group computes, with products: ``patterns/composed/recurrent_products.glsl``."""

    name: str  # of the variant
    rows: int  # sequences
    columns: int  # products of a sequence, at most
    terms: int  # that are loaded at a time
    results: int  # products of each invocation

    def units(self, product_gates: int) -> int:
        """Of each sequence: a power of two, of so many products each."""
        return 1 << (self.columns // product_gates).bit_length() - 1

    def invocations(self, product_gates: int) -> int:
        return self.rows * self.units(product_gates) * product_gates // self.results

    def groups(self, product_gates: int, batch: int, words: int, data_type: DataType) -> int:
        """Work groups of a direction, for so many words of a sequence's state."""
        units_of_word = 32 // data_type.size_in_bits
        return -(-batch // self.rows) * -(-words * units_of_word // self.units(product_gates))

    def defines(self, product_gates: int, data_type: DataType) -> dict[str, str]:
        sizes = {"MULTIPLIES": _ON_GPUS, "TILE_TERMS": self.terms}
        sizes |= {"TILE_ROWS": self.rows, "TILE_UNITS": self.units(product_gates)}
        sizes |= {"RESULT_ROWS": self.results, "INVOCATIONS": self.invocations(product_gates)}
        return {key: str(value) for key, value in sizes.items()}


@dataclasses.dataclass(frozen=True)
class StepBlock:
    """Units of sequences that an invocation computes on processors: ``patterns/composed/recurrent_processors.glsl``."""

    name: str  # of the variant
    rows: int  # sequences
    columns: int  # products of a sequence, at most

    def words(self, product_gates: int, data_type: DataType) -> int:
        """Of each sequence's state: a power of two."""
        columns = product_gates * (32 // data_type.size_in_bits)
        return 1 << max(1, self.columns // columns).bit_length() - 1

    def invocations(self, product_gates: int) -> int:
        """Of a work group, whatever it multiplies."""
        return _BLOCKS_AT_ONCE

    def groups(self, product_gates: int, batch: int, words: int, data_type: DataType) -> int:
        """Work groups of a direction, for so many words of a sequence's state."""
        return -(-batch // self.rows) * -(-words // (_BLOCKS_AT_ONCE * self.words(product_gates, data_type)))

    def defines(self, product_gates: int, data_type: DataType) -> dict[str, str]:
        sizes = {"MULTIPLIES": _ON_PROCESSORS, "INVOCATIONS": _BLOCKS_AT_ONCE}
        sizes |= {"BLOCK_ROWS": self.rows, "BLOCK_WORDS": self.words(product_gates, data_type)}
        return {key: str(value) for key, value in sizes.items()}


FEW = StepTile("few", 4, 16, 64, 1)
"""For up to four sequences, which wait for the weights: more of them are on their way at once."""

USUAL = StepTile("16x32", 16, 32, 32, 2)

LARGE = StepTile("32x32", 32, 32, 16, 4)  # For so many sequences and units that a device is busy with it

SMALL_BLOCK = StepBlock("small", 4, 4)  # For few sequences

WIDE_BLOCK = StepBlock("wide", 16, 16)  # As many sums as GEMM's largest tile for processors has

_VECTORS = ("LEFT_HAS_VECTORS", "RIGHT_ALONG_TERMS", "RIGHT_HAS_VECTORS")
"""The specialization constants of kernels that multiply by ``StepTile``: ``_Shape.vectors``."""

_BLOCKS = (SMALL_BLOCK, WIDE_BLOCK)

_FEWEST_GROUPS_FOR_LARGE = SINGLE[0].fewest_groups

_MOST_SUMS = MEDIUM.rows * MEDIUM.columns * MEDIUM.fewest_groups
"""Sums of a step with which GEMM's larger tiles keep a device busy: 200 sequences of 512 units of LSTM have so many."""


def step_tile(
    product: Product, product_gates: int, any_activation: bool, target: Target
) -> StepTile | StepBlock | None:
    """How a step makes its products itself; ``None`` where they are made before, by GEMM.

    That is so on GPUs where there are more than 32 sequences, and sums for GEMM's larger tiles; on processors where a
    sum has several segments, and where their driver keeps in memory what others keep in registers, which takes half as
    long again to make such a kernel as to make two.

    Where a device's own arithmetic is permitted, a step's own products do without: an activation stands in the same
    kernel, whose bits are not the device's.

    Args:
        product: the state's with the weights of all gates.
        product_gates: how many gates one launch multiplies at most.
    """
    if target.is_cpu:
        if target.is_naive or product.segments > 1:
            return None
        return SMALL_BLOCK if product.rows <= SMALL_BLOCK.rows else WIDE_BLOCK
    sums = product.batches * product.rows * product.columns
    if product.rows > LARGE.rows and sums >= _MOST_SUMS:
        return None
    tile = USUAL
    if not any_activation:
        groups = -(-product.rows // LARGE.rows) * -(-product.terms // LARGE.units(product_gates)) * product.batches
        if product.rows <= FEW.rows:
            tile = FEW
        elif product.rows > USUAL.rows and groups >= _FEWEST_GROUPS_FOR_LARGE:
            tile = LARGE
    return tile


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for (name, source), data_type, any_activation in itertools.product(_SOURCES.items(), FLOATS, (False, True)):
        for tile in (None, USUAL, *_BLOCKS) if any_activation else (None, FEW, USUAL, LARGE, *_BLOCKS):
            defines = {
                **source.defines,
                **({"MULTIPLIES": str(_APART)} if tile is None else tile.defines(source.product_gates, data_type)),
                "OPERAND": data_type.name.lower(),
                "OPERAND_BITS": str(data_type.size_in_bits),
                "ANY_ACTIVATION": str(int(any_activation)),
            }
            shown = _variant_name(name, data_type, any_activation, tile)
            yield ShaderVariant(shown, f"recurrent/{source.file}.comp", tuple(sorted(defines.items())))


def _variant_name(
    name: str, data_type: DataType, any_activation: bool, tile: StepTile | StepBlock | None = None
) -> str:
    parts = [f"recurrent.{name}.{data_type.name.lower()}", "any" if any_activation else "usual"]
    return ".".join(parts if tile is None else [*parts, tile.name])


def has_unusual(activations: Sequence[FusedActivation]) -> bool:
    return any(_kind(fused) >= _USUAL for fused in activations)


def _kind(fused: FusedActivation) -> int:
    return _ACTIVATIONS.index(fused.operator_name.removeprefix("ACTIVATION_"))


@dataclasses.dataclass(frozen=True)
class StepShape:
    """What is the same for all steps of a network, and all of its kernels."""

    operator_name: str  # the operator's name
    data_type: DataType  # of the state
    batch: int  # sequences
    hidden: int  # units of the state of a sequence and direction
    directions: int  # of the operator
    flags: int  # what there is, as in ``shaders/patterns/composed/recurrent.glsl``
    clip: int  # the threshold's bits
    projections_of_direction: int  # words from the input's products of one direction to those of the next
    peepholes: int  # where they begin among the constants, in elements
    lengths: int  # likewise, in words
    second_state: int  # where the other part of the state begins, in words
    second_recurrences: int  # the same of products, where they are made before
    weight_strides: tuple[int, int, int]  # in elements, of a direction, a unit of a gate, and a term
    # whether four terms of a state and of the weights can be loaded at once, and between them whether the weights'
    # neighbours in memory are neighbouring terms: constants of kernels that multiply
    vectors: tuple[bool, bool, bool]
    tile: StepTile | StepBlock | None  # of these; ``None``: products are made before


@dataclasses.dataclass(frozen=True)
class StepTime:
    times: Sequence[int]  # by direction
    positions: Sequence[int]  # by direction, where that stands among the products of the input
    read_state: int  # where the hidden state begins that is read, in words
    written_state: int  # the same of the one that is written
    count: int = 1  # 1; 0 where a run has no such step, and nothing is computed


def launched(kernel: PlainKernel, count: int) -> PlainKernel:
    """A kernel with all of its work groups; with one of a column, the least of a launch, where a dynamic size is 0."""
    if not is_dynamic(count):
        return kernel
    columns, rows, layers = kernel.work_groups
    return dataclasses.replace(kernel, work_groups=((columns - 1) * count + 1, rows, layers))


def step_kernel(
    shape: StepShape, name: str, time: StepTime, directions: range, activations: Sequence[FusedActivation]
) -> PlainKernel:
    """A launch for neighbouring directions of the same activations."""
    kinds = [_kind(fused) for fused in activations]
    attributes = [word for fused in activations for word in _attribute_words(fused, shape.data_type)]
    tile, product_gates = shape.tile, _SOURCES[name].product_gates
    words = -(-shape.hidden * shape.data_type.size_in_bits // 32)
    if tile is None:
        work_items = len(directions) * shape.batch * words
        work_groups = launch_size(shape.operator_name, work_items)
    else:
        invocations = tile.invocations(product_gates)
        work_items = len(directions) * tile.groups(product_gates, shape.batch, words, shape.data_type)
        work_groups = launch_size(shape.operator_name, work_items * invocations, invocations)
    kinds_word = sum(kind << (_FLAG_BITS + 8 * number) for number, kind in enumerate(kinds))
    parameters = (
        work_items * time.count, shape.flags | kinds_word, shape.batch, shape.hidden, directions.start,
        shape.directions, *(*time.times, 0)[:2], *(*time.positions, 0)[:2], shape.projections_of_direction,
        shape.peepholes, shape.lengths, time.read_state, time.written_state, shape.second_state,
        *(*attributes, 0, 0, 0, 0, 0, 0)[:6], shape.clip,
    )  # fmt: skip
    unusual = any(kind >= _USUAL for kind in kinds)
    if tile is None:
        variant = _variant_name(name, shape.data_type, unusual)
        plain = PlainKernel(variant, work_groups, parameters=(*parameters, shape.second_recurrences))
        return launched(plain, time.count)
    kernel = PlainKernel(
        _variant_name(name, shape.data_type, unusual, tile),
        work_groups,
        dict(zip(_VECTORS, map(int, shape.vectors), strict=True)) if isinstance(tile, StepTile) else {},
        (*parameters, *shape.weight_strides),
        work_group_size=invocations,
    )
    return launched(kernel, time.count)


def _attribute_words(fused: FusedActivation, data_type: DataType) -> tuple[int, int]:
    words = [
        converted_bits(value, data_type) if field.converted_to else float32_bits(value)
        for field, value in fused.attributes
    ]
    first, second = (*words, 0, 0)[:2]
    return first, second

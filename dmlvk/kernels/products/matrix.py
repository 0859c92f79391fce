"""Lowers products of matrices and convolutions: a kernel, where needed one that adds segments, and an activation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_dynamic, is_multiple
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.matrix_choice import Choice, Work, choose
from dmlvk.kernels.products.matrix_tile import (
    ONE_SEGMENT,
    PARALLEL,
    SEGMENT,
    SEQUENTIAL,
    SUMS_INVOCATIONS,
    MatrixTile,
    sums_variant,
)
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators import Gemm, MatrixTransform, OperatorDesc
from dmlvk.tensors import TensorDesc

_RELU = "ACTIVATION_RELU"
_ALPHA = -2  # where it stands among the last words of a GEMM
_RIGHT_INNER = 3  # the same of a word for which there is no room beside packed weights, as for the other by an epilogue
_NOTHING = "ACTIVATION_IDENTITY"


@dataclasses.dataclass(frozen=True)
class Product:
    """What the kernels of a product or a convolution are told."""

    family: str  # ``"gemm"`` or ``"convolution"``
    data_type: DataType  # of all operands
    batches: int  # products, or groups of channels
    rows: int  # of each
    columns: int  # of each
    terms: int  # of each result
    left: tuple[int, int, int, int]  # the left operand's strides: row, term, and two more
    others: tuple[int, ...]  # the words of the parameters behind those
    left_along_terms: bool  # whether neighbours in memory are neighbouring terms
    left_has_vectors: bool  # whether four of them can be loaded at once
    right_along_terms: bool  # the same of the right operand
    # the same of the right operand; of a convolution's, whether windows have one place each, and four neighbouring
    # columns can be loaded at once
    right_has_vectors: bool
    output_has_pairs: bool  # whether results of columns 2n and 2n + 1 share a word that holds nothing else
    # a convolution's specialization constants
    geometry: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    output_has_fours: bool = False  # whether columns 4n to 4n + 3 lie behind one another, at multiples of four elements
    output_has_rows: bool = False  # whether all columns of its rows lie behind one another
    # whether rows of a convolution's input are whole fours, at multiples of four elements
    input_has_fours: bool = False
    # height and width of a convolution's output, where its windows overlap in planes
    plane: tuple[int, int] | None = None
    # the words of the parameters behind the left operand's strides, where kernels are told the shape at run time;
    # ``None`` where it does not go into them
    shape: tuple[int, ...] | None = None
    left_has_eights: bool = False  # whether eight of the left operand's neighbours can be loaded at once
    right_has_eights: bool = False  # the same of the right operand
    # how many channels of a place of a convolution's window are neighbouring terms; 1: the places of a channel are
    inner_channels: int = 1
    has_channels: bool = False  # whether channels of a convolution's input and output lie behind one another, in eights
    addend_has_fours: bool = False  # as ``output_has_fours``, of what is added to a GEMM's sums
    is_packed: bool = False  # whether the right operand is one of packed weights
    beside: int = 1  # such products that a graph has beside one another, this one among them
    # whether each channel of a convolution has a filter of its own, and channels lie behind one another in 16 bytes
    is_depthwise: bool = False

    def work(self, *, gives_results: bool = True) -> Work:
        """What the choice of a tile depends on."""
        shape = (self.rows, self.columns, self.terms, self.batches)
        any_shape = self.shape is not None
        along = self.right_along_terms
        eights = self.left_has_eights and self.right_has_eights
        made = Work(self.family, *shape, gives_results, along, any_shape, self.plane, self.data_type, eights)
        return dataclasses.replace(
            made,
            has_channels=self.has_channels,
            left_along_terms=self.left_along_terms,
            is_packed=self.is_packed,
            beside=self.beside,
            is_depthwise=self.is_depthwise,
            is_in_lines=self.plane is not None
            and (self.geometry["FILTER_WIDTH"], self.geometry["OUTPUT_STEP_WIDTH"]) == (3, 1),
        )

    def grid(self, tile: MatrixTile) -> tuple[int, int]:
        """Tiles downwards and across."""
        return tile.grid(self.rows, self.columns, self.plane, self.batches)

    def groups(self, tile: MatrixTile) -> int:
        """Work groups for all results."""
        return tile.groups(self.rows, self.columns, self.plane, self.batches)

    @property
    def has_plain_sums(self) -> bool:
        return self.family == "convolution" or self.others[_ALPHA] == float32_bits(1.0)

    @property
    def segments(self) -> int:
        """Of each sum, but for tiles that have others."""
        return -(-self.terms // SEGMENT)

    def totals_bytes(self, copies: int) -> int:
        return copies * self.batches * self.rows * self.columns * 4


@dataclasses.dataclass(frozen=True)
class Ways:
    come: int  # ``ONE_SEGMENT``, ``SEQUENTIAL`` or ``PARALLEL``
    has_addend: bool  # whether something is added to each
    relu: bool  # whether RELU is applied
    writes_totals: bool  # whether totals are written, and not results

    @property
    def flags(self) -> int:
        """All of it in a word, for kernels that are told so at run time: ``shaders/patterns/products/matrix.glsl``."""
        return self.come | self.has_addend << 2 | self.relu << 3 | self.writes_totals << 4


@dataclasses.dataclass(frozen=True)
class Epilogue:
    """What a graph computes of a convolution's results before anything else reads them: ``matrix_epilogue.glsl``."""

    # mean, factor and bias for each channel, of BATCH_NORMALIZATION; ``None``: there is none
    normalization: tuple[Region, Region, Region] | None
    residual: Region | None  # what is added then, in the layout of the results; ``None``: nothing
    relu: bool  # whether RELU is applied at last
    swish: bool | None  # whether ACTIVATION_SWISH is, with a scale of 1; ``None``: of FLOAT32, which never is

    def regions(self, instead: Region) -> list[Region]:
        """What kernels bind for it, with something else where there is nothing."""
        return [*(self.normalization or (instead,) * 3), self.residual or instead]

    @property
    def constants(self) -> dict[str, int]:
        return {
            "EPILOGUE_NORMALIZES": int(self.normalization is not None),
            "EPILOGUE_ADDS": int(self.residual is not None),
            **({} if self.swish is None else {"EPILOGUE_APPLIES_SWISH": int(self.swish)}),
        }


@dataclasses.dataclass(frozen=True)
class GemmEpilogue:
    """What a graph computes of a GEMM's results before anything else reads them: ``product_epilogue.glsl``."""

    adds_apart: bool  # whether the addend is a tensor that is added to results, and not to sums
    gelu: bool  # whether ACTIVATION_GELU is applied then
    scale: Region | None  # a number for each column, packed, that results are multiplied by then; ``None``: nothing
    residual: Region | None  # what is added then, in the layout of the results; ``None``: nothing
    relu: bool  # whether RELU is applied at last

    def regions(self, instead: Region) -> list[Region]:
        """What kernels bind for it, with something else where there is nothing."""
        return [self.residual or instead, self.scale or instead]

    @property
    def constants(self) -> dict[str, int]:
        return {
            "ADDEND_IS_APART": int(self.adds_apart),
            "EPILOGUE_APPLIES_GELU": int(self.gelu),
            "EPILOGUE_SCALES": int(self.scale is not None),
            "EPILOGUE_ADDS": int(self.residual is not None),
        }


AnyEpilogue = Epilogue | GemmEpilogue


@dataclasses.dataclass(frozen=True)
class PackedRight:
    """The right operand of a GEMM as packed weights: ``packed_right.glsl``."""

    scale: Region  # of blocks
    zero: Region | None  # what stands for zero, packed; ``None``: a number does everywhere
    constants: Mapping[str, int]  # the specialization constants that tell of it

    def regions(self) -> list[Region]:
        return [self.scale, self.zero or self.scale]


def gemm_product(desc: Gemm, *, with_eights: bool = False) -> Product:
    """A GEMM in the terms of its kernels.

    Args:
        with_eights: whether kernels that load eight elements at once are to be had.
    """
    sizes, batch_sizes = desc.output_tensor.sizes, _batches(desc.output_tensor.sizes)
    rows, columns = sizes[-2:]
    a, b = _matrix(desc.a_tensor, desc.trans_a), _matrix(desc.b_tensor, desc.trans_b)
    c = (0, 0, 0, 0) if desc.c_tensor is None else _matrix(desc.c_tensor, MatrixTransform.NONE)
    out = _matrix(desc.output_tensor, MatrixTransform.NONE)
    terms = desc.a_tensor.sizes[-1 if desc.trans_a is MatrixTransform.NONE else -2]
    left_lines = (terms, a[1]), (rows, a[0]), list(zip(batch_sizes, a[2:], strict=True))
    right_lines = (terms, b[0]), (columns, b[1]), list(zip(batch_sizes, b[2:], strict=True))
    left_along_terms, left_vectors = lines(*left_lines)
    right_along_terms, right_vectors = lines(*right_lines)
    others = (b[1], b[0], *b[2:], *c, *out, batch_sizes[1], float32_bits(desc.alpha), float32_bits(desc.beta))
    is_half = desc.output_tensor.data_type is DataType.FLOAT16
    far = [stride for size, stride in zip((rows, *batch_sizes), (out[0], *out[2:]), strict=True) if size > 1]
    return Product(
        family="gemm",
        data_type=desc.output_tensor.data_type,
        batches=batch_sizes[0] * batch_sizes[1],
        rows=rows,
        columns=columns,
        terms=terms,
        left=a,
        others=others,
        left_along_terms=left_along_terms,
        left_has_vectors=left_vectors,
        right_along_terms=right_along_terms,
        right_has_vectors=right_vectors,
        output_has_pairs=is_half
        and out[1] == 1
        and is_multiple(columns, 2)
        and all(is_multiple(stride, 2) for stride in far),
        output_has_fours=out[1] == 1 and is_multiple(columns, 4) and all(is_multiple(stride, 4) for stride in far),
        output_has_rows=out[1] == 1,
        shape=others,
        left_has_eights=with_eights and left_vectors and lines(*left_lines, count=8)[1],
        right_has_eights=with_eights and right_vectors and lines(*right_lines, count=8)[1],
        addend_has_fours=c[1] == 1 and all(is_multiple(stride, 4) for stride in (columns, c[0], *c[2:])),
    )


def _batches(sizes: Sequence[int]) -> tuple[int, int]:
    """The sizes of the outer and the inner leading dimension, of which there are up to two."""
    outer, inner = (1, 1, *sizes[:-2])[-2:]
    return outer, inner


def _matrix(tensor: TensorDesc, transform: MatrixTransform) -> tuple[int, int, int, int]:
    """Strides in elements from row to row, from column to column, and of the two leading dimensions."""
    strides = (0, 0, *tensor.element_strides)[-4:]
    row, column = strides[2:] if transform is MatrixTransform.NONE else reversed(strides[2:])
    return row, column, strides[0], strides[1]


def lines(
    terms: tuple[int, int], others: tuple[int, int], outside: Iterable[tuple[int, int]], *, count: int = 4
) -> tuple[bool, bool]:
    """Along which axis an operand's neighbours lie, and whether four of them lie at multiples of four elements.

    Args:
        terms: size and stride along the terms.
        others: the same along rows or columns.
        outside: the same of all axes that lead from matrix to matrix.

    Returns:
        whether they lie along the terms, and whether so many can be loaded at once.
    """
    along_terms = terms[1] == 1 or (others[1] != 1 and terms[1] <= others[1])
    inner, outer = (terms, others) if along_terms else (others, terms)
    far = [outer, *outside]
    has_vectors = (
        inner[1] == 1
        and is_multiple(inner[0], count)
        and all(is_multiple(stride, count) for size, stride in far if size > 1)
    )
    return along_terms, has_vectors


def lower_product(
    builder: ProgramBuilder,
    desc: OperatorDesc,
    product: Product,
    target: Target,
    left: Region,
    right: Region,
    addend: Region | None,  # what is added, if anything is
    epilogue: AnyEpilogue | None = None,  # what comes in the place of the activation
    # what the right operand is beside its integers, of a product that is packed; then without an epilogue
    packed: PackedRight | None = None,
) -> None:
    """Adds the steps that compute a product, and those of its activation; or of what comes in the place of that."""
    choice = choose(product.work(), target)

    def add_sums(result: Region, relu: bool) -> None:
        is_last = relu if epilogue is None else epilogue.relu
        _add_sums(builder, product, choice, (left, right, addend), result, is_last, epilogue, packed)

    with_activation(builder, desc, add_sums)


def with_activation(builder: ProgramBuilder, desc: OperatorDesc, add_sums: Callable[[Region, bool], None]) -> None:
    """Adds the steps of an operator's results, and those of its activation.

    Args:
        add_sums: adds the former; it is told where results go, and whether RELU is to be applied to them.
    """
    (_, tensor), output = desc.outputs[0], builder.writes["output_tensor"]
    assert tensor is not None  # outputs of products are not optional
    fused = desc.activation
    follows = None if fused is None or fused.operator_name in (_NOTHING, _RELU) else fused
    result = output
    if follows is not None and "input_tensor" not in follows.activation.declaration.in_place:
        result = builder.scratch(tensor.size_in_bytes)
    add_sums(result, fused is not None and fused.operator_name == _RELU)
    if follows is not None:
        members: dict[str, Any] = {field.attribute: value for field, value in follows.attributes}
        activation = follows.activation(**members, **dict.fromkeys(("input_tensor", "output_tensor"), tensor))
        builder.operator(activation, [result], [output], follows.operator_name)


def _add_sums(
    builder: ProgramBuilder,
    product: Product,
    choice: Choice,
    operands: tuple[Region, Region, Region | None],
    result: Region,
    relu: bool,
    epilogue: AnyEpilogue | None,
    packed: PackedRight | None,
) -> None:
    left, right, addend = operands
    tile = choice.tile
    row_tiles, column_tiles = product.grid(tile)
    segments = tile.segments(product.terms)
    come = choice.segments_come if segments > 1 else ONE_SEGMENT
    writes_totals = come == PARALLEL or (come == SEQUENTIAL and product.data_type is DataType.FLOAT16)
    copies = segments if come == PARALLEL else 1
    groups = product.groups(tile) * copies
    size = product.totals_bytes(copies)
    if writes_totals and size >= 2**32:
        name = product.family.upper()
        raise DeviceLimitError(f"{name}: sums of {product.terms} terms take {size} bytes of scratch memory")
    totals = builder.scratch(size) if writes_totals else None
    ways = Ways(come, addend is not None, relu, writes_totals)
    first_epilogue = None if writes_totals else epilogue  # whoever finishes results computes it
    for kernel in sum_kernels(product, choice, ways, groups, builder.target, first_epilogue, packed):
        further = [] if first_epilogue is None else first_epilogue.regions(left)
        further += [] if packed is None else packed.regions()
        builder.launch(kernel, [left, right, addend or left, *further], [totals or result])
    if totals is None:
        return
    # Which takes every segment for as long as most tiles' are.
    sizes = (product.rows, product.columns, segments * SEGMENT, row_tiles, column_tiles)
    invocations = product.batches * product.rows * product.columns // (2 if _stores_pairs(product) else 1)
    work_groups = launch_size(product.family.upper(), invocations, SUMS_INVOCATIONS)
    adder = PlainKernel(
        sums_variant(product.family, product.data_type, has_epilogue=epilogue is not None).name,
        work_groups,
        {**product_constants(product, ways), **({} if epilogue is None else epilogue.constants)},
        (invocations, *sizes, 0, 0, *product.left, *product.others),
        work_group_size=SUMS_INVOCATIONS,
    )
    further = [] if epilogue is None else epilogue.regions(totals)
    builder.launch(adder, [totals, addend or totals, *further], [result], label="sums of segments")


def sum_kernels(
    product: Product,
    choice: Choice,
    ways: Ways,
    groups: int,
    target: Target,
    epilogue: AnyEpilogue | None = None,
    packed: PackedRight | None = None,
) -> list[PlainKernel]:
    """The launches that compute sums, or their segments."""
    tile = choice.tile
    kinds = {"has_epilogue": epilogue is not None, "is_packed": packed is not None}
    variant = tile.variant(product.family, product.data_type, target, **kinds).name
    work_groups = launch_size(product.family.upper(), groups * tile.invocations, tile.invocations)
    sizes = (product.rows, product.columns, product.terms, *product.grid(tile))
    segments = tile.segments(product.terms)
    at_once = segments if ways.come != SEQUENTIAL else min(segments, choice.segments_at_once)
    constants: dict[str, int] = {}
    no_room = {_RIGHT_INNER} if packed is not None else {_ALPHA} if isinstance(epilogue, GemmEpilogue) else set()
    others = [word for at, word in enumerate(product.others) if no_room.isdisjoint((at, at - len(product.others)))]
    described = (*product.left, *others)
    if tile.is_for_any_shape:
        assert product.shape is not None  # what such tiles are chosen for
        described = (ways.flags, *product.left, *product.shape)
    else:
        constants = product_constants(product, ways, in_eights=tile.is_cooperative)
        if tile.block is not None and not tile.channels:
            constants |= _in_planes(product, tile.block)
        constants |= {} if epilogue is None else epilogue.constants
        if tile.is_cooperative:
            constants |= _cooperative(product, tile, ways, has_epilogue=epilogue is not None)
            if packed is not None:
                constants |= {"RIGHT_IS_WHOLE": 0, "LEFT_LINE": 0, "RIGHT_LINE": 0, **packed.constants}
        elif tile.stores_fours:
            fills_tiles = tile.step > 0 and is_multiple(product.terms, tile.step)
            constants |= {"OUTPUT_HAS_FOURS": int(product.output_has_fours), "TERMS_FILL_TILES": int(fills_tiles)}
    return [
        PlainKernel(
            variant,
            work_groups,
            constants,
            (groups, *sizes, first, min(first + at_once, segments), *described),
            work_group_size=tile.invocations,
        )
        for first in range(0, segments, at_once)
    ]


def float32_sum_kernels(product: Product, target: Target) -> list[PlainKernel]:
    """The launches that compute a product's sums as packed FLOAT32, whatever its data type, and nothing else of it.

    Each has the left and the right operand, anything in the place of the addend, and the sums.
    """
    choice = choose(product.work(gives_results=False), target)
    writes_totals = product.data_type is DataType.FLOAT16
    come = SEQUENTIAL if writes_totals or choice.tile.segments(product.terms) > 1 else ONE_SEGMENT
    ways = Ways(come, False, False, writes_totals)
    return sum_kernels(product, choice, ways, product.groups(choice.tile), target)


def _stores_pairs(product: Product) -> bool:
    return product.output_has_pairs and product.data_type is DataType.FLOAT16


def _in_planes(product: Product, block: tuple[int, int]) -> dict[str, int]:
    """What is otherwise where tiles are blocks of planes: ``shaders/patterns/products/matrix_planes.glsl``."""
    assert product.plane is not None  # what such tiles are chosen for
    is_half = product.data_type is DataType.FLOAT16
    stored = product.output_has_pairs if is_half else product.output_has_fours
    stored_at_once = 2 if is_half else 4
    is_stored_so = stored and not (product.plane[1] % stored_at_once or block[1] % stored_at_once)
    is_loaded_so = not is_half and product.input_has_fours and block[1] % 4 == 0
    return {"RIGHT_HAS_VECTORS": int(is_loaded_so), "OUTPUT_HAS_PAIRS": int(is_stored_so)}


def _cooperative(product: Product, tile: MatrixTile, ways: Ways, *, has_epilogue: bool) -> dict[str, int]:
    """The constants that only these kernels have: ``shaders/patterns/products/matrix_cooperative.glsl``."""
    left_is_whole = product.left_has_eights and product.rows >= tile.rows
    # What two tiles have is cut where results are stored by fours.
    is_wide = product.family == "gemm" and product.columns >= tile.columns and product.columns % 4 == 0
    right_is_whole = product.right_has_eights and is_wide
    are_sums = product.has_plain_sums and not (ways.has_addend or ways.relu or has_epilogue)
    lengths = product.terms, *((tile.segment,) if product.terms > tile.segment else ())
    steps_are_whole = not any(length % tile.step for length in lengths)
    if tile.is_of_channels:
        return {"CHANNELS_OF_POSITION": product.inner_channels, "STEPS_ARE_WHOLE": int(steps_are_whole)}
    constants = {
        "LEFT_IS_WHOLE": int(left_is_whole),
        "RIGHT_IS_WHOLE": int(right_is_whole),
        "CHANNELS_OF_POSITION": product.inner_channels,
        "RESULTS_ARE_SUMS": int(are_sums),
        "STEPS_ARE_WHOLE": int(steps_are_whole),
        "LEFT_LINE": 0,
        "RIGHT_LINE": 0,
    }
    if product.family == "gemm":
        lines = {
            "LEFT_LINE": product.left[int(not product.left_along_terms)],
            "RIGHT_LINE": product.others[int(not product.right_along_terms)],
        }
        if left_is_whole and right_is_whole and steps_are_whole:  # where nothing is tested kernels gain by it
            constants |= {name: line for name, line in lines.items() if not is_dynamic(line)}
        constants["OUTPUT_HAS_FOURS"] = int(product.output_has_fours)
        if product.data_type is DataType.FLOAT16:
            constants["ADDEND_HAS_FOURS"] = int(product.addend_has_fours)
    return constants


def product_constants(product: Product, ways: Ways, *, in_eights: bool = False) -> dict[str, int]:
    """The specialization constants of kernels that load operands by fours or by eights."""
    left_has_vectors = product.left_has_eights if in_eights else product.left_has_vectors
    right_has_vectors = product.right_has_eights if in_eights else product.right_has_vectors
    return {
        "SEGMENTS_COME": ways.come,
        "HAS_ADDEND": int(ways.has_addend),
        "APPLIES_RELU": int(ways.relu),
        "LEFT_ALONG_TERMS": int(product.left_along_terms),
        "LEFT_HAS_VECTORS": int(left_has_vectors),
        "RIGHT_ALONG_TERMS": int(product.right_along_terms),
        "RIGHT_HAS_VECTORS": int(right_has_vectors),
        "OUTPUT_HAS_PAIRS": int(_stores_pairs(product)),
        "WRITES_TOTALS": int(ways.writes_totals),
        **product.geometry,
    }

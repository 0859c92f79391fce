"""Lowers ROI_ALIGN_GRAD: shaders/patterns/windows/region_gather.comp and region_slopes.glsl."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from dmlvk.datatypes import float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement.copies import fill
from dmlvk.kernels.program import SCRATCH_ALIGNMENT, Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.kernels.views import View
from dmlvk.kernels.windows.region_alignment import (
    MOST_LAUNCHES,
    Reduced,
    RegionSampling,
    check_launches,
    locate_samples,
    reduce_samples,
)
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.regions import RoiAlignGrad
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_ITERATIONS_OF_LAUNCH = 60000
"""Turns of loops of an invocation of one of several launches: fewer than every driver lets it have."""

_CHANNELS_OF_ITEM = 4
_MOST_CHANNEL_LANES = 32
"""Invocations that have the channels of an element between them: as many as large GPUs run in step."""

_STATE_BYTES = 32 * _CHANNELS_OF_ITEM
"""What a launch that gathers hands on for each invocation: STATE_WORDS of the shader for each channel."""

_MOST_SCRATCH_BYTES = 2**26
_OUTPUTS_OF_PART = 32
"""Of a region's outputs, as many as are added up in one sum; more where there would be too many sums."""

_MOST_PARTS = 32768
_PART_BYTES = 128
_IS_CONTINUED, _GOES_ON = 1, 2


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for mode in InterpolationMode:
        for function in ("average", "max"):
            own = {"IS_LINEAR": str(int(mode)), "IS_AVERAGE": str(int(function == "average"))}
            name = f"{mode.name.lower()}.{function}"
            yield _variant("region_weights", name, own)
            for data_type in FLOATS:
                defines = {**own, "INPUT": data_type.name.lower(), "INPUT_BITS": str(data_type.size_in_bits)}
                full = f"{name}.{data_type.name.lower()}"
                yield _variant("region_gather", full, defines)
                if mode == InterpolationMode.LINEAR:
                    defines.pop("IS_LINEAR")
                    yield _variant("region_slopes", f"{function}.{data_type.name.lower()}", defines)
                    yield _variant("region_totals", f"{function}.{data_type.name.lower()}", defines)


def _variant(shader: str, name: str, defines: dict[str, str]) -> ShaderVariant:
    return ShaderVariant(f"{shader}.{name}", f"patterns/windows/{shader}.comp", tuple(sorted(defines.items())))


@lowering(RoiAlignGrad)
def lower_gradient(desc: RoiAlignGrad, target: Target) -> Program:
    """The program that computes a checked description of ROI_ALIGN_GRAD."""
    gradient = _Gradient(desc, target)
    gradient.add()
    return gradient.builder.program()


def _iterations_of_region(rows: int, columns: int) -> int:
    """The turns of loops that so many outputs of a region take: llvmpipe counts the one that ends each loop, too.

    Found by counting the regions that one launch takes in there. A work group looks at a region for each of up to 256
    elements beforehand, at 256 regions at once: at most an iteration for each region, and 300 more, for which
    ``_ITERATIONS_OF_LAUNCH`` leaves room.
    """
    return 5 + rows * (2 + columns)


def _aligned(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


@dataclasses.dataclass(frozen=True)
class _GatheredRange:
    """What one launch gathers: of regions, and of their outputs, those from ``first`` on, before ``end``."""

    regions: range
    rows: range
    columns: range


class _Gradient:
    def __init__(self, desc: RoiAlignGrad, target: Target) -> None:
        self.builder = ProgramBuilder(desc, target)
        self.desc = desc
        image = desc.input_tensor or desc.output_gradient_tensor
        assert image is not None, "the declaration wants one of them"
        self.image = image
        self.gradient: TensorDesc = desc.input_gradient_tensor
        self.sampling = RegionSampling.of(desc, image, self.gradient)
        self.function = desc.reduction_function.name.lower()
        self.is_average = desc.reduction_function == ReduceFunction.AVERAGE
        self.is_linear = desc.interpolation_mode == InterpolationMode.LINEAR
        self.type_name = self.gradient.data_type.name.lower()
        regions, _, height, width = self.sampling.pooled
        rows, columns = self.sampling.image[2:]
        weights = height * rows + width * columns if self.is_average else 0
        self.weight_words = 2 * (rows + columns) + weights
        self.regions_weighted = min(regions, max(1, _MOST_SCRATCH_BYTES // (4 * self.weight_words)))
        needs_winners = not self.is_average and (self.is_linear or desc.output_gradient_tensor is not None)
        self.winner_bytes = 8 * math.prod(self.sampling.pooled) if needs_winners else 0
        self.winners_at = _aligned(self.sampling.table_bytes)
        self.weights_at = self.winners_at + _aligned(self.winner_bytes)
        has_weights = desc.output_gradient_tensor is not None
        weight_bytes = 4 * self.weight_words * self.regions_weighted * has_weights
        self.tables = self.builder.scratch(self.weights_at + weight_bytes)

    def add(self) -> None:
        table = self.tables.part(0, self.sampling.table_bytes)
        locate_samples(self.builder, self.desc, self.sampling, table)
        if self.winner_bytes:
            how = Reduced("winner", self.desc.interpolation_mode, 0.0)
            winners = self.tables.part(self.winners_at, self.winner_bytes)
            reduce_samples(self.builder, self.sampling, how, self.image, table, winners)
        if self.desc.output_gradient_tensor is not None:
            self._gather()
        tensor = self.desc.output_roi_gradient_tensor
        if tensor is not None and self.is_linear:
            self._add_slopes(tensor)
        elif tensor is not None:
            region = self.builder.writes["output_roi_gradient_tensor"]
            fill(self.builder, (region, View.of(tensor)), tensor.data_type.size_in_bits, 0)

    def _launch(
        self,
        shader: str,
        items: int,
        parameters: tuple[int, ...],
        regions: tuple[list[Region], list[Region]],
        constants: Mapping[str, int] | None = None,
    ) -> None:
        groups = launch_size(self.desc.operator_name, items)
        kernel = PlainKernel(variant=shader, work_groups=groups, constants=constants or {}, parameters=parameters)
        self.builder.launch(kernel, *regions, label=shader.partition(".")[0].replace("_", " "))

    def _weigh(self, regions: range) -> None:
        """Adds the launch that finds which outputs of these regions have some of each element, and how much."""
        rows, columns = self.sampling.image[2:]
        items = len(regions) * (self.weight_words - rows - columns)
        parameters = (items, regions[0], *self.sampling.offsets, rows, columns, *self.sampling.pooled[2:])
        weights = self.tables.part(self.weights_at, 4 * self.weight_words * self.regions_weighted)
        table = self.tables.part(0, self.sampling.table_bytes)
        mode = self.desc.interpolation_mode.name.lower()
        self._launch(f"region_weights.{mode}.{self.function}", items, parameters, ([table], [weights]))

    def _gather(self) -> None:
        batches, channels, rows, columns = self.sampling.image
        fours = -(-channels // _CHANNELS_OF_ITEM)
        lanes = min(_MOST_CHANNEL_LANES, 1 << (fours - 1).bit_length())
        elements_of_group = WORK_GROUP_SIZE // lanes
        items = -(-batches * rows * columns // elements_of_group) * -(-fours // lanes) * WORK_GROUP_SIZE
        every = range(self.sampling.regions)
        weighted = [every[first : first + self.regions_weighted] for first in every[:: self.regions_weighted]]
        most_groups = max(1, _MOST_SCRATCH_BYTES // (_STATE_BYTES * WORK_GROUP_SIZE))
        turns = -(-items // (most_groups * WORK_GROUP_SIZE))
        blocks = self._all_blocks(weighted, turns)
        is_in_parts = sum(map(len, blocks)) > 1
        together = min(items, most_groups * WORK_GROUP_SIZE) if is_in_parts else items
        output = self.builder.writes["output_gradient_tensor"]
        state = self.builder.scratch(together * _STATE_BYTES) if is_in_parts else output
        for first_item in range(0, items, together):
            count = min(together, items - first_item)
            for regions, own in zip(weighted, blocks, strict=True):
                if first_item == 0 or len(weighted) > 1:
                    self._weigh(regions)
                for block in own:
                    is_first = block is blocks[0][0]
                    is_last = block is blocks[-1][-1]
                    part = _IS_CONTINUED * (not is_first) | _GOES_ON * (not is_last)
                    constants = {"IN_PARTS": int(is_in_parts), "CHANNEL_LANES": lanes}
                    self._gather_block(block, regions[0], (first_item, count, part), state, constants)

    def _all_blocks(self, weighted: list[range], turns: int) -> list[list[_GatheredRange]]:
        """What the launches take of each of these regions, all of which are made for so many parts of the image.

        Raises:
            DeviceLimitError: when there are too many launches.
        """
        blocks: list[list[_GatheredRange]] = [[] for _ in weighted]
        count = len(weighted)
        for regions, own in zip(weighted, blocks, strict=True):
            for block in self._blocks(regions):
                own.append(block)
                count += 1
                if count * turns > MOST_LAUNCHES:
                    rows, columns = self.sampling.pooled[2:]
                    raise DeviceLimitError(
                        f"{self.desc.operator_name}: {self.sampling.regions} regions of {rows} x {columns} outputs in "
                        f"images {list(self.sampling.image)} take more than {MOST_LAUNCHES} launches, as many as there "
                        "can be"
                    )
        return blocks

    def _gather_block(
        self,
        block: _GatheredRange,
        first_weighted: int,
        items: tuple[int, int, int],
        state: Region,
        constants: Mapping[str, int],
    ) -> None:
        first_item, count, part = items
        output = self.desc.output_gradient_tensor
        assert output is not None, "nothing is gathered otherwise"
        bounds = [number for each in (block.regions, block.rows, block.columns) for number in (each.start, each.stop)]
        parameters = [count, first_item, self.weights_at // 4, self.winners_at // 4, first_weighted, *bounds, part]
        parameters += [*self.sampling.offsets, *self.sampling.image, *self.sampling.pooled[2:]]
        parameters += [*self.gradient.element_strides, *output.element_strides]
        name = f"{self.desc.interpolation_mode.name.lower()}.{self.function}.{self.type_name}"
        reads = [self.tables, self.builder.reads["input_gradient_tensor"]]
        writes = [self.builder.writes["output_gradient_tensor"], state]
        self._launch(f"region_gather.{name}", count, tuple(parameters), (reads, writes), constants)

    def _blocks(self, regions: range) -> Iterator[_GatheredRange]:
        """What each launch takes of these regions, in the order of all sums: regions, rows, columns."""
        rows, columns = (range(size) for size in self.sampling.pooled[2:])
        iterations = _iterations_of_region(len(rows), len(columns))
        if not self.builder.target.is_cpu or len(regions) * iterations <= _ITERATIONS_OF_LAUNCH:
            yield _GatheredRange(regions, rows, columns)
            return
        at_once = _ITERATIONS_OF_LAUNCH // iterations
        if at_once:
            for first in regions[::at_once]:
                yield _GatheredRange(range(first, min(first + at_once, regions.stop)), rows, columns)
            return
        none = _iterations_of_region(0, 0)
        rows_at_once = (_ITERATIONS_OF_LAUNCH - none) // (_iterations_of_region(1, len(columns)) - none)
        columns_at_once = len(columns) if rows_at_once else _ITERATIONS_OF_LAUNCH - _iterations_of_region(1, 0)
        rows_at_once = max(1, rows_at_once)
        for region in regions:
            for row in rows[::rows_at_once]:
                for column in columns[::columns_at_once]:
                    yield _GatheredRange(
                        range(region, region + 1),
                        range(row, min(row + rows_at_once, rows.stop)),
                        range(column, min(column + columns_at_once, columns.stop)),
                    )

    def _add_slopes(self, tensor: TensorDesc) -> None:
        """Adds what makes OutputROIGradient where samples lie between elements."""
        outputs = math.prod(self.sampling.pooled[1:])
        of_part = max(_OUTPUTS_OF_PART, -(-outputs // _MOST_PARTS))
        if 2 * of_part > _ITERATIONS_OF_LAUNCH:
            raise DeviceLimitError(
                f"{self.desc.operator_name}: a region has {outputs} outputs; OutputROIGradientTensor can be made of at "
                f"most {_MOST_PARTS * _ITERATIONS_OF_LAUNCH // 2}"
            )
        parts = -(-outputs // of_part)
        at_once = min(self.sampling.regions, max(1, _MOST_SCRATCH_BYTES // (parts * _PART_BYTES)))
        sums = self.builder.scratch(at_once * parts * _PART_BYTES)
        for first in range(0, self.sampling.regions, at_once):
            count = min(at_once, self.sampling.regions - first)
            self._sum_slopes(range(first, first + count), of_part, parts, sums)
            items = 4 * count
            scales = (float32_bits(scale) for scale in self.sampling.scales)
            parameters = (items, first, parts, self.sampling.entries, *scales, *tensor.element_strides[-2:])
            table = self.tables.part(0, self.sampling.table_bytes)
            regions = ([sums, table], [self.builder.writes["output_roi_gradient_tensor"]])
            self._launch(f"region_totals.{self.function}.{self.type_name}", items, parameters, regions)

    def _sum_slopes(self, regions: range, of_part: int, parts: int, sums: Region) -> None:
        """Adds the launches that make the sums of these regions' parts."""
        items = len(regions) * parts
        most = self.sampling.most_inside() if self.is_average else 1
        at_once = _ITERATIONS_OF_LAUNCH // of_part - 1
        whole = -(-most // at_once) * at_once
        step = at_once if self.builder.target.is_cpu else whole
        check_launches(self.desc.operator_name, whole // step, most)
        for first in range(0, whole, step):
            parameters = [items, regions[0], self.winners_at // 4, first, first + step, at_once, parts, of_part]
            parameters += [int(self.sampling.reaches_corners), *self.sampling.offsets, *self.sampling.image[1:]]
            parameters += [*self.sampling.pooled[2:], *self.image.element_strides, *self.gradient.element_strides]
            reads = [self.builder.reads["input_tensor"], self.tables, self.builder.reads["input_gradient_tensor"]]
            name = f"region_slopes.{self.function}.{self.type_name}"
            self._launch(name, items, tuple(parameters), (reads, [sums]))

"""Lowers operators that resize regions of interest: shaders/patterns/windows/roi_align.comp."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.regions import (
    RoiAlign,
    RoiAlign1,
    RoiAlignGrad,
    fewest_samples,
    most_samples,
    without_denormal,
)
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

_ITERATIONS_OF_SAMPLE = 3
"""Of loops: each sample may be a row of its own, which is an iteration of another loop, and one that ends its own."""

_SAMPLES_OF_LAUNCH = 20000
"""As many as one of several launches takes for each output: these take fewer turns than every driver lets it have."""

_STATE_BYTES = {"average": 32, "max": 4, "winner": 12}
"""What such a launch hands on for each output: STATE_WORDS in the shader."""

_MOST_STATE_BYTES = 2**26
MOST_LAUNCHES = 2**16
_WORDS_OF_ENTRY = 4
_ROOM_FOR_ROUNDING = 64
_ALL = 2**32 - 1


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in FLOATS:
        name = data_type.name.lower()
        own = {"INPUT": name, "INPUT_BITS": str(data_type.size_in_bits)}
        for bits in (32, 64):
            defines = {**own, "INDEX_BITS": str(bits)}
            yield ShaderVariant(
                f"region_locations.{name}.uint{bits}",
                "patterns/windows/region_locations.comp",
                tuple(sorted(defines.items())),
            )
        for mode in InterpolationMode:
            for found in _STATE_BYTES:
                defines = {**own, "IS_LINEAR": str(int(mode)), "IS_MAXIMUM": str(int(found != "average"))}
                defines["IS_WINNER"] = str(int(found == "winner"))
                yield ShaderVariant(
                    _variant(mode, found, data_type), "patterns/windows/roi_align.comp", tuple(sorted(defines.items()))
                )


_HAS_QUICK_WAY = "roi_align.linear.average.float32"  # The shader that has another way for GPUs


def _variant(mode: InterpolationMode, found: str, data_type: DataType) -> str:
    return f"roi_align.{mode.name.lower()}.{found}.{data_type.name.lower()}"


@dataclasses.dataclass(frozen=True)
class RegionSampling:
    scales: tuple[float, float]  # SpatialScaleX and SpatialScaleY
    input_offset: float  # InputPixelOffset
    output_offset: float  # OutputPixelOffset
    reaches_corners: bool  # AlignRegionsToCorners
    fewest: int  # samples of an output along each axis
    most: tuple[int, int]  # the same, along x and along y
    image: tuple[int, ...]  # sizes of what regions are taken out of, {N, C, H, W}
    pooled: tuple[int, ...]  # sizes of what they become, {R, C, height, width}

    @classmethod
    def of(cls, desc: RoiAlign | RoiAlign1 | RoiAlignGrad, image: TensorDesc, pooled: TensorDesc) -> RegionSampling:
        """That of a checked description."""
        return cls(
            scales=(without_denormal(desc.spatial_scale_x), without_denormal(desc.spatial_scale_y)),
            input_offset=without_denormal(getattr(desc, "input_pixel_offset", 0.5)),
            output_offset=without_denormal(getattr(desc, "output_pixel_offset", -0.5)),
            reaches_corners=bool(getattr(desc, "align_regions_to_corners", False)),
            fewest=fewest_samples(desc),
            most=(most_samples(desc, pooled.sizes[3]), most_samples(desc, pooled.sizes[2])),
            image=tuple(image.sizes),
            pooled=tuple(pooled.sizes),
        )

    @property
    def regions(self) -> int:
        return self.pooled[0]

    @property
    def table_bytes(self) -> int:
        return self.regions * (1 + self.entries) * _WORDS_OF_ENTRY * 4

    @property
    def entries(self) -> int:
        """Entries of a region in the table of places, beside its head."""
        return self.pooled[2] + self.pooled[3]

    @property
    def offsets(self) -> list[int]:
        """The parameters of ``region_samples.glsl``."""
        return [float32_bits(self.input_offset), float32_bits(self.output_offset)]

    def most_inside(self) -> int:
        """More samples than an output has inside of the input.

        Where there are more than the fewest, two of them lie half an element apart, or farther.
        """
        numbers = [
            min(most, max(self.fewest, 2 * (extent + 1) + _ROOM_FOR_ROUNDING))
            for most, extent in zip(self.most, (self.image[3], self.image[2]), strict=True)
        ]
        return math.prod(numbers)


def locate_samples(
    builder: ProgramBuilder, desc: RoiAlign | RoiAlign1 | RoiAlignGrad, sampling: RegionSampling, table: Region
) -> None:
    """Adds the launch that finds where samples lie, and writes the table: patterns/windows/region_locations.comp."""
    regions, batches = desc.roi_tensor, desc.batch_indices_tensor
    entries = sampling.regions * sampling.entries
    groups = launch_size(desc.operator_name, entries)
    parameters = [entries, *(float32_bits(scale) for scale in sampling.scales), *sampling.offsets]
    parameters += [sampling.fewest, *sampling.most, sampling.image[0], *sampling.image[2:], *sampling.pooled[2:]]
    parameters += [int(sampling.reaches_corners), *regions.element_strides[-2:], batches.element_strides[-1]]
    name = f"{regions.data_type.name.lower()}.uint{batches.data_type.size_in_bits}"
    kernel = PlainKernel(variant=f"region_locations.{name}", work_groups=groups, parameters=tuple(parameters))
    reads = [builder.reads["roi_tensor"], builder.reads["batch_indices_tensor"]]
    builder.launch(kernel, reads, [table], label="places of samples")


@dataclasses.dataclass(frozen=True)
class Reduced:
    found: str  # ``"average"``, ``"max"``, or ``"winner"``: the numbers of the largest sample
    mode: InterpolationMode  # how a sample is taken
    outside: float  # what it is outside of the input
    # elements from one output to the next along each axis; of winners none are needed
    strides: tuple[int, ...] = (0, 0, 0, 0)


def reduce_samples(
    builder: ProgramBuilder, sampling: RegionSampling, how: Reduced, source: TensorDesc, table: Region, output: Region
) -> None:
    """Adds the launches that make outputs of samples: shaders/patterns/windows/roi_align.comp.

    Raises:
        DeviceLimitError: when there are too many.
    """
    most = sampling.most_inside()
    is_in_parts = builder.target.is_cpu and _ITERATIONS_OF_SAMPLE * (most + 1) > MAX_LOOP_ITERATIONS
    elements = math.prod(sampling.pooled)
    parameters = [float32_bits(how.outside), *sampling.offsets]
    parameters += [*sampling.image[1:], *sampling.pooled[2:], *source.element_strides, *how.strides]
    state_bytes = _STATE_BYTES[how.found]
    together = min(elements, _MOST_STATE_BYTES // state_bytes) if is_in_parts else elements
    state = builder.scratch(together * state_bytes) if is_in_parts else output
    variant = _variant(how.mode, how.found, source.data_type)
    own = {"IS_QUICK": int(not builder.target.is_cpu)} if variant == _HAS_QUICK_WAY else {}
    parts = list(_parts(builder.operator_name, most)) if is_in_parts else [(0, _ALL)]
    for first_element in range(0, elements, together):
        count = min(together, elements - first_element)
        groups = launch_size(builder.operator_name, count)
        for first, end in parts:
            kernel = PlainKernel(
                variant=variant,
                work_groups=groups,
                constants={"IN_PARTS": int(is_in_parts), **own},
                parameters=(count, first_element, first, end, *parameters),
            )
            builder.launch(kernel, [builder.reads["input_tensor"], table], [output, state])


@lowering(RoiAlign, RoiAlign1)
def lower_alignment(desc: RoiAlign | RoiAlign1, target: Target) -> Program:
    """The program that computes a checked description of ROI_ALIGN or ROI_ALIGN1."""
    sampling = RegionSampling.of(desc, desc.input_tensor, desc.output_tensor)
    builder = ProgramBuilder(desc, target)
    table = builder.scratch(sampling.table_bytes)
    locate_samples(builder, desc, sampling, table)
    how = Reduced(
        found=desc.reduction_function.name.lower(),
        mode=desc.interpolation_mode,
        outside=desc.out_of_bounds_input_value,
        strides=tuple(desc.output_tensor.element_strides),
    )
    reduce_samples(builder, sampling, how, desc.input_tensor, table, builder.writes["output_tensor"])
    return builder.program()


def check_launches(operator_name: str, count: int, samples: int) -> None:
    """Refuses what takes too many launches.

    Raises:
        DeviceLimitError: when it does.
    """
    if count > MOST_LAUNCHES:
        raise DeviceLimitError(
            f"{operator_name}: an output may have {samples} samples inside of the input, which take {count} launches; "
            f"at most {MOST_LAUNCHES} can be made. A lower MaximumSamplesPerOutput takes fewer"
        )


def _parts(operator_name: str, most: int) -> Iterator[tuple[int, int]]:
    """Which samples each launch takes; the last one all that are left."""
    check_launches(operator_name, -(-most // _SAMPLES_OF_LAUNCH), most)
    firsts = range(0, most, _SAMPLES_OF_LAUNCH)
    for first in firsts:
        yield first, _ALL if first == firsts[-1] else first + _SAMPLES_OF_LAUNCH

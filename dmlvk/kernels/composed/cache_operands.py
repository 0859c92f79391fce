"""What kernels of attention over caches are given: operands, sizes, parameters."""

from __future__ import annotations

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.composed.cache_windows import ROLES
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators.cached_attention import CachedAttention
from dmlvk.tensors import TensorDesc

CACHE_BITS = {DataType.INT8: 8, DataType.UINT8: 4}  # Of an integer in a cache, by the tensor's data type


def variant_name(shader: str, data_type: DataType, cache_bits: int = 0) -> str:
    """A shader's variant for a data type, and for integers of so many bits in caches."""
    integers = f".cache{cache_bits}" if cache_bits else ""
    return f"cached_attention.{shader}.{data_type.name.lower()}{integers}"


def steps_of(bias: TensorDesc) -> tuple[int, ...]:
    """Steps along the axes of a bias, 0 along those of one element."""
    pairs = zip(bias.sizes, bias.element_strides, strict=True)
    return tuple(0 if size == 1 else stride for size, stride in pairs)


class CacheOperands:
    segments: int

    def __init__(self, desc: CachedAttention, target: Target) -> None:
        self.desc = desc
        self.target = target
        self.builder = ProgramBuilder(desc, target)
        self.batch, self.tokens, self.size, self.value_size = desc.sizes
        self.heads, self.key_heads = desc.query_head_count, desc.key_value_head_count
        self.group = self.heads // self.key_heads
        self.type = desc.query_tensor.data_type
        self.cache_bits = CACHE_BITS.get(desc.caches[0].data_type, 0)
        self.scales = [self.builder.reads[f"{role}_scale_tensor"] for role in ROLES if self.cache_bits]
        self.capacity = desc.caches[0].sizes[2]
        self.only_reads = desc.present_key_tensor is None
        self.lengths = [self.builder.reads["ends_tensor"], self.builder.reads["total_tensor"]]
        reads, writes = self.builder.reads, self.builder.writes
        self.caches = [
            reads[f"past_{role}_tensor"] if self.only_reads else writes[f"present_{role}_tensor"] for role in ROLES
        ]
        self.positions = self.builder.reads.get("position_tensor")
        self.beams = self.builder.reads.get("beams_tensor")
        self.is_rotated = desc.cosine_tensor is not None
        queries = self.heads * self.size // 2
        keys, values = self.key_heads * self.size // 2, self.key_heads * self.value_size // 2
        stacked = queries + keys + values
        is_stacked = desc.key_tensor is None and not self.only_reads
        self.rows = (stacked,) * 3 if is_stacked else (queries, keys, values)
        self.firsts = (queries, queries + keys) if is_stacked else (0, 0)

    def _parts(self) -> Region:
        """Memory for what each query makes of each segment: its peak, its total, and its sums."""
        return self.builder.scratch(self.batch * self.heads * self.tokens * self.segments * (self.value_size + 2) * 4)

    def of_caches(self, shader: str) -> str:
        return variant_name(shader, self.type, self.cache_bits)

    @property
    def _of_lengths(self) -> dict[str, int]:
        return {"COUNTS_PAST": int(self.desc.counts_past)}

    @property
    def _of_turning(self) -> dict[str, int]:
        """Constants of the kernels that turn queries and keys."""
        table = self.desc.cosine_tensor
        return {
            "ROTATED": 0 if table is None else table.sizes[1],
            "ARE_NEIGHBOURS": int(self.desc.is_interleaved),
            "HAS_POSITIONS": int(self.positions is not None),
        }

    @property
    def _of_caches(self) -> dict[str, int]:
        scale = self.desc.key_scale_tensor
        return (
            self._of_lengths
            if scale is None
            else {**self._of_lengths, "ELEMENTS_HAVE_SCALES": int(scale.sizes != (1,))}
        )

    @property
    def _common(self) -> dict[str, int]:
        desc = self.desc
        has_sink = desc.sink_tensor is not None
        return {
            **self._of_lengths,
            "VALUE_SIZE": self.value_size,
            "GROUP": self.group,
            "KEY_HEADS": self.key_heads,
            "IS_CAUSAL": int(desc.is_causal),
            "HAS_SINK": int(has_sink),
            "HAS_EMPTY_SINK": int(desc.has_empty_sink and not has_sink),
        }

    @property
    def _beam_sizes(self) -> tuple[int, int]:
        """Sequences of a group, and places of each."""
        assert self.desc.beams_tensor is not None  # who calls asks
        return self.desc.beam_width, self.desc.beams_tensor.sizes[1]

    @property
    def _of_scores(self) -> dict[str, int]:
        """Constants of all kernels that make scores in the order of sums."""
        return {
            "SIZE": self.size,
            "HAS_CAP": int(self.desc.softcap != 0),
            "HAS_BIAS": int(self.desc.bias_tensor is not None),
            "HAS_ORIGINS": int(self.desc.keeps_window),
        }

    @property
    def _score_parameters(self) -> tuple[int, ...]:
        bias, cap = self.desc.bias_tensor, self.desc.softcap or 1.0
        return (
            *(float32_bits(number) for number in (self.desc.scale, cap, 1.0 / cap)),
            *((0,) * 4 if bias is None else steps_of(bias)),
            0 if bias is None else bias.sizes[3],
        )

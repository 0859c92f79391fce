"""Lowers LINEAR_ATTENTION: shaders/patterns/composed/linear_attention.comp."""

from __future__ import annotations

from collections.abc import Iterator

from dmlvk.datatypes import float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import ProgramBuilder, adds_steps
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import LinearAttention
from dmlvk.tensors import TensorDesc

_BUFFERS = 8
_CHAINS = 8
_COLUMNS = 32  # Of a work group that holds columns in registers, in eight invocations each
_ELEMENTS = (4, 16, 32)  # Of a column that one of these has
_INVOCATIONS = {"few": 8, "many": 64}  # Of work groups that have a column each


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    ways = [(str(count), "ELEMENTS", count) for count in _ELEMENTS]
    ways += [(name, "INVOCATIONS", count) for name, count in _INVOCATIONS.items()]
    for name, word, count in ways:
        defines = ((word, str(count)),)
        yield ShaderVariant(f"linear_attention.{name}", "patterns/composed/linear_attention.comp", defines)


@adds_steps(LinearAttention)
def lower_linear_attention(builder: ProgramBuilder, desc: LinearAttention) -> None:
    """One launch; on processors as many as the turns of its loops need.

    Raises:
        DeviceLimitError: the device cannot bind or address it.
    """
    target = builder.target
    if target.buffers < _BUFFERS:
        raise DeviceLimitError(f"{desc.operator_name}: needs {_BUFFERS} buffers in a kernel; got {target.buffers}")
    batch, heads, size, value_size = desc.present_state_tensor.sizes
    tokens, queries = desc.key_tensor.sizes[1], max(1, desc.query_head_count // heads)
    way, columns, invocations = _way(target, size)
    groups = batch * heads * -(-value_size // columns)
    step = tokens
    turns = (1 + queries) * (-(-size // _CHAINS) + 2 * _CHAINS) + 2  # Of a token
    if target.is_cpu and tokens * turns > MAX_LOOP_ITERATIONS:
        step = max(1, (MAX_LOOP_ITERATIONS - 1) // turns)
    reads, writes = builder.reads, builder.writes
    output, present = writes["output_tensor"], writes["present_state_tensor"]
    own = [reads["query_tensor"], reads["key_tensor"], reads["value_tensor"]]
    gates = [reads.get(name, own[0]) for name in ("decay_tensor", "rate_tensor")]
    past = reads.get("past_state_tensor")
    for first in range(0, tokens, step) if step != tokens else (0,):
        kernel = PlainKernel(
            f"linear_attention.{way}",
            launch_size(desc.operator_name, groups * invocations, invocations),
            {
                "HEADS": heads,
                "KEY_HEADS": desc.key_head_count,
                "QUERY_HEADS": desc.query_head_count,
                "SIZE": size,
                "VALUE_SIZE": value_size,
                "HAS_PAST": int(past is not None),
                "DECAYS": 0 if desc.decay_tensor is None else desc.decay_tensor.sizes[2],
                "RATES": 0 if desc.rate_tensor is None else desc.rate_tensor.sizes[2],
            },
            (
                groups,
                tokens,
                first,
                first + step if first + step < tokens else tokens,
                float32_bits(desc.scale),
                *_steps(desc.query_tensor),
                *_steps(desc.key_tensor),
                *_steps(desc.value_tensor),
            ),
            work_group_size=invocations,
        )
        builder.launch(kernel, [*own, past or own[0], *gates], [output, present])
        past = present


def _way(target: Target, size: int) -> tuple[str, int, int]:
    """The variant, the columns of a work group, and its invocations."""
    most = next((count for count in _ELEMENTS if size <= _CHAINS * count), 0)
    if target.is_cpu or not most:
        way = "few" if target.is_cpu else "many"
        return way, _INVOCATIONS[way], _INVOCATIONS[way]
    return str(most), _COLUMNS, _COLUMNS * _CHAINS


def _steps(tensor: TensorDesc) -> tuple[int, ...]:
    return tuple(tensor.element_strides)

"""What a GGUF file says of a llama: its sizes, fields and tensors, each checked, and none passed over.

The layout of blocks is ggml's: a FLOAT16 scale, for Q4_1 a FLOAT16 minimum, and 32 numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.gguf_file import GgufFile, GgufTensor

BLOCK = 32
"""Elements that share a scale, in every type of GGUF that is converted."""

Numbers = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class QuantizedMatrix:
    """A matrix of numbers of four or eight bits.

    Attributes:
        bits: of a number.
        numbers: UINT8 [rows, blocks of a row, bytes of a block]; the first of two numbers is in the low bits.
        scales: FLOAT32 [rows, blocks of a row].
        zero_points: likewise; ``None``: half of what the bits hold.
    """

    bits: int
    numbers: Numbers
    scales: Numbers
    zero_points: Numbers | None

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return int(self.numbers.shape[1]) * BLOCK

    def multiplied_out(self) -> Numbers:
        """The weights themselves, FLOAT32 [rows, columns]."""
        numbers = self.numbers
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(*numbers.shape[:2], BLOCK)
        zero_points = np.float32(2 ** (self.bits - 1)) if self.zero_points is None else self.zero_points[..., None]
        weights: Numbers = ((numbers - zero_points) * self.scales[..., None]).astype(np.float32)
        return weights.reshape(len(numbers), -1)


class GgufSource:
    """A file whose tensors are taken one by one.

    Attributes:
        fields: the file's.

    Args:
        file: open for reading.
    """

    def __init__(self, file: GgufFile) -> None:
        self._file, self.fields = file, file.fields
        self._left = dict(file.tensors)

    def fault(self, what: str) -> ModelFileError:
        """An error that names the file."""
        return ModelFileError(f"{self._file.path}: {what}")

    def refusal(self, what: str) -> UnsupportedError:
        """The same for what is right, but not converted."""
        return UnsupportedError(f"{self._file.path}: {what}")

    def field(self, name: str) -> Any:
        """A field.

        Raises:
            ModelFileError: it is missing.
        """
        if name not in self.fields:
            raise self.fault(f"has no field {name}")
        return self.fields[name]

    def whole(self, name: str, default: int | None = None, least: int = 1, most: int = 2**31 - 1) -> int:
        """A field that is an integer.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.field(name) if default is None else self.fields.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(f"{name} must be an integer from {least} to {most}; got {value!r:.100}")
        return value

    def number(self, name: str, default: float | None, least: float, most: float) -> float:
        """A field that is a number.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.field(name) if default is None else self.fields.get(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(f"{name} must be a number from {least} to {most}; got {value!r:.100}")
        return float(value)

    def text(self, name: str) -> str:
        """A field that is a text.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.field(name)
        if not isinstance(value, str):
            raise self.fault(f"{name} must be a text; got {value!r:.100}")
        return value

    def texts(self, name: str) -> list[str]:
        """A field that is a list of texts.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.field(name)
        if not isinstance(value, list):
            raise self.fault(f"{name} must be a list of texts; got {value!r:.100}")
        return value

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._file.tensors

    def vector(self, name: str, length: int) -> Numbers:
        """A tensor of one dimension as FLOAT32.

        Raises:
            ModelFileError: it is missing, of another size, packed, or not finite.
        """
        tensor = self._tensor(name)
        if tensor.kind not in ("F32", "F16") or tensor.sizes != (length,):
            raise self.fault(
                f"{name} must be {length} numbers of FLOAT32 or FLOAT16; got {tensor.kind} {list(tensor.sizes)}"
            )
        values = self._file.contents(tensor).reshape(-1).view("<f4" if tensor.kind == "F32" else "<f2")
        return self._finite(name, values.astype(np.float32))

    def blocks(self, name: str, rows: int, columns: int) -> QuantizedMatrix:
        """A matrix of packed numbers.

        Raises:
            ModelFileError: it is missing, of another size, or has scales that are not finite.
            UnsupportedError: of another type.
        """
        tensor = self._tensor(name)
        if tensor.sizes != (columns, rows) or columns % BLOCK:
            raise self.fault(f"{name} must have {columns} columns and {rows} rows; got {list(tensor.sizes)}")
        if tensor.kind not in _UNPACK:
            raise self.refusal(f"{name} is of the type {tensor.kind}; {', '.join(_UNPACK)} are converted")
        matrix = _UNPACK[tensor.kind](self._file.contents(tensor).reshape(rows, columns // BLOCK, -1))
        self._finite(name, matrix.scales)
        if matrix.zero_points is not None:
            self._finite(name, matrix.zero_points)
        return matrix

    def check_all_tensors_are_used(self) -> None:
        """Looks whether the model has anything that was not converted.

        Raises:
            UnsupportedError: it has; the message names it.
        """
        if self._left:
            names = ", ".join(sorted(self._left)[:5])
            raise self.refusal(
                f"has tensors that are not converted, without which its numbers are others: {names:.300}"
            )

    def _tensor(self, name: str) -> GgufTensor:
        if name not in self._file.tensors:
            raise self.fault(f"has no tensor {name}")
        self._left.pop(name, None)
        return self._file.tensors[name]

    def _finite(self, name: str, values: Numbers) -> Numbers:
        if not np.isfinite(values).all():
            raise self.fault(f"{name} has NaN or infinity")
        return values


def _halves(data: Numbers, first: int) -> Numbers:
    """The FLOAT16 number that begins at a byte of each block, as FLOAT32."""
    halves = np.ascontiguousarray(data[..., first : first + 2]).view("<f2")[..., 0]
    return halves.astype(np.float32)


def _pairs(data: Numbers) -> Numbers:
    """Sixteen bytes with numbers i and i + 16 to sixteen with numbers 2 i and 2 i + 1."""
    numbers = np.concatenate([data & 15, data >> 4], axis=-1)
    made: Numbers = numbers[..., 0::2] | (numbers[..., 1::2] << 4)
    return made


def _from_q4_0(data: Numbers) -> QuantizedMatrix:
    return QuantizedMatrix(4, _pairs(data[..., 2:]), _halves(data, 0), None)


def _from_q4_1(data: Numbers) -> QuantizedMatrix:
    """Number x scale + minimum is (number - (-minimum / scale)) x scale; all are the minimum where the scale is 0."""
    scales, minima = _halves(data, 0), _halves(data, 2)
    is_flat = scales == 0
    zero_points = np.where(is_flat, np.float32(-1), -minima / np.where(is_flat, np.float32(1), scales))
    numbers = np.where(is_flat[..., None], np.uint8(0), _pairs(data[..., 4:]))
    return QuantizedMatrix(4, numbers, np.where(is_flat, minima, scales), zero_points.astype(np.float32))


def _from_q8_0(data: Numbers) -> QuantizedMatrix:
    return QuantizedMatrix(8, data[..., 2:] ^ np.uint8(128), _halves(data, 0), None)


_UNPACK = {"Q4_0": _from_q4_0, "Q4_1": _from_q4_1, "Q8_0": _from_q8_0}


@dataclasses.dataclass(frozen=True)
class ModelSizes:
    """The sizes of a llama, and what else its fields say.

    Attributes:
        positions: what a position is multiplied by in its angles.
        scale: of queries times keys.
    """

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int
    head: int
    context: int
    vocabulary: int
    rotary_base: float
    epsilon: float
    positions: float
    scale: float

    @classmethod
    def of(cls, source: GgufSource) -> ModelSizes:
        """Those that a file tells.

        Raises:
            ModelFileError: they are missing, or do not fit.
            UnsupportedError: another architecture, or a field that changes numbers and is not converted.
        """
        architecture = source.field("general.architecture")
        if architecture != "llama":
            raise source.refusal(f"the architecture {architecture!r:.100}; only 'llama' is converted")
        _check_fields(source)
        hidden, heads = source.whole("llama.embedding_length"), source.whole("llama.attention.head_count")
        key_heads = source.whole("llama.attention.head_count_kv", heads)
        head = source.whole("llama.attention.key_length", hidden // heads)
        if "llama.attention.key_length" not in source.fields and hidden % heads:
            raise source.fault(f"llama.embedding_length {hidden} is no multiple of llama.attention.head_count {heads}")
        if heads % key_heads or head % 2:
            raise source.fault(
                f"llama.attention.head_count {heads} must be a multiple of head_count_kv {key_heads}, and the elements "
                f"of a head, {head}, even"
            )
        for name in ("llama.rope.dimension_count", "llama.attention.value_length"):
            if source.whole(name, head) != head:
                raise source.refusal(
                    f"{name} is {source.fields[name]}; heads are converted of which all {head} elements count"
                )
        vocabulary = len(source.texts("tokenizer.ggml.tokens"))
        if source.whole("llama.vocab_size", vocabulary) != vocabulary:
            raise source.fault(
                f"llama.vocab_size is {source.fields['llama.vocab_size']}; there are {vocabulary} tokens"
            )
        context = source.whole("llama.context_length")
        if context * head * 2 > _MOST_TABLE_BYTES:
            raise source.refusal(
                f"llama.context_length {context}: tables of its positions have {context * head * 2} bytes each; at "
                f"most {_MOST_TABLE_BYTES} are written"
            )
        return cls(
            source.whole("llama.block_count"),
            hidden,
            source.whole("llama.feed_forward_length"),
            heads,
            key_heads,
            head,
            context,
            vocabulary,
            source.number("llama.rope.freq_base", 10000.0, 1.0, 1e30),
            source.number("llama.attention.layer_norm_rms_epsilon", None, 0.0, 1.0),
            _position_scale(source),
            source.number("llama.attention.scale", 0.0, 0.0, 1e30) or head**-0.5,
        )


_MOST_TABLE_BYTES = 2**28

_READ = frozenset(
    {
        *("context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size"),
        *("attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.scale"),
        *("attention.key_length", "attention.value_length", "rope.freq_base", "rope.dimension_count"),
        *("rope.scaling.type", "rope.scaling.factor", "rope.scale_linear"),
        # what the model was trained with; changes the numbers of other kinds of scaling only
        *("rope.scaling.original_context_length", "rope.scaling.finetuned"),
    }
)
"""Fields of the architecture that are converted."""

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(
        ("expert_count", "expert_used_count", "attention.sliding_window", "leading_dense_block_count"), (0,)
    ),
    **dict.fromkeys(("logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor"), (1.0,)),
    **dict.fromkeys(("attention.max_alibi_bias", "attention.clamp_kqv", "rope.scaling.yarn_log_multiplier"), (0.0,)),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (0.0,)),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
    "tensor_data_layout": ("Meta AI original pth",),
}
"""Fields of the architecture with the values that change nothing."""


def _check_fields(source: GgufSource) -> None:
    """Refuses fields that change the model's numbers, or could, and are not converted."""
    if source.whole("split.count", 1, least=0) > 1:
        raise source.refusal("is one of several files (split.count); only whole models are converted")
    if source.fields.get("general.type", "model") != "model":
        raise source.refusal(f"general.type is {source.fields['general.type']!r:.100}; only models are converted")
    for name, value in source.fields.items():
        namespace, _, key = name.partition(".")
        if namespace != "llama" or key in _READ:
            continue
        if not any(type(value) in (int, float, bool, str) and value == neutral for neutral in _NEUTRAL.get(key, ())):
            raise source.refusal(
                f"{name:.200} is {value!r:.100}; it changes the model's numbers, or may, and is not converted"
            )


def _position_scale(source: GgufSource) -> float:
    """What positions are multiplied by, as llama.cpp reads it: a factor without a type is a linear one."""
    kind = source.fields.get("llama.rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise source.refusal(
            f"llama.rope.scaling.type is {kind!r:.100}; 'none', 'linear' and rope_freqs.weight are converted"
        )
    old = source.number("llama.rope.scale_linear", 0.0, 0.0, 1e30)
    factor = source.number("llama.rope.scaling.factor", old, 0.0, 1e30)
    return 1.0 if kind == "none" or factor == 0 else 1.0 / factor


__all__ = ["BLOCK", "GgufSource", "ModelSizes", "Numbers", "QuantizedMatrix"]

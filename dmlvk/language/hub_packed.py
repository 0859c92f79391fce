"""Packed weights of folders of the hub: FP8 with scales of blocks, GPTQ and AWQ.

FP8 is E4M3 of OCP's 8-bit Floating Point Specification (5.1), times a scale of a tensor, a row or a block
(transformers, finegrained_fp8.py). GPTQ packs integers along the terms, AWQ along the columns in an order of its own
(AutoGPTQ, AutoAWQ: qlinear_*.py); both have a scale and a zero for each group of terms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.language.weights import Matrix, Numbers, packed

if TYPE_CHECKING:
    from dmlvk.language.hub_source import HubSource

_METHODS = ("fp8", "gptq", "awq", "mxfp4", "compressed-tensors")
_ORDER_OF_AWQ = (0, 4, 1, 5, 2, 6, 3, 7)  # Where the columns of a word stand in it

_WORD_BITS = 32
_LEAST_BLOCK = 16


class Packing:
    """What ``quantization_config`` says.

    Args:
        config: of config.json; ``None``: nothing is packed.

    Raises:
        ModelFileError, UnsupportedError: it is none, or of a kind that is not read.
    """

    def __init__(self, source: HubSource, config: Any) -> None:
        self._source = source
        self._config: Mapping[str, Any] = {} if config is None else config
        if not isinstance(self._config, dict):
            raise source.fault(f"quantization_config must be an object; got {config!r:.100}")
        self._method = self._config.get("quant_method")
        if config is not None and self._method not in _METHODS:
            raise source.refusal(f"quant_method is {self._method!r:.100}; {', '.join(_METHODS)} are run")

    def matrix(self, name: str, rows: int, columns: int) -> Matrix | None:
        """A packed matrix by the name of its weights; ``None`` where these are plain."""
        module = name.removesuffix(".weight")
        if self._method in ("gptq", "awq") and self._source.has(f"{module}.qweight"):
            return self._of_integers(module, rows, columns)
        if self._method in ("fp8", "compressed-tensors") and self._source.is_of_eight_bits(name):
            return self._of_floats(module, rows, columns)
        return None

    def _of_floats(self, module: str, rows: int, columns: int) -> Matrix:
        """FLOAT32 numbers, since no integers stand for them."""
        source = self._source
        numbers = _FP8[source.codes(f"{module}.weight", (rows, columns))]
        own = next((each for each in ("weight_scale_inv", "weight_scale") if source.has(f"{module}.{each}")), None)
        if own is None:
            raise source.fault(f"has no tensor {source.tensor_named(f'{module}.weight_scale')} beside weights of FP8")
        source.drop(f"{module}.input_scale")  # of operands, which are FLOAT32 here
        shape = source.sizes(source.tensor_named(f"{module}.{own}"))
        scale = source.any_matrix(f"{module}.{own}")
        if scale.size == 1:
            wide = np.broadcast_to(scale.reshape(1, 1), numbers.shape)
        else:
            blocks = self._config.get("weight_block_size") or [1, columns]
            is_pair = isinstance(blocks, list) and len(blocks) == 2 and all(type(n) is int and n > 0 for n in blocks)
            wanted = (-(-rows // blocks[0]), -(-columns // blocks[1])) if is_pair else None
            if wanted is None or (shape != wanted and shape != wanted[:1]):
                raise source.fault(
                    f"{source.tensor_named(f'{module}.{own}')} must have a scale for each of the blocks "
                    f"{blocks!r:.50} of {rows} x {columns} weights; got {list(shape)}"
                )
            scale = scale.reshape(wanted)
            wide = np.repeat(np.repeat(scale, blocks[0], 0)[:rows], blocks[1], 1)[:, :columns]
        return Matrix(32, source.finite(f"{module}.weight", numbers * wide))

    def _of_integers(self, module: str, rows: int, columns: int) -> Matrix:
        source, is_awq = self._source, self._method == "awq"
        bits, group = self._config.get("bits", self._config.get("w_bit", 4)), self._config.get("group_size", 128)
        if bits not in ((4,) if is_awq else (2, 4, 8)):
            raise source.refusal(f"quantization_config.bits is {bits!r:.20}; {'4' if is_awq else '2, 4 and 8'} are run")
        group = columns if group == -1 else group
        if type(group) is not int or group < _LEAST_BLOCK or group % _LEAST_BLOCK or columns % group:
            raise source.refusal(
                f"quantization_config.group_size {group!r:.20} must be a multiple of {_LEAST_BLOCK} that divides "
                f"{columns}"
            )
        count, of_word = columns // group, _WORD_BITS // bits
        if rows % of_word or columns % of_word:
            raise source.refusal(f"{source.tensor_named(module)}: {rows} x {columns} integers are no whole words")
        if is_awq:
            words = source.codes(f"{module}.qweight", (columns, rows // of_word))
            integers = _columns(words, bits)[..., list(_ORDER_OF_AWQ)].reshape(columns, rows).T
        else:
            words = source.codes(f"{module}.qweight", (columns // of_word, rows))
            integers = _columns(words, bits).transpose(1, 0, 2).reshape(rows, columns)
        zeros = _columns(source.codes(f"{module}.qzeros", (count, rows // of_word)), bits)
        zeros = (zeros[..., list(_ORDER_OF_AWQ)] if is_awq else zeros).reshape(count, rows).T.astype(np.int32)
        if not is_awq and self._config.get("checkpoint_format", "gptq") != "gptq_v2":
            zeros = zeros + 1
        order = self._order(module, columns, group)
        if order is not None:
            integers = integers[:, order]
        scales = np.ascontiguousarray(source.matrix(f"{module}.scales", count, rows).multiplied_out().T)
        numbers = packed(integers.reshape(rows, count, group), bits)
        made = Matrix(bits, numbers, scales, None, group, order, zero=2 ** (bits - 1))
        if zeros.max() < 2**bits:
            with np.errstate(over="ignore"):
                halves = scales.astype(np.float16)
            is_exact = np.array_equal(halves.astype(np.float32), scales)
            own_zeros = zeros.astype(np.uint8) if (zeros != made.zero).any() else None
            return dataclasses.replace(made, scales=halves if is_exact else scales, zeros=own_zeros)
        middle = 0 if bits < 8 else made.zero
        minima = (zeros - middle).astype(np.float32) * scales
        return dataclasses.replace(made, minima=Matrix(32, minima), zero=middle)

    def _order(self, module: str, columns: int, group: int) -> Numbers | None:
        """The terms group by group, where they lie in another order (desc_act); ``None``: as they lie."""
        source = self._source
        if not source.has(f"{module}.g_idx"):
            return None
        groups = source.codes(f"{module}.g_idx", (columns,)).astype(np.int64)
        order: Numbers = np.argsort(groups, kind="stable")
        if not np.array_equal(groups[order], np.arange(columns) // group):
            raise source.refusal(
                f"{source.tensor_named(f'{module}.g_idx')} must have each of the {columns // group} groups "
                f"{group} times"
            )
        return None if np.array_equal(order, np.arange(columns)) else order


def _columns(words: Numbers, bits: int) -> Numbers:
    """The integers of words, the lowest bits first: UINT8 with one more axis."""
    shifts = np.arange(0, _WORD_BITS, bits, dtype=np.uint32)
    made: Numbers = (words.view(np.uint32)[..., None] >> shifts & np.uint32(2**bits - 1)).astype(np.uint8)
    return made


def _table() -> Numbers:
    """The numbers of E4M3: without infinities, and NaN where all bits but the sign are set."""
    codes = np.arange(256)
    exponents, parts = codes >> 3 & 15, codes & 7
    sizes = np.where(exponents == 0, np.ldexp(parts / 8, -6), np.ldexp(1 + parts / 8, exponents - 7))
    made = np.where(codes & 128, -sizes, sizes).astype(np.float32)
    made[[127, 255]] = np.nan
    return made


_FP8 = _table()

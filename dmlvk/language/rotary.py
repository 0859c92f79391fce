"""Angles of positions: how far each pair of a head's elements turns from one token to the next.

The kinds of scaling are those of transformers (modeling_rope_utils.py); YaRN is Peng et al., 2023, arXiv:2309.00071.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.language.source import Source
from dmlvk.language.weights import Numbers
from dmlvk.support.file_arrays import FileArray

_MOST_TABLE_BYTES = 2**28


@dataclasses.dataclass(frozen=True)
class Rotary:
    steps: tuple[float, ...]  # what each pair turns by, in radians
    size: float = 1.0  # what cosines and sines are multiplied by
    most: int = 0  # positions that it is made for; 0: any

    def tables(self, source: Source, context: int) -> Sequence[FileArray]:
        """Cosines and sines, FLOAT32 [context, pairs] each, which are computed when they are needed.

        Raises:
            UnsupportedError: they are too large.
        """
        pairs = len(self.steps)
        if context * pairs * 4 > _MOST_TABLE_BYTES:
            raise source.refusal(
                f"{source.named('context_length')} {context}: tables of its positions have {context * pairs * 4} bytes "
                f"each; at most {_MOST_TABLE_BYTES} are made"
            )
        steps = np.array(self.steps)

        def table(function: np.ufunc, start: int, stop: int) -> Numbers:
            rows: Numbers = function(np.arange(start, stop)[:, None] * steps) * self.size
            return rows.astype(np.float32)

        rows = (functools.partial(table, function) for function in (np.cos, np.sin))
        return [FileArray.computed(each, (context, pairs), np.float32) for each in rows]


def rotary(source: Source, base: float, size: int, scaling: Mapping[str, Any], context: int, number: int = 0) -> Rotary:
    """The angles that a model's files describe.

    Args:
        size: elements of a head that turn.
        scaling: ``rope_type`` and what it needs; factors of ``rope_freqs.weight`` divide the steps of any type.
        context: positions that the model is made for.
        number: which of its kinds of angles they are: only the first one has such factors.

    Raises:
        UnsupportedError: of another type.
        ModelFileError: a number is missing or none.
    """
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    steps = base ** (-np.arange(0, size, 2) / size)
    if number == 0 and source.has("rope_freqs.weight"):
        steps = steps / _factors(source, source.vector("rope_freqs.weight", size // 2), size)
    if not isinstance(kind, str) or kind not in (*_PLAIN, *_KINDS):
        raise source.refusal(f"rope_type {kind!r:.100}; {', '.join(('default', *_KINDS))} are run")
    described = _Scaling(source, scaling, base, size, context)
    made = Rotary(tuple(steps)) if kind in _PLAIN else _KINDS[kind](described, steps)
    if scaling.get("llama_4_scaling_beta"):  # from there on queries grow with the logarithm of their place
        return dataclasses.replace(made, most=described.original)
    return made


@dataclasses.dataclass(frozen=True)
class _Scaling:
    source: Source
    values: Mapping[str, Any]
    base: float
    size: int
    context: int

    def number(self, name: str, default: float | None = None, least: float = 1e-6, most: float = 1e30) -> float:
        value = self.values.get(name)
        if value is None and default is None:
            raise self.source.fault(f"rope scaling has no {name}")
        return self.source.checked_number(f"rope scaling: {name}", default if value is None else value, least, most)

    @property
    def original(self) -> int:
        """Positions that the model was first trained with."""
        return int(self.number("original_max_position_embeddings", self.context, 1))


def _linear(scaling: _Scaling, steps: Numbers) -> Rotary:
    return Rotary(tuple(steps / scaling.number("factor")))


def _proportional(scaling: _Scaling, steps: Numbers) -> Rotary:
    """Steps follow from all of a head's elements, of which a share turns."""
    turned = int(scaling.number("partial_rotary_factor", 1.0, 0.0, 1.0) * scaling.size // 2)
    return Rotary(tuple(np.where(np.arange(len(steps)) < turned, steps, 0) / scaling.number("factor", 1.0)))


def _llama3(scaling: _Scaling, steps: Numbers) -> Rotary:
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    if high <= low:
        raise scaling.source.fault(f"rope scaling: high_freq_factor {high} must be above low_freq_factor {low}")
    turns = scaling.original * steps / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return Rotary(tuple((1 - share) * steps / scaling.number("factor") + share * steps))


def _yarn(scaling: _Scaling, steps: Numbers) -> Rotary:
    factor = scaling.number("factor")

    def place(turns: float) -> float:
        """The element that turns so often within the original positions."""
        return scaling.size * math.log(scaling.original / (turns * 2 * math.pi)) / (2 * math.log(scaling.base))

    low, high = place(scaling.number("beta_fast", 32.0)), place(scaling.number("beta_slow", 1.0))
    if scaling.values.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, scaling.size - 1)
    share = 1 - np.clip((np.arange(scaling.size // 2) - low) / (high - low or 1e-3), 0, 1)
    size = scaling.values.get("attention_factor")
    if size is None:
        wide, wide_all = scaling.number("mscale", 0.0, 0.0), scaling.number("mscale_all_dim", 0.0, 0.0)
        grown = [0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0 for scale in (wide, wide_all, 1.0)]
        size = grown[0] / grown[1] if wide and wide_all else grown[2]
    size = scaling.source.checked_number("rope scaling: attention_factor", size)
    size *= scaling.number("attention_multiplier", 1.0)
    return Rotary(tuple((1 - share) * steps / factor + share * steps), size)


def _longrope(scaling: _Scaling, steps: Numbers) -> Rotary:
    """There are two lists of factors: for texts of the original length, and for longer ones. The first one is run."""
    source, pairs = scaling.source, scaling.size // 2
    if source.has("rope_factors_short.weight"):
        factors = source.vector("rope_factors_short.weight", pairs)
        source.drop("rope_factors_long.weight")
    else:
        listed = scaling.values.get("short_factor")
        if not isinstance(listed, list) or len(listed) != pairs:
            raise source.fault(f"rope scaling: short_factor must be a list of {pairs} numbers")
        factors = np.array([source.checked_number("rope scaling: short_factor", each) for each in listed])
    original = scaling.original
    longer = scaling.context / original
    size = scaling.values.get("attention_factor")
    if size is None:
        longer = scaling.number("factor", longer)
        size = math.sqrt(1 + math.log(longer) / math.log(original)) if longer > 1 and original > 1 else 1.0
    size = source.checked_number("rope scaling: attention_factor", size)
    return Rotary(tuple(steps / _factors(source, factors, scaling.size)), size, original)


def _factors(source: Source, factors: Numbers, size: int) -> Numbers:
    if len(factors) != size // 2 or not np.all(factors > 0):
        raise source.fault("rope_freqs.weight and other factors of angles must be positive")
    return factors.astype(np.float64)


_PLAIN = ("default", "none", "mrope")  # The last has places in pictures, too; in a text they are the same
_KINDS = {
    **{"linear": _linear, "proportional": _proportional, "llama3": _llama3},
    **{"yarn": _yarn, "longrope": _longrope, "su": _longrope},
}

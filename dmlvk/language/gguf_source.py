"""What GGUF files say of a model: one file, or the parts of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmlvk.language import gguf_blocks
from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix

_MOST_PARTS = 1000
_PART = re.compile(r"(.*-)(\d{5})(-of-\d{5}\.gguf)", re.DOTALL)

_WITH_PAIRS = frozenset({"llama", "granite", "granitemoe", "smollm3", "glm4", "ernie4_5", "mistral3"})
"""Architectures whose queries and keys have neighbours that turn together (llama.cpp's LLAMA_ROPE_TYPE_NORM)."""

_DELTA = frozenset({"qwen3next", "qwen35", "qwen35moe"})

_PICTURES = frozenset({"qwen2vl", "qwen3vl"})
"""Those whose files have the part for text of a model for pictures."""

_LFM2 = frozenset({"lfm2", "lfm2moe"})

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("expert_count", "expert_used_count", "leading_dense_block_count"), (0,)),
    **dict.fromkeys(("logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor"), (1.0,)),
    **dict.fromkeys(("attention.max_alibi_bias", "attention.clamp_kqv", "rope.scaling.yarn_log_multiplier"), (0.0,)),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (0.0,)),
    "attention.sliding_window": (0,),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
    "tensor_data_layout": ("Meta AI original pth",),
    # what the model was trained with; changes the numbers of some kinds of scaling only, which read it
    "rope.scaling.original_context_length": (),
    "rope.scaling.finetuned": (),
}
"""Fields of the architecture with the values that change nothing; without values: none does."""


class GgufSource(Source):
    """A file, or several that are parts of one model."""

    has_any_bias = True
    is_of_llama_cpp = True

    def __init__(self, files: list[GgufFile]) -> None:
        self.fields = files[0].fields  # those of the first file
        self._files = {name: file for file in files for name in file.tensors}
        super().__init__(str(files[0].path), set(self._files))
        self._read = set[str]()
        if sum(len(file.tensors) for file in files) > len(self._files):
            raise self.fault("a tensor stands in two of its files")
        if self.fields.get("general.type", "model") != "model":
            raise self.refusal(f"general.type is {self.fields['general.type']!r:.100}; only models are run")
        self.architecture = self.text("general.architecture")
        self.has_pairs = self.architecture in _WITH_PAIRS
        if self.architecture in _DELTA | _PICTURES:  # places in pictures: in a text all are the same
            self._read |= {"rope.dimension_sections", "n_deepstack_layers"}

    @classmethod
    def opened(cls, path: Path) -> GgufSource:
        """Opens a file, and the others where it is the first of several (``NAME-00001-of-00003.gguf``).

        Raises:
            ModelFileError: one of them cannot be read, or is damaged.
        """
        first = GgufFile(path)
        files, count = [first], first.fields.get("split.count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_PARTS:
            raise cls([first]).fault(f"split.count must be an integer to {_MOST_PARTS}; got {count!r:.100}")
        if count > 1:
            match = _PART.fullmatch(path.name)
            if match is None or int(match[2]) != 1 or first.fields.get("split.no", 0) != 0:
                raise cls([first]).fault(
                    f"is one of {count} files; give the first one, whose name ends with -00001-of-{count:05}.gguf"
                )
            names = (path.with_name(f"{match[1]}{number:05}{match[3]}") for number in range(2, count + 1))
            files += [GgufFile(name) for name in names]
        return cls(files)

    def field(self, name: str) -> Any:
        """A field by its full name.

        Raises:
            ModelFileError: it is missing.
        """
        if name not in self.fields:
            raise self.fault(f"has no field {name}")
        return self.fields[name]

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

    def named(self, name: str) -> str:
        return name if name.startswith("tokenizer.") else f"{self.architecture}.{name}"

    def value(self, name: str) -> Any:
        self._read.add(name)
        found = self.fields.get(self.named(name))
        if self.architecture in _LFM2 and name == "attention.head_count_kv" and isinstance(found, (list, np.ndarray)):
            return max((int(each) for each in found if not isinstance(each, str)), default=None)  # one for each layer
        return found

    def tensor_named(self, name: str) -> str:
        if self.architecture in (
            "gpt-oss",
            "seed_oss",
            "glm4moe",
            *_DELTA,
        ):  # whose second norm has the name of the place that it stands at
            return name.replace(".ffn_norm.", ".post_attention_norm.")
        if self.architecture in _LFM2 and name == "output_norm.weight":
            return "token_embd_norm.weight"
        return name

    def sizes(self, name: str) -> tuple[int, ...]:
        return tuple(reversed(self._files[name].tensors[name].sizes))

    def read(self, name: str) -> Matrix:
        file = self._files[name]
        tensor = file.tensors[name]
        return gguf_blocks.matrix(tensor.kind, file.contents(tensor))

    def experts(self, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
        name = f"{own}.ffn_gate_up_exps.weight"
        if part == "down" or not self.has(name):
            return super().experts(own, part, sizes)
        return self.half(name, sizes, is_second=part == "up")

    def angles(self, head: int, theta: float, *, is_local: bool) -> tuple[float, int, Mapping[str, Any]]:
        field = "rope.dimension_count"
        if is_local and self.value(f"{field}_swa") is not None:
            field += "_swa"
        size = self.whole(field, head, least=2, most=head)
        if size % 2:
            raise self.fault(f"{self.named(field)} must be even; got {size}")
        if is_local:
            if not self.architecture.startswith("gemma"):
                theta = self.number("rope.freq_base", theta, 1.0)
            else:
                theta = 10000.0
            return self.number("rope.freq_base_swa", theta, 1.0), size, {}
        return self.number("rope.freq_base", theta, 1.0), size, self._scaling()

    def _scaling(self) -> Mapping[str, Any]:
        """As llama.cpp reads it: a factor without a type is a linear one, and factors of each pair are longrope."""
        kind = self.value("rope.scaling.type") or "linear"
        if self.has("rope_factors_short.weight"):
            kind = "longrope"
        if kind not in ("none", "linear", "yarn", "longrope"):
            raise self.refusal(
                f"{self.named('rope.scaling.type')} is {kind!r:.100}; 'none', 'linear', 'yarn', 'longrope' and "
                "rope_freqs.weight are run"
            )
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 0.0))
        made: dict[str, Any] = {"rope_type": kind, "factor": factor or 1.0}
        if kind == "none" or (kind == "linear" and factor == 0):
            made["rope_type"] = "default"
        if kind in ("yarn", "longrope"):
            made["original_max_position_embeddings"] = self.whole("rope.scaling.original_context_length")
        if kind == "yarn":
            made["beta_fast"] = self.number("rope.scaling.yarn_beta_fast", 32.0, 1e-3)
            made["beta_slow"] = self.number("rope.scaling.yarn_beta_slow", 1.0, 1e-3)
            made["attention_multiplier"] = self.number("rope.scaling.attn_factor", 1.0) or 1.0
            made["attention_factor"] = self.value("rope.scaling.yarn_attn_factor")
            if self.number("rope.scaling.yarn_ext_factor", 1.0, -1.0) not in (1.0, -1.0):
                raise self.refusal(f"{self.named('rope.scaling.yarn_ext_factor')} must be 1")
            if self.architecture == "mistral3":  # which transformers calls ministral3
                made |= {"mscale": 1.0, "mscale_all_dim": self.number("rope.scaling.yarn_log_multiplier", 0.0)}
                made["llama_4_scaling_beta"] = self.number("attention.temperature_scale", 0.0)
        elif kind == "longrope":
            made["attention_factor"] = self.number("rope.scaling.attn_factor", 1.0)
        return made

    def vocabulary(self) -> int:
        count = len(self.texts("tokenizer.ggml.tokens"))
        if self.whole("vocab_size", count) != count:
            raise self.fault(f"{self.named('vocab_size')} is {self.value('vocab_size')}; there are {count} tokens")
        return count

    def flag(self, name: str) -> bool:
        return False

    def gate(self, default: str) -> str:
        return default

    def attending(self, layers: int) -> list[bool]:
        if self.architecture in _DELTA:
            each = self.whole("full_attention_interval", 4)
            return [(layer + 1) % each == 0 for layer in range(layers)]
        counts = self.fields.get(self.named("attention.head_count_kv"))
        if not isinstance(counts, (list, np.ndarray)) or len(counts) != layers:
            raise self.fault(
                f"{self.named('attention.head_count_kv')} must be a list for {layers} layers; got {counts!r:.100}"
            )
        return [bool(count) for count in counts]

    def layers(self, most: int) -> int:
        """Those that guess further tokens, which come last, are left out."""
        count, extra = super().layers(most), self.whole("nextn_predict_layers", 0, least=0)
        if extra and self.architecture in ("glm4moe", *_DELTA) and extra < count:
            count -= extra
            self._left -= {name for name in self._left if _layer_of(name) >= count}
        elif extra:
            raise self.refusal(f"{self.named('nextn_predict_layers')} is {extra}; layers that guess further tokens")
        return count

    def turning(self, layers: int) -> list[bool]:
        return [(layer + 1) % 4 != 0 for layer in range(layers)]

    def windows(self, layers: int) -> list[bool] | None:
        pattern = self.value("attention.sliding_window_pattern")
        if pattern is None:
            return None
        if isinstance(pattern, int) and not isinstance(pattern, bool) and 1 <= pattern <= layers:
            return [layer % pattern < pattern - 1 for layer in range(layers)]
        if len(pattern if hasattr(pattern, "__len__") else ()) != layers:
            raise self.fault(f"{self.named('attention.sliding_window_pattern')} must be a number or one for each layer")
        return [bool(each) for each in pattern]

    def check_fields(self) -> None:
        for name, value in self.fields.items():
            namespace, _, key = name.partition(".")
            if namespace != self.architecture or key in self._read:
                continue
            neutral = _NEUTRAL.get(key, (object(),))
            if neutral and not any(type(value) in (int, float, bool, str) and value == each for each in neutral):
                raise self.refusal(
                    f"{name:.200} is {value!r:.100}; it changes the model's numbers, or may, and is not converted"
                )


def _layer_of(name: str) -> int:
    """The layer that a tensor belongs to; -1: none."""
    match = re.match(r"blk\.(\d{1,9})\.", name)
    return -1 if match is None else int(match[1])

"""Decoders as onnxruntime-genai's model builder writes them: tiny configurations, random weights, int4."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROVIDERS = ("cpu", "dml", "webgpu")
"""Execution providers that the builder makes models for."""

_VOCABULARY = 320
_SIZES = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, **_SIZES))


def _qwen2() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **_SIZES))


def _qwen3() -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(tie_word_embeddings=False, head_dim=32, **_SIZES))


def _gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(Gemma2Config(head_dim=32, sliding_window=8, query_pre_attn_scalar=32, **_SIZES)).bfloat16()


def _mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(tie_word_embeddings=False, sliding_window=8, head_dim=32, **_SIZES))


def _phi3() -> Any:
    from transformers import Phi3Config, Phi3ForCausalLM

    more = {"original_max_position_embeddings": 64, "sliding_window": 8}
    return Phi3ForCausalLM(Phi3Config(tie_word_embeddings=False, **more, **_SIZES))


def _phi3_long() -> Any:
    from transformers import Phi3Config, Phi3ForCausalLM

    scaling: dict[str, Any] = {"rope_type": "longrope", "type": "longrope"}
    scaling |= {"short_factor": [1 + index / 16 for index in range(16)], "long_factor": [2.0 + i for i in range(16)]}
    more = {"original_max_position_embeddings": 12, "rope_scaling": scaling}
    return Phi3ForCausalLM(Phi3Config(tie_word_embeddings=False, **more, **_SIZES))


def _phi() -> Any:
    from transformers import PhiConfig, PhiForCausalLM

    sizes = _SIZES | {"num_key_value_heads": 4}
    return PhiForCausalLM(PhiConfig(tie_word_embeddings=False, partial_rotary_factor=0.5, **sizes))


BUILT: dict[str, Callable[[], Any]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "mistral": _mistral,
    "phi": _phi,
    "phi3": _phi3,
    "phi3_long": _phi3_long,
}
"""What makes each model."""


def write_pretrained(name: str, folder: Path) -> None:
    """Writes a model and a tokenizer as transformers keeps them."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    BUILT[name]().eval().save_pretrained(folder)
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, **{f"w{index}": index for index in range(4, _VOCABULARY)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(folder)


def built(pretrained: Path, provider: str, folder: Path) -> Path:
    """The file of a model that the builder wrote for an execution provider, with weights of int4.

    Raises:
        subprocess.CalledProcessError: when it cannot.
    """
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(pretrained), "-o", str(folder)]
    command += ["-p", "int4", "-e", provider, "-c", str(folder / "cache")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder / "model.onnx"


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model's numbers of FLOAT16 as FLOAT32, products of them, and what ONNX Runtime's CPU lacks written out.

    ``accuracy_level`` 4 lets ONNX Runtime round what weights of int4 are multiplied by to int8; here it is 1, FLOAT32.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f4"), tensor.name))
    for info in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = []
    for node in made.graph.node:
        _widen(node)
        if node.op_type == "GroupQueryAttention" and len(node.input) > _KEY_SCALE and node.input[_KEY_SCALE]:
            nodes += _normalizations(made, node)
        nodes.append(node)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def _widen(node: onnx.NodeProto) -> None:
    """FLOAT16 of a node's attributes, and of graphs inside of it, as FLOAT32."""
    for attribute in node.attribute:
        if attribute.name == "accuracy_level":
            attribute.i = 1
        elif node.op_type == "Cast" and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.FLOAT
        elif attribute.t.data_type == TensorProto.FLOAT16:
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype("f4")))
        for info in attribute.g.output:
            if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
                info.type.tensor_type.elem_type = TensorProto.FLOAT
        for inner in attribute.g.node:
            _widen(inner)


_KEY_SCALE = 15
"""The input of GroupQueryAttention that the normalization of keys is multiplied by; before it that of queries."""


def _normalizations(model: onnx.ModelProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The normalizations of queries and keys as nodes of their own, which ONNX Runtime's CPU provider computes."""
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    made = []
    for index in (0, 1):
        name, scale = node.input[index], node.input[_KEY_SCALE - 1 + index]
        size = next(tensor.dims[0] for tensor in model.graph.initializer if tensor.name == scale)
        own = f"{node.name}/{index}"
        for shape, ending in (([0, 0, -1, size], "heads"), ([0, 0, -1], "line")):
            model.graph.initializer.append(numpy_helper.from_array(np.array(shape), f"{own}/{ending}"))
        normalized = helper.make_node(
            "SimplifiedLayerNormalization",
            [f"{own}/divided", scale],
            [f"{own}/normalized"],
            epsilon=attributes["qk_norm_epsilon"],
        )
        made += [
            helper.make_node("Reshape", [name, f"{own}/heads"], [f"{own}/divided"]),
            normalized,
            helper.make_node("Reshape", [f"{own}/normalized", f"{own}/line"], [f"{own}/joined"]),
        ]
        node.input[index] = f"{own}/joined"
    for attribute in [item for item in node.attribute if item.name == "qk_norm_epsilon"]:
        node.attribute.remove(attribute)
    del node.input[_KEY_SCALE - 1 :]
    return made

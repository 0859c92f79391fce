"""Models of a few thousand random weights that transformers writes, and the same in GGUF files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.language.small_llama import byte_tokens

_ALL = {
    **{"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256},
    **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2},
}
_LLAMA_3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_SHORT = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
_LONG_ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": _SHORT, "long_factor": [2.0] * 6}
_GEMMA = {"head_dim": 32, "sliding_window": 8, "query_pre_attn_scalar": 32}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 32}),
    "llama3": ("Llama", {"rope_parameters": _LLAMA_3 | {"original_max_position_embeddings": 32}}),
    "yarn": (
        "Llama",
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}, "tie_word_embeddings": True},
    ),
    "mistral": ("Mistral", {"sliding_window": 8, "head_dim": 16}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "gemma": ("Gemma", {"head_dim": 32}),
    "gemma2": ("Gemma2", _GEMMA),
    "gemma3": (
        "Gemma3Text",
        {
            **_GEMMA,
            "num_hidden_layers": 6,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "phi3": ("Phi3", {"sliding_window": 9}),
    "phi4": (
        "Phi3",
        {
            "original_max_position_embeddings": 128,
            "rope_parameters": _LONG_ROPE
            | {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 128, "factor": 2.0},
        },
    ),
    "granite": (
        "Granite",
        {
            **{"attention_multiplier": 0.3, "embedding_multiplier": 4.0},
            **{"logits_scaling": 3.0, "residual_multiplier": 0.4},
        },
    ),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 4}),
}
CASES |= {
    "mixtral": ("Mixtral", {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            "head_dim": 32,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
        },
    ),
    "granitemoe": (
        "GraniteMoe",
        {
            **{"attention_multiplier": 0.3, "embedding_multiplier": 4.0, "logits_scaling": 3.0},
            **{"residual_multiplier": 0.4, "num_local_experts": 4, "num_experts_per_tok": 2},
        },
    ),
    "gpt_oss": (
        "GptOss",
        {
            **{"head_dim": 32, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
            **{"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        },
    ),
}
CASES["lfm2"] = (
    "Lfm2",
    {
        **{"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "conv_bias": False},
        **{"block_auto_adjust_ff_dim": True, "block_multiple_of": 16},
    },
)
CASES["lfm2_moe"] = (
    "Lfm2Moe",
    {
        **{"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
        **{"moe_intermediate_size": 32, "num_experts": 6, "num_experts_per_tok": 3, "routed_scaling_factor": 1.5},
        "tie_word_embeddings": True,
    },
)
_DELTA = {
    **{"num_hidden_layers": 4, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    **{"linear_key_head_dim": 16, "linear_value_head_dim": 24},
}
_SHARED = {
    **{"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 32},
    **{"shared_expert_intermediate_size": 48},
}
CASES |= {
    "qwen3_next": ("Qwen3Next", _DELTA | _SHARED),
    "qwen3_5": ("Qwen3_5Text", _DELTA),
    "qwen3_5_moe": ("Qwen3_5MoeText", _DELTA | _SHARED),
}
CASES |= {
    "gemma4": (
        "Gemma4Text",
        {
            **{"num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3},
            **{"head_dim": 32, "global_head_dim": 64, "sliding_window": 8, "num_kv_shared_layers": 2},
            **{"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 260},
            **{"use_double_wide_mlp": True, "final_logit_softcapping": 30.0, "tie_word_embeddings": False},
        },
    ),
    "gemma4_moe": (
        "Gemma4Text",
        {
            **{"head_dim": 32, "global_head_dim": 512, "num_global_key_value_heads": 1, "sliding_window": 8},
            **{"layer_types": ["sliding_attention", "full_attention"], "attention_k_eq_v": True},
            **{"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
            **{"hidden_size_per_layer_input": 0, "tie_word_embeddings": False},
        },
    ),
}
_GLM = {"head_dim": 32, "attention_bias": True}
CASES |= {
    "ministral": ("Ministral", {"sliding_window": 8, "head_dim": 16}),
    "ministral3": (
        "Ministral3",
        {
            "head_dim": 32,
            "rope_parameters": {
                **{"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 128},
                **{"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
            },
        },
    ),
    "qwen2_moe": ("Qwen2Moe", _SHARED),
    "seed_oss": ("SeedOss", {"head_dim": 32}),
    "ernie4_5": ("Ernie4_5", {"head_dim": 32, "use_bias": True}),
    "olmo2": ("Olmo2", {}),
    "olmo3": (
        "Olmo3",
        {
            **{"num_hidden_layers": 4, "sliding_window": 8},
            "rope_parameters": {
                "full_attention": {
                    **{"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0},
                    "original_max_position_embeddings": 64,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "exaone4": ("Exaone4", {"num_hidden_layers": 4, "sliding_window": 8}),
    "glm4": ("Glm4", _GLM),
    "glm4_moe": (
        "Glm4Moe",
        {
            **{**_GLM, "use_qk_norm": True, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_shared_experts": 2},
            **{"moe_intermediate_size": 32, "routed_scaling_factor": 1.5, "num_mtp_layers": 0},
        },
    ),
}
CASES["yarn"][1]["rope_parameters"]["original_max_position_embeddings"] = 64


def initialize(model: Any, name: str) -> None:
    """Gives a model of transformers random weights, which let it tell tokens apart."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for part, weights in model.named_parameters():
            is_norm = weights.dim() == 1 and "norm" in part.lower()
            weights.normal_(0, 0.2 if weights.dim() == 1 else 1.5 * weights.shape[-1] ** -0.5)
            weights += float(is_norm and ("gemma" not in name or "gemma4" in name) and "bias" not in part)
        for part, buffer in model.named_buffers():
            if part.endswith(("layer_scalar", "expert_bias", "e_score_correction_bias")):
                buffer.uniform_(0.5, 1.5)


def write_hub_folder(name: str, folder: Path, data_type: str = "float32") -> Any:
    """Writes config.json, safetensors and a tokenizer of single bytes; gives the model of transformers in FLOAT32."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    kind, more = CASES[name]
    config = getattr(transformers, f"{kind}Config")(**_ALL | more)
    model: Any = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    initialize(model, name)
    model.to(getattr(torch, data_type)).save_pretrained(folder)
    tokens = byte_tokens()
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(tokens[:3])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": tokens[0], "eos_token": tokens[1]}))
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


_GGUF_NAMES = {
    **{"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3"},
    **{"qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "gemma4_text": "gemma4", "lfm2_moe": "lfm2moe"},
    **{
        "ministral": "llama",
        "ministral3": "mistral3",
        "olmo3": "olmo2",
        "qwen2_moe": "qwen2moe",
        "glm4_moe": "glm4moe",
    },
    **{"qwen2_vl_text": "qwen2vl", "qwen3_vl_text": "qwen3vl"},
    **{"qwen3_next": "qwen3next", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe"},
}


_OF_CHOICES = (
    *("sinks", "expert_bias", "e_score_correction_bias", "feed_forward.gate.weight", "mlp.gate.weight"),
    *("router.weight", "router.bias", "router.layer.weight"),
)
_OF_GEMMA_4 = {
    **{"layer_scalar": "layer_output_scale.weight", "router.scale": "ffn_gate_inp.scale"},
    **{"router.proj.weight": "ffn_gate_inp.weight", "router.per_expert_scale": "ffn_down_exps.scale"},
    **{f"experts.{own}_proj": f"ffn_{own}_exps.weight" for own in ("gate_up", "down")},
}


def write_gguf(
    model: Any, path: Path, kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32, further: int = 0
) -> None:
    """Writes a model of transformers as llama.cpp's convert_hf_to_gguf does.

    Args:
        model: the model, whose experts become what the file has of them.
        further: its last layers that guess further tokens, of which one tensor is written.
    """
    config = model.config
    name = _GGUF_NAMES.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, name)
    heads = config.num_attention_heads
    head = _write_fields(writer, config, name)
    _write_rope(writer, model, head)
    _write_tokenizer(writer)
    if further:
        writer.add_nextn_predict_layers(further)
        writer.add_tensor(f"blk.{config.num_hidden_layers - 1}.nextn.enorm.weight", np.ones(4, np.float32))
    architecture = next(key for key, own in gguf.MODEL_ARCH_NAMES.items() if own == name)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for part, tensor in model.state_dict().items():
        array = tensor.numpy()
        if part == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if "linear_attn" in part:
            _write_delta(writer, config, part, array)
            continue
        if "shared_expert" in part:
            own = part.split("shared_expert", 1)[1].split(".", 1)[-1].replace("_proj.weight", "")
            own = f"ffn_{own}_shexp" if "_gate.weight" not in part else "ffn_gate_inp_shexp"
            writer.add_tensor(f"blk.{part.split('.')[2]}.{own}.weight", array.squeeze())
            continue
        if name == "gemma4" and (own := _OF_GEMMA_4.get(part.split(".", 3)[-1], "")):
            writer.add_tensor(f"blk.{part.split('.')[2]}.{own}", array)
            continue
        if "experts" in part:
            _write_experts(writer, part, tensor, kind, is_in_turn=name == "gpt-oss")
            continue
        if part.endswith(_OF_CHOICES):
            named = {"sinks": "attn_sinks.weight"}
            named |= dict.fromkeys(("expert_bias", "e_score_correction_bias"), "exp_probs_b.bias")
            last = part.rpartition(".")[2]
            own = named.get(last, f"ffn_gate_inp.{last}")
            writer.add_tensor(f"blk.{part.split('.')[2]}.{own}", array)
            continue
        if name in ("llama", "mistral3", "granite", "granitemoe", "smollm3") and ("q_proj" in part or "k_proj" in part):
            count = heads if "q_proj" in part else config.num_key_value_heads
            array = array.reshape(count, 2, head // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if part.endswith("conv.conv.weight"):
            array = array.squeeze(1)
        if name.startswith(("gemma", "qwen3next", "qwen35")) and name != "gemma4" and part.endswith("norm.weight"):
            array = array + np.float32(1)
        writer.add_tensor(str(names.get_name(part, try_suffixes=(".weight", ".bias"))), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_fields(writer: gguf.GGUFWriter, config: Any, name: str) -> int:
    """The fields of all sizes; gives that of heads."""
    if name == "gemma4":
        return _write_gemma4(writer, config)
    head = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    _write_sizes(writer, config, head)
    if name in ("lfm2moe", "glm4moe"):
        _write_sigmoids(writer, config)
    return head


def _write_gemma4(writer: gguf.GGUFWriter, config: Any) -> int:
    """The fields of Gemma 4's sizes, of which layers that see all keys have their own; gives their heads' size."""
    kinds = [kind == "sliding_attention" for kind in config.layer_types]
    own = [config.per_layer_config[layer] for layer in range(len(kinds))]
    (head, local_head), shared = (
        (own[kinds.index(each)].head_dim for each in (False, True)),
        config.num_kv_shared_layers,
    )
    wide = [config.intermediate_size * (1 + (layer >= len(kinds) - shared)) for layer in range(len(kinds))]
    writer.add_block_count(len(kinds))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([each.num_key_value_heads for each in own])
    writer.add_feed_forward_length(wide if config.use_double_wide_mlp else config.intermediate_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(kinds)
    for add, size in (
        *((add, head) for add in (writer.add_key_length, writer.add_value_length)),
        *((add, local_head) for add in (writer.add_key_length_swa, writer.add_value_length_swa)),
        (writer.add_rope_dimension_count_swa, local_head),
    ):
        add(size)
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    return int(head)


def _write_delta(writer: gguf.GGUFWriter, config: Any, part: str, array: Any) -> None:
    """A tensor of a layer with the delta rule: Qwen3.5's heads of values take turns with heads of keys there."""
    keys, heads = config.linear_num_key_heads, config.linear_num_value_heads
    size, values = config.linear_key_head_dim, config.linear_value_head_dim
    own, layer = part.split("linear_attn.")[1], part.split(".")[2]

    def in_turn(lines: Any, width: int) -> Any:
        if config.model_type == "qwen3_next":
            return lines
        return lines.reshape(keys, heads // keys, width, -1).swapaxes(0, 1).reshape(lines.shape)

    named = {
        "in_proj_z.weight": "attn_gate.weight",
        "in_proj_b.weight": "ssm_beta.weight",
        "norm.weight": "ssm_norm.weight",
    }
    named |= {"in_proj_a.weight": "ssm_alpha.weight", "in_proj_ba.weight": "ssm_ba.weight", "dt_bias": "ssm_dt.bias"}
    named |= {"A_log": "ssm_a", "out_proj.weight": "ssm_out.weight", "conv1d.weight": "ssm_conv1d.weight"}
    named |= {"in_proj_qkv.weight": "attn_qkv.weight"}
    if own == "in_proj_qkvz.weight":
        rows = array.reshape(keys, -1, array.shape[1])
        ends = np.cumsum([size, size, heads // keys * values])
        *parts, gate = (each.reshape(-1, array.shape[1]) for each in np.split(rows, ends, 1))
        writer.add_tensor(f"blk.{layer}.attn_qkv.weight", np.concatenate(parts))
        writer.add_tensor(f"blk.{layer}.attn_gate.weight", gate)
        return
    if own in ("in_proj_qkv.weight", "conv1d.weight"):
        array = array.reshape(array.shape[0], -1)
        array = np.concatenate([array[: 2 * keys * size], in_turn(array[2 * keys * size :], values)])
    elif own == "in_proj_z.weight":
        array = in_turn(array, values)
    elif own == "out_proj.weight":
        array = np.ascontiguousarray(in_turn(array.T, values).T)
    elif own in ("in_proj_a.weight", "in_proj_b.weight", "dt_bias", "A_log"):
        array = in_turn(array, 1)
    writer.add_tensor(f"blk.{layer}.{named[own]}", -np.exp(array) if own == "A_log" else array)


def _write_experts(
    writer: gguf.GGUFWriter, part: str, tensor: Any, kind: gguf.GGMLQuantizationType, *, is_in_turn: bool
) -> None:
    """A tensor of all experts, and its weights as packed ones have them back into the model."""
    import torch

    layer, is_bias, is_down = part.split(".")[2], part.endswith("bias"), "down" in part or "output_linear" in part
    whole = tensor.transpose(1, 2) if is_in_turn and not is_bias else tensor
    half = whole.shape[1] // 2
    names = {"down": slice(None)} if is_down else {"gate": slice(half), "up": slice(half, None)}
    if is_in_turn and not is_down:
        names = {"gate": slice(0, None, 2), "up": slice(1, None, 2)}
    for name, lines in names.items():
        array = np.ascontiguousarray(whole[:, lines].numpy())
        if is_bias:
            writer.add_tensor(f"blk.{layer}.ffn_{name}_exps.bias", array)
            continue
        packed = gguf.quantize(array, kind)
        with torch.no_grad():
            whole[:, lines] = torch.from_numpy(gguf.dequantize(packed, kind).reshape(array.shape))
        writer.add_tensor(f"blk.{layer}.ffn_{name}_exps.weight", packed, raw_dtype=kind)


def _write_sizes(writer: gguf.GGUFWriter, config: Any, head: int) -> None:
    """What the architecture's fields say, but for angles."""
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("lfm2", "lfm2_moe"):  # as its weights are, and not as its configuration says
        writer.add_feed_forward_length(96 * 2 // 3 if config.model_type == "lfm2" else 96)
        writer.add_head_count_kv([config.num_key_value_heads * (kind != "conv") for kind in config.layer_types])
        writer.add_shortconv_l_cache(config.conv_L_cache)
    else:
        writer.add_feed_forward_length(getattr(config, "intermediate_size", 96))
        writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.norm_eps if hasattr(config, "norm_eps") else config.rms_norm_eps)
    if hasattr(config, "linear_num_key_heads"):
        heads, values = config.linear_num_value_heads, config.linear_value_head_dim
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(heads)
        writer.add_ssm_inner_size(heads * values)
        writer.add_full_attention_interval(4)
        writer.add_rope_dimension_sections([2, 1, 1, 0])
    if hasattr(config, "shared_expert_intermediate_size"):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type.endswith("_vl_text"):
        writer.add_rope_dimension_sections([head // 4, head // 8, head // 8, 0])
        writer.add_num_deepstack_layers(1)
    if config.model_type in ("qwen2", "qwen2_vl_text", "olmo3", "exaone4"):
        kinds = [kind == "sliding_attention" for kind in config.layer_types]
        writer.add_sliding_window_pattern(kinds)
    if getattr(config, "num_local_experts", 0):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
    if config.model_type in ("granite", "granitemoe"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _write_sigmoids(writer: gguf.GGUFWriter, config: Any) -> None:
    """The fields of mixtures that are chosen by sigmoids."""
    if config.model_type == "glm4_moe":
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    else:
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_scale(config.routed_scaling_factor)


def _write_rope(writer: gguf.GGUFWriter, model: Any, head: int) -> None:
    rope = model.config.rope_parameters.get("full_attention", model.config.rope_parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "proportional":  # pairs that do not turn
        writer.add_rope_dimension_count(head)
        turned = np.arange(head // 2) < rope["partial_rotary_factor"] * head // 2
        writer.add_tensor("rope_freqs.weight", np.where(turned, 1, 1e30).astype(np.float32))
        return
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if "llama_4_scaling_beta" in rope:
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if "original_max_position_embeddings" in rope:
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_attn_factors(float(model.model.rotary_emb.attention_scaling))
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))
    if rope["rope_type"] == "llama3":  # what llama.cpp divides each pair's step by
        steps = rope["rope_theta"] ** (-np.arange(0, head, 2) / head)
        factors = (steps / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
        writer.add_tensor("rope_freqs.weight", factors)


def _write_tokenizer(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(byte_tokens())
    writer.add_token_types([3, 3, 3, *[1] * 257])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def write_pieces(path: Path, tokens: list[str], scores: list[float], kinds: list[int], *, has_prefix: bool) -> None:
    """A file of SentencePiece (sentencepiece_model.proto): pieces, that they are merged, and how spaces are treated."""

    def member(key: int, contents: bytes) -> bytes:
        assert len(contents) < 128
        return bytes([key, len(contents)]) + contents

    parts = [
        member(0x0A, member(0x0A, token.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))
        for token, score, kind in zip(tokens, scores, kinds, strict=True)
    ]
    path.write_bytes(b"".join([*parts, member(0x12, b"\x18\x02"), member(0x1A, bytes([0x18, has_prefix, 0x20, 0]))]))

"""What folders of the hub call fields and tensors, and what they leave out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS: Mapping[str, str] = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.scale": "attention_multiplier",
    "expert_count": "num_local_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
    "leading_dense_block_count": "num_dense_layers",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.time_step_rank": "linear_num_value_heads",
    "value_size": "linear_value_head_dim",
}
"""Names of fields, where they are not those of :class:`Source`."""

_FIELDS_OF_LFM2 = {"attention.layer_norm_rms_epsilon": "norm_eps", "shortconv.l_cache": "conv_L_cache"}
_BERTS = ("bert", "roberta", "xlm-roberta")
_OF_BERTS = {"attention.layer_norm_rms_epsilon": "layer_norm_eps"}
OTHER_FIELDS: Mapping[str, Mapping[str, str]] = {
    "lfm2": _FIELDS_OF_LFM2,
    "lfm2_moe": _FIELDS_OF_LFM2,
    "gemma4_text": {
        **{"attention.key_length": "global_head_dim", "attention.key_length_swa": "head_dim"},
        **{"attention.shared_kv_layers": "num_kv_shared_layers", "expert_used_count": "top_k_experts"},
        "expert_count": "num_experts",
        "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    },
    "glm4_moe": {
        **{"expert_count": "n_routed_experts", "expert_shared_count": "n_shared_experts"},
        **{"expert_group_count": "n_group", "expert_group_used_count": "topk_group"},
        "leading_dense_block_count": "first_k_dense_replace",
    },
    **dict.fromkeys(_BERTS, _OF_BERTS),
}
"""Those of single architectures."""

TENSORS: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    **{f"attn_{part}": f"self_attn.{part}_proj" for part in ("q", "k", "v", "qkv")},
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_sinks.weight": "self_attn.sinks",
    "ffn_norm": "post_attention_layernorm",
    **{f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}
_OF_GEMMA = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_OF_BERT = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
    **{f"attn_{part[0]}": f"attention.self.{part}" for part in ("query", "key", "value")},
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_OF_MIXTURES = {"ffn_gate_inp": "mlp.gate", "experts": "mlp.experts"}
_OF_SHARED = {
    **_OF_MIXTURES,
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{f"ffn_{part}_shexp": f"mlp.shared_expert.{part}_proj" for part in ("gate", "up", "down")},
}
_OF_DELTA = {
    **{"ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"},
    **{"attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z"},
    **{"ssm_alpha": "linear_attn.in_proj_a", "ssm_beta": "linear_attn.in_proj_b"},
    **{"ssm_dt.bias": "linear_attn.dt_bias", "ssm_a": "linear_attn.A_log", "ssm_conv1d": "linear_attn.conv1d"},
    **{"ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj"},
    **_OF_SHARED,
}
_OF_LFM2 = {
    "output_norm": "model.embedding_norm",
    "attn_norm": "operator_norm",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "ffn_norm": "ffn_norm",
    **{"ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2"},
    **{f"shortconv.{part}": f"conv.{part}" for part in ("conv", "in_proj", "out_proj")},
}
DELTA = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
OTHERS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(DELTA, _OF_DELTA),
    "lfm2": _OF_LFM2,
    "lfm2_moe": {
        **_OF_LFM2,
        **{"ffn_gate_inp": "feed_forward.gate", "exp_probs_b.bias": "feed_forward.expert_bias"},
        "experts": "feed_forward.experts",
    },
    **dict.fromkeys(_BERTS, _OF_BERT),
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
    "mixtral": {"ffn_gate_inp": "block_sparse_moe.gate", "experts": "block_sparse_moe.experts"},
    "granitemoe": {
        "ffn_gate_inp": "block_sparse_moe.router.layer",
        "experts.gate_up": "block_sparse_moe.input_linear",
        "experts.down": "block_sparse_moe.output_linear",
    },
    "qwen2_moe": _OF_SHARED,
    "qwen3_moe": _OF_MIXTURES,
    "glm4": {
        **{"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm"},
        "ffn_up": "mlp.gate_up_proj",
    },
    "glm4_moe": {
        **_OF_MIXTURES,
        "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
        **{f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")},
    },
    "gpt_oss": {"ffn_gate_inp": "mlp.router", "experts": "mlp.experts"},
    **dict.fromkeys(("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4"), _OF_GEMMA),
    "gemma4_text": {
        **_OF_GEMMA,
        **{"post_ffw_norm_1": "post_feedforward_layernorm_1", "post_ffw_norm_2": "post_feedforward_layernorm_2"},
        **{"pre_ffw_norm_2": "pre_feedforward_layernorm_2", "layer_output_scale.weight": "layer_scalar"},
        **{
            "per_layer_token_embd": "model.embed_tokens_per_layer",
            "per_layer_proj_norm": "model.per_layer_projection_norm",
        },
        **{"per_layer_model_proj": "model.per_layer_model_projection", "post_norm": "post_per_layer_input_norm"},
        **{"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "experts": "experts"},
        **{"ffn_gate_inp": "router.proj", "ffn_gate_inp.scale": "router.scale"},
        "ffn_down_exps.scale": "router.per_expert_scale",
    },
}
"""Names of tensors' modules, and those of single architectures."""

PAIRS = frozenset({"glm4", "ernie4_5"})
"""Architectures whose queries and keys have neighbours that turn together."""

LAYERS = dict.fromkeys(_BERTS, "encoder.layer")
"""What stands before the number of a layer, where it is not ``model.layers``."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"attention_multiplier": 1.0} for name in ("granite", "granitemoe")},
    **{name: {"max_window_layers": 28} for name in ("qwen2", "qwen3")},
    "gemma2": {"query_pre_attn_scalar": 256},
    "gemma3_text": {
        **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208},
        **{"max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "sliding_window": 4096},
    },
}
"""What folders, of models for pictures and text above all, do not say, as transformers' configuration has it."""

NOTHING = frozenset({"attn_logit_softcapping", "final_logit_softcapping", "sliding_window"})
"""Fields that are 0 where they are null, and have a value of their own where they are missing."""

OF_ALL_LAYERS = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
"""What older folders of Gemma 4 call fields of layers that see all keys."""

ANGLES_OF_GEMMA4: Mapping[str, Any] = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
}
"""Where folders do not say, as transformers' configuration has them."""

OTHER_PARTS = "vision_tower|audio_tower|embed_vision|embed_audio|multi_modal_projector|visual|mtp"
"""Of pictures and sounds, and what guesses further tokens."""

TURNING = {**dict.fromkeys(DELTA, 0.25), **dict.fromkeys(("glm4", "glm4_moe"), 0.5)}
"""The share of a head's elements that turn, where it is not all, and folders do not say."""

GATES = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new", "gelu_fast"), "tanh"),
    "gelu": "erf",
}
IGNORED = frozenset(
    {
        *("architectures", "auto_map", "torch_dtype", "dtype", "transformers_version", "_name_or_path", "name_or_path"),
        *("use_cache", "initializer_range", "attention_dropout", "hidden_dropout", "embd_pdrop", "resid_pdrop"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "pretraining_tp", "cache_implementation", "torchscript"),
        *("output_attentions", "output_hidden_states", "return_dict", "unsloth_fixed", "unsloth_version"),
        *("original_max_position_embeddings", "rope_scaling", "rope_theta", "rope_parameters", "partial_rotary_factor"),
        *("rope_local_base_freq", "layer_types", "use_sliding_window", "max_window_layers", "_sliding_window_pattern"),
        *("sliding_window_pattern", "no_rope_layer_interval", "attn_implementation", "rope_interleaved"),
        *(
            "problem_type",
            "id2label",
            "label2id",
            "is_llama_config",
            "transformers.js_config",
            "finetuning_task",
            "hidden_act",
        ),
        *("chunk_size_feed_forward", "is_encoder_decoder", "model_type", "vocab_size", "mlp_dropout"),
        *("attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "gradient_checkpointing"),
        *("router_aux_loss_coef", "router_jitter_noise", "decoder_sparse_step", "mlp_only_layers"),
        *("vision_config", "image_token_id", "video_token_id"),
        *("vision_start_token_id", "vision_end_token_id", "vision_token_id", "residual_dropout"),
        *(
            "mtp_num_hidden_layers",
            "num_nextn_predict_layers",
            "num_mtp_layers",
            "mamba_ssm_dtype",
            "full_attention_interval",
        ),
        *("output_past", "num_labels", "sentence_transformers", "sbert_ce_default_activation_function"),
    }
)
"""Fields that change no numbers of a text, or are read where others are."""

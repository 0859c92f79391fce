"""Decoders for text that are run: what each is, over the same building blocks.

An architecture is a function that reads what its files say beyond what all have. Where files are silent, its choices
are those of transformers (modeling_NAME.py), and for GGUF of llama.cpp.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dmlvk.language.decoder import Decoder, DeltaRule, Layer, Mixture
from dmlvk.language.rotary import rotary
from dmlvk.language.source import Source

_QKV = frozenset({"attn_q", "attn_k", "attn_v"})
_MLP = frozenset({"ffn_gate", "ffn_up", "ffn_down"})
_MOST_LAYERS = 1000
_SIGMOID = 2  # llama.cpp's LLAMA_EXPERT_GATING_FUNC_TYPE_SIGMOID


def decoder_of(source: Source) -> Decoder:
    """What a model's files say.

    Raises:
        ModelFileError: something is missing, or does not fit.
        UnsupportedError: the architecture is not known, or a field changes numbers and is not read.
    """
    architecture = ARCHITECTURES.get(source.architecture)
    if architecture is None:
        raise source.refusal(
            f"the architecture {source.architecture!r:.100} is not known; {', '.join(ARCHITECTURES)} are run"
        )
    made = architecture(_Common(source))
    source.check_fields()
    return made


class _Common:
    def __init__(self, source: Source) -> None:
        self.source = source  # the files
        self.count = source.layers(_MOST_LAYERS)  # of layers

    def decoder(
        self,
        *,
        head: int | None = None,
        local_head: int | None = None,
        theta: float = 10000.0,
        epsilon: float | None = 1e-6,
        local: Callable[[int], bool] = lambda layer: True,
        turns: Callable[[int], bool] = lambda layer: True,
        has_local_angles: bool = False,
        window: int = 0,
        keys_of: Callable[[int], int] = lambda window: window,
        feed_forward: int = 0,
        **more: Any,
    ) -> Decoder:
        """A decoder with what an architecture adds.

        Args:
            head: elements of a head, where the files do not say; ``None``: the state's, divided among heads.
            local_head: those in layers of a window; ``None``: as in others.
            theta: the base of angles likewise.
            epsilon: of norms likewise; ``None``: they must.
            local: whether a layer sees a window only, where the files have one and do not say for which layers.
            turns: whether a layer's queries and keys turn by their positions.
            has_local_angles: whether layers of a window have angles of their own.
            window: keys that such a layer sees, where the files do not say.
            keys_of: these, of the number that the files say.
            feed_forward: elements inside of the gated MLP; 0: what the files say.
            more: fields of :class:`Decoder`.
        """
        source, hidden = self.source, self.source.whole("embedding_length")
        heads, key_heads, head = self._heads(hidden, head)
        window = source.whole("attention.sliding_window", window, least=0)
        locals_ = source.windows(self.count) or [local(layer) for layer in range(self.count)]
        windows = [keys_of(window) if is_local and window else 0 for is_local in locals_]
        kinds = 1 + (has_local_angles and any(windows))
        context = source.whole("context_length")
        angles = tuple(
            rotary(
                source,
                *source.angles((local_head if kind else None) or head, theta, is_local=bool(kind)),
                context,
                kind,
            )
            for kind in range(kinds)
        )
        inner = [feed_forward] * self.count
        if not feed_forward:
            inner = source.wholes("feed_forward_length", self.count)
        layers = tuple(
            Layer(
                (kinds - 1 if window else 0) if turns(layer) else None,
                window,
                (local_head if window else None) or head,
                key_heads[layer],
                inner[layer],
            )
            for layer, window in enumerate(windows)
        )
        own_fields: dict[str, Any] = {
            "scale": source.number("attention.scale", 0.0) or head**-0.5,
            "gate": source.gate("silu"),
            "context": min([context, *(each.most for each in angles if each.most)]),
            "angles": angles,
        }
        return Decoder(
            name=source.architecture,
            hidden=hidden,
            heads=heads,
            vocabulary=source.vocabulary(),
            epsilon=source.number("attention.layer_norm_rms_epsilon", epsilon, most=1.0),
            layers=layers,
            **own_fields | more,
        )

    def _heads(self, hidden: int, head: int | None) -> tuple[int, list[int], int]:
        """How many heads there are, of keys in each layer, and the elements of one.

        Args:
            hidden: elements of a state.
            head: elements of a head, where the files do not say; ``None``: the state's, divided among heads.
        """
        source, heads = self.source, self.source.whole("attention.head_count")
        key_heads = source.wholes("attention.head_count_kv", self.count, heads)
        if source.value("attention.key_length") is None and head is None and hidden % heads:
            raise source.fault(f"{source.named('embedding_length')} {hidden} is no multiple of {heads} heads")
        head = source.whole("attention.key_length", head or hidden // heads, most=2**16)
        if any(heads % count for count in key_heads) or head % 2:
            raise source.fault(
                f"{source.named('attention.head_count')} {heads} must be a multiple of head_count_kv "
                f"{' and '.join(map(str, dict.fromkeys(key_heads)))}, and the elements of a head, {head}, even"
            )
        if source.whole("attention.value_length", head) != head:
            raise source.refusal(f"{source.named('attention.value_length')} must be {head}, as of keys")
        return heads, key_heads, head

    def biases(self) -> frozenset[str]:
        """Products with a bias, as flags of a folder say."""
        of_attention = _QKV | {"attn_output"} if self.source.flag("attention_bias") else frozenset()
        return of_attention | (_MLP if self.source.flag("mlp_bias") else frozenset())


def _llama(common: _Common) -> Decoder:
    return common.decoder(biases=common.biases(), mixture=_experts(common, is_optional=True))


def _experts(common: _Common, *, is_optional: bool = False, **more: Any) -> Mixture | None:
    """What files say of a mixture.

    Args:
        is_optional: whether they may have none.
        more: fields of :class:`Mixture`.
    """
    source = common.source
    count = source.whole("expert_count", 0 if is_optional else None, least=0 if is_optional else 1, most=2**16)
    if not count:
        return None
    chosen = source.whole("expert_used_count", most=count)
    inner = source.value("expert_feed_forward_length")
    inner = source.whole("feed_forward_length" if inner is None else "expert_feed_forward_length")
    return Mixture(count, chosen, inner, **more)


def _mixtral(common: _Common) -> Decoder:
    return common.decoder(theta=1e6, epsilon=1e-5, mixture=_experts(common))


def _qwen2_moe(common: _Common) -> Decoder:
    """With an expert that all tokens take (modeling_qwen2_moe.py)."""
    source = common.source
    _check_all_have_mixtures(source)
    source.value("feed_forward_length")  # of layers without a mixture, of which there are none
    shared = source.whole("expert_shared_feed_forward_length")
    mixture = _experts(common, is_whole=source.flag("norm_topk_prob"), shared=shared)
    has_biases = source.value("qkv_bias") is not False
    return common.decoder(biases=_QKV if has_biases else frozenset(), feed_forward=shared, mixture=mixture)


def _qwen3_moe(common: _Common) -> Decoder:
    source = common.source
    _check_all_have_mixtures(source)
    is_whole = source.is_of_llama_cpp or source.flag("norm_topk_prob")
    mixture = _experts(common, is_whole=is_whole)
    return common.decoder(head=128, biases=common.biases(), has_head_norms=True, mixture=mixture)


def _check_all_have_mixtures(source: Source) -> None:
    """Refuses Qwen's models that have layers without a mixture among others.

    Raises:
        UnsupportedError: it is one.
    """
    if source.value("decoder_sparse_step") not in (None, 1) or source.value("mlp_only_layers"):
        raise source.refusal("has layers without a mixture among others: decoder_sparse_step must be 1")


def _gpt_oss(common: _Common) -> Decoder:
    source = common.source
    limit, slope = source.number("swiglu_limit", 7.0, 1e-3), source.number("swiglu_alpha", 1.702)
    source.flag("attention_bias")
    return common.decoder(
        head=64,
        theta=150000.0,
        epsilon=1e-5,
        biases=_QKV | {"attn_output"},
        window=128,
        local=lambda layer: layer % 2 == 0,
        mixture=_experts(common, limit=limit, slope=slope, has_biases=True),
        has_sinks=True,
    )


def _qwen2(common: _Common) -> Decoder:
    least = common.source.whole("max_window_layers", 0, least=0)
    return common.decoder(biases=_QKV, local=lambda layer: layer >= least)


def _qwen3(common: _Common) -> Decoder:
    least = common.source.whole("max_window_layers", 0, least=0)
    return common.decoder(head=128, biases=common.biases(), has_head_norms=True, local=lambda layer: layer >= least)


def _gemma(common: _Common) -> Decoder:
    return common.decoder(**_of_gemma(common))


def _of_gemma(common: _Common, hidden_for_scale: int = 0) -> dict[str, Any]:
    """What all of them have: heads of 256, a norm's weight less one, embeddings times the root of their length.

    Args:
        hidden_for_scale: layers of the model whose scale follows from the state's size, which GGUF does not say.
    """
    source = common.source
    scalar = source.value("query_pre_attn_scalar")
    more: dict[str, Any] = {}
    if scalar is not None:
        more["scale"] = source.number("query_pre_attn_scalar", None, 1e-6) ** -0.5
    elif hidden_for_scale and common.count == hidden_for_scale:
        more["scale"] = (source.whole("embedding_length") / source.whole("attention.head_count")) ** -0.5
    return more | {
        "head": 256,
        "gate": source.gate("tanh"),
        "embedding_scale": source.whole("embedding_length") ** 0.5,
        "biases": common.biases(),
    }


def _gemma2(common: _Common) -> Decoder:
    source = common.source
    return common.decoder(
        **_of_gemma(common, 46),
        has_post_norms=True,
        attention_cap=source.number("attn_logit_softcapping", 50.0),
        logit_cap=source.number("final_logit_softcapping", 30.0),
        window=4096,
        local=lambda layer: layer % 2 == 0,
    )


def _gemma3(common: _Common) -> Decoder:
    source = common.source
    pattern = source.whole("sliding_window_pattern", 6)
    return common.decoder(
        **_of_gemma(common, 62),
        theta=1e6,
        has_head_norms=True,
        has_post_norms=True,
        logit_cap=source.number("final_logit_softcapping", 0.0),
        local=lambda layer: (layer + 1) % pattern != 0,
        has_local_angles=True,
        **_both_ways(source),
    )


def _gemma4(common: _Common) -> Decoder:
    """Two sizes of heads, the last layers see the keys of others, and all take something from the tokens themselves.

    As in modeling_gemma4.py; the mixture of some is beside their MLP.
    """
    source = common.source
    if source.value("use_bidirectional_attention") not in (None, False, "vision"):
        raise source.refusal("use_bidirectional_attention: gemma4 is run with tokens that see those before them")
    has_mixture = source.is_of_llama_cpp or source.flag("enable_moe_block")
    local_head = source.whole("attention.key_length_swa", 256, most=2**16)
    if local_head % 2:
        raise source.fault(f"{source.named('attention.key_length_swa')} must be even; got {local_head}")
    if source.whole("attention.value_length_swa", local_head) != local_head:
        raise source.refusal(f"{source.named('attention.value_length_swa')} must be {local_head}, as of keys")
    made = common.decoder(
        head=512,
        local_head=local_head,
        theta=1e6,
        scale=1.0,
        gate=source.gate("tanh"),
        embedding_scale=source.whole("embedding_length") ** 0.5,
        biases=common.biases(),
        has_head_norms=True,
        has_value_norms=True,
        has_post_norms=True,
        logit_cap=source.number("final_logit_softcapping", 0.0),
        window=512,
        local=lambda layer: (layer + 1) % 6 != 0 and layer + 1 < common.count,
        has_local_angles=True,
        layer_input=source.whole("embedding_length_per_layer_input", 0, least=0, most=2**16),
        mixture=_experts(common, is_optional=source.is_of_llama_cpp, is_beside=True) if has_mixture else None,
    )
    if source.whole("vocab_size_per_layer_input", made.vocabulary) != made.vocabulary and made.layer_input:
        raise source.refusal(f"vocab_size_per_layer_input must be {made.vocabulary}, as of all tokens")
    return dataclasses.replace(made, layers=tuple(_with_shared_keys(common, made.layers)))


def _with_shared_keys(common: _Common, layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """Layers, of which the last ones see keys and values of the last of their kind before them."""
    source = common.source
    shared, are_keys = source.whole("attention.shared_kv_layers", 0, least=0), source.flag("attention_k_eq_v")
    wide = 2 if source.flag("use_double_wide_mlp") else 1
    of_kind: dict[bool, int] = {}
    for number, layer in enumerate(layers):
        is_local = layer.window > 0
        if number < len(layers) - shared:
            of_kind[is_local] = number
            has_values = source.has(f"blk.{number}.attn_v.weight") if source.is_of_llama_cpp else not are_keys
            yield dataclasses.replace(layer, values_are_keys=not is_local and not has_values)
            continue
        if is_local not in of_kind:
            raise source.fault(f"{source.named('attention.shared_kv_layers')} {shared} leaves layer {number} no keys")
        for part in ("attn_k", "attn_v", "attn_k_norm"):
            source.drop(f"blk.{number}.{part}.weight")
        yield dataclasses.replace(layer, source=of_kind[is_local], feed_forward=wide * layer.feed_forward)


def _both_ways(source: Source) -> dict[str, Any]:
    """Of models for vectors, whose tokens see others on both sides: so a window is half as large (transformers)."""
    if not source.flag("use_bidirectional_attention"):
        return {}
    return {"is_causal": False, "keys_of": lambda window: window // 2 + 1}


def _phi3(common: _Common) -> Decoder:
    return common.decoder(epsilon=1e-5, has_joined_heads=True, has_joined_gates=True)


def _granite(common: _Common) -> Decoder:
    source = common.source
    if source.value("rope.scaling.finetuned") is False:  # which for llama.cpp means that nothing turns
        raise source.refusal(f"{source.named('rope.scaling.finetuned')} is False; granite is run with rotary positions")
    return common.decoder(
        biases=common.biases(),
        mixture=_experts(common, is_optional=True),
        embedding_scale=source.number("embedding_scale", 1.0),
        residual_scale=source.number("residual_scale", 1.0),
        logit_divisor=source.number("logit_scale", 1.0, 1e-6),
    )


def _smollm3(common: _Common) -> Decoder:
    turning = common.source.turning(common.count)
    return common.decoder(theta=2e6, biases=common.biases(), turns=lambda layer: turning[layer])


def _seed_oss(common: _Common) -> Decoder:
    of_results = frozenset({"attn_output"} if common.source.flag("attention_out_bias") else ())
    return common.decoder(head=128, biases=common.biases() - {"attn_output"} | of_results)


def _ernie(common: _Common) -> Decoder:
    biases = _QKV | _MLP | {"attn_output"} if common.source.flag("use_bias") else frozenset()
    return common.decoder(head=128, theta=500000.0, epsilon=1e-5, biases=biases)


def _olmo(common: _Common) -> Decoder:
    """What attention and MLP give is normalized, and not what they read (modeling_olmo2.py, modeling_olmo3.py)."""
    return common.decoder(
        epsilon=1e-5,
        biases=common.biases(),
        local=lambda layer: (layer + 1) % 4 != 0,
        has_local_angles=True,
        has_wide_norms=True,
        has_pre_norms=False,
        has_post_norms=True,
    )


def _exaone4(common: _Common) -> Decoder:
    """Where there are layers of a window, no others turn (modeling_exaone4.py)."""
    source = common.source
    locals_ = source.windows(common.count) or [(layer + 1) % 4 != 0 for layer in range(common.count)]
    has_windows = source.whole("attention.sliding_window", 0, least=0) > 0
    return common.decoder(
        epsilon=1e-5,
        local=lambda layer: locals_[layer],
        turns=lambda layer: locals_[layer] or not has_windows,
        has_head_norms=True,
        has_pre_norms=False,
        has_post_norms=True,
    )


def _glm4(common: _Common) -> Decoder:
    return common.decoder(epsilon=1e-5, biases=common.biases() & _QKV, has_joined_gates=True, has_post_norms=True)


def _glm4_moe(common: _Common) -> Decoder:
    """Experts are chosen by sigmoids, and all tokens take some (modeling_glm4_moe.py)."""
    source = common.source
    for name in ("expert_group_count", "expert_group_used_count"):
        if source.whole(name, 1) != 1:
            raise source.refusal(f"{source.named(name)} must be 1: experts are chosen among all")
    has_norms = source.has("blk.0.attn_q_norm.weight") if source.is_of_llama_cpp else source.flag("use_qk_norm")
    inner = source.whole("expert_feed_forward_length")
    shared = source.whole("expert_shared_count", 1) * inner
    more = _of_sigmoids(source, 1) | {"least": 1e-20, "shared": shared, "has_shared_gate": False}
    return common.decoder(
        epsilon=1e-5, biases=common.biases() & _QKV, has_head_norms=has_norms, mixture=_experts(common, **more)
    )


def _lfm2(common: _Common) -> Decoder:
    """Most layers have a short convolution over gated channels instead of attention (modeling_lfm2.py)."""
    source = common.source
    taps, is_attention = source.whole("shortconv.l_cache", 3, least=2, most=64), source.attending(common.count)
    inner, each = source.whole("feed_forward_length"), source.whole("block_multiple_of", 256)
    share = source.number("block_ffn_dim_multiplier", 1.0)
    if source.flag("block_auto_adjust_ff_dim"):
        inner = int(share * (2 * inner // 3))
        inner = -(-inner // each) * each
    mixture = _experts(common, is_optional=True, **_of_sigmoids(source, 2))
    made = common.decoder(theta=1e6, epsilon=1e-5, has_head_norms=True, feed_forward=inner, mixture=mixture)
    layers = tuple(
        dataclasses.replace(layer, taps=0 if attends else taps)
        for layer, attends in zip(made.layers, is_attention, strict=True)
    )
    biases = frozenset({"shortconv.in_proj", "shortconv.out_proj"}) if source.flag("conv_bias") else frozenset()
    return dataclasses.replace(made, layers=layers, biases=biases)


def _of_sigmoids(source: Source, first: int) -> dict[str, Any]:
    """How tokens choose experts by sigmoids (modeling_lfm2_moe.py); nothing where there are none.

    Args:
        first: the first layer with a mixture, where the files do not say.
    """
    if not source.value("expert_count"):
        return {}
    if source.whole("expert_gating_func", _SIGMOID) != _SIGMOID:
        raise source.refusal(f"{source.named('expert_gating_func')} must be {_SIGMOID}, sigmoids")
    is_whole = source.value("expert_weights_norm")
    if is_whole not in (None, True, False):
        raise source.fault(f"{source.named('expert_weights_norm')} must be true or false; got {is_whole!r:.100}")
    return {
        "first": source.whole("leading_dense_block_count", first, least=0),
        "has_sigmoids": True,
        "has_choice_bias": source.is_of_llama_cpp or source.value("use_expert_bias") is not False,
        "scale": source.number("expert_weights_scale", 1.0),
        "is_whole": is_whole is not False,
    }


def _qwen3_next(common: _Common) -> Decoder:
    """Most layers have the gated delta rule instead of attention (modeling_qwen3_next.py, modeling_qwen3_5.py)."""
    source = common.source
    _check_all_have_mixtures(source)
    if source.value("attn_output_gate") not in (None, True):
        raise source.refusal(f"{source.named('attn_output_gate')} must be true")
    heads = source.whole("ssm.time_step_rank", most=2**16)
    values = source.whole("ssm.inner_size") if source.is_of_llama_cpp else heads * source.whole("value_size")
    delta = DeltaRule(
        heads,
        source.whole("ssm.group_count", most=heads),
        source.whole("ssm.state_size", most=2**16),
        values // heads,
        is_tiled=source.is_of_llama_cpp and source.architecture.startswith("qwen35"),
    )
    if values % heads or heads % delta.key_heads:
        raise source.fault(f"{heads} heads of {values} values do not fit {delta.key_heads} heads of keys")
    more: dict[str, Any] = {}
    if source.value("expert_count"):
        source.value("feed_forward_length")  # of layers without a mixture, of which there are none
        shared = source.whole("expert_shared_feed_forward_length")
        is_silent = source.is_of_llama_cpp or source.value("norm_topk_prob") is None
        is_whole = is_silent or source.flag("norm_topk_prob")
        more = {"mixture": _experts(common, shared=shared, is_whole=is_whole), "feed_forward": shared}
    made = common.decoder(
        head=256,
        biases=common.biases(),
        has_head_norms=True,
        has_head_gates=True,
        delta=delta,
        **more,
    )
    taps = source.whole("ssm.conv_kernel", least=2, most=64)
    layers = tuple(
        dataclasses.replace(layer, taps=0 if attends else taps)
        for layer, attends in zip(made.layers, source.attending(common.count), strict=True)
    )
    return dataclasses.replace(made, layers=layers)


def _bert(common: _Common) -> Decoder:
    return _encoder(common, 0)


def _roberta(common: _Common) -> Decoder:
    """Rows of places begin behind that of the token that fills."""
    return _encoder(common, common.source.whole("pad_token_id", 1, least=0) + 1)


def _encoder(common: _Common, first_place: int) -> Decoder:
    source = common.source
    if source.value("position_embedding_type") not in (None, "absolute"):
        raise source.refusal(f"{source.named('position_embedding_type')} must be 'absolute'")
    places = source.whole("context_length", least=first_place + 1)
    return common.decoder(
        epsilon=1e-12,
        turns=lambda layer: False,
        biases=_QKV | {"attn_output", "ffn_up", "ffn_down"},
        gate=source.gate("erf"),
        is_causal=False,
        has_gate=False,
        has_means=True,
        normalizes_sums=True,
        places=places,
        first_place=first_place,
        segments=source.whole("type_vocab_size", 2, least=0),
        context=places - first_place,
        angles=(),
    )


ARCHITECTURES: Mapping[str, Callable[[_Common], Decoder]] = {
    "llama": _llama,
    **dict.fromkeys(("mistral", "ministral", "ministral3", "mistral3"), _llama),
    **dict.fromkeys(("qwen2", "qwen2vl", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _qwen2),
    **dict.fromkeys(("qwen3", "qwen3vl", "qwen3_vl_text"), _qwen3),
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "gemma4": _gemma4,
    "gemma4_text": _gemma4,
    "phi3": _phi3,
    "granite": _granite,
    "granitemoe": _granite,
    "mixtral": _mixtral,
    **dict.fromkeys(("qwen2moe", "qwen2_moe"), _qwen2_moe),
    **dict.fromkeys(("qwen3moe", "qwen3_moe"), _qwen3_moe),
    "gpt-oss": _gpt_oss,
    "gpt_oss": _gpt_oss,
    "smollm3": _smollm3,
    "seed_oss": _seed_oss,
    "ernie4_5": _ernie,
    **dict.fromkeys(("olmo2", "olmo3"), _olmo),
    "exaone4": _exaone4,
    "glm4": _glm4,
    **dict.fromkeys(("glm4moe", "glm4_moe"), _glm4_moe),
    **dict.fromkeys(("lfm2", "lfm2moe", "lfm2_moe"), _lfm2),
    **dict.fromkeys(
        ("qwen3next", "qwen3_next", "qwen35", "qwen3_5_text", "qwen35moe", "qwen3_5_moe_text"), _qwen3_next
    ),
    "bert": _bert,
    **dict.fromkeys(("roberta", "xlm-roberta"), _roberta),
}
"""By the name that GGUF has in ``general.architecture``, and folders in ``model_type``."""

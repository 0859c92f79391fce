"""Decoders for text that are run: what each is, over the same building blocks.

An architecture is a function that reads what its files say beyond what all have. Where files are silent, its choices
are those of transformers (modeling_NAME.py), and for GGUF of llama.cpp.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dmlvk.language.rotary import Rotary, rotary
from dmlvk.language.source import Source

_QKV = frozenset({"attn_q", "attn_k", "attn_v"})
_MLP = frozenset({"ffn_gate", "ffn_up", "ffn_down"})
_MOST_LAYERS = 1000


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer.

    Attributes:
        angles: which of the decoder's kinds of angles; ``None``: nothing turns.
        window: keys that a query sees, its own included; 0: all.
        taps: of a short convolution in the place of attention; 0: there is none.
    """

    angles: int | None
    window: int
    taps: int = 0


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of experts in the place of an MLP.

    Attributes:
        experts: how many there are.
        chosen: how many a token chooses, by what a product gives for each.
        feed_forward: elements inside of one.
        is_whole: whether the shares of those that are chosen add up to 1, and not those of all.
        limit: what gates are kept below, and what they multiply between (less the sign); 0: nothing.
        slope: of a gate with a limit, inside of the sigmoid; what it multiplies has 1 added then.
        has_biases: whether experts and the choice add something.
    """

    experts: int
    chosen: int
    feed_forward: int
    is_whole: bool = True
    limit: float = 0.0
    slope: float = 1.0
    has_biases: bool = False


@dataclasses.dataclass(frozen=True)
class Decoder:
    """All that is not in the weights.

    Attributes:
        name: of the architecture.
        hidden: elements of a state.
        feed_forward: elements inside of the gated MLP.
        heads: of queries.
        key_heads: of keys and values; each serves as many heads of queries.
        head: elements of a head.
        context: tokens that it can look back at, the new one included.
        vocabulary: tokens.
        epsilon: of norms.
        scale: of queries times keys.
        layers: each of them.
        angles: kinds of angles of positions.
        gate: ``"silu"``, ``"tanh"`` (GELU by tanh) or ``"erf"`` (GELU).
        has_head_norms: whether heads of queries and keys are normalized.
        has_post_norms: whether what attention and MLP give is normalized before it is added.
        is_joined: whether queries, keys and values are one matrix, and gate and up another.
        attention_cap: what scores are kept below by tanh; 0: nothing.
        logit_cap: likewise, of logits.
        embedding_scale: what embeddings are multiplied by.
        residual_scale: what attention and MLP give is multiplied by.
        logit_divisor: what logits are divided by.
        biases: products that have one.
        mixture: of experts, in all layers; ``None``: there is an MLP.
        has_sinks: whether each head has a score that takes its share, and is no key's.
        is_causal: whether tokens see those before them only, and caches go on with more.
        has_gate: whether the MLP is gated.
        has_means: whether norms take off the mean, and add a bias.
        normalizes_sums: whether each sum is normalized, and goes on as such (post-norm), instead of what layers read.
        places: rows that are added by the place of a token; 0: none.
        first_place: the row of the first token.
        segments: rows that are added by the text that a token belongs to; 0: none.
    """

    name: str
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int
    head: int
    context: int
    vocabulary: int
    epsilon: float
    scale: float
    layers: tuple[Layer, ...]
    angles: tuple[Rotary, ...]
    gate: str = "silu"
    has_head_norms: bool = False
    has_post_norms: bool = False
    is_joined: bool = False
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_divisor: float = 1.0
    biases: frozenset[str] = frozenset()
    mixture: Mixture | None = None
    has_sinks: bool = False
    is_causal: bool = True
    has_gate: bool = True
    has_means: bool = False
    normalizes_sums: bool = False
    places: int = 0
    first_place: int = 0
    segments: int = 0


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
    """What all architectures say.

    Attributes:
        source: the files.
        count: of layers.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.count = source.whole("block_count", most=_MOST_LAYERS)

    def decoder(
        self,
        *,
        head: int | None = None,
        theta: float = 10000.0,
        epsilon: float | None = 1e-6,
        local: Callable[[int], bool] = lambda layer: True,
        turns: Callable[[int], bool] = lambda layer: True,
        has_local_angles: bool = False,
        window: int = 0,
        keys_of: Callable[[int], int] = lambda window: window,
        **more: Any,
    ) -> Decoder:
        """A decoder with what an architecture adds.

        Args:
            head: elements of a head, where the files do not say; ``None``: the state's, divided among heads.
            theta: the base of angles likewise.
            epsilon: of norms likewise; ``None``: they must.
            local: whether a layer sees a window only, where the files have one and do not say for which layers.
            turns: whether a layer's queries and keys turn by their positions.
            has_local_angles: whether layers of a window have angles of their own.
            window: keys that such a layer sees, where the files do not say.
            keys_of: these, of the number that the files say.
            more: fields of :class:`Decoder`.
        """
        source = self.source
        hidden, heads = source.whole("embedding_length"), source.whole("attention.head_count")
        key_heads, own = source.whole("attention.head_count_kv", heads), source.value("attention.key_length")
        if own is None and head is None and hidden % heads:
            raise source.fault(f"{source.named('embedding_length')} {hidden} is no multiple of {heads} heads")
        head = source.whole("attention.key_length", head or hidden // heads, most=2**16)
        if heads % key_heads or head % 2:
            raise source.fault(
                f"{source.named('attention.head_count')} {heads} must be a multiple of head_count_kv {key_heads}, and "
                f"the elements of a head, {head}, even"
            )
        if source.whole("attention.value_length", head) != head:
            raise source.refusal(f"{source.named('attention.value_length')} must be {head}, as of keys")
        window = source.whole("attention.sliding_window", window, least=0)
        locals_ = source.windows(self.count) or [local(layer) for layer in range(self.count)]
        windows = [keys_of(window) if is_local and window else 0 for is_local in locals_]
        kinds = 1 + (has_local_angles and any(windows))
        context = source.whole("context_length")
        angles = tuple(
            rotary(source, base, size, context, scaling)
            for base, size, scaling in (source.angles(head, theta, is_local=bool(kind)) for kind in range(kinds))
        )
        layers = tuple(
            Layer((kinds - 1 if window else 0) if turns(layer) else None, window)
            for layer, window in enumerate(windows)
        )
        own_fields: dict[str, Any] = {
            "scale": source.number("attention.scale", 0.0) or head**-0.5,
            "gate": source.gate("silu"),
            "context": min([context, *(each.most for each in angles if each.most)]),
            "angles": angles,
        }
        if "feed_forward" not in more:
            own_fields["feed_forward"] = source.whole("feed_forward_length")
        return Decoder(
            name=source.architecture,
            hidden=hidden,
            heads=heads,
            key_heads=key_heads,
            head=head,
            vocabulary=source.vocabulary(),
            epsilon=source.number("attention.layer_norm_rms_epsilon", epsilon, most=1.0),
            layers=layers,
            **own_fields | more,
        )

    def biases(self) -> frozenset[str]:
        """Products with a bias, as flags of a folder say."""
        of_attention = _QKV | {"attn_output"} if self.source.flag("attention_bias") else frozenset()
        return of_attention | (_MLP if self.source.flag("mlp_bias") else frozenset())


def _llama(common: _Common) -> Decoder:
    return common.decoder(biases=common.biases(), mixture=_experts(common, is_optional=True))


def _experts(common: _Common, *, is_optional: bool = False, **more: Any) -> Mixture | None:
    """What files say of a mixture.

    Args:
        common: the files.
        is_optional: whether they may have none.
        more: fields of :class:`Mixture`.
    """
    source = common.source
    count = source.whole("expert_count", 0 if is_optional else None, least=0 if is_optional else 1, most=2**16)
    if not count:
        return None
    chosen = source.whole("expert_used_count", most=count)
    inner = source.whole("expert_feed_forward_length", source.whole("feed_forward_length"))
    return Mixture(count, chosen, inner, **more)


def _mixtral(common: _Common) -> Decoder:
    return common.decoder(theta=1e6, epsilon=1e-5, mixture=_experts(common))


def _qwen3_moe(common: _Common) -> Decoder:
    source = common.source
    if source.value("decoder_sparse_step") not in (None, 1) or source.value("mlp_only_layers"):
        raise source.refusal("has layers without a mixture among others: decoder_sparse_step must be 1")
    is_whole = source.is_of_llama_cpp or source.flag("norm_topk_prob")
    mixture = _experts(common, is_whole=is_whole)
    return common.decoder(head=128, biases=common.biases(), has_head_norms=True, mixture=mixture)


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
        common: the files.
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
        attention_cap=source.number("attn_logit_softcapping", 0.0),
        logit_cap=source.number("final_logit_softcapping", 0.0),
        local=lambda layer: (layer + 1) % pattern != 0,
        has_local_angles=True,
        **_both_ways(source),
    )


def _both_ways(source: Source) -> dict[str, Any]:
    """Of models for vectors, whose tokens see others on both sides: so a window is half as large (transformers)."""
    if not source.flag("use_bidirectional_attention"):
        return {}
    return {"is_causal": False, "keys_of": lambda window: window // 2 + 1}


def _phi3(common: _Common) -> Decoder:
    return common.decoder(is_joined=True)


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


def _lfm2(common: _Common) -> Decoder:
    """Most layers have a short convolution over gated channels instead of attention (modeling_lfm2.py)."""
    source = common.source
    taps, is_attention = source.whole("shortconv.l_cache", 3, least=2, most=64), source.attending(common.count)
    inner = source.whole("feed_forward_length")
    if source.flag("block_auto_adjust_ff_dim"):
        each = source.whole("block_multiple_of", 256)
        inner = int(source.number("block_ffn_dim_multiplier", 1.0) * (2 * inner // 3))
        inner = -(-inner // each) * each
    made = common.decoder(epsilon=1e-5, has_head_norms=True, feed_forward=inner)
    layers = tuple(
        dataclasses.replace(layer, taps=0 if attends else taps)
        for layer, attends in zip(made.layers, is_attention, strict=True)
    )
    biases = frozenset({"shortconv.in_proj", "shortconv.out_proj"}) if source.flag("conv_bias") else frozenset()
    return dataclasses.replace(made, layers=layers, biases=biases)


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
    "mistral": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
    "granite": _granite,
    "granitemoe": _granite,
    "mixtral": _mixtral,
    "qwen3moe": _qwen3_moe,
    "qwen3_moe": _qwen3_moe,
    "gpt-oss": _gpt_oss,
    "gpt_oss": _gpt_oss,
    "smollm3": _smollm3,
    "lfm2": _lfm2,
    "bert": _bert,
    "xlm-roberta": _roberta,
}
"""By the name that GGUF has in ``general.architecture``, and folders in ``model_type``."""

__all__ = ["ARCHITECTURES", "Decoder", "Layer", "Mixture", "decoder_of"]

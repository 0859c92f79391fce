"""Models of transformers at tiny configurations, with random weights and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, dict[str, Any]]
"""A module that takes tensors in order and gives a tuple of tensors; these by name."""

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_VOCABULARY = 99


def _plain(model: Any, *names: str, give: tuple[str, ...]) -> Any:
    """A module that calls a model by keywords and gives some of its results."""
    import torch

    class Plain(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            found = self.model(**dict(zip(names, tensors, strict=True)))
            return tuple(getattr(found, name) for name in give)

    return Plain()


def _made(model: Any, inputs: dict[str, Any], *give: str) -> Made:
    model.eval()
    return _plain(model, *inputs, give=give), inputs


def _tokens(*shape: int) -> Any:
    import torch

    return torch.randint(3, _VOCABULARY, shape)


def _text(batch: int = 2, length: int = 7) -> dict[str, Any]:
    import torch

    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return {"input_ids": _tokens(batch, length), "attention_mask": mask}


def _pixels(size: int, channels: int = 3, batch: int = 1) -> dict[str, Any]:
    import torch

    return {"pixel_values": torch.randn(batch, channels, size, size)}


def bert() -> Made:
    """BERT's encoder."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(vocab_size=_VOCABULARY, max_position_embeddings=16, **_SIZES))
    return _made(model, _text(), "last_hidden_state", "pooler_output")


def gpt2() -> Made:
    """GPT-2's logits, without a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=_VOCABULARY, n_positions=16, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return _made(GPT2LMHeadModel(config), _text(), "logits")


def t5() -> Made:
    """T5's encoder and decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=_VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    inputs = {**_text(), "decoder_input_ids": _tokens(2, 5)}
    return _made(T5ForConditionalGeneration(config), inputs, "logits")


def whisper() -> Made:
    """Whisper's encoder and decoder."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=_VOCABULARY, num_mel_bins=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=32, max_source_positions=20,
        max_target_positions=16, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    tokens = {"decoder_input_ids": _tokens(1, 5), "decoder_attention_mask": torch.ones(1, 5, dtype=torch.int64)}
    inputs = {"input_features": torch.randn(1, 16, 40), **tokens}
    return _made(WhisperForConditionalGeneration(config), inputs, "logits")


def clip() -> Made:
    """CLIP's two towers."""
    from transformers import CLIPConfig, CLIPModel

    text = {**_SIZES, "vocab_size": _VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2}
    config = CLIPConfig(
        text_config=text, vision_config={**_SIZES, "image_size": 32, "patch_size": 8}, projection_dim=16
    )
    return _made(CLIPModel(config), {**_text(), **_pixels(32)}, "logits_per_image", "text_embeds", "image_embeds")


def vit() -> Made:
    """ViT's classes."""
    from transformers import ViTConfig, ViTForImageClassification

    return _made(ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, **_SIZES)), _pixels(32), "logits")


def detr() -> Made:
    """DETR with a ResNet of transformers as its backbone."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage4"],
    )  # fmt: skip
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, num_queries=6, num_labels=5,
    )  # fmt: skip
    return _made(DetrForObjectDetection(config), _pixels(64), "logits", "pred_boxes")


def segformer() -> Made:
    """SegFormer's classes of places."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16,
        num_labels=5,
    )  # fmt: skip
    return _made(SegformerForSemanticSegmentation(config), _pixels(64), "logits")


def swin() -> Made:
    """Swin's features."""
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(image_size=32, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return _made(SwinModel(config), _pixels(32), "last_hidden_state", "pooler_output")


def sam() -> Made:
    """SAM with a point as its prompt."""
    import torch
    from transformers import SamConfig, SamModel

    vision = {
        "hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64,
        "patch_size": 8, "mlp_ratio": 2.0, "window_size": 3, "global_attn_indexes": [1], "num_pos_feats": 8,
        "mlp_dim": 64,
    }  # fmt: skip
    prompt = {"hidden_size": 16, "image_size": 64, "patch_size": 8, "image_embedding_size": 8, "mask_input_channels": 4}
    decoder = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 32, "iou_head_hidden_dim": 16,
    }  # fmt: skip
    config = SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder)
    inputs = {**_pixels(64), "input_points": torch.rand(1, 1, 1, 2) * 64}
    return _made(SamModel(config), inputs, "iou_scores", "pred_masks")


def _decoder(config_name: str, model_name: str, **more: Any) -> Made:
    import transformers

    config = getattr(transformers, config_name)(
        vocab_size=_VOCABULARY, num_key_value_heads=2, max_position_embeddings=32, use_cache=False, **_SIZES, **more
    )
    return _made(getattr(transformers, model_name)(config), _text(), "logits")


def llama() -> Made:
    """Llama's logits, without a cache."""
    return _decoder("LlamaConfig", "LlamaForCausalLM")


def qwen3() -> Made:
    """Qwen3's logits, without a cache."""
    return _decoder("Qwen3Config", "Qwen3ForCausalLM", head_dim=8)


def gemma2() -> Made:
    """Gemma 2's logits, without a cache: sliding windows, capped scores."""
    return _decoder("Gemma2Config", "Gemma2ForCausalLM", head_dim=8, sliding_window=4)


def deberta() -> Made:
    """DeBERTa's second version: attention to relative positions, from either side."""
    from transformers import DebertaV2Config, DebertaV2Model

    config = DebertaV2Config(
        vocab_size=_VOCABULARY, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], conv_kernel_size=3, conv_act="gelu", **_SIZES,
    )  # fmt: skip
    return _made(DebertaV2Model(config), _text(1, 10), "last_hidden_state")


def wav2vec2() -> Made:
    """wav2vec 2.0 from samples to letters."""
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=_VOCABULARY, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **_SIZES,
    )  # fmt: skip
    return _made(Wav2Vec2ForCTC(config), {"input_values": torch.randn(1, 2000) * 0.1}, "logits")


def mamba() -> Made:
    """Mamba's logits: a state instead of attention, step by step."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=_VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False)
    return _made(MambaForCausalLM(config), {"input_ids": _tokens(1, 10)}, "logits")


def vits() -> Made:
    """VITS from letters to samples, whose number follows from the data."""
    from transformers import VitsConfig, VitsModel

    config = VitsConfig(
        vocab_size=_VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, flow_size=16,
        spectrogram_bins=9, upsample_initial_channel=16, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=2, duration_predictor_num_flows=2, duration_predictor_filter_channels=16,
        depth_separable_num_layers=1,
    )  # fmt: skip
    model = VitsModel(config)
    model.noise_scale = model.noise_scale_duration = 0.0  # else it is random
    return _made(model, {"input_ids": _tokens(1, 8)}, "waveform")


MODELS: dict[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (
        bert,
        gpt2,
        t5,
        whisper,
        clip,
        vit,
        detr,
        segformer,
        swin,
        sam,
        llama,
        qwen3,
        gemma2,
        deberta,
        wav2vec2,
        mamba,
        vits,
    )
}

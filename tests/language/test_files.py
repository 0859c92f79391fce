"""Folders of language models: their files, tokenizers and templates."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

import dmlvk as dml
from dmlvk.language import LanguageModel, Sampling, convert_gguf
from dmlvk.language.architectures import decoder_of
from dmlvk.language.gguf_blocks import BLOCKS, matrix
from dmlvk.language.hub_source import HubSource
from dmlvk.language.templates import rendered
from tests.effort import IS_QUICK
from tests.language.small_llama import (
    HEADS,
    KEY_HEADS,
    LAYERS,
    TEMPLATE,
    byte_tokens,
    random_blocks,
    write_llama,
    write_tensors,
)
from tests.language.small_models import CASES, initialize, write_gguf, write_hub_folder

PROMPT = [70, 80, 90, 100, 110, 75] * 4 + [33]


def llama_in_float64(tensors: dict[str, Any], tokens: list[int]) -> Any:
    """The logits behind the last token (Touvron et al., 2023)."""

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * tensors[f"{name}.weight"].astype(np.float64)

    def product(x: Any, name: str) -> Any:
        return x @ tensors[f"{name}.weight"].astype(np.float64).T

    def rotated(x: Any) -> Any:  # pairs of neighbours: heads, tokens, elements
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        frequencies = 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * np.outer(np.arange(x.shape[1]), frequencies))
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    def heads(x: Any, count: int) -> Any:
        return x.reshape(len(tokens), count, -1).transpose(1, 0, 2)

    x = tensors["token_embd.weight"].astype(np.float64)[tokens]
    for layer in range(LAYERS):
        own = f"blk.{layer}"
        normed = norm(x, f"{own}.attn_norm")
        q = rotated(heads(product(normed, f"{own}.attn_q"), HEADS))
        k = rotated(heads(product(normed, f"{own}.attn_k"), KEY_HEADS)).repeat(HEADS // KEY_HEADS, 0)
        v = heads(product(normed, f"{own}.attn_v"), KEY_HEADS).repeat(HEADS // KEY_HEADS, 0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (shares / shares.sum(-1, keepdims=True)) @ v
        x = x + product(attended.transpose(1, 0, 2).reshape(len(tokens), -1), f"{own}.attn_output")
        normed = norm(x, f"{own}.ffn_norm")
        gate, up = product(normed, f"{own}.ffn_gate"), product(normed, f"{own}.ffn_up")
        x = x + product(gate / (1 + np.exp(-gate)) * up, f"{own}.ffn_down")
    return product(norm(x[-1], "output_norm"), "output" if "output.weight" in tensors else "token_embd")


@pytest.mark.parametrize("kind", BLOCKS)
def test_weights_of_each_type_have_the_bits_of_the_gguf_package(kind: str) -> None:
    elements, width = BLOCKS[kind]
    data = np.random.default_rng(0).integers(0, 256, (16, 1024 // elements * width), np.uint8)
    with np.errstate(all="ignore"):  # random scales are infinite, too
        expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
        made = matrix(kind, data)
        results = made.multiplied_out(), made.in_order().multiplied_out()
    is_number = np.isfinite(expected)
    assert is_number.mean() > 0.8
    for result in results:
        assert (result.view(np.uint32) == expected.view(np.uint32))[is_number].all()


@pytest.mark.parametrize("kind", BLOCKS)
def test_weights_of_each_type_are_multiplied_as_the_gguf_package_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, value in (("HIDDEN", 256), ("FEED_FORWARD", 256), ("quantized", random_blocks)):
        monkeypatch.setattr(f"tests.language.small_llama.{name}", value)
    weights = gguf.GGMLQuantizationType[kind]
    write_llama(tmp_path / "model.gguf", weights, weights, head=64)
    with LanguageModel(tmp_path / "model.gguf", max_length=32) as model:
        logits = model.logits(PROMPT).numpy()[0]
    tensors = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    expected = llama_in_float64(tensors, PROMPT)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(logits, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_architectures_give_the_logits_and_tokens_of_transformers(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_hub_folder(name, tmp_path, "bfloat16" if name == "llama" else "float32")
    write_gguf(reference, tmp_path / "model.gguf")
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
        tokens = reference.generate(
            torch.tensor([PROMPT]), max_new_tokens=8 if IS_QUICK else 64, do_sample=False, eos_token_id=None
        )
        tokens = tokens[0, len(PROMPT) :].tolist()
    bits = list[bytes]()
    for info in dml.list_devices():
        with LanguageModel(tmp_path, info.index, max_length=128) as model:
            logits = [model.logits(PROMPT).numpy(), model.logits(tokens[:1]).numpy()]
            hosted = {node.reason for node in model._session.partition if node.place != "device"}
            assert hosted == {"counts, before each run"}  # of the mask
            np.testing.assert_allclose(logits[0][0], expected, atol=1e-4)
            steps = [logits[1], *(model.logits([token]).numpy() for token in ([] if bits else tokens[1:-1]))]
            assert [int(step.argmax()) for step in steps] == tokens[1 : 1 + len(steps)]
            bits.append(np.concatenate(logits).tobytes())
    assert len(set(bits)) == 1
    with LanguageModel(tmp_path / "model.gguf", max_length=128) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_packed_experts_are_those_of_the_gguf_package(tmp_path: Path, device: dml.Device, kind: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_hub_folder("qwen3_moe", tmp_path)
    write_gguf(reference, tmp_path / "model.gguf", gguf.GGMLQuantizationType[kind])
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path / "model.gguf", device, max_length=32) as model:
        found = model.logits(PROMPT).numpy()[0]
        np.testing.assert_allclose(found, expected, atol=1e-4)
        model.keep([])
        steps = [model.logits([token]).numpy()[0] for token in PROMPT]
        assert steps[-1].tobytes() == found.tobytes()


@pytest.mark.parametrize("name", ["lfm2", "qwen3_5"])
def test_states_follow_their_texts(tmp_path: Path, device: dml.Device, name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_hub_folder(name, tmp_path)
    first, second = PROMPT[:11], PROMPT[3:8]
    with LanguageModel(tmp_path, device, max_length=64, sequences=2) as model:
        alone = [list(model.generate(tokens, Sampling(), most=6)) for tokens in (first, second)]
        logits = model.logits(second).numpy().tobytes()
        pieces = model.sequence()
        pieces.logits(second[:1])
        pieces.logits(second[1:4])
        assert pieces.logits(second[4:]).numpy().tobytes() == logits
        both = [model.generate(tokens, Sampling(), most=6) for tokens in (first, second)]
        assert list(map(list, zip(*zip(*both, strict=True), strict=True))) == alone  # in turn
        model.keep([])
        assert model.logits(second).numpy().tobytes() == logits
        model.keep([*second[:2], 9])  # of which two tokens stand in the caches, and more in the states
        model.logits([9])
        model.keep([])
        assert model.logits(second).numpy().tobytes() == logits
        batch = model.batch()
        texts = [batch.add(tokens, Sampling()) for tokens in (first, second)]
        while any(len(text.tokens) < len(tokens) + 6 for text, tokens in zip(texts, (first, second), strict=True)):
            batch.step()
        for text, tokens, expected in zip(texts, (first, second), alone, strict=True):
            assert text.tokens[len(tokens) :][: len(expected)] == expected
            batch.remove(text)
        assert list(model.generate(first, Sampling(), most=6)) == alone[0]


def test_which_layers_have_states_is_told_by_the_models_inputs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_gguf(write_hub_folder("qwen3_5", tmp_path / "hub"), tmp_path / "model.gguf")
    convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    file = tmp_path / "folder" / "genai_config.json"
    config = json.loads(file.read_text())
    logits = []
    for _ in range(2):
        with LanguageModel(tmp_path / "folder", max_length=16) as model:
            logits.append(model.logits(PROMPT[:5]).numpy().tobytes())
        config["model"]["decoder"].pop("layer_types", None)
        file.write_text(json.dumps(config))
    assert logits[0] == logits[1]


def test_layers_that_guess_further_tokens_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_hub_folder("qwen3_5", tmp_path)
    write_gguf(reference, tmp_path / "model.gguf")
    with LanguageModel(tmp_path / "model.gguf", max_length=32) as model:
        expected = model.logits(PROMPT[:5]).numpy().tobytes()
    reference.config.num_hidden_layers += 1
    write_gguf(reference, tmp_path / "more.gguf", further=1)
    with LanguageModel(tmp_path / "more.gguf", max_length=32) as model:
        assert model.logits(PROMPT[:5]).numpy().tobytes() == expected


_VISION = {"num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
_DEEP = {"depth": 1, "num_heads": 2, "out_hidden_size": 64}
_PICTURES = {
    **{"Gemma3": ("gemma3", _VISION), "Mistral3": ("ministral3", _VISION)},
    **{"Qwen2_5_VL": ("qwen2", _DEEP), "Qwen3VL": ("qwen3", _DEEP), "Qwen3_5": ("qwen3_5", _DEEP)},
}


@pytest.mark.parametrize("kind", _PICTURES)
def test_of_a_model_for_pictures_the_part_for_text_is_run(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    name, more = _PICTURES[kind]
    text = write_hub_folder(name, tmp_path).config.to_dict()
    text["rope_parameters"] |= {"mrope_section": [2, 3, 3]} if name == "qwen2" else {}
    sizes = {"hidden_size": 32, "intermediate_size": 32} | more
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=sizes)
    reference = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    reference.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, max_length=32) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_of_a_gguf_file_for_pictures_the_part_for_text_is_run(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference, found = write_hub_folder(name, tmp_path), []
    for kind in (name, f"{name}_vl_text"):
        reference.config.model_type = kind
        write_gguf(reference, tmp_path / "model.gguf")
        with LanguageModel(tmp_path / "model.gguf", max_length=32) as model:
            found.append(model.logits(PROMPT).numpy().tobytes())
    assert found[0] == found[1]


def test_a_model_in_several_files_is_one(tmp_path: Path) -> None:
    write_llama(tmp_path / "model.gguf")
    write_llama(tmp_path / "m-00001-of-00002.gguf", more=lambda writer: writer.add_uint16("split.count", 2))
    other = gguf.GGUFWriter(tmp_path / "m-00002-of-00002.gguf", "llama")
    other.add_uint16("split.count", 2)
    other.write_header_to_file()
    other.write_kv_data_to_file()
    other.close()
    with (
        LanguageModel(tmp_path / "model.gguf", max_length=8) as whole,
        LanguageModel(tmp_path / "m-00001-of-00002.gguf", whole.device, max_length=8) as parts,
    ):
        assert whole.logits([70, 80]).numpy().tobytes() == parts.logits([70, 80]).numpy().tobytes()
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(dml.ModelFileError, match=r"m-00002-of-00002\.gguf: cannot be read"):
        LanguageModel(tmp_path / "m-00001-of-00002.gguf")


def write_folder(folder: Path) -> None:
    """A folder of the hub, by hand: a llama of one layer."""
    config: dict[str, Any] = {"model_type": "llama", "vocab_size": 260, "hidden_size": 64, "intermediate_size": 96}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 64, "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config))
    layer = {"self_attn.q_proj": [64, 64], "self_attn.k_proj": [64, 64], "self_attn.v_proj": [64, 64]}
    layer |= {"self_attn.o_proj": [64, 64], "mlp.gate_proj": [96, 64], "mlp.up_proj": [96, 64]}
    layer |= {"mlp.down_proj": [64, 96], "input_layernorm": [64], "post_attention_layernorm": [64]}
    shapes = {"model.embed_tokens": [260, 64], "model.norm": [64], "lm_head": [260, 64]}
    shapes |= {f"model.layers.0.{name}": shape for name, shape in layer.items()}
    draw = np.random.default_rng(0).standard_normal
    tensors = {f"{name}.weight": draw(shape).astype(np.float16) for name, shape in shapes.items()}
    write_tensors(folder / "model.safetensors", tensors)
    tokens = {token: number for number, token in enumerate(byte_tokens())}
    content = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": tokens, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))


@pytest.mark.parametrize("what", ["twice", "inside"])
def test_tensors_that_are_ambiguous_are_refused(tmp_path: Path, what: str) -> None:
    write_folder(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(header)
    if what == "twice":
        text, message = f'{text[:-1]}, "lm_head.weight": {json.dumps(header["lm_head.weight"])}}}', "stands twice"
    else:
        norm, start = header["model.norm.weight"], header["lm_head.weight"]["data_offsets"][0] + 2
        text = json.dumps(header | {"model.norm.weight": norm | {"data_offsets": [start, start + 128]}})
        message = "'model.norm.weight' begins inside of 'lm_head.weight'"
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text.encode() + data[8 + length :])
    with pytest.raises(dml.ModelFileError, match=f"is a damaged safetensors file: .*{message}"):
        LanguageModel(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model_type", "mamba", "the architecture 'mamba' is not known; llama, mistral, ministral"),
        ("quantization_config", {"bits": 4}, "quant_method is None; fp8, gptq, awq"),
        ("anything_new", 3, "anything_new is 3"),
        ("hidden_act", "relu", "hidden_act is 'relu'; silu"),
        ("rope_scaling", {"rope_type": "dynamic", "factor": 2.0}, "rope_type 'dynamic'; default, linear"),
        ("rope_scaling", {"rope_type": {}}, "rope_type {}; default, linear"),
        ("use_bidirectional_attention", True, "use_bidirectional_attention is True"),
        ("layer_types", ["linear_attention"], "layer_types has 'linear_attention'"),
        ("num_key_value_heads", 3, "must be a multiple of head_count_kv 3"),
        ("hidden_size", 128, r"embed_tokens.weight must have the sizes \[260, 128\]; got \[260, 64\]"),
        ("attention_bias", True, "has no tensor model.layers.0.self_attn.q_proj.bias"),
        ("num_hidden_layers", 10**9, "num_hidden_layers must be an integer from 1 to 1000"),
        ("tie_word_embeddings", True, ""),
    ],
)
def test_what_a_folder_of_the_hub_says_is_read_or_refused_by_name(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    write_folder(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {name: value}))
    if not message:
        with LanguageModel(tmp_path, max_length=8) as model:
            assert np.isfinite(model.logits([70, 80]).numpy()).all()
        return
    with pytest.raises(dml.DmlError, match=message):
        LanguageModel(tmp_path)


SILENT = {
    "no cap": ("gemma2", {"final_logit_softcapping": None, "attn_logit_softcapping": None}),
    "no scale of Gemma's": ("gemma2", {"query_pre_attn_scalar": ...}),
    "no window of Gemma's": ("gemma3", {"sliding_window": ..., "query_pre_attn_scalar": ...}),
    "no scale of Granite's": ("granite", {"attention_multiplier": ...}),
    "no epsilon": ("phi3", {"rms_norm_eps": ...}),
    "layers of a window": ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "layer_types": ...}),
    "sizes of no use": ("lfm2", {"block_auto_adjust_ff_dim": False, "intermediate_size": 64}),
    "all layers alike": ("gemma4", {"per_layer_config": {}, "head_dim": 64}),
}


@pytest.mark.parametrize(("name", "fields"), SILENT.values(), ids=list(SILENT))
def test_what_a_folder_does_not_say_is_what_transformers_takes_for_it(
    tmp_path: Path, name: str, fields: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write_hub_folder(name, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | fields
    if name == "qwen3":
        del config["max_window_layers"]
    config = {field: value for field, value in config.items() if value is not ...}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if "per_layer_config" in fields:  # whose weights are others
        made = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(tmp_path))
        initialize(made, name)
        made.save_pretrained(tmp_path)
    reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, max_length=32) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=1e-4)


_WIDE = {"full_attention": {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 2}}
GEMMA_4: dict[str, tuple[dict[str, Any], str]] = {
    "no angles": ({"rope_parameters": None}, ""),
    "a share of all": ({"partial_rotary_factor": 0.5}, ""),
    "a window last": ({"layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"] * 2}, ""),
    "one kind": ({"rope_parameters": {"sliding_attention": {}}}, "must have an object for each kind of layers"),
    "no kind": ({"rope_parameters": {"rope_theta": 1e4}}, "must have an object for each kind of layers"),
    "scaling": ({"rope_scaling": {"factor": 2.0}}, "rope_scaling is {'factor': 2.0}; gemma4 has rope_parameters"),
    "no experts": ({"enable_moe_block": True}, "has no field num_experts"),
    "odd heads": ({"head_dim": 33}, "head_dim must be even; got 33"),
    "more than all": ({"rope_parameters": _WIDE}, "partial_rotary_factor must be a number from 0.0 to 1.0; got 2"),
}


@pytest.mark.parametrize(("fields", "message"), GEMMA_4.values(), ids=list(GEMMA_4))
def test_layers_of_gemma4_are_those_of_transformers_or_refused(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write_hub_folder("gemma4", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"global_head_dim": 64, "per_layer_config": None}
    config = {name: value for name, value in (config | fields).items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    if message:
        with pytest.raises(dml.DmlError, match=message):
            decoder_of(HubSource(tmp_path))
        return
    found, read = decoder_of(HubSource(tmp_path)), transformers.AutoConfig.from_pretrained(tmp_path)
    rotary = transformers.AutoModel.from_config(read).rotary_emb
    for layer, kind in zip(found.layers, read.layer_types, strict=True):
        assert (layer.window > 0) == (kind == "sliding_attention") and layer.angles is not None
        np.testing.assert_allclose(found.angles[layer.angles].steps, getattr(rotary, f"{kind}_inv_freq"), rtol=1e-6)


MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<think>x</think> Hällo "}]

SOUND = (
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m['content'] | trim }}{% if loop.last %}!{% endif %}{% endfor %}",
    "{% macro f(x, y=3) %}[{{ x }}{{ y }}]{% endmacro %}{{ f(1) }}{{ f(x=2, y='q') }}",
    "{% macro g(x) %}({{ caller() }}{{ x }}){% endmacro %}{% call g(3) %}z{% endcall %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{{ loop.revindex }}{% endfor %}",
    "{{ messages | tojson(indent=2) }}{{ messages | tojson }}{{ 'é' | tojson(ensure_ascii=True) }}",
    "{{ messages[1].content.split('</think>')[-1].lstrip() }}{{ 'a,b'.replace(',', ';') }}{{ ', '.join(['a', 'b']) }}",
    "{{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'eq', 'user') | list }}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ x }}",
    "{{ 2 ** 10 }} {{ 7 % 4 }} {{ '%s-%d%%' % ('a', 3) }} {{ '**{}** 24'.format('x') }} {{ 'ab' * 3 }} {{ [1] + [2] }}",
    "{% for x in [[1, [2]]] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}",
    "{{ 'x y' | title | indent(2) | center(20) }}{{ [3, 1] | sort }}{{ {'a': 1} | items | list }}{{ [1] | sum }}",
    "{% block b %}q{% endblock %}{{ self.b() }}{% filter upper %}a{% endfilter %}{% set z %}i{% endset %}{{ z }}",
    "{{ messages[1:] | length }}{{ messages | reverse | first }}{{ 'a' in 'abc' }}{{ messages | groupby('role') }}",
)


@pytest.mark.parametrize("template", SOUND)
def test_templates_say_what_jinjas_sandbox_says(template: str) -> None:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **named: json.dumps(value, **{"ensure_ascii": False, **named})
    expected = environment.from_string(template).render(messages=MESSAGES)
    assert rendered(template, MESSAGES, {}, "folder") == expected


DOUBLED = "{% set n = namespace(s=START) %}{% for i in range(60) %}{% set n.s = MORE %}{% endfor %}"

ENDLESS = {
    "a long range": "{% for i in range(10**9) %}a{% endfor %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops that skip all": "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
    "macros calling macros": "{% macro f(n) %}{% if n %}{{ f(n-1) ~ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "blocks that show themselves": "{% block a %}{{ self.a() }}{% endblock %}",
    "a repeated text": "{{ 'x' * 10**8 }}",
    "a repeated list": "{{ (['x'] * 10**8) | join }}",
    "texts put together": DOUBLED.replace("START", "'x'").replace("MORE", "n.s ~ n.s"),
    "texts added": DOUBLED.replace("START", "'x'").replace("MORE", "n.s + n.s"),
    "lists of the same list": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ n.s }}",
    "such a list as JSON": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ n.s | tojson }}",
    "such a list in a format": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ '%s' % [n.s] }}",
    "a much larger number": DOUBLED.replace("START", "9").replace("MORE", "n.s * n.s"),
    "a power": "{{ 10 ** (10 ** 9) }}",
    "a wide filter": "{{ 'a' | center(10**9) }}",
    "an indent": "{{ ('a\n' * 1000) | indent(10**6) }}",
    "a wide method": "{{ 'a'.ljust(10**9) }}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a wide format by a value": "{{ '{:{w}}'.format(1, w=10**9) }}",
    "a repeated field": "{{ ('{0}' * 100000).format('a' * 100000) }}",
    "bytes of a number": "{{ (1).to_bytes(10**9, 'big') }}",
    "tabs": "{{ '\t'.expandtabs(10**9) }}",
    "a replacement": "{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}",
    "a filter of replacements": "{{ ['a' * 10**6] | map('replace', 'a', 'b' * 10**6) | list }}",
    "a long separator": "{{ ('a' * 10**6).join(['b'] * 10**6) }}",
    "a batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "a sum of lists": "{{ ([[1] * 1000] * 100000) | sum(start=[]) }}",
    "a time": "{{ strftime_now('%1000000000d') }}",
    "much text of its own": "{% for i in range(99999) %}" + 2000 * "a" + "{% endfor %}",
    "much text in a variable": "{% set x %}{% for i in range(99999) %}" + 2000 * "a" + "{% endfor %}{% endset %}",
    "100 MB in pieces": "{% set a = 'x' * 10**6 %}{% for i in range(100) %}{{ a }}{% endfor %}",
    "a prompt for no model": "{{ 'x' * 10**7 }}",
}


@pytest.mark.parametrize("template", ENDLESS.values(), ids=list(ENDLESS))
def test_templates_that_never_end_or_fill_memory_are_ended(template: str) -> None:
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(dml.ModelFileError, match="folder: its chat template"):
            rendered(template, MESSAGES, {}, "folder")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 700e6
    assert time.process_time() - start < 30, "with the tracing of memory, which takes most of it"


@pytest.mark.parametrize(
    "template",
    [
        *("{{", "{% for %}", "{{ 1/0 }}", "{% include 'x' %}", "{{ messages.x.y }}", "{{ 1 if }}", "{% break %}"),
        *("{{ " + 5000 * "(" + "1" + 5000 * ")" + " }}", 3000 * "{% if 1 %}" + 3000 * "{% endif %}", 2**21 * "a"),
        *("{{ lipsum(10**8) }}", "{{ [].append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ raise_exception(3) }}"),
    ],
    ids=lambda template: template[:20],
)
def test_damaged_templates_are_one_error(template: str) -> None:
    with pytest.raises(dml.ModelFileError, match="folder: its chat template"):
        rendered(template, MESSAGES, {}, "folder")


def test_a_long_conversation_is_within_the_budget() -> None:
    template: Any = SOUND[0] + "{{ messages | tojson }}" + SOUND[5]
    messages = [{"role": "user", "content": f"{n}</think>" + 1000 * "words, "} for n in range(250)]
    assert len(rendered(template, messages, {}, "folder")) > 2 * 250 * 7000

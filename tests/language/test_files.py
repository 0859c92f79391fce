"""Language models in the files that people have: types of weights, architectures, tokenizers, damage."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

import dmlvk as dml
from dmlvk.language import LanguageModel, Sampling
from dmlvk.language.gguf_blocks import BLOCKS, matrix
from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.gguf_tokenizer import GgufTokenizer
from tests.effort import IS_QUICK
from tests.language.damage import damage_folder
from tests.language.small_llama import HEADS, KEY_HEADS, LAYERS, byte_tokens, write_llama
from tests.language.small_models import CASES, write_gguf, write_hub_folder

PROMPT = [70, 80, 90, 100, 110, 75] * 4 + [33]
TEXTS = (
    *(
        "",
        " ",
        "Hello, World!  It's 1234567 o'clock.\r\n\r\n\tI'LL  go",
        "日本語とĳ e\u0301 \u00e9 ſ K",
        "a\n\n\nb   c\u3000d",
    ),
    *("👩‍👩‍👧 naïve --x=3.14 <table>  x", "\u2581▁ \u200b\x00 ²Ⅷ ǅ", "<|start|>user\n ab ab<|end|>"),
)


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


def random_texts(count: int) -> list[str]:
    """Texts of words, marks and any characters."""
    choose = random.Random(0)
    parts = [*(text for text in TEXTS if text), *"ab 1é\n\t.'", "  ", "'s", "\r\n", "12", "\U0001f600"]
    made = ["".join(choose.choice(parts) for _ in range(choose.randint(0, 9))) for _ in range(count)]
    return [*TEXTS, *made, *("".join(chr(choose.randrange(0xD800)) for _ in range(9)) for _ in range(count))]


@pytest.mark.parametrize("kind", BLOCKS)
def test_weights_of_each_type_have_the_bits_of_the_gguf_package(kind: str) -> None:
    elements, width = BLOCKS[kind]
    data = np.random.default_rng(0).integers(0, 256, (16, 1024 // elements * width), np.uint8)
    with np.errstate(all="ignore"):  # random scales are infinite, too
        expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
        made = matrix(kind, data)
        results = made.multiplied_out(), made.unpacked().multiplied_out()
    is_number = np.isfinite(expected)
    assert is_number.mean() > 0.8
    for result in results:
        assert (result.view(np.uint32) == expected.view(np.uint32))[is_number].all()


def random_blocks(values: Any, kind: gguf.GGMLQuantizationType) -> Any:
    """Blocks of random bytes for as many weights, whose scales and minima are small."""
    elements, width = BLOCKS[kind.name]
    random_ = np.random.default_rng(values.size)
    if elements == 1:
        return np.ascontiguousarray(gguf.quantize(values, kind)).view(np.uint8)
    data = random_.integers(0, 256, (len(values), values.shape[1] // elements, width), np.uint8)
    size = {"Q2_K": 1e-2, "Q3_K": 2e-3, "Q6_K": 2e-5, "IQ4_XS": 2e-5, "Q4_K": 2e-4, "Q5_K": 1e-4}.get(kind.name, 5e-3)
    if kind.name == "MXFP4":
        data[..., 0] = 120
        return data.reshape(len(values), -1)
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(kind.name, (0,))
    if kind.name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K"):
        places = (0, 2)
    for place in places:
        scales = (size * random_.uniform(0.5, 1, data.shape[:2])).astype("<f2")
        data[..., place : place + 2] = scales[..., None].view(np.uint8)
    return data.reshape(len(values), -1)


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
    with LanguageModel(tmp_path, max_length=128) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=1e-4)
        steps = [int(model.logits([token]).numpy().argmax()) for token in tokens[:-1]]
        assert steps == tokens[1:]
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


def test_states_of_convolutions_follow_their_texts(tmp_path: Path, device: dml.Device) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write_hub_folder("lfm2", tmp_path)
    first, second = PROMPT[:11], PROMPT[3:8]
    with LanguageModel(tmp_path, device, max_length=64, sequences=2) as model:
        alone = [list(model.generate(tokens, Sampling(), most=6)) for tokens in (first, second)]
        logits = model.logits(second).numpy().tobytes()
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


def test_of_a_model_for_pictures_the_part_for_text_is_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    text = write_hub_folder("gemma3", tmp_path).config.to_dict()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Gemma3Config(text_config=text, vision_config=sizes | {"image_size": 28, "patch_size": 14})
    reference = transformers.Gemma3ForConditionalGeneration(config).eval()
    reference.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, max_length=32) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=1e-5)


def tokenizer_of(fields: dict[str, Any], path: Path, name: str = "model") -> Any:
    """The tokenizer of a GGUF file with these fields, of a model of this name."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    for field, value in fields.items():
        add: Any = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}.get(
            type(value), writer.add_array
        )
        add(f"tokenizer.ggml.{field}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with GgufFile(path) as file:
        return Tokenizer.from_str(GgufTokenizer.of(GgufSource([file])).tokenizer())


@pytest.mark.parametrize("cut", ["qwen2", "gpt-2"])
def test_tokenizers_that_merge_bytes_are_those_of_transformers(tmp_path: Path, cut: str) -> None:
    transformers = pytest.importorskip("transformers")
    letters = byte_tokens()[3:-1]
    pairs = [(a, b) for a in "Ġabceilntorse" for b in "abcdeilntorse12."] + [("1", "2"), ("Ċ", "Ċ"), ("č", "Ċ")]
    tokens = [*letters, *dict.fromkeys(a + b for a, b in pairs)]
    kind = transformers.Qwen2Tokenizer if cut == "qwen2" else transformers.GPT2Tokenizer
    theirs = kind(vocab={token: number for number, token in enumerate(tokens)}, merges=list(dict.fromkeys(pairs)))
    fields = {"model": "gpt2", "pre": cut, "tokens": tokens, "token_type": [1] * len(tokens), "eos_token_id": 0}
    fields["merges"] = [f"{a} {b}" for a, b in dict.fromkeys(pairs)]
    own = tokenizer_of(fields, tmp_path / "model.gguf")
    for text in random_texts(300):
        assert own.encode(text).ids == theirs._tokenizer.encode(text, add_special_tokens=False).ids, repr(text)
        if cut == "gpt-2":
            assert own.decode(own.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("has_prefix", [True, False])
def test_pieces_of_the_best_score_are_merged_first(tmp_path: Path, has_prefix: bool) -> None:
    choose = random.Random(1)
    pieces = ["".join(choose.choice("\u2581abcot") for _ in range(choose.randint(2, 4))) for _ in range(60)]
    plain = list(dict.fromkeys([*pieces, *"\u2581abcotHelW"]))
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens, kinds = ["<unk>", "<s>", "</s>", *bytes_, "<table>", *plain], [2, 3, 3, *[6] * 256, 4, *[1] * len(plain)]
    scores = [0.0] * 260 + [-float(rank) for rank in choose.sample(range(99), len(plain))]
    fields = {"model": "llama", "tokens": tokens, "token_type": kinds, "scores": scores, "eos_token_id": 2}
    fields |= {"add_space_prefix": has_prefix, "unknown_token_id": 0}
    own = tokenizer_of(fields, tmp_path / "model.gguf")
    numbers = {piece: 260 + place for place, piece in enumerate(plain)}

    def merged(text: str) -> list[int]:
        """Kudo and Richardson's way (sentencepiece, bpe_model.cc): the best pair of neighbours, the first of equals."""
        parts = list(text.replace(" ", "\u2581"))
        while True:
            pairs = ["".join(pair) for pair in itertools.pairwise(parts)]
            best = max((scores[numbers[pair]] for pair in pairs if pair in numbers), default=None)
            if best is None:
                break
            place = next(at for at, pair in enumerate(pairs) if pair in numbers and scores[numbers[pair]] == best)
            parts[place : place + 2] = [pairs[place]]
        return [
            one for part in parts for one in ([numbers[part]] if part in numbers else [3 + b for b in part.encode()])
        ]

    for text in [*TEXTS, *("".join(choose.choice("abcot  Hel日") for _ in range(12)) for _ in range(300))]:
        expected: list[int] = []
        for place, segment in enumerate(text.split("<table>")):
            expected += [259] * (place > 0) + merged(" " * (has_prefix and segment != "") + segment)
        assert own.encode(text).ids == expected, repr(text)
    of_phi = tokenizer_of(fields, tmp_path / "model.gguf", "Phi-3 mini")  # whose special tokens take spaces with them
    assert of_phi.encode("a<table> \n b").ids == of_phi.encode("a<table>b").ids


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
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place, random_, data = 0, np.random.default_rng(0), b""
    for name, shape in shapes.items():
        part = random_.standard_normal(shape).astype(np.float16).tobytes()
        header[f"{name}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [place, place + len(part)]}
        data, place = data + part, place + len(part)
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    tokens = {token: number for number, token in enumerate(byte_tokens())}
    content = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": tokens, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model_type", "mamba", "the architecture 'mamba' is not known; llama, mistral, qwen2"),
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


def test_damaged_folders_of_the_hub_are_one_error_each_and_leave_nothing_behind(
    tmp_path: Path, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path)
    sound = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for seed in range(20 if IS_QUICK else 100):
        choose = random.Random(seed)
        for name, contents in sound.items():
            (tmp_path / name).write_bytes(contents)
        damage_folder(tmp_path, choose, "config.json")
        start = time.thread_time()
        with contextlib.suppress(dml.DmlError), LanguageModel(tmp_path, device, max_length=8) as model:
            model.logits([70, 80])
        assert time.thread_time() - start < 10, f"seed {seed} took long"
    assert not [name for name in os.listdir(tmp_path / "temporary") if name.startswith("dmlvk-model-")]

"""Tokenizers of GGUF files and of SentencePiece's."""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import Tokenizer

import dmlvk as dml
from dmlvk.language import LanguageModel
from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.gguf_tokenizer import GgufTokenizer
from dmlvk.language.sentencepiece_file import piece_file
from tests.language.small_llama import byte_tokens
from tests.language.small_models import write_pieces
from tests.language.test_files import write_folder

TEXTS = (
    *(
        "",
        " ",
        "Hello, World!  It's 1234567 o'clock.\r\n\r\n\tI'LL  go",
        "日本語とĳ e\u0301 \u00e9 ſ K",
        "a\n\n\nb   c\u3000d",
    ),
    *("👩‍👩‍👧 naïve --x=3.14 <table>  x", "\u2581▁ \u200b\x00 ²Ⅷ ǅ", "<|start|>user\n ab ab<|end|>", "นี่ที่ .्a ि"),
)


def random_texts(count: int) -> list[str]:
    """Texts of words, marks and any characters."""
    choose = random.Random(0)
    parts = [*(text for text in TEXTS if text), *"ab 1é\n\t.'", "  ", "'s", "\r\n", "12", "\U0001f600"]
    made = ["".join(choose.choice(parts) for _ in range(choose.randint(0, 9))) for _ in range(count)]
    return [*TEXTS, *made, *("".join(chr(choose.randrange(0xD800)) for _ in range(9)) for _ in range(count))]


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
    return GgufTokenizer.of(GgufSource([GgufFile(path)])).tokenizer()


@pytest.mark.parametrize("cut", ["qwen2", "qwen35", "gpt-2"])
def test_tokenizers_that_merge_bytes_are_those_of_transformers(tmp_path: Path, cut: str) -> None:
    transformers = pytest.importorskip("transformers")
    letters = byte_tokens()[3:-1]
    pairs = [(a, b) for a in "Ġabceilntorse" for b in "abcdeilntorse12."] + [("1", "2"), ("Ċ", "Ċ"), ("č", "Ċ")]
    tokens = [*letters, *dict.fromkeys(a + b for a, b in pairs)]
    kinds = {"qwen2": transformers.Qwen2Tokenizer, "gpt-2": transformers.GPT2Tokenizer}
    kind = kinds.get(cut, transformers.Qwen3_5Tokenizer)
    theirs = kind(vocab={token: number for number, token in enumerate(tokens)}, merges=list(dict.fromkeys(pairs)))
    fields = {"model": "gpt2", "pre": cut, "tokens": tokens, "token_type": [1] * len(tokens), "eos_token_id": 0}
    fields["merges"] = [f"{a} {b}" for a, b in dict.fromkeys(pairs)]
    own = tokenizer_of(fields, tmp_path / "model.gguf")
    for text in random_texts(300):
        assert own.encode(text).ids == theirs._tokenizer.encode(text, add_special_tokens=False).ids, repr(text)
        if cut == "gpt-2":
            assert own.decode(own.encode(text).ids, skip_special_tokens=False) == text


CUT = "it's 12 ab!!\n\n c"


@pytest.mark.parametrize(
    ("names", "pieces"),
    [
        (["lfm2", "glm4", "llama-bpe", "dbrx"], ["it", "'s", " ", "12", " ab", "!!\n\n", " c"]),
        (["seed-coder"], ["it", "'s", " ", "1", "2", " ab", "!!", "\n\n", " c"]),
        (["exaone4", "gpt-2"], ["it", "'s", " 12", " ab", "!!", "\n\n", " c"]),
        (["llama4", "gpt-4o"], ["it's", " ", "12", " ab", "!!\n\n", " c"]),
    ],
)
def test_texts_are_cut_as_llama_cpp_does(tmp_path: Path, names: list[str], pieces: list[str]) -> None:
    tokens = byte_tokens()
    fields = {"model": "gpt2", "tokens": tokens, "token_type": [1] * len(tokens), "eos_token_id": 0, "merges": ["a b"]}
    for name in names:
        found = tokenizer_of({**fields, "pre": name}, tmp_path / "model.gguf").pre_tokenizer.pre_tokenize_str(CUT)
        assert [CUT[slice(*place)] for _, place in found] == pieces


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = byte_tokens()
    fields = {"model": "gpt2", "tokens": tokens, "token_type": [1] * len(tokens), "eos_token_id": 0, "merges": ["a b"]}
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(dml.UnsupportedError, match=r"pip install dmlvk\[chat\]"):
        tokenizer_of(fields, tmp_path / "model.gguf")


@pytest.mark.parametrize("has_prefix", [True, False])
def test_pieces_of_the_best_score_are_merged_first(tmp_path: Path, has_prefix: bool) -> None:
    choose = random.Random(1)
    pieces = ["".join(choose.choice("\u2581abcot") for _ in range(choose.randint(2, 4))) for _ in range(60)]
    runs = ["\u2581" * length for length in (2, 4, 3, 6, 5)]  # which have one score, as Llama's have
    plain = list(dict.fromkeys([*(piece for piece in pieces if piece not in runs), *"\u2581abcotHelW", *runs]))
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens, kinds = ["<unk>", "<s>", "</s>", *bytes_, "<table>", *plain], [2, 3, 3, *[6] * 256, 4, *[1] * len(plain)]
    scores = [0.0] * 260 + [-float(rank) for rank in choose.sample(range(99), len(plain))]
    scores[-len(runs) :] = [-1e9] * len(runs)
    fields = {"model": "llama", "tokens": tokens, "token_type": kinds, "scores": scores, "eos_token_id": 2}
    fields |= {"add_space_prefix": has_prefix, "unknown_token_id": 0, "bos_token_id": 1, "add_bos_token": False}
    own = tokenizer_of(fields, tmp_path / "model.gguf")
    whole = tokenizer_of({**fields, "add_bos_token": True, "add_eos_token": True}, tmp_path / "model.gguf")
    write_pieces(tmp_path / "tokenizer.model", tokens, scores, kinds, has_prefix=has_prefix)
    of_folder = GgufTokenizer.of(GgufSource([piece_file(tmp_path / "tokenizer.model")])).tokenizer()
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

    for text in [*TEXTS, *("".join(choose.choice("abcot     Hel日") for _ in range(12)) for _ in range(300))]:
        expected, of_first = list[int](), list[int]()
        for place, segment in enumerate(text.split("<table>")):
            expected += [259] * (place > 0) + merged(" " * (has_prefix and segment != "") + segment)
        assert own.encode(text).ids == expected, repr(text)
        assert whole.encode(text).ids == [1, *expected, 2]
        for place, segment in enumerate(
            text.split("<table>")
        ):  # of which the first has a space in front, if it has none
            is_first = has_prefix and place == 0 and segment != "" and segment[0] not in " \u2581"
            of_first += [259] * (place > 0) + merged(" " * is_first + segment)
        assert of_folder.encode(text).ids == [1, *of_first], "which begins texts unless its configuration says no"
    of_phi = tokenizer_of(fields, tmp_path / "model.gguf", "Phi-3 mini")  # whose special tokens take spaces with them
    assert of_phi.encode("a<table> \n b").ids == of_phi.encode("a<table>b").ids


def test_pieces_are_merged_as_the_file_says(tmp_path: Path) -> None:
    from tokenizers import decoders, models, normalizers

    choose = random.Random(2)
    plain, merges = list("\u2581abcot"), list[tuple[str, str]]()
    while len(merges) < 60:
        pair = choose.choice(plain), choose.choice(plain)
        if len(piece := "".join(pair)) < 6 and piece not in plain:
            plain.append(piece)
            merges.append(pair)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\n", *plain]
    fields: dict[str, Any] = {
        "model": "gemma4",
        "tokens": tokens,
        "token_type": [2, 3, 3, *[6] * 256, *[1] * (len(plain) + 1)],
    }
    fields |= {"eos_token_id": 2, "unknown_token_id": 0, "merges": [" ".join(pair) for pair in merges]}
    fields["add_bos_token"] = False
    own = tokenizer_of(fields, tmp_path / "model.gguf")
    numbers = {token: number for number, token in enumerate(tokens)}
    theirs = Tokenizer(models.BPE(numbers, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    theirs.normalizer = normalizers.Replace(" ", "\u2581")
    theirs.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    for text in [*TEXTS, *("".join(choose.choice("abcot  \nH日") for _ in range(12)) for _ in range(300))]:
        found = own.encode(text).ids
        assert found == theirs.encode(text).ids, repr(text)
        assert own.decode(found) == theirs.decode(found)


def test_a_folder_of_the_hub_may_have_pieces_of_sentencepiece(tmp_path: Path, device: dml.Device) -> None:
    write_folder(tmp_path)
    pieces, kinds = ["<unk>", "<s>", "</s>", *"\u2581abc", "ab"], [2, 3, 3, *[1] * 5]
    write_pieces(tmp_path / "tokenizer.model", pieces, [0.0] * 8, kinds, has_prefix=True)
    added = {"8": {"content": "<|end|>", "special": True}, "9": {"content": "<tool>", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    (tmp_path / "tokenizer.json").unlink()
    with LanguageModel(tmp_path, device, max_length=8) as model:
        assert model.encode("abc<|end|>") == [3, 7, 6, 8]
        assert model.encode("a<tool>", is_whole=True) == [1, 3, 4, 9]
        assert model.decode([1, 3, 7, 6, 8]) == "abc"
    sound = (tmp_path / "tokenizer.model").read_bytes()
    for contents, message in (
        (sound[:-9] + sound[-5:], "pieces of the type 1 are not run; 2"),
        (sound[:-2], "is no file of SentencePiece"),
        (sound[:-2] + b"\x20\x01", "changes characters or spaces"),
        (sound + b"\x12\x05\x18\x02\xc0\x01\x01", "spaces end words"),
        (b"\x0f", "is no file of SentencePiece"),
    ):
        (tmp_path / "tokenizer.model").write_bytes(contents)
        with pytest.raises(dml.DmlError, match=message):
            LanguageModel(tmp_path, device)
    (tmp_path / "tokenizer.model").unlink()
    with pytest.raises(dml.ModelFileError, match=r"has no tokenizer\.json"):
        LanguageModel(tmp_path, device)


def test_runs_of_spaces_that_a_file_defines_are_found_before_pieces_and_as_marks(tmp_path: Path) -> None:
    """As Gemma's files have them, which transformers reads so."""
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "  ", "   "]
    fields = {"model": "llama", "tokens": tokens, "token_type": [2, 3, 3, 1, 1, 1, 4, 4], "eos_token_id": 2}
    fields |= {"scores": [0.0] * 3 + [-3.0, -2.0, -1.0, -1000.0, -1000.0], "add_space_prefix": False}
    own = tokenizer_of({**fields, "unknown_token_id": 0, "add_bos_token": False}, tmp_path / "model.gguf")
    assert own.encode(" a  a\u2581\u2581a   a").ids == [5, 6, 4, 6, 4, 7, 4]
    assert own.decode([5, 6, 4, 7]) == " a  a   "

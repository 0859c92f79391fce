"""From files as people have them, GGUF files and folders of the hub, to folders as onnxruntime-genai has them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import onnx

from dmlvk.errors import InvalidArgumentError, ModelFileError
from dmlvk.language.architectures import decoder_of
from dmlvk.language.decoder import Decoder, Layer
from dmlvk.language.decoder_graph import DecoderGraph
from dmlvk.language.folder import ConvertedModel, ModelFolder
from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.gguf_tokenizer import GgufTokenizer
from dmlvk.language.hub_source import HubSource
from dmlvk.language.sentencepiece_file import piece_file
from dmlvk.language.source import Source
from dmlvk.language.weight_nodes import DATA
from dmlvk.support.files import checked_path


def convert_gguf(file: Path | str, folder: Path | str) -> None:
    """Writes a folder with genai_config.json, model.onnx, model.onnx.data, tokenizer.json and tokenizer_config.json.

    Whatever changes the model's numbers, a field or a tensor, is converted or refused by its name. Where it fails,
    nothing is left behind, and a folder that was there has its files as before.

    Args:
        file: a GGUF file, the first one where there are several, of an architecture that is known. Weights have the
            values of the package gguf: packed where their type is, FLOAT32 of F16, BF16 and F32.
        folder: where it goes; is made. Files of these names that are there are replaced.

    Raises:
        ModelFileError: the file cannot be read, is damaged, or lacks something; or the folder cannot be written.
        InvalidArgumentError: one of them is no path.
        UnsupportedError: another architecture, type of weights or tokenizer; a field or tensor that is not converted.
    """
    file, folder = checked_path(file, "convert_gguf: file"), checked_path(folder, "convert_gguf: folder")
    source = GgufSource.opened(file)
    with written_folder(folder) as directory:
        source.is_for_others = True
        with open(directory / DATA, "wb") as data:
            converted = _converted_gguf(source, data)
        (directory / "model.onnx").write_bytes(converted.model.SerializeToString())
        (directory / "tokenizer.json").write_text(converted.tokenizer.to_str(), encoding="utf-8")
        for name, content in (("tokenizer", converted.tokenizer_config), ("genai", converted.config)):
            (directory / f"{name}_config.json").write_text(json.dumps(content, indent=2), encoding="utf-8")


def read_folder(path: Path | str, quantize: int | None = None) -> ModelFolder:
    """A language model's folder: the one of a path, or what is made of a GGUF file or of a folder of the hub.

    Args:
        quantize: bits of the integers in which plain weights are packed, 4 or 8; ``None``: they stay as they are.

    Raises:
        ModelFileError, UnsupportedError: as :meth:`ModelFolder.read` and :func:`convert_gguf`.
        InvalidArgumentError: it is no path, or weights cannot be packed so.
    """
    if quantize not in (None, 4, 8) or isinstance(quantize, bool):
        raise InvalidArgumentError(f"LanguageModel: quantize must be 4, 8 or None; got {quantize!r}")
    named = checked_path(path, "LanguageModel")
    is_of_hub = os.path.isfile(named / "config.json") and not os.path.isfile(named / "genai_config.json")
    if not is_of_hub and not os.path.isfile(named):
        if quantize is not None:
            raise InvalidArgumentError(
                f"{named}: weights of a folder of onnxruntime-genai stay as they are; no quantize"
            )
        return ModelFolder.read(named)
    if is_of_hub:
        return ModelFolder.read(named, _converted_hub(HubSource(named), quantize or 0))
    source = GgufSource.opened(named)
    source.quantize = quantize or 0
    return ModelFolder.read(named, _converted_gguf(source))


def _converted_hub(source: HubSource, quantize: int) -> ConvertedModel:
    """A folder of the hub has a tokenizer of its own, or SentencePiece's pieces."""
    source.quantize, pieces, tokenizer = quantize, source.folder / "tokenizer.model", None
    if not os.path.isfile(source.folder / "tokenizer.json") and os.path.isfile(pieces):
        tokenizer = GgufTokenizer.of(GgufSource([piece_file(pieces)])).tokenizer()
    decoder, graph, model = _model_of(source)
    return ConvertedModel(model, graph.weights, _genai_config(decoder, source.roles(), source.search()), tokenizer)


def _converted_gguf(source: GgufSource, data: BinaryIO | None = None) -> ConvertedModel:
    """What a file becomes; its weights are written to a file of data, if there is one."""
    tokens = GgufTokenizer.of(source)
    decoder, graph, model = _model_of(source, data)
    config = _genai_config(decoder, tokens.roles(), {})
    return ConvertedModel(model, graph.weights, config, tokens.tokenizer(), tokens.configuration())


def _model_of(source: Source, data: BinaryIO | None = None) -> tuple[Decoder, DecoderGraph, onnx.ModelProto]:
    decoder = decoder_of(source)
    if not decoder.is_causal:
        raise source.refusal("gives vectors, and no next token: dmlvk.language.EmbeddingModel runs it")
    graph = DecoderGraph(source, decoder, data)
    model = graph.model()
    source.check_tensors()
    return decoder, graph, model


@contextlib.contextmanager
def written_folder(folder: Path) -> Iterator[Path]:
    """A folder to write to, which becomes the wanted one, or gives it its files, when all is written.

    Raises:
        ModelFileError: it cannot be written.
    """
    if "\0" in str(folder):
        raise ModelFileError(f"{str(folder)!a}: cannot be written: a name has no zero byte")
    try:
        missing = [parent for parent in folder.parents if not parent.exists()]
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".dmlvk-", dir=folder.parent) as temporary:
                directory = Path(temporary) / "folder"
                directory.mkdir()
                yield directory
                if folder.is_dir():
                    for path in directory.iterdir():
                        os.replace(path, folder / path.name)
                else:
                    os.rename(directory, folder)
        except BaseException:
            for parent in missing:  # the innermost first
                with contextlib.suppress(OSError):
                    parent.rmdir()
            raise
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be written: {error}") from error


def _of_layers(numbers: Sequence[int]) -> int | list[int]:
    """A number of all layers, or one of each."""
    return numbers[0] if len(set(numbers)) == 1 else list(numbers)


def _cached_heads(layer: Layer) -> int:
    return layer.key_heads if layer.source is None else 0


def _names_of_layers(decoder: Decoder) -> dict[str, object]:
    """The kinds of layers, where there are several, and what the model's inputs and outputs are called."""
    inputs, outputs = {"input_ids": "input_ids", "attention_mask": "attention_mask"}, {"logits": "logits"}
    inputs |= {f"past_{part}_names": f"past_key_values.%d.{part}" for part in ("key", "value")}
    outputs |= {f"present_{part}_names": f"present.%d.{part}" for part in ("key", "value")}
    made: dict[str, object] = {"inputs": inputs, "outputs": outputs}
    if any(layer.taps for layer in decoder.layers):
        kind, states = ("conv", ["conv"]) if decoder.delta is None else ("linear_attention", ["conv", "recurrent"])
        made["layer_types"] = [kind if layer.taps else "full_attention" for layer in decoder.layers]
        inputs |= {f"past_{state}_names": f"past_{state}.%d" for state in states}
        outputs |= {f"present_{state}_names": f"present_{state}.%d" for state in states}
    return made


def _genai_config(decoder: Decoder, roles: Mapping[str, object], search: Mapping[str, Any]) -> dict[str, object]:
    """The contents of genai_config.json.

    Args:
        roles: numbers of tokens by their role, ``eos_token_id`` and so on.
        search: how tokens are chosen, where the files say.
    """
    return {
        "model": {
            "type": decoder.name,
            "vocab_size": decoder.vocabulary,
            "context_length": decoder.context,
            **roles,
            "decoder": {
                "filename": "model.onnx",
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "hidden_size": decoder.hidden,
                "head_size": _of_layers([layer.head for layer in decoder.layers]),
                "num_attention_heads": decoder.heads,
                "num_key_value_heads": _of_layers([_cached_heads(layer) for layer in decoder.layers]),
                "num_hidden_layers": len(decoder.layers),
                **_names_of_layers(decoder),
            },
        },
        "search": {
            "max_length": min(decoder.context, 2048),
            "do_sample": False,
            "temperature": 1.0,
            "top_k": 50,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
            "past_present_share_buffer": True,
            **search,
        },
    }

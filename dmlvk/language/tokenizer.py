"""The tokenizer of a folder, by the package ``tokenizers``, whose errors are of no special kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dmlvk.errors import DmlError, ModelFileError, UnsupportedError

Result = TypeVar("Result")


def tokenizer_class() -> Any:
    """The package's class.

    Raises:
        UnsupportedError: the package is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
    return Tokenizer


def read_tokenizer(file: Path) -> Any:
    """The tokenizer; it neither cuts texts nor fills them up, whatever its file says of batches for training.

    Raises:
        ModelFileError: the file is none of the package's.
        UnsupportedError: the package is not installed.
    """
    kind = tokenizer_class()
    try:
        tokenizer = tokenized(lambda: kind.from_file(str(file)))
    except ValueError as error:
        raise ModelFileError(f"{file}: is no tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def tokenized(work: Callable[[], Result]) -> Result:
    """What a method of the package gives.

    Raises:
        ValueError: it fails: by an exception of no special kind, or by a panic of the package, which is none.
    """
    try:
        return work()
    except DmlError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # an interrupt
        raise ValueError(" ".join(str(error).split())[:300]) from error

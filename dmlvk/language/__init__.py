"""Language models: GGUF files, folders of the hub and of onnxruntime-genai, run token by token, and talked to.

    from dmlvk.language import Conversation, LanguageModel

    with LanguageModel("model.gguf") as model:
        for text in Conversation(model).reply("What is the capital of France?"):
            print(text, end="", flush=True)

``EmbeddingModel`` makes vectors of texts, ``Reranker`` scores them beside a query.

Needs the extra ``chat``: ``pip install dmlvk[chat]``.
"""

from dmlvk.language.conversation import Conversation
from dmlvk.language.conversion import convert_gguf
from dmlvk.language.embedding import EmbeddingModel, Reranker
from dmlvk.language.folder import ModelFolder
from dmlvk.language.generation import LanguageModel
from dmlvk.language.sampling import Sampling

__all__ = ["Conversation", "EmbeddingModel", "LanguageModel", "ModelFolder", "Reranker", "Sampling", "convert_gguf"]

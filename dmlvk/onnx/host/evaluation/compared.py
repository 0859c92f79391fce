"""The versions of operators whose results by the onnx package's reference evaluator were compared with others.

``tests/onnx/test_evaluation.py`` does so: with the expected outputs of the ONNX project's own cases, which other code
computed, and with ONNX Runtime, where it has the operator and the types. No other version is computed by the evaluator,
which looks at few of them: Softmax of version 11, for example, is that of version 13 there.
"""

from __future__ import annotations

COMPARED: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (23, 24, 25),
    ("", "BitCast"): (26,),
    ("", "BlackmanWindow"): (17,),
    ("", "Cast"): (19, 21, 23, 24, 25, 28),
    ("", "CastLike"): (25,),
    ("", "CausalConvWithState"): (27,),
    ("", "Celu"): (28,),
    ("", "DeformConv"): (22,),
    ("", "DequantizeLinear"): (19, 21, 23, 25, 28),
    ("", "Det"): (22,),
    ("", "Einsum"): (28,),
    ("", "HammingWindow"): (17,),
    ("", "HannWindow"): (17,),
    ("", "ImageDecoder"): (20,),
    ("", "LinearAttention"): (27,),
    ("", "MelWeightMatrix"): (17,),
    ("", "QuantizeLinear"): (19, 21, 23, 25, 28),
    ("", "RMSNormalization"): (23,),
    ("", "Range"): (27,),
    ("", "SequenceMap"): (17,),
    ("", "StringNormalizer"): (10,),
    ("", "StringSplit"): (20,),
    ("", "Swish"): (24,),
    ("", "TensorScatter"): (24,),
    ("", "TfIdfVectorizer"): (9,),
    ("", "Unique"): (28,),
    ("ai.onnx.ml", "ArrayFeatureExtractor"): (1,),
    ("ai.onnx.ml", "Binarizer"): (1,),
    ("ai.onnx.ml", "LabelEncoder"): (4,),
    ("ai.onnx.ml", "TreeEnsemble"): (5,),
    ("ai.onnx.preview.training", "Adagrad"): (1,),
    ("ai.onnx.preview.training", "Adam"): (1,),
    ("ai.onnx.preview.training", "Momentum"): (1,),
}
"""By domain and operator, the versions in which it was defined anew."""

OF_BFLOAT16: dict[tuple[str, str], tuple[int, ...]] = {
    ("", "Attention"): (23, 24, 25),
    ("", "Celu"): (28,),
    ("", "Einsum"): (28,),
    ("", "Elu"): (22,),
    ("", "MatMul"): (13,),
    ("", "Softmax"): (13,),
    ("", "Unique"): (28,),
}
"""Those that are computed so where they read BFLOAT16, which ONNX Runtime's CPU package would compute in FLOAT."""

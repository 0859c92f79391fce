"""ONNX Runtime's names: sessions, options, values, what its package says of itself."""

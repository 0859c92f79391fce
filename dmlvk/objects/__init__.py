"""DirectML's objects: buffers, binding tables, compiled operators, recorders."""

"""What dmlvk stands on: Vulkan's devices and memory, its validation layer, Kompute."""

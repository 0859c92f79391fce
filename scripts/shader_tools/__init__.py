"""What ``compile_shaders.py`` and ``check_shaders.py`` are made of.

``project`` knows where things are, ``sources`` reads GLSL and its includes, ``preprocessor`` finds undefined macros,
``compiler`` runs glslang and spirv-val, ``library`` is the compiled library on disk, ``progress`` tells how far a run
is, ``spirv`` reads SPIR-V, ``rules`` and ``checks`` say what a shader must not contain.
"""

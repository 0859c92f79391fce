"""What ``compile_shaders.py`` and ``check_shaders.py`` are made of.

``project`` knows where things are, ``spirv`` reads SPIR-V, ``source_rules``, ``rules`` and ``checks`` say what a shader
must not contain.
"""

"""Fusion: element-wise operators that follow one another become one kernel, made of the same GLSL functions."""

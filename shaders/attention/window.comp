// CACHED_ATTENTION where caches keep a window: keys or values go into the memory that attention goes through, or back.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "composed/attention_window.glsl"

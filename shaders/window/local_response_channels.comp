// LOCAL_RESPONSE_NORMALIZATION as quick_response.glsl has it, of packed tensors whose planes have a multiple of four elements.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "windows/local_response_channels.glsl"

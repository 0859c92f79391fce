// The first step of LOCAL_RESPONSE_NORMALIZATION_GRAD: D = Bias + Alpha / LocalSize * sum of squares around each element.
#extension GL_EXT_control_flow_attributes : require
#include "windows/local_response.glsl"

VALUE(OUTPUT) pooled(Window window, out uint index) {
    index = 0u;
    return response_base(window);
}

#version 450
// What somebody would write by hand for one float32 operator: the yardstick of scripts/measure_speed.py. The float functions
// are the driver's own, with their faults (NaN, denormals).
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Input0 { uvec4 input_0[]; };
layout(set = 0, binding = 1) writeonly buffer Output { uvec4 result[]; };
void main()
{
    uint i = gl_GlobalInvocationID.x;
    result[i] = floatBitsToUint(max(uintBitsToFloat(input_0[i]), vec4(0.5)));
}

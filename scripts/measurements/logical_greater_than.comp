#version 450
// What somebody would write by hand for one float32 operator: the yardstick of scripts/measure_speed.py. The float functions
// are the driver's own, with their faults (NaN, denormals).
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Input0 { uvec4 input_0[]; };
layout(set = 0, binding = 1) readonly buffer Input1 { uvec4 input_1[]; };
layout(set = 0, binding = 2) writeonly buffer Output { uvec4 result[]; };
void main()
{
    uint i = gl_GlobalInvocationID.x;
    result[i] = uvec4(greaterThan(uintBitsToFloat(input_0[i]), uintBitsToFloat(input_1[i])));
}

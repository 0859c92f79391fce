#version 450
// What somebody would write by hand for one float32 operator: the yardstick of scripts/measure_speed.py.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer Input0 { uint input_0[]; };
layout(set = 0, binding = 1) readonly buffer Input1 { uvec4 input_1[]; };
layout(set = 0, binding = 2) readonly buffer Input2 { uvec4 input_2[]; };
layout(set = 0, binding = 3) writeonly buffer Output { uvec4 result[]; };
void main()
{
    uint i = gl_GlobalInvocationID.x;
    bvec4 selected = notEqual(uvec4(input_0[i]) & uvec4(0xffu, 0xff00u, 0xff0000u, 0xff000000u), uvec4(0u));
    result[i] = mix(input_2[i], input_1[i], selected);
}

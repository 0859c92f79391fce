// GATHER_ELEMENTS along an axis of neighbours: a work group holds a line of the input in shared memory, from where it is gathered. For GPUs, and
// elements of 32 bits. Memory is gone through in order only, and each element once.
#extension GL_EXT_control_flow_attributes : require
#include "movement/index_lines.glsl"

uint choice_of(Index index) { return nearest_choice(index, LENGTH); }

void main() {
    uint slot = gl_LocalInvocationIndex;
    uint number = work_group_index();
    if (number >= parameters.lines) { return; }
    uint input_line = number * parameters.input_line;
    uint index_line = number * parameters.index_line;
    uint output_line = number * parameters.output_line;
    // All is asked for before anything is waited for.
    uvec4 loaded[MAX_ITERATIONS];
    uvec2 choices[MAX_ITERATIONS];
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (IS_INSIDE(iteration, LENGTH)) {
            loaded[iteration] = fours_input[(BASE_WORD(input) + input_line + FIRST_OF(iteration)) >> 2u];
        }
    }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (IS_INSIDE(iteration, INDICES_OF_LINE)) {
            choices[iteration] = choices_at(index_line + FIRST_OF(iteration));
        }
    }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (IS_INSIDE(iteration, LENGTH)) {
            uint at = FIRST_OF(iteration);
            line[at] = loaded[iteration].x;
            line[at + 1u] = loaded[iteration].y;
            line[at + 2u] = loaded[iteration].z;
            line[at + 3u] = loaded[iteration].w;
        }
    }
    barrier();
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (IS_INSIDE(iteration, INDICES_OF_LINE)) {
            uvec2 pair = choices[iteration];
            fours_output[(BASE_WORD(output) + output_line + FIRST_OF(iteration)) >> 2u] =
                uvec4(line[pair.x & 0xffffu], line[pair.x >> 16], line[pair.y & 0xffffu], line[pair.y >> 16]);
        }
    }
}

// SCATTER along an axis of neighbours: a work group makes a line of the output, which it holds in shared memory meanwhile. For GPUs, and elements
// of 32 bits.
//
// Memory is gone through in order only, and each element once; what is at random, happens in shared memory: each update raises the number of
// its place to its own, which it has among those of its line; what has its number there has won, and puts its value in the number's place.
#extension GL_EXT_control_flow_attributes : require
#include "movement/index_lines.glsl"

// The last number of 16 bits means no place.
uint choice_of(Index index) { return min(choice_or_none(index, LENGTH), 0xffffu); }

void main() {
    uint slot = gl_LocalInvocationIndex;
    uint number = work_group_index();
    if (number >= parameters.lines) { return; }
    uint input_line = number * parameters.input_line;
    uint index_line = number * parameters.index_line;
    uint output_line = number * parameters.output_line;
    uvec2 choices[MAX_ITERATIONS];
    [[unroll]] for (uint iteration = 0u; iteration < 4u * MAX_ITERATIONS; ++iteration) {
        uint at = slot + iteration * INVOCATIONS;
        if (iteration < 4u * ITERATIONS(LENGTH) && at < LENGTH) { line[at] = 0u; }
    }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        uint at = FIRST_OF(iteration);
        choices[iteration] = uvec2(0xffffffffu);
        if (IS_INSIDE(iteration, INDICES_OF_LINE)) { choices[iteration] = choices_at(index_line + at); }
    }
    barrier();
#define EACH_CHOICE(DO, iteration) \
    DO(iteration, 0u, choices[iteration].x & 0xffffu) DO(iteration, 1u, choices[iteration].x >> 16) DO(iteration, 2u, choices[iteration].y & 0xffffu) \
    DO(iteration, 3u, choices[iteration].y >> 16)
#define MARK(iteration, i, choice) \
    if ((choice) < LENGTH) { atomicMax(line[choice], FIRST_OF(iteration) + i + 1u); }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (iteration < ITERATIONS(INDICES_OF_LINE)) {
            EACH_CHOICE(MARK, iteration)
        }
    }
    barrier();
    uint winners = 0u;
    uint found = 0u;
#define JUDGE(iteration, i, choice) \
    if ((choice) < LENGTH) { winners |= uint(line[choice] == FIRST_OF(iteration) + i + 1u) << (4u * iteration + i); }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        if (iteration < ITERATIONS(INDICES_OF_LINE)) {
            EACH_CHOICE(JUDGE, iteration)
        }
    }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        uint at = FIRST_OF(iteration);
        if (IS_INSIDE(iteration, LENGTH)) {
            uint bits = uint(line[at] != 0u) | (uint(line[at + 1u] != 0u) << 1) | (uint(line[at + 2u] != 0u) << 2)
                | (uint(line[at + 3u] != 0u) << 3);
            found |= bits << (4u * iteration);
        }
    }
    barrier();
#define PUT(iteration, i, choice) \
    if (((winners >> (4u * iteration + i)) & 1u) != 0u) { line[choice] = update[i]; }
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        uint at = FIRST_OF(iteration);
        if (IS_INSIDE(iteration, INDICES_OF_LINE)) {
            uvec4 update = fours_updates[(BASE_WORD(updates) + number * parameters.updates_line + at) >> 2u];
            EACH_CHOICE(PUT, iteration)
        }
    }
    barrier();
    [[unroll]] for (uint iteration = 0u; iteration < MAX_ITERATIONS; ++iteration) {
        uint at = FIRST_OF(iteration);
        if (IS_INSIDE(iteration, LENGTH)) {
            uint bits = (found >> (4u * iteration)) & 15u;
            uvec4 result = uvec4(line[at], line[at + 1u], line[at + 2u], line[at + 3u]);
            if (bits != 15u) {
                uvec4 kept = fours_input[(BASE_WORD(input) + input_line + at) >> 2u];
                result = mix(kept, result, bvec4((bits & 1u) != 0u, (bits & 2u) != 0u, (bits & 4u) != 0u, (bits & 8u) != 0u));
            }
            fours_output[(BASE_WORD(output) + output_line + at) >> 2u] = result;
        }
    }
}

// All operands are packed in the same order. An invocation takes LANES neighbouring elements: 16 bytes of the widest
// operand, or more where the output's elements would not fill a word otherwise, so that it owns every word that it writes.

#include "elementwise/elementwise_vectors.glsl"

#define STORE_EVERYWHERE(at) STORE_RESULTS(at)

// Whether some invocations have less than all their groups to do, and whether one of them has a part of a group. Where the
// launch fits the tensor neither is checked.
layout(constant_id = 2) const bool LAUNCH_EXCEEDS_GROUPS = true;
layout(constant_id = 3) const bool HAS_PARTIAL_GROUP = true;
layout(constant_id = 4) const bool TWO_VECTORS = false; // for every invocation

#define FETCH_INPUT(n, array) FETCH_AT(array##n, input_##n, INPUT_##n##_BITS, group)
#define FETCH_VECTOR(item, target, arrays) \
    { \
        uint group = item; \
        FOR_EACH_INPUT(FETCH_INPUT, arrays) \
    } \
    target = item;
#include "elementwise/elementwise_two_vectors.glsl"

// The last group, where fewer than LANES elements are left; in the place of the missing ones the last element is read again.
// Loads and atomics have loops of their own: beside a long operation they made SwiftShader take half a minute to compile it.
void compute_partial_group(uint group) {
    uint first = group * LANES;
    uint count = parameters.work_items - first;
#define LOAD_ELEMENTS(n, array) \
    VALUE(INPUT_##n) array##n[LANES]; \
    for (uint lane = 0u; lane < LANES; ++lane) { \
        array##n[lane] = LOAD(INPUT_##n, words_input_##n, BASE(INPUT_##n##_BITS, input_##n) + first + min(lane, count - 1u)); \
    }
    FOR_EACH_INPUT(LOAD_ELEMENTS, elements_)
    VALUE(OUTPUT) result[LANES];
#define DECLARE_FURTHER_ELEMENTS(n, type) VALUE(type##n) further_elements_##n[LANES];
    FOR_EACH_FURTHER_OUTPUT(DECLARE_FURTHER_ELEMENTS, FURTHER_)
#define LOADED(n, lane) elements_##n[lane]
#define KEEP_FURTHER(n, lane) further_elements_##n[lane] = further_##n;
#define COMPUTE_ELEMENT(lane) if (ALWAYS) { result[lane] = APPLY(LOADED, lane); FOR_EACH_FURTHER_OUTPUT(KEEP_FURTHER, lane) }
    FOR_EACH_LANE_IN_LOOP(COMPUTE_ELEMENT)
#define STORE_FURTHER_ELEMENT(n, lane) \
    STORE(FURTHER_##n##_BITS, words_further_output_##n, \
        BASE(FURTHER_##n##_BITS, further_output_##n) + first + lane, further_elements_##n[lane]);
    for (uint lane = 0u; lane < count; ++lane) {
        STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + first + lane, result[lane]);
        FOR_EACH_FURTHER_OUTPUT(STORE_FURTHER_ELEMENT, lane)
    }
}

// A file whose one input and output are FLOAT32 may define, beside OPERATION:
//   FAST_PATH_OPERATION(x, needs_slow_path)   the same result in fewer instructions, or any with needs_slow_path set
// Drivers for processors execute both sides of a branch. So an invocation computes what is ordinary of many vectors there, and then in
// a loop, which need not be gone through more than once, the elements that were left: the slow path is executed for one element
// instead of 32. A partial group's elements are rare too.
#ifdef FAST_PATH_OPERATION
layout(constant_id = 5) const bool DEFERS_SLOW_PATH = false;
#define VECTORS_ON_PROCESSORS 8u // a bit of a word for every element
#define COMPUTE_FAST_PATH_LANE(lane) \
    if (ALWAYS) { \
        bool needs_slow_path; \
        uint value = FAST_PATH_OPERATION(fetched_0[lane], needs_slow_path); \
        result[lane] = needs_slow_path ? fetched_0[lane] : value; \
        slow_path |= uint(needs_slow_path) << lane; \
    }

// Computes one vector and returns a bit for every element that is left. These keep their operands, which the output may have overwritten.
uint compute_fast_path_group(uint group) {
    FOR_EACH_INPUT(DECLARE_INPUT, fetched_)
    FOR_EACH_INPUT(FETCH_INPUT, fetched_)
    uint result[LANES];
    uint slow_path = 0u;
    FOR_EACH_LANE_WRITTEN_OUT(COMPUTE_FAST_PATH_LANE)
    STORE_RESULTS(group)
    return slow_path;
}

void compute_fast_then_slow_path() {
    uint first = work_group_index() * (256u * VECTORS_ON_PROCESSORS) + index_in_group();
    uint slow_path = 0u;
    for (uint vector = 0u; vector < VECTORS_ON_PROCESSORS; ++vector) {
        uint group = first + vector * 256u;
        uint whole_groups = parameters.work_items / LANES;
        if (group < whole_groups) {
            slow_path |= compute_fast_path_group(group) << (vector * LANES);
        } else if (group == whole_groups) {
            slow_path |= ((1u << (parameters.work_items % LANES)) - 1u) << (vector * LANES);
        }
    }
    // Asked for at the end, or the driver executes everything once more to find that nothing is left.
    do {
        if (slow_path != 0u) {
            uint number = uint(findLSB(slow_path));
            slow_path &= slow_path - 1u;
            uint at = (first + number / LANES * 256u) * LANES + number % LANES;
            uint operand = words_input_0[BASE_WORD(input_0) + at];
            words_output[BASE_WORD(output) + at] = OPERATION(operand);
        }
    } while (slow_path != 0u);
}
#endif

void main() {
#ifdef FAST_PATH_OPERATION
    if (DEFERS_SLOW_PATH) {
        compute_fast_then_slow_path();
        return;
    }
#endif
    uint whole_groups = parameters.work_items / LANES;
    uint group = invocation_index();
    uint second = group;
    if (TWO_VECTORS) {
        group = work_group_index() * VECTORS_OF_GROUP + index_in_group();
        second = group + INVOCATIONS_WITH_TWO;
    }
    if (TWO_VECTORS && (!LAUNCH_EXCEEDS_GROUPS || second < whole_groups)) {
        compute_two_vectors(group, second);
    } else if (!LAUNCH_EXCEEDS_GROUPS || group < whole_groups) {
        compute_one_vector(group);
    }
    if (LAUNCH_EXCEEDS_GROUPS && HAS_PARTIAL_GROUP) {
        if (group == whole_groups || (TWO_VECTORS && second == whole_groups)) { compute_partial_group(whole_groups); }
    }
}

// All operands are packed in the same order. An invocation takes LANES neighbouring elements: 16 bytes of the widest
// operand, or more where the output's elements would not fill a word otherwise, so that it owns every word that it writes.

#include "elementwise/elementwise_vectors.glsl"

#define STORE_EVERYWHERE(at) STORE_RESULTS(at)

#define FETCH_INPUT(n, array) FETCH(array##n, input_##n, INPUT_##n##_BITS, group)
#define FETCH_SECOND_INPUT(n, array) FETCH(array##n, input_##n, INPUT_##n##_BITS, second)

void compute_whole_group(uint group)
{
    FOR_EACH_INPUT(FETCH_INPUT, fetched_)
    COMPUTE_VECTOR(group)
}

void compute_two_whole_groups(uint group, uint second)
{
    FOR_EACH_INPUT(FETCH_INPUT, fetched_)
    FOR_EACH_INPUT(FETCH_SECOND_INPUT, second_)
    COMPUTE_VECTOR(group)
    COMPUTE_SECOND_VECTOR(second)
}

// The last group, where fewer than LANES elements are left; in the place of the missing ones the last element is read again.
// Loads and atomics have loops of their own: beside a long operation they made SwiftShader take half a minute to compile it.
void compute_partial_group(uint group)
{
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
#define COMPUTE_ELEMENT(lane) { result[lane] = APPLY(LOADED, lane); FOR_EACH_FURTHER_OUTPUT(KEEP_FURTHER, lane) }
    FOR_EACH_LANE_IN_LOOP(COMPUTE_ELEMENT)
#define STORE_FURTHER_ELEMENT(n, lane) \
    STORE(FURTHER_##n##_BITS, words_further_output_##n, \
        BASE(FURTHER_##n##_BITS, further_output_##n) + first + lane, further_elements_##n[lane]);
    for (uint lane = 0u; lane < count; ++lane) {
        STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + first + lane, result[lane]);
        FOR_EACH_FURTHER_OUTPUT(STORE_FURTHER_ELEMENT, lane)
    }
}

// Whether some invocations have less than all their groups to do, and whether one of them has a part of a group. Where the
// launch fits the tensor neither is checked.
layout(constant_id = 2) const bool LAUNCH_EXCEEDS_GROUPS = true;
layout(constant_id = 3) const bool HAS_PARTIAL_GROUP = true;
layout(constant_id = 4) const bool TWO_GROUPS = false; // for every invocation

// A file whose one input and output are FLOAT32 may define, beside OPERATION:
//   FAST_PATH_OPERATION(x, needs_slow_path)   the same result in fewer instructions, or any with needs_slow_path set
// Drivers for processors execute both sides of a branch. So an invocation computes what is ordinary of many vectors there, and then in
// a loop, which need not be gone through more than once, the elements that were left: the slow path is executed for one element
// instead of 32. A partial group's elements are rare too.
#ifdef FAST_PATH_OPERATION
layout(constant_id = 5) const bool DEFERS_SLOW_PATH = false;
#define VECTORS_ON_PROCESSORS 8u // a bit of a word for every element
#define COMPUTE_FAST_PATH_LANE(lane) \
    { \
        bool needs_slow_path; \
        uint value = FAST_PATH_OPERATION(fetched_0[lane], needs_slow_path); \
        result[lane] = needs_slow_path ? fetched_0[lane] : value; \
        slow_path |= uint(needs_slow_path) << lane; \
    }

// Computes one vector and returns a bit for every element that is left. These keep their operands, which the output may have overwritten.
uint compute_fast_path_group(uint group)
{
    FOR_EACH_INPUT(FETCH_INPUT, fetched_)
    uint result[LANES];
    uint slow_path = 0u;
    FOR_EACH_LANE_WRITTEN_OUT(COMPUTE_FAST_PATH_LANE)
    STORE_RESULTS(group)
    return slow_path;
}

void compute_fast_then_slow_path()
{
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

void compute_group(uint group)
{
    if (LAUNCH_EXCEEDS_GROUPS) {
        uint whole_groups = parameters.work_items / LANES;
        if (group < whole_groups) {
            compute_whole_group(group);
        } else if (HAS_PARTIAL_GROUP) {
            if (group == whole_groups) {
                compute_partial_group(group);
            }
        }
    } else {
        compute_whole_group(group);
    }
}

void main()
{
#ifdef FAST_PATH_OPERATION
    if (DEFERS_SLOW_PATH) {
        compute_fast_then_slow_path();
    } else
#endif
    if (TWO_GROUPS) {
        uint group = work_group_index() * VECTORS_OF_GROUP + index_in_group();
        uint second = group + INVOCATIONS_WITH_TWO;
        if (!LAUNCH_EXCEEDS_GROUPS || second < parameters.work_items / LANES) {
            compute_two_whole_groups(group, second);
        } else {
            for (; group <= second; group += INVOCATIONS_WITH_TWO) {
                compute_group(group);
            }
        }
    } else {
        compute_group(invocation_index());
    }
}

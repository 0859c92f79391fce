// All operands are packed in the same order. An invocation takes LANES neighbouring elements: 16 bytes of the widest
// operand, or more where the output's elements would not fill a word otherwise, so that it owns every word that it writes.

#include "elementwise_vectors.glsl"

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

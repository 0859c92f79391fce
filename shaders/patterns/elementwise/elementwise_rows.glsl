// Rows that all operands have as runs of neighbouring elements, or as a single element that is repeated (stride 0). A row has
// a multiple of LANES elements and begins at such a multiple in memory: an invocation takes LANES neighbours at once.
#include "elementwise/elementwise_axes.glsl"
#include "elementwise/elementwise_vectors.glsl"

// Where no input changes along an axis, one result is stored so often, so many vectors apart.
layout(constant_id = OWN_CONSTANT) const uint REPEATS = 1u;
layout(constant_id = OWN_CONSTANT + 1) const uint REPEAT_STRIDE = 0u;
layout(constant_id = OWN_CONSTANT + 2) const bool TWO_VECTORS = false; // for every invocation
#define STORE_EVERYWHERE(at) \
    for (uint repeat = 0u; repeat < REPEATS; ++repeat) { \
        uint offset = at + repeat * REPEAT_STRIDE; \
        STORE_RESULTS(offset) \
    }

// REPEAT(array, bits, value): fills the words of a vector with one element.
#define REPEAT(array, bits, value) CONCATENATE(REPEAT_, bits)(array, value)
#define REPEAT_8(array, value) FILL(array, WORDS_OF(8), ((value) & 0xffu) * 0x01010101u)
#define REPEAT_16(array, value) FILL(array, WORDS_OF(16), ((value) & 0xffffu) * 0x00010001u)
#define REPEAT_32(array, value) FILL(array, WORDS_OF(32), value)
#define REPEAT_64(array, value) \
    { uvec2 one = value; for (int i = 0; i < WORDS_OF(64); i += 2) { array[i] = one.x; array[i + 1] = one.y; } }
#define FILL(array, count, word) { uint one = word; for (int i = 0; i < count; ++i) { array[i] = one; } }

#define ROW_OF_INPUT(n, type) type row_input_##n = 0u;
#define FETCH_INPUT(n, array) \
    if (STRIDE_input_##n##_0 == 0u) { \
        REPEAT(array##n, INPUT_##n##_BITS, \
            LOAD(INPUT_##n, words_input_##n, BASE(INPUT_##n##_BITS, input_##n) + row_input_##n)) \
    } else { \
        FETCH_AT(array##n, input_##n, INPUT_##n##_BITS, row_input_##n / LANES + group) \
    }

#define FETCH_VECTOR(item, target, arrays) \
    { \
        uint row = item / GROUPS_PER_ROW; \
        uint group = item % GROUPS_PER_ROW; \
        uint row_output = 0u; \
        FOR_EACH_INPUT(ROW_OF_INPUT, uint) \
        MOVE_BY(row, 1) MOVE_BY(row, 2) MOVE_BY(row, 3) MOVE_BY(row, 4) MOVE_BY(row, 5) MOVE_BY(row, 6) MOVE_BY(row, 7) \
        FOR_EACH_INPUT(FETCH_INPUT, arrays) \
        target = row_output / LANES + group; \
    }
#include "elementwise/elementwise_two_vectors.glsl"

void main() {
    uint item = invocation_index();
    uint second = item;
    if (TWO_VECTORS) {
        item = work_group_index() * VECTORS_OF_GROUP + index_in_group();
        second = item + INVOCATIONS_WITH_TWO;
    }
    if (TWO_VECTORS && second < parameters.work_items) {
        compute_two_vectors(item, second);
    } else if (item < parameters.work_items) {
        compute_one_vector(item);
    }
}

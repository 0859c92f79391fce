// What each place that indices mean is told by the last element that means it, in row-major order: that element's number,
// counted from 1.
//
// The compile script passes UNIT_BITS, of words, and LANES, the elements that an invocation takes.
#define LONG_OPERATION
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_index, base_numbers, elements;
} parameters;

#include "buffers.glsl"

BUFFER(0, index)
BUFFER(1, numbers)

#include "movement/indexed.glsl"

#define CHOOSE(n) \
    if (INDICES > n) { \
        uint choice = choice_or_none(load_index(offsets.index + n * INDEX_STEP), CHOICES_##n); \
        is_inside = is_inside && choice < CHOICES_##n; \
        offset += choice * CHOICE_STRIDE_##n; \
    }

void mark(uint element) {
    Offsets offsets = offsets_of(element);
    uint offset = offsets.sparse;
    bool is_inside = true;
    CHOOSE(0) CHOOSE(1) CHOOSE(2) CHOOSE(3) CHOOSE(4) CHOOSE(5) CHOOSE(6) CHOOSE(7)
    if (is_inside) { atomicMax(words_numbers[BASE_WORD(numbers) + offset], element + 1u); }
}

void main() {
    uint first = work_group_index() * (256u * LANES) + index_in_group();
#define MARK(lane) \
    if (first + lane * 256u < parameters.elements) { mark(first + lane * 256u); }
    FOR_EACH_LANE(MARK)
}

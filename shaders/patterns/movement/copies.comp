// Copies between views, and fills of them: JOIN, SPLIT, SLICE and all that moves elements by sizes and attributes alone.
// Moves elements from one view of a buffer to a view of another: of any sizes, strides (signed: sums wrap around) and first
// elements. Elements are WIDTH = 8, 16, 32, 64 or 128 bits wide; the host joins neighbours to wider ones where it can.
//
// What an invocation moves is an element, or, where elements of 8 or 16 bits lie side by side in the target, a word of them:
// the host counts words along axis 0 then, and ROW_ELEMENTS is how many elements a row has. Words that a row shares with
// others are changed by atomics, which touch nothing but the row's own bits.
//
// FILL: there is no source; parameters.value goes everywhere.
//
// SMALL: sizes and strides are parameters, so that all small tensors share a pipeline. Otherwise they are constants, and an
// invocation moves four elements that lie INTERLEAVE apart along LANE_AXIS.
#include "datatypes.glsl"

#define LANES 4
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
#ifndef FILL
    uint base_source;
#endif
    uint base_target, work_items;
    uint first_target; // the element whose coordinates are all 0
#ifdef FILL
    uint value[4];
#else
    uint first_source;
#endif
#ifdef SMALL
    uint row_elements, sizes[8], target_strides[8];
#ifndef FILL
    uint source_strides[8];
#endif
#endif
} parameters;

#include "buffers.glsl"

#ifdef FILL
BUFFER(0, target)
#else
BUFFER(0, source)
BUFFER(1, target)
#endif

#ifdef SMALL
#define ROW_ELEMENTS parameters.row_elements
#define SIZE(axis) parameters.sizes[axis]
#define TARGET_STRIDE(axis) parameters.target_strides[axis]
#define SOURCE_STRIDE(axis) parameters.source_strides[axis]
#define LANE_COUNT 1u
#define LANE_AXIS 8u
#define INTERLEAVE 1u
#else
layout(constant_id = 2) const uint ROW_ELEMENTS = 1u;
#define LANE_COUNT 4u
layout(constant_id = 3) const uint LANE_AXIS = 0u;
layout(constant_id = 4) const uint INTERLEAVE = 1u;
#define AXIS_CONSTANTS(axis) \
    layout(constant_id = 5 + axis) const uint SIZE_##axis = 1u; \
    layout(constant_id = 13 + axis) const uint TARGET_STRIDE_##axis = 0u; \
    layout(constant_id = 21 + axis) const uint SOURCE_STRIDE_##axis = 0u;
AXIS_CONSTANTS(0) AXIS_CONSTANTS(1) AXIS_CONSTANTS(2) AXIS_CONSTANTS(3)
AXIS_CONSTANTS(4) AXIS_CONSTANTS(5) AXIS_CONSTANTS(6) AXIS_CONSTANTS(7)
#define SIZE(axis) SIZE_##axis
#define TARGET_STRIDE(axis) TARGET_STRIDE_##axis
#define SOURCE_STRIDE(axis) SOURCE_STRIDE_##axis
#endif

// BASE of buffers.glsl for vectors too.
#define BASE_128(word) ((word) >> 2u)

#if WIDTH == 128
#define ELEMENT uvec4
#define READ(name, index) fours_##name[index]
#define WRITE(index, value) fours_target[index] = value
#define FILLING uvec4(parameters.value[0], parameters.value[1], parameters.value[2], parameters.value[3])
#elif WIDTH == 64
#define ELEMENT uvec2
#define READ(name, index) pairs_##name[index]
#define WRITE(index, value) pairs_target[index] = value
#define FILLING uvec2(parameters.value[0], parameters.value[1])
#else
#define ELEMENT uint
#define FILLING parameters.value[0]
#if WIDTH == 32
#define READ(name, index) words_##name[index]
#elif WIDTH == 16
#define READ(name, index) LOAD_uint16(words_##name, index)
#else
#define READ(name, index) LOAD_uint8(words_##name, index)
#endif
#define WRITE(index, value) CONCATENATE(STORE_, WIDTH)(words_target, index, value)
#endif

#if WIDTH < 32
#define PER_WORD (32u / WIDTH)
#define BITS (uint(WIDTH))

#ifndef FILL
// The elements from `element` on of a row that begins at `row` and has them side by side, in a word; `skipped` places stay free
// for those before. No word is read in which the row has no element.
uint neighbours(uint row, uint element, uint skipped) {
    uint last = min(element + PER_WORD - 1u - skipped, ROW_ELEMENTS - 1u);
    uint first = row + element;
    uint low = words_source[first / PER_WORD];
    uint high = words_source[(row + last) / PER_WORD];
    uint rotation = (first % PER_WORD) * BITS;
    uint bits = rotation == 0u ? low : (low >> rotation) | (high << (32u - rotation));
    return bits << (skipped * BITS);
}

// The same of a row whose elements lie apart.
uint gathered(uint row, uint element, uint skipped) {
    uint bits = 0u;
    for (uint offset = 0u; offset < PER_WORD; ++offset) {
        if (offset >= skipped && element + offset - skipped < ROW_ELEMENTS) {
            bits |= READ(source, row + (element + offset - skipped) * SOURCE_STRIDE(0)) << (offset * BITS);
        }
    }
    return bits;
}
#endif

// A word of a row that begins at the element `target`: the one with this number, counted from the row's first one on.
// `mask` has the bits that are the row's own: none, where the row begins so that it needs a word less than others.
void read_word(uint number, uint target, uint source, out uint bits, out uint mask) {
    uint phase = target % PER_WORD; // of the row's first element in its word
    uint skipped = number == 0u ? phase : 0u;
    uint element = number * PER_WORD + skipped - phase;
    if (element >= ROW_ELEMENTS) {
        bits = 0u;
        mask = 0u;
        return;
    }
#ifdef FILL
    bits = FILLING;
#else
    bits = SOURCE_STRIDE(0) == 1u ? neighbours(source, element, skipped) : gathered(source, element, skipped);
#endif
    uint count = min(PER_WORD - skipped, ROW_ELEMENTS - element);
    mask = (0xffffffffu >> (32u - count * BITS)) << (skipped * BITS);
}

void write_word(uint word, uint bits, uint mask) {
    if (mask == 0xffffffffu) {
        words_target[word] = bits;
    } else if (mask != 0u) {
        atomicAnd(words_target[word], ~mask);
        atomicOr(words_target[word], bits & mask);
    }
}
#define IS_PACKED (TARGET_STRIDE(0) == 1u)
#else
#define IS_PACKED false
#endif

#ifdef FILL
#define MOVE_SOURCE(axis, coordinate)
#define SOURCE_START 0u
#else
#define MOVE_SOURCE(axis, coordinate) source += (coordinate) * SOURCE_STRIDE(axis);
#define SOURCE_START (BASE(WIDTH, source) + parameters.first_source)
#endif

// Invocations count along the axis of the lanes without these: INTERLEAVE neighbours, then those behind all lanes of them.
#define EACH_LANE (LANE_COUNT * INTERLEAVE)
#define COUNT_ALONG(axis) \
    (LANE_AXIS == axis ? (SIZE(axis) + EACH_LANE - 1u) / EACH_LANE * INTERLEAVE : SIZE(axis))
#define MOVE_ALONG(axis) \
    if (SIZE(axis) > 1u) { \
        uint coordinate = item % COUNT_ALONG(axis); \
        item /= COUNT_ALONG(axis); \
        if (LANE_AXIS == axis) { \
            coordinate = coordinate / INTERLEAVE * EACH_LANE + coordinate % INTERLEAVE; \
            first_of_lanes = coordinate; \
            size_of_lanes = SIZE(axis); \
            target_step = INTERLEAVE * TARGET_STRIDE(axis); \
            STEP_OF_SOURCE(axis) \
        } \
        if (axis == 0 && IS_PACKED) { \
            number = coordinate; \
        } else { \
            target += coordinate * TARGET_STRIDE(axis); \
            MOVE_SOURCE(axis, coordinate) \
        } \
    }
#ifdef FILL
#define STEP_OF_SOURCE(axis)
#else
#define STEP_OF_SOURCE(axis) source_step = INTERLEAVE * SOURCE_STRIDE(axis);
#endif

// All that an invocation moves is read before any of it is written: then nothing waits for the next.
#ifdef SMALL
#define FOR_LANES(DO) DO(0u)
#else
#define FOR_LANES(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#endif
#define HAS_LANE(lane) (first_of_lanes + lane * INTERLEAVE < size_of_lanes)
#if WIDTH < 32
#define NUMBER_OF_LANE(lane) (LANE_AXIS == 0u ? number + lane * INTERLEAVE : number)
#define TARGET_OF_LANE(lane) (LANE_AXIS == 0u ? target : target + lane * target_step)
#define SOURCE_OF_LANE(lane) (LANE_AXIS == 0u ? source : source + lane * source_step)
#define READ_WORD(lane) \
    if (HAS_LANE(lane)) { \
        read_word(NUMBER_OF_LANE(lane), TARGET_OF_LANE(lane), SOURCE_OF_LANE(lane), bits[lane], masks[lane]); \
    } else { \
        masks[lane] = 0u; \
    }
#define WRITE_WORD(lane) write_word(TARGET_OF_LANE(lane) / PER_WORD + NUMBER_OF_LANE(lane), bits[lane], masks[lane]);
#endif
#ifdef FILL
#define READ_ELEMENT(lane) elements[lane] = FILLING;
#else
#define READ_ELEMENT(lane) if (HAS_LANE(lane)) { elements[lane] = READ(source, source + lane * source_step); }
#endif
#define WRITE_ELEMENT(lane) if (HAS_LANE(lane)) { WRITE(target + lane * target_step, elements[lane]); }

void main() {
    WORK_ITEM(item)
    uint target = BASE(WIDTH, target) + parameters.first_target;
    uint source = SOURCE_START;
    uint number = 0u; // of a row's word
    uint first_of_lanes = 0u;
    uint size_of_lanes = 1u;
    uint target_step = 0u;
    uint source_step = 0u;
    MOVE_ALONG(0) MOVE_ALONG(1) MOVE_ALONG(2) MOVE_ALONG(3) MOVE_ALONG(4) MOVE_ALONG(5) MOVE_ALONG(6) MOVE_ALONG(7)

#if WIDTH < 32
    if (IS_PACKED) {
        uint bits[4], masks[4];
        FOR_LANES(READ_WORD)
        FOR_LANES(WRITE_WORD)
        return;
    }
#endif
    ELEMENT elements[4];
    FOR_LANES(READ_ELEMENT)
    FOR_LANES(WRITE_ELEMENT)
}

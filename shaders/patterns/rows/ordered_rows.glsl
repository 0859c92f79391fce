// Rows of elements that an operator puts in order: parameters, buffers, where elements lie, and their candidates.
//
// The first step finds candidates in tiles of a row and makes a sorted list of each; further steps merge lists
// (merged_lists.comp); the last one writes what the list of each row holds. Lists have a fixed number of places; those that
// are left over hold NO_CANDIDATE, which comes behind all others.
//
// The compile script passes UNIT_BITS, the width of an element, and KEY_WORDS. A file that defines WRITES_RESULTS has the
// outputs among its buffers, and lists only where it defines HAS_LISTS, too.
#define LANES 4
#include "datatypes.glsl"

#ifndef WRITES_RESULTS
#define HAS_LISTS
#endif

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_input;
#ifdef HAS_LISTS
    uint base_lists;
#endif
#ifdef WRITES_RESULTS
    uint base_values, base_positions;
#endif
    uint work_items; // invocations, or work groups
    uint row_length;
    uint tiles;     // of a row
    uint tile;      // elements of a tile
    uint kept;       // places of a list
} parameters;

#include "buffers.glsl"

BUFFER(0, input)
#ifdef HAS_LISTS
BUFFER(1, lists)
#define BINDING_OF_VALUES 2
#define BINDING_OF_POSITIONS 3
#else
#define BINDING_OF_VALUES 1
#define BINDING_OF_POSITIONS 2
#endif
#ifdef WRITES_RESULTS
BUFFER(BINDING_OF_VALUES, values)
BUFFER(BINDING_OF_POSITIONS, positions)
#endif

#include "axes.glsl"
#include "rows/candidates.glsl"

ALL_STRIDES(input, 12)
ALL_STRIDES(values, 20)
ALL_STRIDES(positions, 28)
layout(constant_id = 36) const uint INPUT_STEP = 1u; // along the axis of the rows
layout(constant_id = 37) const uint VALUES_STEP = 1u;
layout(constant_id = 38) const uint POSITIONS_STEP = 1u;
layout(constant_id = 39) const uint ELEMENT_FORM = 0u;
layout(constant_id = 40) const bool SMALLEST_FIRST = false;
layout(constant_id = 41) const bool POSITIONS_ARE_PAIRS = false; // of 64 bits

#define UNSIGNED_FORM 0u
#define SIGNED_FORM 1u
#define FLOAT32_FORM 2u
#define FLOAT16_FORM 3u

// Where a row begins in each operand, in elements.
struct RowStart {
    uint input_, values, positions;
};

#define MOVE(axis, coordinate) \
    start.input_ += coordinate * STRIDE_input_##axis; \
    start.values += coordinate * STRIDE_values_##axis; \
    start.positions += coordinate * STRIDE_positions_##axis;
RowStart start_of(uint row) {
    RowStart start = RowStart(0u, 0u, 0u);
    MOVE_BY_EIGHT(row)
    return start;
}

#if UNIT_BITS == 64
#define LOAD_ELEMENT(position) pairs_input[(BASE_WORD(input) >> 1u) + (position)]
#elif UNIT_BITS == 32
#define LOAD_ELEMENT(position) words_input[BASE_WORD(input) + (position)]
#elif UNIT_BITS == 16
#define LOAD_ELEMENT(position) LOAD(uint16, words_input, BASE(16, input) + (position))
#else
#define LOAD_ELEMENT(position) LOAD(uint8, words_input, BASE(8, input) + (position))
#endif

#define SIGN_OF_WORD 0x80000000u

// A number whose bits are a sign and a magnitude, the sign in the highest bit: both zeros are equal, the least key is above 0.
uint key_of_float(uint bits, bool is_nan) {
    uint rising = (bits & SIGN_OF_WORD) != 0u ? 0u - bits : bits + SIGN_OF_WORD;
    uint key = SMALLEST_FIRST ? 0u - rising : rising;
    return is_nan ? 0u : key;
}

#if UNIT_BITS == 64
CANDIDATE candidate_of(uvec2 element, uint position) {
    uint high = ELEMENT_FORM == SIGNED_FORM ? element.y ^ SIGN_OF_WORD : element.y;
    uint mask = SMALLEST_FIRST ? 0xffffffffu : 0u;
    return MAKE_CANDIDATE(high ^ mask, element.x ^ mask, position);
}
#else
CANDIDATE candidate_of(uint element, uint position) {
    uint bits = element << (32 - UNIT_BITS); // what decides stands at the top
    uint key = ELEMENT_FORM == SIGNED_FORM ? bits ^ SIGN_OF_WORD : bits;
    key ^= SMALLEST_FIRST ? 0xffffffffu : 0u;
    if (ELEMENT_FORM == FLOAT32_FORM) { key = key_of_float(bits, (bits & 0x7fffffffu) > 0x7f800000u); }
    if (ELEMENT_FORM == FLOAT16_FORM) { key = key_of_float(bits, (bits & 0x7fffffffu) > 0x7c000000u); }
    return MAKE_CANDIDATE(key, 0u, position);
}
#endif

CANDIDATE candidate_at(uint row_start, uint position) {
    return candidate_of(LOAD_ELEMENT(row_start + position * INPUT_STEP), position);
}

#ifdef WRITES_RESULTS
// Stores the element in a place of a row, and the place, as a result of that number.
void write_result(RowStart start, uint number, uint position) {
    uint target = start.values + number * VALUES_STEP;
#if UNIT_BITS == 64
    pairs_values[(BASE_WORD(values) >> 1u) + target] = LOAD_ELEMENT(start.input_ + position * INPUT_STEP);
#else
    uint element = LOAD_ELEMENT(start.input_ + position * INPUT_STEP);
    STORE(UNIT_BITS, words_values, BASE(UNIT_BITS, values) + target, element);
#endif
    target = start.positions + number * POSITIONS_STEP;
    if (POSITIONS_ARE_PAIRS) {
        words_positions[BASE_WORD(positions) + 2u * target] = position;
        words_positions[BASE_WORD(positions) + 2u * target + 1u] = 0u;
    } else {
        words_positions[BASE_WORD(positions) + target] = position;
    }
}
#endif

// What a reduction's file sees before its functions: parameters, buffers, and the elements of a row.
//
// A row is what lies along the reduced axes, the last axis fastest. It is cut into chunks of CHUNK elements; what a chunk
// comes to is stored as a state of STATE_WORDS words, and the states of a row's chunks are reduced by another launch, with
// PARTIALS defined, whose elements they are. The last launch makes results of states.
//
// The file defines before: STATE_WORDS; WIDE where elements have 64 bits. The compile script defines PARTIALS,
// SEVERAL_LANES and LOADS_AHEAD as 0 or 1.
#include "datatypes.glsl"
#include "float16.glsl"
#include "float32.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input, base_companion, base_output, rows;
    uint row_length; // in elements: of the input, or states
    uint chunks;     // of a row
    uint elements;   // of a row of the input
    uint function;   // MODE and, 256 times, ENDING
    uint sizes[8];   // of the row's own axes, the last one first, then of those that lead from row to row
    uint input_strides[8], output_strides[8];
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
// Two words for each row, for functions that need to know something of it.
layout(std430, set = 0, binding = 1) coherent buffer Words_companion { uint words_companion[]; };
layout(std430, set = 0, binding = 2) coherent buffer Words_output { uint words_output[]; };

layout(constant_id = 2) const uint ROW_AXES = 1u;
layout(constant_id = 3) const uint OTHER_AXES = 0u;
layout(constant_id = 4) const uint LANES_OF_CHUNK = 1u;      // a power of four
layout(constant_id = 5) const uint LANES_OF_INVOCATION = 1u; // a power of four, at most as many
layout(constant_id = 6) const uint WIDTH = 32u;              // bits of an element
layout(constant_id = 7) const uint KIND = 0u;                // what an element is: UNSIGNED_KIND, SIGNED_KIND or FLOAT_KIND
layout(constant_id = 8) const bool HAS_BLOCKS = false;       // every whole block of a row begins at a multiple of four elements
layout(constant_id = 9) const bool ROWS_ARE_NEIGHBOURS = false; // neighbouring invocations take rows side by side
layout(constant_id = 10) const bool IS_LAST = true;          // results are stored, not states
layout(constant_id = 11) const uint OUTPUT_WIDTH = 32u;
#ifndef SCAN
layout(constant_id = 14) const bool OF_MAGNITUDES = false; // of sums
#endif

// What a file has several functions by.
#define MODE (parameters.function & 0xffu)
#define ENDING (parameters.function >> 8)

#define UNSIGNED_KIND 0u
#define SIGNED_KIND 1u
#define FLOAT_KIND 2u

#if PARTIALS
#define CHUNK 4096u
#else
#define CHUNK 16384u
#endif

#ifdef WIDE
#define ELEMENT uvec2
#else
#define ELEMENT uint
#endif

// Where this invocation's row begins in the input, in elements; and its number.
uint row_input, row_number;

// Moves along the axes that lead from row to row.
uint row_offset(uint row, bool of_input) {
    uint offset = 0u;
    for (uint axis = 0u; axis < OTHER_AXES; ++axis) {
        uint size = parameters.sizes[ROW_AXES + axis];
        uint coordinate = row % size;
        row /= size;
        uint input_stride = parameters.input_strides[ROW_AXES + axis];
        uint output_stride = parameters.output_strides[ROW_AXES + axis];
        offset += coordinate * (of_input ? input_stride : output_stride);
    }
    return offset;
}

uint element_offset(uint element) {
    if (ROW_AXES == 1u) {
        return row_input + (HAS_BLOCKS ? element : element * parameters.input_strides[0]); // blocks are of neighbours
    }
    uint offset = row_input;
    for (uint axis = 0u; axis + 1u < ROW_AXES; ++axis) {
        uint size = parameters.sizes[axis];
        offset += (element % size) * parameters.input_strides[axis];
        element /= size;
    }
    return offset + element * parameters.input_strides[ROW_AXES - 1u];
}

#ifndef WIDE
// The bits of an element: integers extended to 32 bits, floats as float32.
uint widened_element(uint bits) {
    if (WIDTH == 32u) { return bits; }
    if (KIND == FLOAT_KIND) { return float32_from_float16(bits); }
    uint unused = 32u - WIDTH;
    return KIND == SIGNED_KIND ? uint(int(bits << unused) >> unused) : bits;
}

ELEMENT load_element(uint offset) {
    if (WIDTH == 32u) { return words_input[parameters.base_input + offset]; }
    bool is_half = WIDTH == 16u;
    uint word = words_input[parameters.base_input + (is_half ? offset >> 1u : offset >> 2u)];
    uint position = is_half ? (offset & 1u) * 16u : (offset & 3u) * 8u;
    return widened_element((word >> position) & (is_half ? 0xffffu : 0xffu));
}
#else
ELEMENT load_element(uint offset) {
    uint word = parameters.base_input + 2u * offset;
    return uvec2(words_input[word], words_input[word + 1u]);
}
#endif

// Four neighbours, of which the first `count` are elements of the row; the others are whatever.
struct Block {
    ELEMENT a;
    ELEMENT b;
    ELEMENT c;
    ELEMENT d;
};

Block load_block(uint first, uint count) {
    if (HAS_BLOCKS && count == 4u) {
        uint offset = element_offset(first);
#ifdef WIDE
        uvec4 low = fours_input[(parameters.base_input >> 2u) + (offset >> 1u)];
        uvec4 high = fours_input[(parameters.base_input >> 2u) + (offset >> 1u) + 1u];
        return Block(low.xy, low.zw, high.xy, high.zw);
#else
        if (WIDTH == 32u) {
            uvec4 words = fours_input[(parameters.base_input + offset) >> 2u];
            return Block(words.x, words.y, words.z, words.w);
        }
        if (WIDTH == 16u) {
            uvec2 pair = pairs_input[(parameters.base_input >> 1u) + (offset >> 2u)];
            return Block(widened_element(pair.x & 0xffffu), widened_element(pair.x >> 16), widened_element(pair.y & 0xffffu),
                widened_element(pair.y >> 16));
        }
        uint word = words_input[parameters.base_input + (offset >> 2u)];
        return Block(widened_element(word & 0xffu), widened_element((word >> 8) & 0xffu),
            widened_element((word >> 16) & 0xffu), widened_element(word >> 24));
#endif
    }
    uint last = first + count - 1u;
    ELEMENT a = load_element(element_offset(first));
    ELEMENT b = load_element(element_offset(min(first + 1u, last)));
    ELEMENT c = load_element(element_offset(min(first + 2u, last)));
    ELEMENT d = load_element(element_offset(min(first + 3u, last)));
    return Block(a, b, c, d);
}

// Results that come from between the elements of the input: up to five axes, of which up to four are resampled.
//
// Output axes are gone through in the order of the output's memory, axis 0 the innermost. Where the output is one run of
// neighbouring elements (OUTPUT_PACKED), an invocation takes four of them; otherwise one.
//
// The operator's file defines before
//   RESAMPLE_BLOCKS       where four rows of four elements can be computed at once
// and behind
//   VALUE(OUTPUT) resampled(Source source)     the result, for which it has INPUT and OUTPUT, their widths, and ELEMENT(at)
//   bool has_block(Source source, uint output_at, Columns columns)    with RESAMPLE_BLOCKS: stores a block by store_four_values, or finds that it cannot
//   bool has_doubled_block(Source source, uint output_at)             likewise of two such blocks, where IS_DOUBLED

#include "datatypes.glsl"
#include "resampling.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // where operands begin in their buffers, in words
    uint base_output, base_state, work_items;
    uint elements; // of the output
    uint first;    // of what is averaged, those that this launch takes, where it is one of several
    uint end;
} parameters;

#define LANES 4
#include "buffers.glsl"

BUFFER(0, input)
BUFFER(1, output)
BUFFER(2, state) // what one of several launches hands on to the next: STATE_WORDS for each element of the output

layout(constant_id = 2) const bool OUTPUT_PACKED = false;
layout(constant_id = 3) const uint ROUNDING = 0u;      // of nearest elements
layout(constant_id = 4) const bool ROWS_OF_FOUR = false; // whether the innermost axis has a multiple of four elements

// What a step along an axis of the output adds: to the element of the input, where the axis is not resampled; to the element
// of the output; and to the coordinates of the resampled axes.
#define OUTPUT_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SIZE_##axis = 1u; \
    layout(constant_id = first_id + 1) const uint INPUT_STEP_##axis = 0u; \
    layout(constant_id = first_id + 2) const uint OUTPUT_STEP_##axis = 0u; \
    layout(constant_id = first_id + 3) const uint STEP_A_##axis = 0u; \
    layout(constant_id = first_id + 4) const uint STEP_B_##axis = 0u; \
    layout(constant_id = first_id + 5) const uint STEP_C_##axis = 0u; \
    layout(constant_id = first_id + 6) const uint STEP_D_##axis = 0u;
OUTPUT_AXIS(0, 5) OUTPUT_AXIS(1, 12) OUTPUT_AXIS(2, 19) OUTPUT_AXIS(3, 26) OUTPUT_AXIS(4, 33)

// The resampled axes, A the innermost: numbers as the bits of float32, elements of the input, and how far these lie apart.
#define RESAMPLED_AXIS(axis, first_id) \
    layout(constant_id = first_id) const uint SCALE_##axis = 0x3f800000u; \
    layout(constant_id = first_id + 1) const uint INVERSE_##axis = 0x3f800000u; \
    layout(constant_id = first_id + 2) const uint INPUT_OFFSET_##axis = 0u; \
    layout(constant_id = first_id + 3) const uint OUTPUT_OFFSET_##axis = 0u; \
    layout(constant_id = first_id + 4) const uint LAST_##axis = 0u; \
    layout(constant_id = first_id + 5) const uint EXTENT_##axis = 1u; \
    layout(constant_id = first_id + 6) const uint STRIDE_##axis = 0u; \
    layout(constant_id = first_id + 7) const uint RADIUS_##axis = 0u; \
    Resampled resampled_##axis() { \
        return Resampled(uintBitsToFloat(SCALE_##axis), uintBitsToFloat(INVERSE_##axis), \
            uintBitsToFloat(INPUT_OFFSET_##axis), uintBitsToFloat(OUTPUT_OFFSET_##axis), uintBitsToFloat(LAST_##axis)); \
    }
RESAMPLED_AXIS(A, 40) RESAMPLED_AXIS(B, 48) RESAMPLED_AXIS(C, 56) RESAMPLED_AXIS(D, 64)

layout(constant_id = 72) const bool IS_PLAIN = false; // at most A and B are resampled, both without a radius

#ifdef RESAMPLE_BLOCKS
// Whether an invocation takes two blocks, one below the other, of four rows of four elements: rows along B, elements along A. Steps along the axis
// of B are eight rows long then.
layout(constant_id = 73) const bool IN_BLOCKS = false;
layout(constant_id = 74) const uint ROW_OUTPUT_STEP = 0u; // elements of the output
layout(constant_id = 75) const uint OUTPUT_ROWS = 1u;
// Whether rows and columns are doubled, each element's place in the middle of it; with PAIRS, of elements that lie side by side, two from every
// even one on at once.
layout(constant_id = 77) const bool IS_DOUBLED = false;
layout(constant_id = 78) const bool HAS_PAIRS = false;
#endif

// Whether this is one of several launches, each of which takes some of what is averaged; an invocation has one element then.
layout(constant_id = 76) const bool IN_PARTS = false;

// An element of the output: the element of the input where all resampled axes begin, and its coordinates along these.
struct Source {
    uint at, a, b, c, d;
};

#define POSITION(axis, coordinate) location_of(coordinate, resampled_##axis())
#define ELEMENT(at) LOAD(INPUT, words_input, BASE(INPUT_BITS, input) + (at))

VALUE(OUTPUT) resampled(Source source);

#define MOVE(axis, coordinate) \
    source.at += coordinate * INPUT_STEP_##axis; \
    output_at += coordinate * OUTPUT_STEP_##axis; \
    source.a += coordinate * STEP_A_##axis; \
    source.b += coordinate * STEP_B_##axis; \
    source.c += coordinate * STEP_C_##axis; \
    source.d += coordinate * STEP_D_##axis;

Source source_of(uint element, out uint output_at) {
    Source source = Source(0u, 0u, 0u, 0u, 0u);
    uint rest = element;
    output_at = 0u;
    MOVE_BY_FOUR(rest)
    MOVE(4, rest)
    return source;
}

// Stores four neighbours of one row, from a multiple of four elements on.
void store_four_values(uint output_at, VALUE(OUTPUT) a, VALUE(OUTPUT) b, VALUE(OUTPUT) c, VALUE(OUTPUT) d) {
    uint words[OUTPUT_BITS / 8];
    for (int i = 0; i < OUTPUT_BITS / 8; ++i) { words[i] = 0u; }
    INSERT(OUTPUT_BITS, words, 0u, a);
    INSERT(OUTPUT_BITS, words, 1u, b);
    INSERT(OUTPUT_BITS, words, 2u, c);
    INSERT(OUTPUT_BITS, words, 3u, d);
    uint first = BASE_WORD(output) + (output_at >> 2u) * uint(OUTPUT_BITS / 8);
#if OUTPUT_BITS == 8
    words_output[first] = words[0];
#elif OUTPUT_BITS == 16
    pairs_output[first >> 1u] = uvec2(words[0], words[1]);
#else
    fours_output[first >> 2u] = uvec4(words[0], words[1], words[2], words[3]);
#endif
}

// Four neighbours of one row.
void store_row_of_four(Source source, uint output_at) {
    VALUE(OUTPUT) values[4];
    uint first = output_at;
    for (uint lane = 0u; lane < 4u; ++lane) {
        values[lane] = resampled(source);
        MOVE(0, 1u)
    }
    store_four_values(first, values[0], values[1], values[2], values[3]);
}

#ifdef RESAMPLE_BLOCKS
// Four columns: the elements of a row before and behind their places, and how far they lie behind the former.
struct Columns {
    uvec4 first, second;
    vec4 fraction;
};
Columns columns_from(uint a) {
    Between x = between(POSITION(A, a));
    Between y = between(POSITION(A, a + 1u));
    Between z = between(POSITION(A, a + 2u));
    Between w = between(POSITION(A, a + 3u));
    uvec4 first = uvec4(x.element, y.element, z.element, w.element) * STRIDE_A;
    vec4 fraction = vec4(x.fraction, y.fraction, z.fraction, w.fraction);
    uvec4 step = uvec4(is_zero(x.fraction) ? 0u : STRIDE_A, is_zero(y.fraction) ? 0u : STRIDE_A,
        is_zero(z.fraction) ? 0u : STRIDE_A, is_zero(w.fraction) ? 0u : STRIDE_A);
    return Columns(first, first + step, fraction);
}

bool has_block(Source source, uint output_at, Columns columns);
bool has_doubled_block(Source source, uint output_at);

void store_block(uint item) {
    uint output_at;
    Source source = source_of(item * 4u, output_at);
    if (IS_DOUBLED && has_doubled_block(source, output_at)) { return; }
    Columns columns = columns_from(source.a);
    for (uint block = 0u; block < 2u; ++block) {
        bool is_stored = source.b < OUTPUT_ROWS && has_block(source, output_at, columns);
        for (uint row = 0u; row < 4u; ++row) {
            if (!is_stored && source.b < OUTPUT_ROWS) { store_row_of_four(source, output_at); }
            source.b += 1u;
            output_at += ROW_OUTPUT_STEP;
        }
    }
}
#endif

// An element, or four neighbours that may lie in several rows, or be fewer.
void store_elements(uint item) {
    uint count = OUTPUT_PACKED ? 4u : 1u;
    for (uint lane = 0u; lane < count; ++lane) {
        uint element = item * count + lane;
        if (!OUTPUT_PACKED || element < parameters.elements) {
            uint output_at;
            Source source = source_of(element, output_at);
            VALUE(OUTPUT) value = resampled(source);
            STORE(OUTPUT_BITS, words_output, BASE(OUTPUT_BITS, output) + output_at, value);
        }
    }
}

void main() {
    WORK_ITEM(item)
#ifdef RESAMPLE_BLOCKS
    if (IN_BLOCKS) {
        store_block(item);
        return;
    }
#endif
    if (OUTPUT_PACKED && ROWS_OF_FOUR) {
        uint output_at;
        Source source = source_of(item * 4u, output_at);
        store_row_of_four(source, output_at);
    } else {
        store_elements(item);
    }
}

// Where CONVOLUTION's operands lie. Included by matrix_operands.glsl.
//
// Along each spatial axis the place of the input that meets place k of the filter for place o of the output is
//     (o * OUTPUT_STEP + k * FILTER_STEP + FIRST) / INPUT_STEP
// where that is a whole number inside the input, else there is padding. Forward, OUTPUT_STEP is the stride, FILTER_STEP the dilation
// and FIRST minus the padding; backward, INPUT_STEP is the stride, and the others turn their signs; a filter that is turned over has
// FILTER_STEP with the other sign. All of it modulo 2^32: what would be negative is too large to be inside.
#ifndef CONVOLUTION_OPERANDS_GLSL
#define CONVOLUTION_OPERANDS_GLSL

#if !SHAPE_AT_RUN_TIME
layout(constant_id = 11) const uint FILTER_DEPTH = 1u;
layout(constant_id = 12) const uint FILTER_HEIGHT = 1u;
layout(constant_id = 13) const uint FILTER_WIDTH = 1u;
layout(constant_id = 14) const uint OUTPUT_STEP_DEPTH = 1u;
layout(constant_id = 15) const uint OUTPUT_STEP_HEIGHT = 1u;
layout(constant_id = 16) const uint OUTPUT_STEP_WIDTH = 1u;
layout(constant_id = 17) const uint FILTER_STEP_DEPTH = 1u;
layout(constant_id = 18) const uint FILTER_STEP_HEIGHT = 1u;
layout(constant_id = 19) const uint FILTER_STEP_WIDTH = 1u;
layout(constant_id = 20) const uint FIRST_DEPTH = 0u;
layout(constant_id = 21) const uint FIRST_HEIGHT = 0u;
layout(constant_id = 22) const uint FIRST_WIDTH = 0u;
layout(constant_id = 23) const uint INPUT_STEP_DEPTH = 1u;
layout(constant_id = 24) const uint INPUT_STEP_HEIGHT = 1u;
layout(constant_id = 25) const uint INPUT_STEP_WIDTH = 1u;
// Places along the input's axis times INPUT_STEP.
layout(constant_id = 26) const uint INPUT_DEPTH = 1u;
layout(constant_id = 27) const uint INPUT_HEIGHT = 1u;
layout(constant_id = 28) const uint INPUT_WIDTH = 1u;
layout(constant_id = 29) const uint OUTPUT_DEPTH = 1u;
layout(constant_id = 30) const uint OUTPUT_HEIGHT = 1u;
layout(constant_id = 31) const uint OUTPUT_WIDTH = 1u;
// Whether the filter's input channels do not lie behind one another like its places (as they do for the backward direction).
layout(constant_id = 32) const bool FILTER_IS_SPLIT = false;
// Places along the output's axes that windows reach; those behind (the forward direction's OutputPadding) are sums of nothing.
layout(constant_id = 33) const uint REACHED_DEPTH = 1u;
layout(constant_id = 34) const uint REACHED_HEIGHT = 1u;
layout(constant_id = 35) const uint REACHED_WIDTH = 1u;
#endif

#ifndef INNER_CHANNELS // how many channels of a place are neighbouring terms; 1: a channel's places are
#define INNER_CHANNELS 1u
#endif

#if HAS_EPILOGUE
#define BEHIND_TOTALS , group * parameters.rows
#else
#define BEHIND_TOTALS
#endif

Batch batch_at(uint group, uint groups, uint segment) {
    uint totals = (SEGMENTS_COME == PARALLEL ? segment * groups + group : group) * (parameters.rows * parameters.columns);
    uint addend = BASE(OPERAND_BITS, addend) + group * parameters.rows * parameters.addend_row;
    uint results = BASE(RESULT_BITS, output) + group * parameters.rows * parameters.output_channel;
#if ADDS_SEGMENTS
    return Batch(0u, 0u, addend, results, BASE(32, totals) + totals BEHIND_TOTALS);
#else
    uint left = BASE(OPERAND_BITS, left) + group * parameters.left_inner;
    uint filter_positions = FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH;
    uint right = BASE(OPERAND_BITS, right) + group * (parameters.terms / filter_positions) * parameters.input_channel;
    return Batch(left, right, addend, WRITES_TOTALS ? BASE(32, output) + totals : results, 0u BEHIND_TOTALS);
#endif
}

#if !ADDS_SEGMENTS
#if !SHAPE_AT_RUN_TIME
// Whether there is one place of everything along the depth.
#define IS_FLAT (FILTER_DEPTH == 1u && OUTPUT_DEPTH == 1u && INPUT_DEPTH == 1u && FIRST_DEPTH == 0u)
#else
#define IS_FLAT false
#endif

// A term's channel, and the number of its place in the window along depth, height and width.
uvec4 parts_of_term(uint term) {
    if (INNER_CHANNELS != 1u) {
        uint position = term / INNER_CHANNELS;
        uint line = position / FILTER_WIDTH;
        uint plane = line / FILTER_HEIGHT;
        return uvec4(term - position * INNER_CHANNELS, plane, line - plane * FILTER_HEIGHT, position - line * FILTER_WIDTH);
    }
    uint line = term / FILTER_WIDTH;
    uint plane = line / FILTER_HEIGHT;
    uint channel = plane / FILTER_DEPTH;
    return uvec4(channel, plane - channel * FILTER_DEPTH, line - plane * FILTER_HEIGHT, term - line * FILTER_WIDTH);
}

#define OUTSIDE 0x80000000u // far from every place of the input, in whichever direction the filter goes on from it

#if !COUNTS_TERMS
uint left_index(Batch batch, uint row, uint term) {
    uint first = batch.left + row * parameters.left_row;
    if (!FILTER_IS_SPLIT) { return first + term * parameters.left_term; }
    uint filter_positions = FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH;
    uint channel = term / filter_positions;
    return first + channel * parameters.left_outer + (term - channel * filter_positions) * parameters.left_term;
}

// What is the same for all terms of a column: where its image begins, and where its window does.
struct Column {
    uint image, depth, height, width;
};
Column column_at(Batch batch, uint column) {
    uint line = column / OUTPUT_WIDTH;
    uint plane = line / OUTPUT_HEIGHT;
    uint image = plane / OUTPUT_DEPTH;
    uint depth = plane - image * OUTPUT_DEPTH;
    uint height = line - plane * OUTPUT_HEIGHT;
    uint width = column - line * OUTPUT_WIDTH;
    bool is_reached = depth < REACHED_DEPTH && height < REACHED_HEIGHT && width < REACHED_WIDTH;
    return Column(batch.right + image * parameters.input_image, depth * OUTPUT_STEP_DEPTH + FIRST_DEPTH,
        height * OUTPUT_STEP_HEIGHT + FIRST_HEIGHT, is_reached ? width * OUTPUT_STEP_WIDTH + FIRST_WIDTH : OUTSIDE);
}

#endif

// Whether there is an element of the input at a place (depth, height and width, times INPUT_STEP), and where.
bool is_element(uvec3 position) {
    bool is_inside = (IS_FLAT || position.x < INPUT_DEPTH) && position.y < INPUT_HEIGHT && position.z < INPUT_WIDTH;
    if (INPUT_STEP_DEPTH != 1u) { is_inside = is_inside && position.x % INPUT_STEP_DEPTH == 0u; }
    if (INPUT_STEP_HEIGHT != 1u) { is_inside = is_inside && position.y % INPUT_STEP_HEIGHT == 0u; }
    if (INPUT_STEP_WIDTH != 1u) { is_inside = is_inside && position.z % INPUT_STEP_WIDTH == 0u; }
    return is_inside;
}

#if !COUNTS_TERMS
uint element_index(Column column, uint channel, uvec3 position) {
    return column.image + channel + position.x / INPUT_STEP_DEPTH * parameters.input_depth
        + position.y / INPUT_STEP_HEIGHT * parameters.input_height + position.z / INPUT_STEP_WIDTH * parameters.input_width;
}

#if !SHAPE_AT_RUN_TIME
#define LEFT_TERMS_ARE_EVEN (!FILTER_IS_SPLIT) // whether the same step leads from each term to the next one

// What is the same for a term of all columns: how far its elements lie behind those of the window's beginning (of its channel, where
// there are places between the input's) and its place in the window.
#define INPUT_HAS_STEPS (INPUT_STEP_DEPTH != 1u || INPUT_STEP_HEIGHT != 1u || INPUT_STEP_WIDTH != 1u)
uvec4 position_of_term(uint term, uint end) {
    uvec4 parts = parts_of_term(term);
    uvec3 position = parts.yzw * uvec3(FILTER_STEP_DEPTH, FILTER_STEP_HEIGHT, FILTER_STEP_WIDTH);
    uint within = position.x * parameters.input_depth + position.y * parameters.input_height + position.z * parameters.input_width;
    uint index = parts.x * parameters.input_channel + (INPUT_HAS_STEPS ? 0u : within);
    return uvec4(index, position.x, term < end ? position.y : OUTSIDE, position.z);
}

// Where a column's window begins, as an index: it may lie outside of the input.
uint beginning_of(Column column) {
    return INPUT_HAS_STEPS ? 0u : element_index(column, 0u, uvec3(column.depth, column.height, column.width));
}

// Where a column's element of a term lies.
uint index_of_term(Column column, uint beginning, uvec4 term) {
    uvec3 position = uvec3(column.depth, column.height, column.width) + term.yzw;
    if (!is_element(position)) { return NOWHERE; }
    return INPUT_HAS_STEPS ? element_index(column, term.x, position) : beginning + term.x;
}
#endif

uint right_index(Column column, uint term) {
    uvec4 parts = parts_of_term(term);
    uvec3 position = uvec3(column.depth, column.height, column.width)
        + parts.yzw * uvec3(FILTER_STEP_DEPTH, FILTER_STEP_HEIGHT, FILTER_STEP_WIDTH);
    return is_element(position) ? element_index(column, parts.x * parameters.input_channel, position) : NOWHERE;
}
#endif

#endif

#define OUTPUT_ROW parameters.output_channel // from a row's results to those of the next one

uint addend_index(Batch batch, uint row, uint column) { return batch.addend + row * parameters.addend_row; }
#if !COUNTS_TERMS
uint output_index(Batch batch, uint row, uint column) {
    uint line = column / OUTPUT_WIDTH;
    uint plane = line / OUTPUT_HEIGHT;
    uint image = plane / OUTPUT_DEPTH;
    return batch.results + row * parameters.output_channel + image * parameters.output_image
        + (plane - image * OUTPUT_DEPTH) * parameters.output_depth
        + (line - plane * OUTPUT_HEIGHT) * parameters.output_height
        + (column - line * OUTPUT_WIDTH) * parameters.output_width;
}
#endif

#endif

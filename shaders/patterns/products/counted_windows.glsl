// Where CONVOLUTION's operands lie, for kernels that count terms: places in the filter and in the output are found by division once, and
// go on from there by additions. Nothing else is fast where sizes are not known when the kernel is compiled: processors divide the
// numbers of neighbouring invocations one after the other.
//
// What the words mean is explained in convolution_operands.glsl. With SHAPE_AT_RUN_TIME they are parameters, of windows over height and
// width, forward or by steps of 1; else specialization constants, of any convolution.

#if SHAPE_AT_RUN_TIME
#define HIGH_HALF(word) (parameters.word >> 16u)
#define LOW_HALF(word) (parameters.word & 0xffffu)
#define SIGNED_HIGH_HALF(word) uint(int(parameters.word) >> 16)
#define SIGNED_LOW_HALF(word) uint(int(parameters.word << 16u) >> 16)
#define FILTER_DEPTH 1u
#define FILTER_HEIGHT HIGH_HALF(filter_sizes)
#define FILTER_WIDTH LOW_HALF(filter_sizes)
#define OUTPUT_STEP_DEPTH 1u
#define OUTPUT_STEP_HEIGHT HIGH_HALF(output_steps)
#define OUTPUT_STEP_WIDTH LOW_HALF(output_steps)
#define FILTER_STEP_DEPTH 1u
#define FILTER_STEP_HEIGHT SIGNED_HIGH_HALF(filter_steps)
#define FILTER_STEP_WIDTH SIGNED_LOW_HALF(filter_steps)
#define FIRST_DEPTH 0u
#define FIRST_HEIGHT SIGNED_HIGH_HALF(firsts)
#define FIRST_WIDTH SIGNED_LOW_HALF(firsts)
#define INPUT_STEP_DEPTH 1u
#define INPUT_STEP_HEIGHT 1u
#define INPUT_STEP_WIDTH 1u
#define INPUT_DEPTH 1u
#define INPUT_HEIGHT HIGH_HALF(input_sizes)
#define INPUT_WIDTH LOW_HALF(input_sizes)
#define OUTPUT_DEPTH 1u
#define OUTPUT_HEIGHT HIGH_HALF(output_sizes)
#define OUTPUT_WIDTH LOW_HALF(output_sizes)
#define REACHED_DEPTH OUTPUT_DEPTH
#define REACHED_HEIGHT OUTPUT_HEIGHT
#define REACHED_WIDTH OUTPUT_WIDTH
#define INPUT_STRIDE_DEPTH 0u
#define OUTPUT_STRIDE_DEPTH 0u
#else
#define INPUT_STRIDE_DEPTH parameters.input_depth
#define OUTPUT_STRIDE_DEPTH parameters.output_depth
#endif
#include "products/convolution_operands.glsl"

#define INPUT_HAS_STEPS (INPUT_STEP_DEPTH != 1u || INPUT_STEP_HEIGHT != 1u || INPUT_STEP_WIDTH != 1u)

// A place of the output, and a distance between two of them.
struct Position {
    uint image, depth, height, width;
};
Position position_at(uint column) {
    uint line = column / OUTPUT_WIDTH;
    uint plane = line / OUTPUT_HEIGHT;
    uint image = plane / OUTPUT_DEPTH;
    return Position(image, plane - image * OUTPUT_DEPTH, line - plane * OUTPUT_HEIGHT, column - line * OUTPUT_WIDTH);
}
Position position_behind(Position position, Position distance) {
    uint width = position.width + distance.width;
    bool next_line = width >= OUTPUT_WIDTH;
    uint height = position.height + distance.height + uint(next_line);
    bool next_plane = height >= OUTPUT_HEIGHT;
    uint depth = position.depth + distance.depth + uint(next_plane);
    bool next_image = depth >= OUTPUT_DEPTH;
    return Position(position.image + distance.image + uint(next_image), next_image ? depth - OUTPUT_DEPTH : depth,
        next_plane ? height - OUTPUT_HEIGHT : height, next_line ? width - OUTPUT_WIDTH : width);
}
uint output_position(Position position) {
    return position.image * parameters.output_image + position.depth * OUTPUT_STRIDE_DEPTH + position.height * parameters.output_height
        + position.width * parameters.output_width;
}
#define OUTPUT_ROW parameters.output_channel

// Where a window begins: in its image, and in memory.
struct Window {
    uint image, depth, height, width, first;
};
Window window_at(Batch batch, Position position, bool exists) {
    bool is_reached = exists && position.depth < REACHED_DEPTH && position.height < REACHED_HEIGHT && position.width < REACHED_WIDTH;
    uint image = batch.right + position.image * parameters.input_image;
    uint depth = position.depth * OUTPUT_STEP_DEPTH + FIRST_DEPTH;
    uint height = position.height * OUTPUT_STEP_HEIGHT + FIRST_HEIGHT;
    uint width = position.width * OUTPUT_STEP_WIDTH + FIRST_WIDTH;
    uint first = image + depth * INPUT_STRIDE_DEPTH + height * parameters.input_height + width * parameters.input_width;
    return Window(image, depth, height, is_reached ? width : OUTSIDE, first);
}

// A term: the filter's place in the window, and what that adds to places in memory.
struct Term {
    uint depth, height, width;
    uint channel; // of the input
    uint left;
    uint right; // with all that is there before it
};
Term term_at(uint term) {
    uint line = term / FILTER_WIDTH;
    uint plane = line / FILTER_HEIGHT;
    uint channel = plane / FILTER_DEPTH;
    uint position = term - channel * (FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH);
    uint depth = (plane - channel * FILTER_DEPTH) * FILTER_STEP_DEPTH;
    uint height = (line - plane * FILTER_HEIGHT) * FILTER_STEP_HEIGHT;
    uint width = (term - line * FILTER_WIDTH) * FILTER_STEP_WIDTH;
    uint first = channel * parameters.input_channel;
    return Term(depth, height, width, first, channel * parameters.left_outer + position * parameters.left_term,
        first + depth * INPUT_STRIDE_DEPTH + height * parameters.input_height + width * parameters.input_width);
}
Term term_behind(Term term) {
    uint width = term.width + FILTER_STEP_WIDTH;
    bool next_line = width == FILTER_WIDTH * FILTER_STEP_WIDTH;
    uint height = next_line ? term.height + FILTER_STEP_HEIGHT : term.height;
    bool next_plane = height == FILTER_HEIGHT * FILTER_STEP_HEIGHT;
    uint depth = next_plane ? term.depth + FILTER_STEP_DEPTH : term.depth;
    bool next_channel = depth == FILTER_DEPTH * FILTER_STEP_DEPTH;
    uint positions = FILTER_DEPTH * FILTER_HEIGHT * FILTER_WIDTH;
    uint left = term.left + parameters.left_term;
    Term next;
    next.width = next_line ? 0u : width;
    next.height = next_plane ? 0u : height;
    next.depth = next_channel ? 0u : depth;
    next.channel = next_channel ? term.channel + parameters.input_channel : term.channel;
    next.left = next_channel ? left + (parameters.left_outer - positions * parameters.left_term) : left;
    next.right = next.channel + next.depth * INPUT_STRIDE_DEPTH + next.height * parameters.input_height
        + next.width * parameters.input_width;
    return next;
}

// Both sides of a branch are executed, or rather its loads would be: what lies outside is chosen, and another element loaded.
uint right_bits(Window window, Term term) {
    uvec3 position = uvec3(window.depth + term.depth, window.height + term.height, window.width + term.width);
    bool is_inside = is_element(position);
    uint index = window.first + term.right;
    if (INPUT_HAS_STEPS) {
        index = window.image + term.channel + position.x / INPUT_STEP_DEPTH * INPUT_STRIDE_DEPTH
            + position.y / INPUT_STEP_HEIGHT * parameters.input_height + position.z / INPUT_STEP_WIDTH * parameters.input_width;
    }
    uint bits = operand(LOAD(OPERAND, words_right, is_inside ? index : 0u));
    return is_inside ? bits : PADDING;
}

// Convolutions on processors whose windows are WINDOW_WIDTH wide, without dilation, next to one another: an invocation computes BLOCK_COLUMNS
// neighbours in a line of the output, so that an element of the input serves all windows that see it. Included by matrix_processors.glsl.

#define LINE_ELEMENTS (BLOCK_COLUMNS + WINDOW_WIDTH - 1)

#define COLUMN_OF(number) ((number) < own_count ? own_column + (number) : parameters.columns)

// The first term of the window's next line.
Term line_behind(Term term) {
    uint height = term.height + FILTER_STEP_HEIGHT;
    bool next_channel = height == FILTER_HEIGHT * FILTER_STEP_HEIGHT;
    uint left = term.left + WINDOW_WIDTH * parameters.left_term;
    term.height = next_channel ? 0u : height;
    term.channel += next_channel ? parameters.input_channel : 0u;
    term.left = next_channel ? left + (parameters.left_outer - FILTER_HEIGHT * WINDOW_WIDTH * parameters.left_term) : left;
    term.right = term.channel + term.height * parameters.input_height;
    return term;
}

#define BEGIN_LINE \
    uint blocks_across = (OUTPUT_WIDTH + (BLOCK_COLUMNS - 1u)) / BLOCK_COLUMNS; \
    uint own = index_in_group(); \
    uint own_block = (block.own_column - own) / BLOCK_COLUMNS + own; \
    uint own_line = own_block / blocks_across; \
    uint own_place = (own_block - own_line * blocks_across) * BLOCK_COLUMNS; \
    uint own_column = own_line * OUTPUT_WIDTH + own_place; \
    uint own_count = OUTPUT_WIDTH - own_place; \
    Position position = position_at(own_column); \
    Window own_window = window_at(batch, position, own_column < parameters.columns); \
    uint own_result = output_position(position);

#define PLACE_RESULT uint place = own_result;
#define RESULT_POSITION place
#define NEXT_RESULT place += parameters.output_width;

#define ADD_LINES \
    uint skipped = first % WINDOW_WIDTH; \
    Term term = term_at(first - skipped); \
    for (uint number = 0u; number < skipped + terms; number += WINDOW_WIDTH) { \
        LOAD_LEFT(skipped) \
        float elements[LINE_ELEMENTS]; \
        [[unroll]] for (uint j = 0u; j < LINE_ELEMENTS; ++j) { \
            uvec3 place = uvec3(own_window.depth, own_window.height + term.height, own_window.width + j); \
            bool is_inside = is_element(place); \
            uint index = own_window.first + term.right + j * parameters.input_width; \
            uint bits = operand(LOAD(OPERAND, words_right, is_inside ? index : 0u)); \
            bits = is_inside ? bits : PADDING; \
            right_classes |= class_of(bits); \
            elements[j] = uintBitsToFloat(bits); \
        } \
        [[unroll]] for (uint i = 0u; i < BLOCK_ROWS; ++i) { \
            float weights[WINDOW_WIDTH]; \
            [[unroll]] for (uint k = 0u; k < WINDOW_WIDTH; ++k) { \
                weights[k] = uintBitsToFloat(OF_ALL(own_left, i * WINDOW_WIDTH + k)); \
            } \
            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
                float sum = sums[i * BLOCK_COLUMNS + j]; \
                [[unroll]] for (uint k = 0u; k < WINDOW_WIDTH; ++k) { \
                    sum = product_plus(weights[k], elements[j + k], sum); \
                } \
                sums[i * BLOCK_COLUMNS + j] = sum; \
            } \
        } \
        term = line_behind(term); \
    }

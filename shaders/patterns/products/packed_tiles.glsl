// Tiles of packed operands in shared memory: each invocation computes RESULT_ROWS x RESULT_COLUMNS results, in blocks of 4 x 4.
//
// The compile script passes RESULT_ROWS, RESULT_COLUMNS and HAS_DOT_PRODUCT besides.

#include "products/packed_product.glsl"

#define BLOCK 4u
#define ACROSS (TILE_COLUMNS / RESULT_COLUMNS) // invocations
#define DOWN (TILE_ROWS / RESULT_ROWS)
// Words of four terms at once, word by word in lines of their own; the padding keeps what is stored together in different banks.
#define WORDS (VECTORS * 4u)
#define LEFT_PITCH (TILE_ROWS + 4u)
#define RIGHT_PITCH (TILE_COLUMNS + 4u)
shared uint left_words[WORDS * LEFT_PITCH];
shared uint right_words[WORDS * RIGHT_PITCH];

#include "products/four_products.glsl"

#define LEFT_LOADS (TILE_ROWS * VECTORS / INVOCATIONS)
#define RIGHT_LOADS (TILE_COLUMNS * VECTORS / INVOCATIONS)
#define LINES_AT_ONCE (INVOCATIONS / VECTORS)

void main() {
    WORK_GROUP(group)
    Position position = position_of(group);
    uint own = index_in_group();
    uint across = own % ACROSS * BLOCK;
    uint down = own / ACROSS * BLOCK;
    uint line = own / VECTORS;
    uint vector = own % VECTORS;
    uint vectors = line_vectors();
    uint left_lines = position.number * parameters.row_tiles * TILE_ROWS + position.row + line;
    uint right_lines = position.number * parameters.column_tiles * TILE_COLUMNS + position.column + line;
    uint left_at = (BASE_WORD(left) >> 2u) + left_lines * vectors + vector;
    uint right_at = (BASE_WORD(right) >> 2u) + right_lines * vectors + vector;
    uint sums[RESULT_ROWS * RESULT_COLUMNS];
    [[unroll]] for (uint i = 0u; i < RESULT_ROWS * RESULT_COLUMNS; ++i) {
        sums[i] = 0u;
    }
    uvec4 from_left[LEFT_LOADS], from_right[RIGHT_LOADS];
    for (uint done = 0u; done <= vectors; done += VECTORS) {
        // What comes next is on its way while this is multiplied.
        if (done > 0u) {
            barrier();
            [[unroll]] for (uint word = 0u; word < 4u; ++word) {
                [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) {
                    left_words[(vector * 4u + word) * LEFT_PITCH + line + i * LINES_AT_ONCE] = from_left[i][word];
                }
                [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
                    right_words[(vector * 4u + word) * RIGHT_PITCH + line + i * LINES_AT_ONCE] = from_right[i][word];
                }
            }
            barrier();
        }
        if (done < vectors) {
            [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) {
                from_left[i] = fours_left[left_at + i * LINES_AT_ONCE * vectors + done];
            }
            [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
                from_right[i] = fours_right[right_at + i * LINES_AT_ONCE * vectors + done];
            }
        }
        if (done > 0u) {
            for (uint word = 0u; word < WORDS; ++word) {
                uint a[RESULT_ROWS], b[RESULT_COLUMNS];
                [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                    a[i] = left_words[word * LEFT_PITCH + down + i / BLOCK * BLOCK * DOWN + i % BLOCK];
                }
                [[unroll]] for (uint j = 0u; j < RESULT_COLUMNS; ++j) {
                    b[j] = right_words[word * RIGHT_PITCH + across + j / BLOCK * BLOCK * ACROSS + j % BLOCK];
                }
                [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                    [[unroll]] for (uint j = 0u; j < RESULT_COLUMNS; ++j) {
                        sums[i * RESULT_COLUMNS + j] += four_products(a[i], b[j]);
                    }
                }
            }
        }
    }
    Batch batch = batch_at(position.number, parameters.work_items / (parameters.row_tiles * parameters.column_tiles), 0u);
    [[unroll]] for (uint j = 0u; j < RESULT_COLUMNS; ++j) {
        uint column = position.column + across + j / BLOCK * BLOCK * ACROSS + j % BLOCK;
        uvec2 right = HAS_ZEROS ? right_sum(position, column) : uvec2(0u);
        [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
            uint row = position.row + down + i / BLOCK * BLOCK * DOWN + i % BLOCK;
            if (row < parameters.rows && column < parameters.columns) {
                uint sum = sums[i * RESULT_COLUMNS + j];
                words_output[output_index(batch, row, column)] = HAS_ZEROS ? less_zeros(sum, left_sum(position, row), right) : sum;
            }
        }
    }
}

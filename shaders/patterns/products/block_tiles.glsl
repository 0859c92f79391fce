// Products of 5 to 32 rows with packed weights of FLOAT16, on GPUs: what a segment of 1024 terms gives. A work group of 32 invocations has
// BLOCK_ROWS rows, and BLOCK_COLUMNS columns for each invocation, which makes numbers of its columns' weights, in registers, and multiplies
// each by all rows. Numbers of the rows are read from shared memory, each for BLOCK_COLUMNS products: a core reads a fourth as many numbers
// from there as it multiplies.
//
// Sums of segments go to memory, to be added in their order (block_totals.glsl): so all cores have work however few columns there are.
//
// Segments and blocks of 32 terms are whole, columns lie at multiples of 16 bytes, and rows have vectors. The compile script passes
// BLOCK_ROWS (a multiple of 8), BLOCK_COLUMNS, and what block_products.glsl is passed.
#include "products/block_products.glsl"

layout(local_size_x = 32) in;

#define LANES_ACROSS 32u
#define ROW_FOURS (BLOCK_ROWS / 4u)
#define LEFT_LOADS (BLOCK_ROWS / 8u)
#define EIGHT_TERMS (9u * ROW_FOURS) // vectors of 8 terms and what is behind them
#define STAGE 32u // terms
#define SUMS (BLOCK_ROWS * BLOCK_COLUMNS)
#define STAGE_WORDS 4u

// Of a term the numbers of 8 rows in two vectors; two more behind each 8 terms, so that rows are stored to different banks.
shared vec4 left_terms[STAGE / 8u * EIGHT_TERMS];

#ifdef IS_GATED
#define COLUMN(number) min(first_column + (number) / 2u * LANES_ACROSS + lane, parameters.columns - 1u)
#define PACKED_FOUR(number, index) \
    (IS_UP(number) ? fours_packed_up[(BASE_WORD(packed_up) >> 2u) + (index)] : fours_packed[(BASE_WORD(packed) >> 2u) + (index)])
#define COLUMNS_OF_GROUP (LANES_ACROSS * BLOCK_COLUMNS / 2u)
#else
#define COLUMN(number) min(first_column + (number) * LANES_ACROSS + lane, parameters.columns - 1u)
#define PACKED_FOUR(number, index) fours_packed[(BASE_WORD(packed) >> 2u) + (index)]
#define COLUMNS_OF_GROUP (LANES_ACROSS * BLOCK_COLUMNS)
#endif

// What of a stage an invocation loads: 32 weights of each of its columns, with their scales and zeros, and 8 terms of a row. What stands
// in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_STAGE(term) \
    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) { \
        loaded[j] = PACKED_FOUR(j, (COLUMN(j) * PACKED_COLUMN + (term)) / STAGE); \
        loaded_scales[j] = SCALE_AT(j, scale_index(COLUMN(j), term)); \
        loaded_zeros[j] = ZERO_AT(j, zero_index(COLUMN(j), term)); \
    } \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        uint at = left_index(LEFT_ROW(i), (term) + LEFT_EIGHT(i) * 8u) >> 2u; \
        loaded_left[i] = uvec4(pairs_left[at], pairs_left[at + 1u]); \
    }
#define LEFT_ROW(i) min(first_row + (i * 32u + lane) % BLOCK_ROWS, parameters.rows - 1u)
#define LEFT_EIGHT(i) ((i * 32u + lane) / BLOCK_ROWS)

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint lane = index_in_group();
    // Work groups that run at one time read the same weights.
    uint first_row = group % parameters.row_tiles * BLOCK_ROWS;
    uint tile = group / parameters.row_tiles;
    uint first_column = tile % parameters.column_tiles * COLUMNS_OF_GROUP;
    uint segment = tile / parameters.column_tiles;
    uint first = segment * SEGMENT;
    uvec4 loaded[BLOCK_COLUMNS];
    uint loaded_scales[BLOCK_COLUMNS];
    uint loaded_zeros[BLOCK_COLUMNS];
    uvec4 loaded_left[LEFT_LOADS];
    float sums[SUMS];
    [[unroll]] for (uint number = 0u; number < SUMS; ++number) {
        sums[number] = 0.0;
    }
    LOAD_STAGE(first)
    [[dont_unroll]] for (uint stage = 0u; stage < SEGMENT; stage += STAGE) {
        barrier(); // all are through with what was there
        [[unroll]] for (uint j = 0u; j < LEFT_LOADS; ++j) {
            uint row = (j * 32u + lane) % BLOCK_ROWS;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                vec2 pair = uintBitsToFloat(float32_from_float16_pair(loaded_left[j][i]));
                uint at = LEFT_EIGHT(j) * EIGHT_TERMS + 2u * i * ROW_FOURS + row / 4u;
                left_terms[at][row % 4u] = pair.x;
                left_terms[at + ROW_FOURS][row % 4u] = pair.y;
            }
        }
        uvec4 words[BLOCK_COLUMNS];
        uvec2 entry[BLOCK_COLUMNS];
        [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
            words[j] = loaded[j];
            entry[j] = entry_of(loaded_scales[j], loaded_zeros[j]);
        }
        barrier();
        uint next = first + min(stage + STAGE, SEGMENT - STAGE); // behind the last one it is loaded again
        LOAD_STAGE(next)
        [[dont_unroll]] for (uint word = 0u; word < STAGE_WORDS; ++word) {
            float weights[WORD_TERMS * BLOCK_COLUMNS];
            [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                WEIGHTS_OF(words[j].x, entry[j], weights, j * WORD_TERMS)
                words[j] = words[j].yzww;
            }
            [[unroll]] for (uint term = 0u; term < WORD_TERMS; ++term) {
                [[unroll]] for (uint four = 0u; four < ROW_FOURS; ++four) {
                    vec4 a = left_terms[word * EIGHT_TERMS + ROW_FOURS * term + four];
                    [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
                        [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                            uint number = (4u * four + k) * BLOCK_COLUMNS + j;
                            sums[number] = product_plus(a[k], weights[j * WORD_TERMS + term], sums[number]);
                        }
                    }
                }
            }
        }
    }
#ifdef IS_GATED
    uint columns = 2u * parameters.columns; // those of the gate first
#else
    uint columns = parameters.columns;
#endif
    [[unroll]] for (uint row = 0u; row < BLOCK_ROWS; ++row) {
        [[unroll]] for (uint j = 0u; j < BLOCK_COLUMNS; ++j) {
#ifdef IS_GATED
            uint column = COLUMN(j) + j % 2u * parameters.columns;
#else
            uint column = COLUMN(j);
#endif
            if (first_row + row < parameters.rows) {
                words_output[BASE_WORD(output) + (segment * parameters.rows + first_row + row) * columns + column] =
                    floatBitsToUint(sums[row * BLOCK_COLUMNS + j]);
            }
        }
    }
}

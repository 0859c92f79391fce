// Tiles of packed operands, multiplied as matrices of 16 x 32 by 32 x 16 that a subgroup of 32 invocations holds together.
//
// A work group has a tile of TILE_ROWS x TILE_COLUMNS results, of which each of its subgroups computes RESULT_ROWS x RESULT_COLUMNS. It takes
// VECTORS * 16 terms at once: while they are multiplied, those that follow are on their way to registers.
//
// Its buffers are not `coherent`: it runs only where barriers are recorded between dispatches (dmlvk/kernels/target.py).
//
// The compile script passes CONVOLUTION, TILE_ROWS, TILE_COLUMNS, INVOCATIONS, VECTORS, RESULT_ROWS and RESULT_COLUMNS (of a subgroup).

#include "cooperative_bytes.glsl"
#define coherent
#include "products/packed_product.glsl"

spirv_instruction(id = 4458) void put_integers(spirv_by_reference uint first, INTEGERS integers, int layout_of_memory, uint stride);

// Whether four neighbouring columns of a row lie behind one another, the first at a multiple of four.
layout(constant_id = 3) const bool OUTPUT_HAS_FOURS = false;
// Whether sums are results (there are no zero points) and columns lie behind one another.
layout(constant_id = 4) const bool RESULTS_ARE_SUMS = false;

#define SUBGROUPS_ACROSS (TILE_COLUMNS / RESULT_COLUMNS)
#define SUMS_DOWN (RESULT_ROWS / 16u)
#define SUMS_ACROSS (RESULT_COLUMNS / 16u)
#define SUBGROUPS (INVOCATIONS / 32u)

// Lines of the left operand, then those of the right one. Without the padding what is loaded together would come from the same banks.
#define PITCH (VECTORS + 1u)
#define LINES_WORDS ((TILE_ROWS + TILE_COLUMNS) * PITCH)
// In the end each subgroup's results, 16 rows at a time.
#define RESULT_PITCH (RESULT_COLUMNS / 4u)
#define RESULTS_WORDS (SUBGROUPS * 16u * RESULT_PITCH)
shared uvec4 lines[LINES_WORDS > RESULTS_WORDS ? LINES_WORDS : RESULTS_WORDS];

#define LEFT_LOADS (TILE_ROWS * VECTORS / INVOCATIONS)
#define RIGHT_LOADS (TILE_COLUMNS * VECTORS / INVOCATIONS)
#define LINES_AT_ONCE (INVOCATIONS / VECTORS)

// The vectors of an invocation's lines that are stored next.
#define LOAD_LINES(done) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        from_left[i] = fours_left[left_at + i * LINES_AT_ONCE * vectors + (done)]; \
    } \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        from_right[i] = fours_right[right_at + i * LINES_AT_ONCE * vectors + (done)]; \
    }

void main() {
    WORK_GROUP(group)
    Position position = position_of(group);
    uint own = index_in_group();
    uint line = own / VECTORS;
    uint vector = own % VECTORS;
    uint vectors = line_vectors();
    uint left_at = (BASE_WORD(left) >> 2u) + (position.number * parameters.row_tiles * TILE_ROWS + position.row + line) * vectors + vector;
    uint right_at =
        (BASE_WORD(right) >> 2u) + (position.number * parameters.column_tiles * TILE_COLUMNS + position.column + line) * vectors + vector;
    uint first_row = gl_SubgroupID / SUBGROUPS_ACROSS * RESULT_ROWS;
    uint first_column = gl_SubgroupID % SUBGROUPS_ACROSS * RESULT_COLUMNS;
    INTEGERS sums[SUMS_DOWN * SUMS_ACROSS];
    [[unroll]] for (uint i = 0u; i < SUMS_DOWN * SUMS_ACROSS; ++i) {
        sums[i] = integers_filled_with(0);
    }
    uvec4 from_left[LEFT_LOADS], from_right[RIGHT_LOADS];
    LOAD_LINES(0u)
    for (uint done = VECTORS; done <= vectors; done += VECTORS) {
        barrier(); // all are through with what was there
        [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) {
            lines[(line + i * LINES_AT_ONCE) * PITCH + vector] = from_left[i];
        }
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) {
            lines[(TILE_ROWS + line + i * LINES_AT_ONCE) * PITCH + vector] = from_right[i];
        }
        barrier();
        if (done < vectors) {
            LOAD_LINES(done)
        }
        [[unroll]] for (uint k = 0u; k < VECTORS; k += 2u) {
            LEFT_BYTES a[SUMS_DOWN];
            RIGHT_BYTES b[SUMS_ACROSS];
            [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
                LOAD_LEFT_BYTES(a[i], lines, (first_row + i * SIDE) * PITCH + k, PITCH)
            }
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                LOAD_RIGHT_BYTES(b[j], lines, (TILE_ROWS + first_column + j * SIDE) * PITCH + k, PITCH)
            }
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
                    sums[i * SUMS_ACROSS + j] = BYTES_PRODUCT_PLUS(a[i], b[j], sums[i * SUMS_ACROSS + j]);
                }
            }
        }
    }
    Batch batch = batch_at(position.number, parameters.work_items / (parameters.row_tiles * parameters.column_tiles), 0u);
#if !CONVOLUTION
    bool is_whole = position.row + TILE_ROWS <= parameters.rows && position.column + TILE_COLUMNS <= parameters.columns;
    if (RESULTS_ARE_SUMS && is_whole) {
        uint at = output_index(batch, position.row + first_row, position.column + first_column);
        [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
            [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
                uint own_at = at + i * SIDE * parameters.output_row + j * SIDE;
                put_integers(words_output[own_at], sums[i * SUMS_ACROSS + j], BY_ROWS, parameters.output_row);
            }
        }
        return;
    }
#endif
    uint own_results = gl_SubgroupID * SIDE * RESULT_PITCH;
    [[unroll]] for (uint i = 0u; i < SUMS_DOWN; ++i) {
        barrier(); // all are through with what was there
        [[unroll]] for (uint j = 0u; j < SUMS_ACROSS; ++j) {
            STORE_INTEGERS(lines, own_results + j * 4u, sums[i * SUMS_ACROSS + j], RESULT_PITCH)
        }
        barrier();
        // Four neighbouring columns for an invocation, or one after the other where they do not lie behind one another.
        for (uint number = own; number < SUBGROUPS * SIDE * RESULT_PITCH; number += INVOCATIONS) {
            uint subgroup = number / (SIDE * RESULT_PITCH);
            uint within = number % (SIDE * RESULT_PITCH);
            uint row = position.row + subgroup / SUBGROUPS_ACROSS * RESULT_ROWS + i * SIDE + within / RESULT_PITCH;
            uint column = position.column + subgroup % SUBGROUPS_ACROSS * RESULT_COLUMNS + within % RESULT_PITCH * 4u;
            if (row < parameters.rows && column < parameters.columns) {
                uvec4 results = lines[number];
                if (HAS_ZEROS) {
                    uvec2 left = left_sum(position, row);
                    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                        results[j] = less_zeros(results[j], left, right_sum(position, column + j));
                    }
                }
                if (OUTPUT_HAS_FOURS) {
                    fours_output[output_index(batch, row, column) >> 2u] = results;
                } else {
                    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                        if (column + j < parameters.columns) {
                            words_output[output_index(batch, row, column + j)] = results[j];
                        }
                    }
                }
            }
        }
    }
}

// Products of many rows with packed weights, chunk by chunk (packed_chunks.glsl), in tiles, on GPUs. Rows come as chunk_rows.glsl leaves them.
//
// A work group has DOWN * ROWS rows and ACROSS * COLUMNS columns, of which each invocation computes ROWS and COLUMNS, and PART_TERMS terms. Of
// these a chunk is in shared memory: weights as floats, each unpacked once for all rows, while those of the next one are on their way to
// registers. With a gate, every other pair of columns is of its weights. Sums of parts go to memory, where block_totals.glsl adds and finishes
// them.
//
// The compile script passes these names (ROWS and COLUMNS are multiples of four, INVOCATIONS of the tile's columns) and what
// packed_chunks.glsl is passed.
#define INVOCATIONS (DOWN * ACROSS)
#define HAS_PARTS
#include "products/packed_chunks.glsl"

layout(local_size_x = INVOCATIONS) in;

#define TILE_ROWS (DOWN * ROWS)
#define TILE_LINES (ACROSS * COLUMNS) // of weights, those of the gate too
#define RESULTS (ROWS * COLUMNS)
#define LINES (parameters.row_tiles * TILE_ROWS)
#define ROW_FOURS (TILE_ROWS / 4u)
#define LINE_FOURS (TILE_LINES / 4u)

shared vec4 row_planes[ROW_PLANES * ROW_FOURS];
shared vec4 weights[CHUNK * LINE_FOURS];
shared vec4 scales[LINE_FOURS], minima[LINE_FOURS];
shared uvec4 lows[LINE_FOURS]; // the lower one of a line's scale and its minimum, as least_scale counts

#ifdef IS_GATED
#define SIDES 2u
#define WORD_OF(buffer, side, word) ((side) == 1u ? words_##buffer##_up[BASE_WORD(buffer##_up) + (word)] : words_##buffer[BASE_WORD(buffer) + (word)])
// Of each four lines the first two are of the gate.
#define LINE_SIDE(line) ((line) / 2u % 2u)
#define LINE_COLUMN(line) ((line) / 4u * 2u + (line) % 2u)
#define OWN_LINE(side) (own_number / 2u * 4u + (side) * 2u + own_number % 2u)
#else
#define SIDES 1u
#define WORD_OF(buffer, side, word) words_##buffer[BASE_WORD(buffer) + (word)]
#define LINE_SIDE(line) 0u
#define LINE_COLUMN(line) (line)
#define OWN_LINE(side) own_number
#endif
#define TILE_COLUMNS (TILE_LINES / SIDES)

// Each invocation unpacks words of one column.
#define SHARES (INVOCATIONS / TILE_COLUMNS)
#define WORD_LOADS ((CHUNK_WORDS + SHARES - 1u) / SHARES)
#define ROW_LOADS ((ROW_PLANES * ROW_FOURS + INVOCATIONS - 1u) / INVOCATIONS)
#define ROW_LOADED(i) min((i) * INVOCATIONS + invocation, ROW_PLANES * ROW_FOURS - 1u)
// A word's first term: what is behind the last word is that word once more.
#define WORD_TERM(i) (min(invocation / TILE_COLUMNS * WORD_LOADS + (i), CHUNK_WORDS - 1u) * uint(WORD_TERMS))

#define LOAD_CHUNK(chunk) \
    { \
        uint term_ = (chunk) * CHUNK; \
        [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
            uint plane_ = ROW_PLANE(chunk, ROW_LOADED(i) / ROW_FOURS, LINES) + first_row; \
            loaded_rows[i] = fours_parts[(BASE_WORD(parts) + plane_ >> 2u) + ROW_LOADED(i) % ROW_FOURS]; \
        } \
        [[unroll]] for (uint side = 0u; side < SIDES; ++side) { \
            [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
                uint first_ = min(term_ + WORD_TERM(i), last_term); \
                loaded_words[side * WORD_LOADS + i] = WORD_OF(packed, side, own_word + first_ / uint(WORD_TERMS)); \
                if (HIGH_BITS != 0u) { \
                    loaded_highs[side * WORD_LOADS + i] = WORD_OF(packed, side, own_word + high_word(first_)); \
                } \
            } \
            loaded_scales[side] = WORD_OF(scale, side, scale_word(scale_index(own_column, term_))); \
            if (ZERO_KIND != ZERO_IS_NUMBER) { \
                loaded_zeros[side] = WORD_OF(zero, side, zero_word(zero_index(own_column, term_))); \
            } \
        } \
    }

// Differences from zeros that are floats, where they leave products that may be denormal, are NaN.
#define PUT_CHUNK(chunk) \
    { \
        uint term_ = (chunk) * CHUNK; \
        [[unroll]] for (uint i = 0u; i < ROW_LOADS; ++i) { \
            row_planes[ROW_LOADED(i)] = uintBitsToFloat(loaded_rows[i]); \
        } \
        uint zero_at_ = zero_index(own_column, term_); \
        FIND_EXPONENTS \
        [[unroll]] for (uint side = 0u; side < SIDES; ++side) { \
            uint zero_ = ZERO_KIND == ZERO_IS_NUMBER ? ZERO_NUMBER : zero_of(loaded_zeros[side], zero_at_); \
            uvec2 entry_ = entry_of(scale_of(loaded_scales[side], scale_index(own_column, term_)), zero_); \
            [[unroll]] for (uint i = 0u; i < WORD_LOADS; ++i) { \
                uint word_ = FLIPPED(loaded_words[side * WORD_LOADS + i]); \
                uint high_ = high_of(loaded_highs[side * WORD_LOADS + i], term_ + WORD_TERM(i)); \
                float biased_[WORD_TERMS]; \
                BIASED_TERMS(word_, high_, biased_) \
                [[unroll]] for (uint j = 0u; j < uint(WORD_TERMS); ++j) { \
                    precise float bias_ = (BIAS(j) + HALF_RANGE) + (ZERO_KIND == ZERO_IS_FLOAT ? 0.0 : uintBitsToFloat(entry_.y)); \
                    precise float weight_ = biased_[j] - bias_; \
                    if (ZERO_KIND == ZERO_IS_FLOAT) { \
                        precise float difference_ = weight_ - uintBitsToFloat(entry_.y); \
                        bool is_plain_ = lowest_of(floatBitsToUint(difference_)) >= LEAST_DIFFERENCE; \
                        weight_ = is_plain_ || !LOOKS_AT_DENORMALS ? difference_ : uintBitsToFloat(NAN_F32); \
                    } \
                    weights[(WORD_TERM(i) + j) * LINE_FOURS + OWN_LINE(side) / 4u][OWN_LINE(side) % 4u] = weight_; \
                } \
            } \
            uint minimum_ = HAS_MINIMA ? minimum_of(loaded_scales[side], loaded_zeros[side], zero_at_) : 0u; \
            scales[OWN_LINE(side) / 4u][OWN_LINE(side) % 4u] = uintBitsToFloat(entry_.x); \
            minima[OWN_LINE(side) / 4u][OWN_LINE(side) % 4u] = uintBitsToFloat(minimum_); \
            lows[OWN_LINE(side) / 4u][OWN_LINE(side) % 4u] = min(magnitude_less_one(entry_.x), magnitude_less_one(minimum_)); \
        } \
    }

// What is not plain becomes NaN.
#define ADD_CHUNK \
    { \
        vec4 scales_[COLUMNS / 4u], minima_[COLUMNS / 4u], terms_[ROWS / 4u]; \
        uvec4 lows_[COLUMNS / 4u], least_[ROWS / 4u]; \
        [[unroll]] for (uint c = 0u; c < COLUMNS / 4u; ++c) { \
            scales_[c] = scales[c * ACROSS + lane]; \
            minima_[c] = minima[c * ACROSS + lane]; \
            lows_[c] = lows[c * ACROSS + lane]; \
        } \
        uint low_ = NO_LOWEST; \
        uint most_ = 0u; \
        [[unroll]] for (uint r = 0u; r < ROWS / 4u; ++r) { \
            terms_[r] = row_planes[PLANE_OF_SUMS * ROW_FOURS + r * DOWN + down]; \
            least_[r] = floatBitsToUint(row_planes[PLANE_OF_LEAST * ROW_FOURS + r * DOWN + down]); \
        } \
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) { most_ = max(most_, least_[r / 4u][r % 4u]); } \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { low_ = min(low_, lows_[c / 4u][c % 4u]); } \
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) { \
            uint r_ = i / COLUMNS; \
            uint c_ = i % COLUMNS; \
            precise float value_ = products[i] * scales_[c_ / 4u][c_ % 4u]; \
            if (HAS_MINIMA) { \
                precise float less_ = terms_[r_ / 4u][r_ % 4u] * minima_[c_ / 4u][c_ % 4u]; \
                precise float difference_ = value_ - less_; \
                value_ = difference_; \
            } \
            sums[i] = rounded_sum(sums[i], value_); \
        } \
        if (LOOKS_AT_DENORMALS && low_ < most_) { \
            [[unroll]] for (uint i = 0u; i < RESULTS; ++i) { \
                bool is_plain_ = lows_[i % COLUMNS / 4u][i % COLUMNS % 4u] >= least_[i / COLUMNS / 4u][i / COLUMNS % 4u]; \
                sums[i] = is_plain_ ? sums[i] : uintBitsToFloat(NAN_F32); \
            } \
        } \
    }

#define TERMS_AT_ONCE 4u // by instructions that are written out: caches of these are small

void main() {
    WORK_GROUP(group)
    uint invocation = index_in_group();
    uint lane = invocation % ACROSS;
    uint down = invocation / ACROSS;
    // Work groups that run at one time have the same weights.
    uint first_row = group % parameters.row_tiles * TILE_ROWS;
    uint tile = group / parameters.row_tiles;
    uint first_column = tile % parameters.column_tiles * TILE_COLUMNS;
    uint part = tile / parameters.column_tiles;
    uint chunk = part * (PART_TERMS / CHUNK);
    uint end = min(chunk + PART_TERMS / CHUNK, CHUNKS);
    uint own_number = invocation % TILE_COLUMNS;
    uint own_column = min(first_column + own_number, parameters.columns - 1u);
    uint own_word = own_column * PACKED_COLUMN / uint(WORD_TERMS);
    uint last_term = parameters.terms - 1u;
    float sums[RESULTS], totals[RESULTS];
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
        sums[i] = 0.0;
        totals[i] = 0.0;
    }
    uvec4 loaded_rows[ROW_LOADS];
    uint loaded_words[SIDES * WORD_LOADS], loaded_highs[SIDES * WORD_LOADS];
    uint loaded_scales[SIDES], loaded_zeros[SIDES];
    LOAD_CHUNK(chunk)
    [[dont_unroll]] for (; chunk < end; ++chunk) {
        barrier(); // all are through with the one before
        PUT_CHUNK(chunk)
        barrier();
        uint next = min(chunk + 1u, end - 1u); // behind the last one it is loaded again
        LOAD_CHUNK(next)
        float products[RESULTS];
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
            products[i] = 0.0;
        }
        [[dont_unroll]] for (uint first = 0u; first < CHUNK; first += TERMS_AT_ONCE) {
            [[unroll]] for (uint k = 0u; k < TERMS_AT_ONCE; ++k) {
                vec4 a[ROWS / 4u], b[COLUMNS / 4u];
                [[unroll]] for (uint r = 0u; r < ROWS / 4u; ++r) {
                    a[r] = row_planes[(first + k) * ROW_FOURS + r * DOWN + down];
                }
                [[unroll]] for (uint c = 0u; c < COLUMNS / 4u; ++c) {
                    b[c] = weights[(first + k) * LINE_FOURS + c * ACROSS + lane];
                }
                [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
                    uint r = i / COLUMNS;
                    uint c = i % COLUMNS;
                    products[i] = chunk_product_plus(a[r / 4u][r % 4u], b[c / 4u][c % 4u], products[i]);
                }
            }
        }
        ADD_CHUNK
        if (PART_TERMS > SEGMENT && (chunk + 1u) % CHUNKS_OF_SEGMENT == 0u) {
            [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
                totals[i] = rounded_sum(totals[i], sums[i]);
                sums[i] = 0.0;
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < RESULTS; ++i) {
        uint row = first_row + (i / COLUMNS / 4u * DOWN + down) * 4u + i / COLUMNS % 4u;
        uint line = (i % COLUMNS / 4u * ACROSS + lane) * 4u + i % COLUMNS % 4u;
        uint column = first_column + LINE_COLUMN(line);
        if (row < parameters.rows && column < parameters.columns) {
            uint at = ((part * parameters.rows + row) * SIDES + LINE_SIDE(line)) * parameters.columns + column;
            words_output[BASE_WORD(output) + at] = floatBitsToUint(rounded_sum(totals[i], sums[i]));
        }
    }
}

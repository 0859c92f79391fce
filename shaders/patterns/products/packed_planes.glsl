// The integers of a row's chunk (packed_integers.glsl) as planes: words of their first bytes, of their second ones and so on.

// The term whose integers are bytes b of the plane words k.
#define TERM_OF_BYTE(k, b) ((k) / WORD_PARTS * uint(WORD_TERMS) + (b) * WORD_PARTS + (k) % WORD_PARTS)

#ifdef IS_WIDE
#define BYTES uvec4
#define LOWEST_OF_TERMS(lowest, four) lowest = min(lowest, lowest_of_four(four));
#define DECLARE_TERM_SUMS(rows) float term_sums[rows]; int rest_sums[rows];
// The number that the sum of a chunk's terms is, of several rests too.
#define TERM_SUM_OF(row) \
    term_sums[row] = number_of_sums(SUM_BIAS + byte_sums[(row) * PLANES], SUM_BIAS + byte_sums[(row) * PLANES + 1u], \
        SUM_BIAS + byte_sums[(row) * PLANES + 2u], SUM_BIAS + byte_sums[(row) * PLANES + 3u]); \
    precise float with_rests_ = term_sums[row] + rest_of_sum(rest_sums[row]); \
    term_sums[row] = with_rests_;
#define CLEAR_REST_SUM(row) rest_sums[row] = 0;
#define ADD_REST_SUM(row, left_over) rest_sums[row] += rest_of_left_over(left_over);
#else
#define BYTES uvec3
#define LOWEST_OF_TERMS(lowest, four)
#define DECLARE_TERM_SUMS(rows)
#define TERM_SUM_OF(row)
#define CLEAR_REST_SUM(row)
#define ADD_REST_SUM(row, left_over)
#endif

// Planes of row number `row` of an invocation, from its terms as bits of FLOAT32, four to a vector; the sums of each plane's bytes, the units,
// a bit for each term with a rest, and the last of those rests. TERM_AT(row, i)
// is term i of the chunk once more, as bits of FLOAT32. What stands in main() as it is: some drivers keep arrays that functions share
// in memory.
#define DECLARE_PLANES(rows) \
    uint planes[(rows) * PLANES * PLANE_WORDS]; \
    uint byte_sums[(rows) * PLANES]; \
    float row_units[rows], row_scales[rows]; \
    uint rests[rows]; \
    float row_rests[rows]; \
    DECLARE_TERM_SUMS(rows)
#define PLANES_OF_TERMS(row, terms) \
    { \
        uint peak_ = 0u; \
        uint lowest_ = NO_LOWEST; \
        [[unroll]] for (uint i_ = 0u; i_ < CHUNK / 4u; ++i_) { \
            uvec4 magnitudes_ = terms[i_] & MAGNITUDE_F32; \
            peak_ = max(peak_, max(max(magnitudes_.x, magnitudes_.y), max(magnitudes_.z, magnitudes_.w))); \
            LOWEST_OF_TERMS(lowest_, terms[i_]) \
        } \
        bool in_range_ = is_in_range(peak_); \
        row_units[row] = unit_of(peak_, in_range_, is_thin(peak_, lowest_)); \
        row_scales[row] = units_of(peak_, in_range_); \
        rests[row] = 0u; \
        row_rests[row] = 0.0; \
        CLEAR_REST_SUM(row) \
        BYTES sums_ = BYTES(0u); \
        [[unroll]] for (uint k_ = 0u; k_ < PLANE_WORDS; ++k_) { \
            ivec4 integers_; \
            [[unroll]] for (uint b_ = 0u; b_ < 4u; ++b_) { \
                uint term_ = TERM_OF_BYTE(k_, b_); \
                precise float number_ = uintBitsToFloat(terms[term_ / 4u][term_ % 4u]) * row_scales[row]; \
                float term_left_over_; \
                integers_[b_] = integer_of_term(number_, term_left_over_); \
                rests[row] |= in_range_ && term_left_over_ != 0.0 ? 1u << TERM_OF_BYTE(k_, b_) : 0u; \
            } \
            BYTES bytes_ = bytes_of(integers_); \
            [[unroll]] for (uint plane_ = 0u; plane_ < PLANES; ++plane_) { \
                planes[((row) * PLANES + plane_) * PLANE_WORDS + k_] = bytes_[plane_]; \
                sums_[plane_] += four_products(bytes_[plane_], 0x01010101u); \
            } \
        } \
        [[unroll]] for (uint plane_ = 0u; plane_ < PLANES; ++plane_) { \
            byte_sums[(row) * PLANES + plane_] = sums_[plane_]; \
        } \
        for (uint left_ = rests[row]; left_ != 0u; left_ &= left_ - 1u) { \
            uint term_ = uint(findLSB(left_)); \
            precise float number_ = uintBitsToFloat(TERM_AT(row, term_)) * row_scales[row]; \
            float left_over_; \
            integer_of_term(number_, left_over_); \
            row_rests[row] = rest_of_sum(rest_of_left_over(left_over_)); \
            ADD_REST_SUM(row, left_over_) \
        } \
        TERM_SUM_OF(row) \
    }

// Where planes of rows lie in memory, as vectors of four words: of each chunk all lines, which are the rows with those that fill up tiles. A
// line has its planes one after the other, each in eight words; then sums of bytes, a word each, the unit, its inverse, the bits of rests, and
// the sum of the terms.
#define PLANE_SPACE (PLANES * 2u)
#define LINE_VECTORS (PLANE_SPACE + 2u)
#define LINE_AT(chunk, line, lines) (((chunk) * (lines) + (line)) * LINE_VECTORS)
#define PLANE_VECTORS ((PLANE_WORDS + 3u) / 4u) // of each
// Of the words behind planes: first sums of bytes.
#define LINE_UNIT PLANES
#define LINE_SCALE (PLANES + 1u)
#define LINE_RESTS (PLANES + 2u)
#define LINE_TERMS (PLANES + 3u)

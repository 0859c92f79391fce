// The integers of a row's chunk (packed_integers.glsl) as planes: words of their first bytes, of their second and of their third ones.

#define PLANES 3u

// The term whose integers are bytes b of the plane words k.
#define TERM_OF_BYTE(k, b) ((k) / WORD_PARTS * uint(WORD_TERMS) + (b) * WORD_PARTS + (k) % WORD_PARTS)

// Planes of row number `row` of an invocation, from its terms as bits of FLOAT32, four to a vector; the sums of each plane's bytes, the units,
// a bit for each term with a rest, and the last of those rests. What stands in main() as it is: some drivers keep arrays that functions share
// in memory.
#define PLANES_OF_TERMS(row, terms) \
    { \
        uint peak_ = 0u; \
        [[unroll]] for (uint i_ = 0u; i_ < CHUNK / 4u; ++i_) { \
            uvec4 magnitudes_ = terms[i_] & MAGNITUDE_F32; \
            peak_ = max(peak_, max(max(magnitudes_.x, magnitudes_.y), max(magnitudes_.z, magnitudes_.w))); \
        } \
        bool is_finite_ = peak_ < INFINITY_F32; \
        row_units[row] = unit_of(peak_); \
        row_scales[row] = units_of(peak_); \
        rests[row] = 0u; \
        row_rests[row] = 0.0; \
        uvec3 sums_ = uvec3(0u); \
        [[unroll]] for (uint k_ = 0u; k_ < PLANE_WORDS; ++k_) { \
            ivec4 integers_; \
            vec4 left_over_; \
            [[unroll]] for (uint b_ = 0u; b_ < 4u; ++b_) { \
                uint term_ = TERM_OF_BYTE(k_, b_); \
                precise float number_ = uintBitsToFloat(terms[term_ / 4u][term_ % 4u]) * row_scales[row]; \
                float integer_ = integer_of_term(number_); \
                precise float difference_ = number_ - integer_; \
                integers_[b_] = int(integer_); \
                left_over_[b_] = difference_; \
            } \
            if (is_finite_ && left_over_ != vec4(0.0)) { \
                [[unroll]] for (uint b_ = 0u; b_ < 4u; ++b_) { \
                    if (left_over_[b_] != 0.0) { \
                        row_rests[row] = left_over_[b_]; \
                        rests[row] |= 1u << TERM_OF_BYTE(k_, b_); \
                    } \
                } \
            } \
            uvec3 bytes_ = bytes_of(integers_); \
            [[unroll]] for (uint plane_ = 0u; plane_ < PLANES; ++plane_) { \
                planes[((row) * PLANES + plane_) * PLANE_WORDS + k_] = bytes_[plane_]; \
                sums_[plane_] += four_products(bytes_[plane_], 0x01010101u); \
            } \
        } \
        [[unroll]] for (uint plane_ = 0u; plane_ < PLANES; ++plane_) { \
            byte_sums[(row) * PLANES + plane_] = sums_[plane_]; \
        } \
    }

// Where planes of rows lie in memory, as vectors of four words: of each chunk all lines, which are the rows with those that fill up tiles. A
// line has its planes one after the other, in 24 words, then the three sums, the unit, its inverse, and the bits of rests.
#define LINE_VECTORS 8u
#define LINE_AT(chunk, line, lines) (((chunk) * (lines) + (line)) * LINE_VECTORS)
#define PLANE_VECTORS (PLANE_WORDS / 4u) // of each

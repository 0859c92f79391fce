// The right operand of products of few rows as an invocation loads it: TERMS_AT_ONCE terms (a multiple of 4) of OWN_COLUMNS
// neighbouring columns (1 or 4). matrix_fours.glsl stands before this.

// Whether fours lie across an invocation's columns; else they lie along the terms.
#define LOADS_COLUMNS_AT_ONCE (RIGHT_HAS_VECTORS && !RIGHT_ALONG_TERMS && OWN_COLUMNS == 4)

// The `columns` from `first_column` on. What lies outside of the matrix is computed with what lies at its edge, and not stored. (With
// vectors all four are inside or none.)
#define FIND_COLUMNS(first_column) \
    bool moves_together = RIGHT_HAS_VECTORS && !RIGHT_ALONG_TERMS; \
    Column columns[OWN_COLUMNS]; \
    [[unroll]] for (uint j = 0u; j < OWN_COLUMNS; ++j) { \
        uint last = parameters.columns - (moves_together ? OWN_COLUMNS - j : 1u); \
        columns[j] = column_at(batch, min((first_column) + j, last)); \
    }

// Into `loaded`, from `term` on; terms from `end` on are zeros. A macro, for arrays that functions share are kept in memory by some
// drivers.
#define LOAD_RIGHT(term) \
    { \
        bool is_whole = (term) + TERMS_AT_ONCE <= end; \
        [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE * OWN_COLUMNS / 4; ++i) { \
            loaded[i] = Four(uvec4(0u), 0u); \
        } \
        if (RIGHT_HAS_VECTORS && RIGHT_ALONG_TERMS) { \
            [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; i += 4u) { \
                [[unroll]] for (uint j = 0u; j < OWN_COLUMNS; ++j) { \
                    if (is_whole || (term) + i < end) { \
                        loaded[i / 4u * OWN_COLUMNS + j] = LOAD_VECTOR(right, columns[j].first + (term) + i); \
                    } \
                } \
            } \
        } else if (LOADS_COLUMNS_AT_ONCE) { \
            [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; ++i) { \
                if (is_whole || (term) + i < end) { \
                    loaded[i] = LOAD_VECTOR(right, right_index(columns[0], (term) + i)); \
                } \
            } \
        } else { \
            [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; ++i) { \
                [[unroll]] for (uint j = 0u; j < OWN_COLUMNS; ++j) { \
                    if (is_whole || (term) + i < end) { \
                        uint index = right_index(columns[j], (term) + i); \
                        LOAD_ELEMENT(loaded[i / 4u * OWN_COLUMNS + j], i % 4u, right, index) \
                    } \
                } \
            } \
        } \
    }

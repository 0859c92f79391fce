// The left operand's elements of a block's rows, of WINDOW_WIDTH neighbouring terms each. Included by matrix_processors.glsl; what follows
// stands in main() as it is.
//
// What processors load is loaded for one invocation after the other, which takes longer than to multiply it. These elements are the same for
// all invocations of a work group: where that is one subgroup (SHARES_LEFT), each loads others of them, and hands them on.
#if SHARES_LEFT
#define LEFT_LOADS (BLOCK_ROWS * WINDOW_WIDTH / INVOCATIONS)
#define LEFT_NUMBER(load) ((load) * INVOCATIONS + gl_SubgroupInvocationID)
#define OF_ALL(own, number) subgroupShuffle(own[(number) / INVOCATIONS], (number) % INVOCATIONS)
#else
#define LEFT_LOADS (BLOCK_ROWS * WINDOW_WIDTH)
#define LEFT_NUMBER(load) (load)
#define OF_ALL(own, number) own[number]
#endif

#define PLACE_LEFT \
    uint left_at[LEFT_LOADS], left_terms[LEFT_LOADS]; \
    [[unroll]] for (uint n = 0u; n < LEFT_LOADS; ++n) { \
        uint row = min(block.first_row + LEFT_NUMBER(n) / WINDOW_WIDTH, parameters.rows - 1u); \
        left_terms[n] = LEFT_NUMBER(n) % WINDOW_WIDTH; \
        left_at[n] = batch.left + row * parameters.left_row + left_terms[n] * parameters.left_term; \
    }

// So many of the first of these terms are another segment's, and so are those behind its last one: they count as zeros, which change no sum.
#define LOAD_LEFT(skipped) \
    uint own_left[LEFT_LOADS]; \
    [[unroll]] for (uint n = 0u; n < LEFT_LOADS; ++n) { \
        uint bits = left_bits(left_at[n], term); \
        own_left[n] = WINDOW_WIDTH == 1 || number + left_terms[n] - (skipped) < terms ? bits : 0u; \
        left_classes[n] |= class_of(own_left[n]); \
    }

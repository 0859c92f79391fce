// How an invocation loads its part of both operands' tiles to registers: from_left and from_right. Included by matrix_cooperative.glsl.

// What follows stands in main() as it is: arrays that functions share are kept in memory by some drivers.
#define LOAD_LEFT(term, end) \
    [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
        from_left[i] = left_eight(position.batch, left_own + i * LEFT_STEP + uvec2(tile_row, term), end); \
    }
#if CONVOLUTION
#define POSITION_TERMS(term) \
    if (own < STEP_TERMS) { term_positions[own] = position_of_term((term) + own, end); }
#define LOAD_RIGHT(term, end) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        from_right[i] = right_eight(own_column, own_beginning, right_own.y + i * RIGHT_STEP.y); \
    }
#else
#define POSITION_TERMS(term)
#define LOAD_RIGHT(term, end) \
    [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
        from_right[i] = right_eight(position.batch, right_own + i * RIGHT_STEP + uvec2(tile_column, term), end); \
    }
#endif
// Of operands that are whole, in eights, so that nothing but a sum makes a place: from line to line, from step to step, and from one of an
// invocation's loads to the next.
#define LINE_EIGHTS(constant, parameter) ((constant != 0u ? constant : parameter) >> 3u)
#define LEFT_LINE_EIGHTS LINE_EIGHTS(LEFT_LINE, (LEFT_ALONG_TERMS ? parameters.left_row : parameters.left_term))
#define LEFT_STEP_EIGHTS (LEFT_ALONG_TERMS ? uint(STEP_VECTORS) : STEP_TERMS * LEFT_LINE_EIGHTS)
#define LEFT_FAR_EIGHTS ((LEFT_ALONG_TERMS ? LEFT_STEP.x : LEFT_STEP.y) * LEFT_LINE_EIGHTS)
#if CONVOLUTION
#define RIGHT_STEP_EIGHTS 0u
#define RIGHT_FAR_EIGHTS 0u
#else
#define RIGHT_LINE_EIGHTS LINE_EIGHTS(RIGHT_LINE, (RIGHT_ALONG_TERMS ? parameters.right_column : parameters.right_term))
#define RIGHT_STEP_EIGHTS (RIGHT_ALONG_TERMS ? uint(STEP_VECTORS) : STEP_TERMS * RIGHT_LINE_EIGHTS)
#define RIGHT_FAR_EIGHTS ((RIGHT_ALONG_TERMS ? RIGHT_STEP.x : RIGHT_STEP.y) * RIGHT_LINE_EIGHTS)
#endif
// Nothing is tested where all is there.
#define LOAD_TILES(term) \
    bool is_whole = STEPS_ARE_WHOLE || (term) + STEP_TERMS <= end; \
    if (LEFT_IS_WHOLE && is_whole) { \
        [[unroll]] for (uint i = 0u; i < LEFT_LOADS; ++i) { \
            from_left[i] = EIGHT_AT(left, left_next + i * LEFT_FAR_EIGHTS); \
        } \
        left_next += LEFT_STEP_EIGHTS; \
    } else if (is_whole) { \
        LOAD_LEFT(term, NO_END) \
    } else { \
        LOAD_LEFT(term, end) \
    } \
    if (RIGHT_IS_WHOLE && is_whole) { \
        [[unroll]] for (uint i = 0u; i < RIGHT_LOADS; ++i) { \
            from_right[i] = RIGHT_EIGHT_AT(right_next + i * RIGHT_FAR_EIGHTS); \
        } \
        right_next += RIGHT_STEP_EIGHTS; \
    } else if (is_whole) { \
        LOAD_RIGHT(term, NO_END) \
    } else { \
        LOAD_RIGHT(term, end) \
    }
#define NO_END 0xffffffffu
// Of the next step, if there is one. Where nothing is tested there is no branch, either, across which NVIDIA's compiler would move nothing: behind
// the last step its tiles are loaded once more, for nobody.
#define IS_LOADED_ANYWAY (LEFT_IS_WHOLE && RIGHT_IS_WHOLE && STEPS_ARE_WHOLE)
#define LOAD_NEXT_TILES(term) \
    if (IS_LOADED_ANYWAY) { \
        left_next = min(left_next, left_last); \
        right_next = min(right_next, right_last); \
    } \
    if (IS_LOADED_ANYWAY || (term) < end) { \
        LOAD_TILES(term) \
    }

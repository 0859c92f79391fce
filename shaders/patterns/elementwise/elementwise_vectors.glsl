// Computes one vector of LANES elements of every output, for the access orders that load and store vectors.
#include "fetch.glsl"

#define FETCHED(n, lane) LOAD(INPUT_##n, fetched_##n, lane)
#define FETCHED_SECOND(n, lane) LOAD(INPUT_##n, second_##n, lane)

// On GPUs an invocation computes two vectors of a large tensor, and loads both before it computes: functions that take a
// while run 8 to 14% faster on an NVIDIA H200. They lie a work group apart, so that neighbours load neighbours. Work groups then
// have 128 invocations (dmlvk/kernels/elementwise/elementwise.py sees to it): with 256 they lose 2 to 3%.
#define INVOCATIONS_WITH_TWO 128u
#define VECTORS_OF_GROUP (2u * INVOCATIONS_WITH_TWO)

// STORE_VECTOR(name, bits, words, at): stores WORDS_OF(bits) words as the vector number `at` of an output.
#define STORE_VECTOR(name, bits, words, at) CONCATENATE(STORE_VECTOR_, bits)(name, words, at)
#if LANES == 2
#define STORE_VECTOR_16(name, words, at) STORE_WORD(name, words, at)
#define STORE_VECTOR_32(name, words, at) STORE_PAIR(name, words, at)
#define STORE_VECTOR_64(name, words, at) STORE_FOUR(name, words, at)
#elif LANES == 4
#define STORE_VECTOR_8(name, words, at) STORE_WORD(name, words, at)
#define STORE_VECTOR_16(name, words, at) STORE_PAIR(name, words, at)
#define STORE_VECTOR_32(name, words, at) STORE_FOUR(name, words, at)
#define STORE_VECTOR_64(name, words, at) STORE_TWO_FOURS(name, words, at)
#elif LANES == 8
#define STORE_VECTOR_8(name, words, at) STORE_PAIR(name, words, at)
#define STORE_VECTOR_16(name, words, at) STORE_FOUR(name, words, at)
#else
#define STORE_VECTOR_8(name, words, at) STORE_FOUR(name, words, at)
#endif
#define STORE_WORD(name, words, at) words_##name[BASE_WORD(name) + (at)] = words[0];
#define STORE_PAIR(name, words, at) pairs_##name[(BASE_WORD(name) >> 1u) + (at)] = uvec2(words[0], words[1]);
#define STORE_FOUR(name, words, at) \
    fours_##name[(BASE_WORD(name) >> 2u) + (at)] = uvec4(words[0], words[1], words[2], words[3]);
#define STORE_TWO_FOURS(name, words, at) \
    fours_##name[(BASE_WORD(name) >> 2u) + 2u * (at)] = uvec4(words[0], words[1], words[2], words[3]); \
    fours_##name[(BASE_WORD(name) >> 2u) + 2u * (at) + 1u] = uvec4(words[4], words[5], words[6], words[7]);

// A file whose inputs are all of 16 bits may define, beside OPERATION:
//   FAST_OPERATION(a, …)   the same result in fewer instructions, for all but operands of the slow path
//   SLOW_PATH_BITS(word)         of a word of an input: not 0 where it has an element that FAST_OPERATION does not know
// The slow path is then looked for once in a vector, not beside every element. Processors, whose drivers execute both sides of a
// branch, have OPERATION alone.
#ifdef FAST_OPERATION
#include "processors.glsl"
#if INPUT_COUNT == 1
#define APPLY_QUICK(OPERAND, lane) FAST_OPERATION(OPERAND(0, lane))
#else
#define APPLY_QUICK(OPERAND, lane) FAST_OPERATION(OPERAND(0, lane), OPERAND(1, lane))
#endif
#define GATHER_SLOW_PATH_BITS(n, words) \
    for (int i = 0; i < WORDS_OF(INPUT_##n##_BITS); ++i) { slow_path |= SLOW_PATH_BITS(words##n[i]); }
#define COMPUTE_LANES(COMPUTE, COMPUTE_QUICK, words) \
    uint slow_path = uint(ON_PROCESSOR); \
    FOR_EACH_INPUT(GATHER_SLOW_PATH_BITS, words) \
    if (slow_path == 0u) { FOR_EACH_LANE(COMPUTE_QUICK) } else { FOR_EACH_LANE(COMPUTE) }
#define COMPUTE_QUICK_LANE(lane) COMPUTE_QUICK_LANE_OF(FETCHED, lane)
#define COMPUTE_SECOND_QUICK_LANE(lane) COMPUTE_QUICK_LANE_OF(FETCHED_SECOND, lane)
#define COMPUTE_QUICK_LANE_OF(OPERAND, lane) \
    if (ALWAYS) { INSERT(OUTPUT_BITS, result, lane, APPLY_QUICK(OPERAND, lane)); }
#elif defined(LONG_OPERATION) && (LANES == 16 || defined(WORD_BY_WORD))
// Sixteen times a long operation, or eight times one for which a file defines WORD_BY_WORD, takes drivers of GPUs seconds to compile. A
// loop computes the lanes of a word of every operand, of four, and moves the words on: those that are in use are indexed by constants and
// stay in registers.
#extension GL_EXT_control_flow_attributes : enable
#define MOVE_ON(words) \
    { \
        uint first = words[0]; \
        words[0] = words[1], words[1] = words[2], words[2] = words[3], words[3] = first; \
    }
#if LANES == 16
#define COMPUTE_WORD(COMPUTE) COMPUTE(0u) COMPUTE(1u) COMPUTE(2u) COMPUTE(3u)
#else
#define COMPUTE_WORD(COMPUTE) COMPUTE(0u) COMPUTE(1u)
#endif
#define MOVE_INPUT_ON(n, words) MOVE_ON(words##n)
#define MOVE_FURTHER_ON(n, argument) MOVE_ON(further_result_##n)
#define COMPUTE_LANES(COMPUTE, COMPUTE_QUICK, words) \
    if (ON_PROCESSOR) { \
        FOR_EACH_LANE_IN_LOOP(COMPUTE) \
    } else { \
        [[dont_unroll]] for (uint word = 0u; word < 4u; ++word) { \
            COMPUTE_WORD(COMPUTE) \
            MOVE_ON(result) \
            FOR_EACH_INPUT(MOVE_INPUT_ON, words) \
            FOR_EACH_FURTHER_OUTPUT(MOVE_FURTHER_ON, word) \
        } \
    }
#else
#define COMPUTE_LANES(COMPUTE, COMPUTE_QUICK, words) FOR_EACH_LANE(COMPUTE)
#endif

// Computes one vector of the output from the arrays fetched_0 …, or second_0 …, and stores it by STORE_EVERYWHERE(at), which
// the access order defines and which uses STORE_RESULTS(at) for one place.
#define COMPUTE_VECTOR(at) COMPUTE_VECTOR_BY(COMPUTE_LANE, COMPUTE_QUICK_LANE, fetched_, at)
#define COMPUTE_SECOND_VECTOR(at) COMPUTE_VECTOR_BY(COMPUTE_SECOND_LANE, COMPUTE_SECOND_QUICK_LANE, second_, at)
#define COMPUTE_LANE(lane) COMPUTE_LANE_OF(FETCHED, lane)
#define COMPUTE_SECOND_LANE(lane) COMPUTE_LANE_OF(FETCHED_SECOND, lane)
#define COMPUTE_LANE_OF(OPERAND, lane) \
    if (ALWAYS) { \
        VALUE(OUTPUT) value = APPLY(OPERAND, lane); \
        INSERT(OUTPUT_BITS, result, lane, value); \
        FOR_EACH_FURTHER_OUTPUT(INSERT_FURTHER, lane) \
    }
#if OUTPUT_BITS < 32
#define CLEAR(result) for (int i = 0; i < WORDS_OF(OUTPUT_BITS); ++i) { result[i] = 0u; }
#else
#define CLEAR(result)
#endif
#define COMPUTE_VECTOR_BY(COMPUTE, COMPUTE_QUICK, words, at) \
    { \
        uint result[WORDS_OF(OUTPUT_BITS)]; \
        CLEAR(result) \
        FOR_EACH_FURTHER_OUTPUT(DECLARE_FURTHER, at) \
        COMPUTE_LANES(COMPUTE, COMPUTE_QUICK, words) \
        STORE_EVERYWHERE(at) \
    }
#define STORE_RESULTS(at) \
    STORE_VECTOR(output, OUTPUT_BITS, result, at) \
    FOR_EACH_FURTHER_OUTPUT(STORE_FURTHER, at)

// Kernels of several operators may have further outputs: their values lie in further_0 … when APPLY has been evaluated.
#define DECLARE_FURTHER(n, at) \
    uint further_result_##n[WORDS_OF(FURTHER_##n##_BITS)]; \
    for (int i = 0; i < WORDS_OF(FURTHER_##n##_BITS); ++i) { further_result_##n[i] = 0u; }
#define INSERT_FURTHER(n, lane) INSERT(FURTHER_##n##_BITS, further_result_##n, lane, further_##n);
#define STORE_FURTHER(n, at) STORE_VECTOR(further_output_##n, FURTHER_##n##_BITS, further_result_##n, at)

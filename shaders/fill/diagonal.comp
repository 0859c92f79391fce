// DIAGONAL_MATRIX, DIAGONAL_MATRIX1: Value on a band of diagonals, or beside it; elsewhere the input, or 0.
#include "elementwise/offsets.glsl"

// The diagonals x - y from FIRST to LAST, both included; OUTSIDE: those that are not.
#define FIRST int(parameters.attributes[0])
#define LAST int(parameters.attributes[1])
#define OUTSIDE (parameters.attributes[2] != 0u)

// Compares x - y, which may take more than 32 bits.
bool is_at_least(uint x, uint y, int bound) {
    return x >= y ? bound < 0 || x - y >= uint(bound) : bound < 0 && y - x <= uint(-bound);
}
bool is_at_most(uint x, uint y, int bound) {
    return x >= y ? bound >= 0 && x - y <= uint(bound) : bound >= 0 || y - x >= uint(-bound);
}

#if OUTPUT_BITS == 64
#define ELEMENT uvec2
#define FILLING uvec2(parameters.attributes[3], parameters.attributes[4])
#else
#define ELEMENT uint
#define FILLING parameters.attributes[3]
#endif

ELEMENT element_at(uint number) {
    uint x = number % WIDTH;
    uint y = number / WIDTH % HEIGHT;
    bool is_within = is_at_least(x, y, FIRST) && is_at_most(x, y, LAST);
    if (is_within != OUTSIDE) { return FILLING; }
#if HAS_INPUT
    return LOAD(OUTPUT, words_input_0, BASE(OUTPUT_BITS, input_0) + number);
#else
    return ELEMENT(0u);
#endif
}

#define OPERATION(number) element_at(number)
#include "elementwise/each_offset.glsl"

// ELEMENT_WISE_BIT_AND: f(a, b) = a & b, the conjunction of the bits.

#define OPERATION(a, b) ((a) & (b))

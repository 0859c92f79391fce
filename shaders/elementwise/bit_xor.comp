// ELEMENT_WISE_BIT_XOR: f(a, b) = a ^ b, the difference of the bits.

#define OPERATION(a, b) ((a) ^ (b))

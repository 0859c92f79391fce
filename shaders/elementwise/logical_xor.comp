// ELEMENT_WISE_LOGICAL_XOR: f(a, b) = 1 if exactly one of a and b is not zero, else 0.

#define OPERATION(a, b) uint(((a) != 0u) != ((b) != 0u))

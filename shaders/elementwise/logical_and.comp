// ELEMENT_WISE_LOGICAL_AND: f(a, b) = 1 if a and b are not zero, else 0.

#define OPERATION(a, b) uint((a) != 0u && (b) != 0u)

// ELEMENT_WISE_LOGICAL_OR: f(a, b) = 1 if a or b is not zero, else 0.

#define OPERATION(a, b) uint(((a) | (b)) != 0u)

// ELEMENT_WISE_LOGICAL_NOT: f(x) = 1 if x is zero, else 0.

#define OPERATION(x) uint((x) == 0u)

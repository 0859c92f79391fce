// ELEMENT_WISE_BIT_OR: f(a, b) = a | b, the disjunction of the bits.

#define OPERATION(a, b) ((a) | (b))

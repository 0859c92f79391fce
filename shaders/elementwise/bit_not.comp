// ELEMENT_WISE_BIT_NOT: f(x) = ~x, every bit inverted.

#define OPERATION(x) (~(x))

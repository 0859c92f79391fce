// ELEMENT_WISE_IF: f(condition, a, b) = a if condition != 0, else b. Values are moved as bits.

#define OPERATION(condition, a, b) ((condition) != 0u ? (a) : (b))

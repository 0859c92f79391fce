#define OPERATION(condition, a, b) ((condition) != 0u ? (a) : (b))

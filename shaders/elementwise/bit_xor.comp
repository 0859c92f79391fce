#define OPERATION(a, b) ((a) ^ (b))

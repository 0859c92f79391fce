#define OPERATION(a, b) uint(((a) | (b)) != 0u)

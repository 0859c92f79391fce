#define OPERATION(x) uint((x) == 0u)

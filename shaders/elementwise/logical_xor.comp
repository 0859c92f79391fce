#define OPERATION(a, b) uint(((a) != 0u) != ((b) != 0u))

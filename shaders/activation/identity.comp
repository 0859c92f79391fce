#define OPERATION(x) (x)

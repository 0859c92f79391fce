#define OPERATION(x) (~(x))

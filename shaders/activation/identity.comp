// ACTIVATION_IDENTITY: f(x) = x.

#define OPERATION(x) (x)

// Sums of FLOAT32 products as a device computes them best: only in kernels for those who ask for it, whose bits may be others on
// other devices (ExecutionFlags.ALLOW_DEVICE_ARITHMETIC). scripts/check_shaders.py knows which these are.
#ifndef DEVICE_ARITHMETIC_GLSL
#define DEVICE_ARITHMETIC_GLSL

// a * b + c, rounded once or twice; what is denormal on the way may be zero. Not `precise`: a device without such an instruction
// need not imitate one.
float device_product_plus(float a, float b, float c) { return fma(a, b, c); }

#endif

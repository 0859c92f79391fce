// What kind of device a shader is for, where that decides which way is faster; the results have the same bits.
#ifndef PROCESSORS_GLSL
#define PROCESSORS_GLSL

// Whether the device is a processor. No pipeline is given this constant: the host sets it in the shader itself.
layout(constant_id = 1000) const bool ON_PROCESSOR = false;

// Likewise, whether it is a processor whose driver does what it is told, needed or not: SwiftShader.
layout(constant_id = 1003) const bool ON_NAIVE_DRIVER = false;

// What is written out many times stands in blocks of its own: `if (ALWAYS) { ... }`. Mesa compares each store to a variable, and functions have many, with
// all that may still hold on a straight way to it: eight times one of FLOAT16 took AMD's compiler 2.6 s, and takes 0.4 s in eight blocks. What
// a block stored is forgotten behind it. Compilers take these conditions out again, but not before that.
layout(constant_id = 1007) const bool ALWAYS = true;

#endif

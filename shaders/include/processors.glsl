// What kind of device a shader is for, where that decides which way is faster; the results have the same bits.
#ifndef PROCESSORS_GLSL
#define PROCESSORS_GLSL

// Whether the device is a processor. No pipeline is given this constant: the host sets it in the shader itself.
layout(constant_id = 1000) const bool ON_PROCESSOR = false;

// Likewise, whether it is a processor whose driver does what it is told, needed or not: SwiftShader.
layout(constant_id = 1003) const bool ON_NAIVE_DRIVER = false;

#endif

// SATURATED(type)(value): the nearest value of a data type, for integers that saturate at 32 bits already; floats stay.
#ifndef SATURATION_GLSL
#define SATURATION_GLSL

#define SATURATED(type) CONCATENATE(SATURATED_, type)
#define SATURATED_float32(value) (value)
#define SATURATED_float16(value) (value)
#define SATURATED_int32(value) (value)
#define SATURATED_uint32(value) (value)
#define SATURATED_int16(value) uint(min(max(int(value), -32768), 32767))
#define SATURATED_int8(value) uint(min(max(int(value), -128), 127))
#define SATURATED_uint16(value) min(value, 0xffffu)
#define SATURATED_uint8(value) min(value, 0xffu)

#endif

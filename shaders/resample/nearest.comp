// RESAMPLE, RESAMPLE1, RESAMPLE2, RESAMPLE3, UPSAMPLE_2D with NEAREST_NEIGHBOR: whole elements are moved.
#include "windows/resample.glsl"

#define NEAREST(axis, coordinate) (EXTENT_##axis > 1u ? nearest_element(POSITION(axis, coordinate), ROUNDING) * STRIDE_##axis : 0u)

VALUE(OUTPUT) resampled(Source source) {
    uint at = source.at + NEAREST(A, source.a) + NEAREST(B, source.b) + NEAREST(C, source.c) + NEAREST(D, source.d);
    return ELEMENT(at);
}

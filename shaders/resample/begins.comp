// The first step of RESAMPLE_GRAD and RESAMPLE_GRAD1: where the elements begin, along an axis, that come from each element.
#include "windows/resample_begins.glsl"

uint element_from(float location) {
    return IS_LINEAR ? between(location).element : nearest_element(location, ROUNDING);
}

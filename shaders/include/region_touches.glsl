// Which samples of a region touch an element of the input: their keys rise or fall with their numbers, never both.
//
// The compile script passes IS_LINEAR. `table_` is the buffer of region_locations.comp's table.
#ifndef REGION_TOUCHES_GLSL
#define REGION_TOUCHES_GLSL

#include "region_samples.glsl"

// The element that a sample touches; with LINEAR perhaps the next one, too. Far from all elements where it lies outside.
int key_of(uint k, uint start, uint step, uint extent) {
    float location = location_of_sample(k, start, step);
    if (is_before(location)) { return -5; }
    if (is_behind(location, extent)) { return int(extent) + 5; }
    float inner = location_between(k, start, step, extent);
#if IS_LINEAR
    return int(between(inner).element);
#else
    return int(nearest_element(inner, NEAREST_OR_LOWER));
#endif
}

// The first sample from `first` on, before `end`, whose key is `bound` or more; where keys fall, whose key is below it.
uint first_with_key(uint first, uint end, uvec2 axis, uint extent, int bound) {
    bool falls = int(axis.y) < 0;
    while (first < end) {
        uint middle = first + (end - first) / 2u;
        bool is_past = key_of(middle, axis.x, axis.y, extent) >= bound;
        if (is_past != falls) {
            end = middle;
        } else {
            first = middle + 1u;
        }
    }
    return first;
}

// The samples from `first` on, before `end`, that touch an element; `axis` has start and step.
uvec2 touching(uint first, uint end, uvec2 axis, uint extent, uint element) {
    bool falls = int(axis.y) < 0;
    int least = int(element) - IS_LINEAR;
    int beyond = int(element) + 1;
    uint begin = first_with_key(first, end, axis, extent, falls ? beyond : least);
    return uvec2(begin, first_with_key(begin, end, axis, extent, falls ? least : beyond));
}

// By what weight a sample has an element that it touches.
float weight_of_sample(uint k, uvec2 axis, uint extent, uint element) {
#if IS_LINEAR
    Between location = between(location_between(k, axis.x, axis.y, extent));
    precise float rest = 1.0 - location.fraction;
    return location.element == element ? rest : location.fraction;
#else
    return 1.0;
#endif
}

#endif

// Products with numbers whose first word has 12 bits, rounded once, of factors whose exponents are moderate.
#ifndef SHORT_PRODUCT_GLSL
#define SHORT_PRODUCT_GLSL

#include "error_free.glsl"
#include "float32.glsl"

// a * b - product, where product is a * b rounded, within 2^-46 of it. 10 operations.
float rest_of_product(float a, float b, float product) {
    precise float a_high = leading_half(a);
    precise float a_low = a - a_high;
    precise float b_high = leading_half(b);
    precise float b_low = b - b_high;
    precise float rest = exact_product_plus(a_high, b_low, exact_product_plus(a_high, b_high, -product)) + a_low * b;
    return rest;
}

// factor * (head + rest) rounded once, where head has 12 bits and rest is below 2^-10 of it. 6 operations.
float times_short(float factor, float head, float rest) {
    precise float factor_high = leading_half(factor);
    precise float factor_low = factor - factor_high;
    precise float low = exact_product_plus(factor_low, head, factor * rest);
    return exact_product_plus(factor_high, head, low);
}

// Whether |x| is from 2^-60 up to 2^60.
bool is_moderate(uint x) {
    int magnitude = int(x & MAGNITUDE_F32);
    return magnitude >= 0x21800000 && magnitude < 0x5d800000;
}

#endif

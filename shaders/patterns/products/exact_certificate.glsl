// Whether a sum of exact products is within its stated error: what is known of its row and its column, and nothing else, decides.
//
// Each is two vectors of exact_layout.glsl. docs/notes/exact-products.md has the proof. Floating-point numbers that are not negative compare as
// their bits do.
#ifndef EXACT_CERTIFICATE_GLSL
#define EXACT_CERTIFICATE_GLSL

float least_of(float a, float b) { return uintBitsToFloat(min(floatBitsToUint(a), floatBitsToUint(b))); }

// At most sum |a - a'| |b|, in units of 2^-24, for the operand of the vectors a: an integer of it is off by half.
float rounding_of(uvec4 a, uvec4 a_whole, uvec4 b)
{
    precise float by_largest = uintBitsToFloat(a.x) * uintBitsToFloat(b.w);
    precise float by_sums = uintBitsToFloat(a.y) * uintBitsToFloat(b.z);
    precise float by_count = uintBitsToFloat(a_whole.x) * uintBitsToFloat(b.x);
    return least_of(least_of(by_largest, by_sums), by_count);
}

// Whether errors of six products, and of nine, are at most `allowed` times 2^-24 of the sum of magnitudes, of which `low` units at least are
// known.
bvec2 are_certified(uvec4 row, uvec4 row_whole, uvec4 column, uvec4 column_whole, int low, float allowed)
{
    precise float of_nine = rounding_of(row, row_whole, column) + rounding_of(column, column_whole, row);
    precise float by_row = uintBitsToFloat(row_whole.x) * uintBitsToFloat(column.x);
    precise float by_column = uintBitsToFloat(column_whole.x) * uintBitsToFloat(row.x);
    // Of each term 2 * 2^14 * 2^8 + 2^14 integers of 2^-46 at most.
    precise float left_out = least_of(by_row, by_column) * 2.015625;
    precise float of_six = of_nine + left_out;
    precise float units = uintBitsToFloat(row_whole.y) * uintBitsToFloat(column_whole.y);
    precise float magnitudes = float(low >> 7) * 128.0 * units;
    precise float most = magnitudes * allowed;
    bool is_in_range = (row_whole.z | column_whole.z) == 0u;
    return bvec2(is_in_range && floatBitsToUint(of_six) <= floatBitsToUint(most), is_in_range && floatBitsToUint(of_nine) <= floatBitsToUint(most));
}

#endif

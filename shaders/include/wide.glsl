// 96-bit unsigned integers: room for the exact sum of a 56-bit product and a 24-bit number, with guard bits.
#ifndef WIDE_GLSL
#define WIDE_GLSL

struct Wide {
    uint high, middle, low;
};

bool is_zero(Wide a) { return (a.high | a.middle | a.low) == 0u; }

bool is_below(Wide a, Wide b) {
    if (a.high != b.high) { return a.high < b.high; }
    return a.middle != b.middle ? a.middle < b.middle : a.low < b.low;
}

// Position of the highest bit that is set, 0 to 95; -1 for zero.
int highest_bit(Wide a) {
    if (a.high != 0u) { return 64 + findMSB(a.high); }
    return a.middle != 0u ? 32 + findMSB(a.middle) : findMSB(a.low);
}

// For 0 <= count < 96.
Wide shift_left(Wide a, uint count) {
    if (count >= 64u) {
        a = Wide(a.low, 0u, 0u);
    } else if (count >= 32u) {
        a = Wide(a.middle, a.low, 0u);
    }
    uint bits = count & 31u;
    if (bits == 0u) {
        return a; // a shift by 32 is undefined
    }
    return Wide((a.high << bits) | (a.middle >> (32u - bits)), (a.middle << bits) | (a.low >> (32u - bits)), a.low << bits);
}

// Bits shifted out are lost. Any count.
Wide shift_right(Wide a, uint count) {
    if (count >= 96u) { return Wide(0u, 0u, 0u); }
    if (count >= 64u) {
        a = Wide(0u, 0u, a.high);
    } else if (count >= 32u) {
        a = Wide(0u, a.high, a.middle);
    }
    uint bits = count & 31u;
    if (bits == 0u) { return a; }
    return Wide(a.high >> bits, (a.middle >> bits) | (a.high << (32u - bits)), (a.low >> bits) | (a.middle << (32u - bits)));
}

// Sets the lowest bit when any bit was shifted out, so that a later rounding still sees that the value was not exact
// («jamming», as in J. Hauser's Berkeley SoftFloat). Any count.
Wide shift_right_jamming(Wide a, uint count) {
    Wide shifted = shift_right(a, count);
    Wide back = count >= 96u ? Wide(0u, 0u, 0u) : shift_left(shifted, count);
    bool exact = back.high == a.high && back.middle == a.middle && back.low == a.low;
    shifted.low |= uint(!exact);
    return shifted;
}

Wide add(Wide a, Wide b) {
    uint low = a.low + b.low;
    uint carry = uint(low < a.low);
    uint middle = a.middle + b.middle;
    uint carry_middle = uint(middle < a.middle);
    middle += carry;
    carry_middle += uint(middle < carry);
    return Wide(a.high + b.high + carry_middle, middle, low);
}

// For a >= b.
Wide subtract(Wide a, Wide b) {
    uint borrow = uint(a.low < b.low);
    uint borrow_middle = uint(a.middle < b.middle) + uint(a.middle == b.middle && borrow != 0u);
    return Wide(a.high - b.high - borrow_middle, a.middle - b.middle - borrow, a.low - b.low);
}

#endif

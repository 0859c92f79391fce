// MAX_POOLING, MAX_POOLING1, MAX_POOLING2: the largest element of each window that lies inside the input, and its number.
//
// Elements are compared as integers of the same order: of a number and NaN the number is taken, +0 is above -0, of equal ones the
// first is. A window of nothing but NaN gives the canonical one and its first element's number; one of nothing but padding
// the data type's lowest value and a number of ones only.
#define WINDOW_INDICES
#if INPUT_BITS == 32 || INPUT_BITS == 16
#define WINDOW_BLOCKS
#endif
#include "windows/window.glsl"
#include "comparison.glsl"

// Integers in the order of elements, and back; the lowest value of a type.
int order_f32(uint x) { return rank_f32(x, BELOW_ALL); }
int order_f16(uint x) { return is_nan_f16(x) ? BELOW_ALL : rank_f32(x << 16, BELOW_ALL); }
int order_i32(uint x) { return int(x); }
int order_u32(uint x) { return int(x ^ 0x80000000u); }
ivec2 order_i64(uvec2 x) { return ivec2(int(x.x ^ 0x80000000u), int(x.y)); }
ivec2 order_u64(uvec2 x) { return ivec2(x ^ 0x80000000u); }
uint number_f32(int order) { return order == BELOW_ALL ? 0x7fc00000u : uint(order ^ ((order >> 31) & 0x7fffffff)); }
uint number_f16(int order) { return order == BELOW_ALL ? NAN_F16 : uint(order ^ ((order >> 31) & 0x7fffffff)) >> 16; }
uint number_i32(int order) { return uint(order); }
uint number_u32(int order) { return uint(order) ^ 0x80000000u; }
uvec2 number_i64(ivec2 order) { return uvec2(uint(order.x) ^ 0x80000000u, uint(order.y)); }
uvec2 number_u64(ivec2 order) { return uvec2(order) ^ 0x80000000u; }

bool is_above(int a, int b) { return a > b; }
bool is_above(ivec2 a, ivec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }

#define LOWEST(type) CONCATENATE(LOWEST_, type)
#define LOWEST_float32 0xff800000u
#define LOWEST_float16 0xfc00u
#define LOWEST_int64 uvec2(0u, 0x80000000u)
#define LOWEST_int32 0x80000000u
#define LOWEST_int16 0xffff8000u
#define LOWEST_int8 0xffffff80u
#define LOWEST_uint64 uvec2(0u)
#define LOWEST_uint32 0u
#define LOWEST_uint16 0u
#define LOWEST_uint8 0u

#define ORDER(type) CONCATENATE(ORDER_, type)
#define ORDER_float32 int
#define ORDER_float16 int
#define ORDER_int64 ivec2
#define ORDER_int32 int
#define ORDER_int16 int
#define ORDER_int8 int
#define ORDER_uint64 ivec2
#define ORDER_uint32 int
#define ORDER_uint16 int
#define ORDER_uint8 int

#if INPUT_BITS == 64
#define STATE_ORDER ivec2(int(STATE(1u)), int(STATE(2u)))
#define SET_STATE_ORDER(order) { STATE(1u) = uint(order.x); STATE(2u) = uint(order.y); }
#else
#define STATE_ORDER int(STATE(1u))
#define SET_STATE_ORDER(order) STATE(1u) = uint(order)
#endif

#define TAKE_LARGER(at, number) \
    { \
        ORDER(INPUT) order = FORM(order, INPUT)(TAP(at)); \
        bool is_larger = is_above(order, largest); \
        largest = is_larger ? order : largest; \
        index = is_larger ? number : index; \
    }

VALUE(OUTPUT) pooled(Window window, out uint index) {
    ORDER(INPUT) largest = ORDER(INPUT)(BELOW_ALL);
    index = window.number;
    if (IN_PARTS) {
        if (has_state()) {
            index = STATE(0u);
            largest = STATE_ORDER;
        }
        FOR_EACH_TAP_IN_PART(window, TAKE_LARGER)
        STATE(0u) = index;
        SET_STATE_ORDER(largest);
    } else {
        FOR_EACH_TAP(window, TAKE_LARGER)
    }
    bool is_empty = taps_inside(window) == 0u;
    index = is_empty ? 0xffffffffu : index;
    return is_empty ? LOWEST(INPUT) : FORM(number, INPUT)(largest);
}

#ifdef WINDOW_BLOCKS
#define BEGIN_ROW int of_row = BELOW_ALL;
#define TAKE_LARGEST(at) of_row = max(of_row, FORM(order, INPUT)(TAP(at)));
#define TAKE_ROW(is_in) \
    largest.x = is_in.x ? max(largest.x, of_row) : largest.x; \
    largest.y = is_in.y ? max(largest.y, of_row) : largest.y; \
    largest.z = is_in.z ? max(largest.z, of_row) : largest.z; \
    largest.w = is_in.w ? max(largest.w, of_row) : largest.w;
uvec4 pooled_block(Location location) {
    ivec4 largest = ivec4(BELOW_ALL);
    FOR_EACH_ROW_OF_BLOCK(location, BEGIN_ROW, TAKE_LARGEST, TAKE_ROW)
    return uvec4(FORM(number, INPUT)(largest.x), FORM(number, INPUT)(largest.y), FORM(number, INPUT)(largest.z),
        FORM(number, INPUT)(largest.w));
}
#endif

// Products of rows with packed matrices that each row chooses, by exact integers or chunk by chunk, on processors.
#include "products/experts.glsl"
#define main multiply
#include "products/packed_processors.glsl"
#undef main

void main() {
    FIND_EXPERT
    multiply();
}

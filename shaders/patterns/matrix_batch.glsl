#ifndef MATRIX_BATCH_GLSL
#define MATRIX_BATCH_GLSL

// Where the operands of one batch or group begin. It is handed from function to function: drivers keep in memory what is a variable of
// the whole shader.
struct Batch {
    uint left;
    uint right;
    uint addend;
    uint results; // or totals, where those are written
    uint totals;  // that are read
};

#endif

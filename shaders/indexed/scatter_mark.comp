// SCATTER, SCATTER_ND: the number of each place's last update.
#include "movement/marking.glsl"

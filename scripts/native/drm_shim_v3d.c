/* What a Raspberry Pi's kernel tells of its GPU beyond Mesa's drm-shim, which knows an older one; see
   scripts/cross/drm_shim.py. V3D_VERSION: 42 for Raspberry Pi 4, otherwise that of Raspberry Pi 5. */
#define drm_shim_driver_init mesas_driver_init
#include "broadcom/drm-shim/v3d_noop.c"
#undef drm_shim_driver_init

#include <string.h>

static int is_raspberry_pi_4;

static int get_parameter(int file, unsigned long request, void *argument)
{
    struct drm_v3d_get_param *asked = argument;
    switch (asked->param) {
    case DRM_V3D_PARAM_SUPPORTS_MULTISYNC_EXT: /* without which v3dv opens no device */
    case DRM_V3D_PARAM_SUPPORTS_CPU_QUEUE:
        asked->value = 1;
        return 0;
    case DRM_V3D_PARAM_SUPPORTS_PERFMON:
    case DRM_V3D_PARAM_MAX_PERF_COUNTERS:
        asked->value = 0;
        return 0;
    case DRM_V3D_PARAM_V3D_CORE0_IDENT0: /* "V3D" and the version before the point */
        asked->value = is_raspberry_pi_4 ? 0x04443356 : 0x07443356;
        return 0;
    case DRM_V3D_PARAM_V3D_CORE0_IDENT1: /* the one behind it, and slices: two, or three, of four QPUs */
        asked->value = is_raspberry_pi_4 ? 0x81001422 : 0x81001431;
        return 0;
    default:
        return v3d_ioctl_get_param(file, request, argument);
    }
}

void drm_shim_driver_init(void)
{
    const char *version = getenv("V3D_VERSION");
    is_raspberry_pi_4 = version && !strcmp(version, "42");
    mesas_driver_init();
    driver_ioctls[DRM_V3D_GET_PARAM] = get_parameter;
}

/* What Mesa's drm-shim calls of Mesa's other libraries, as little as it needs; see scripts/cross/drm_shim.py. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool debug_get_bool_option(const char *name, bool otherwise)
{
    const char *value = getenv(name);
    return value ? strcmp(value, "0") && strcmp(value, "false") : otherwise;
}

size_t u_printf_length(const char *format, va_list arguments)
{
    return vsnprintf(NULL, 0, format, arguments);
}

/* Such as "Unknown drm_i915_query_item": what the driver asks in vain is none of the user's concern. */
void mesa_log(int level, const char *tag, const char *format, ...)
{
    (void)level, (void)tag, (void)format;
}

bool os_get_available_system_memory(uint64_t *size)
{
    return *size = UINT64_C(8) << 30, true;
}

bool os_get_total_physical_memory(uint64_t *size)
{
    return *size = UINT64_C(16) << 30, true;
}

int64_t os_time_get_nano(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Descriptions of GPUs in files are not asked for. */
bool intel_device_info_from_json(const char *path, void *info)
{
    (void)path, (void)info;
    return false;
}

/* A Vulkan driver that hands everything to another one, DMLVK_TEST_DRIVER, and is as old or as poor as its own
   environment says: FAKE_VERSION is what its devices say they support, FAKE_EMPTY has it list none. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef Function (*Lookup)(void *, const char *);

static Lookup lookup;
static void (*properties)(void *, uint32_t *), (*properties2)(void *, void *);

static void *library(void)
{
    static void *opened;
    if (!opened)
        opened = dlopen(getenv("DMLVK_TEST_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return opened;
}

static void make_old(uint32_t *version)
{
    if (getenv("FAKE_VERSION"))
        *version = strtoul(getenv("FAKE_VERSION"), NULL, 0);
}

static void old_properties(void *device, uint32_t *found)
{
    properties(device, found);
    make_old(found); /* apiVersion is the first member */
}

static void old_properties2(void *device, void *found)
{
    properties2(device, found);
    make_old((uint32_t *)((char *)found + 16)); /* behind sType and pNext */
}

static int32_t no_devices(void *instance, uint32_t *count, void **devices)
{
    (void)instance, (void)devices;
    *count = 0;
    return 0;
}

static Function replaced(const char *name, Function found)
{
    if (!strcmp(name, "vkGetPhysicalDeviceProperties"))
        return properties = (void (*)(void *, uint32_t *))found, (Function)old_properties;
    if (!strncmp(name, "vkGetPhysicalDeviceProperties2", 30) && found)
        return properties2 = (void (*)(void *, void *))found, (Function)old_properties2;
    if (!strcmp(name, "vkEnumeratePhysicalDevices") && getenv("FAKE_EMPTY"))
        return (Function)no_devices;
    return found;
}

Function vk_icdGetInstanceProcAddr(void *instance, const char *name)
{
    lookup = (Lookup)dlsym(library(), "vk_icdGetInstanceProcAddr");
    return replaced(name, lookup(instance, name));
}

Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name)
{
    Lookup other = (Lookup)dlsym(library(), "vk_icdGetPhysicalDeviceProcAddr");
    return other ? replaced(name, other(instance, name)) : NULL;
}

int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    return ((int32_t (*)(uint32_t *))dlsym(library(), "vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
}

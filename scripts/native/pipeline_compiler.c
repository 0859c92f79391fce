/* Has a Vulkan driver compile compute pipelines that are never run; see scripts/cross/gpu_drivers.py.

   pipeline_compiler DRIVER.so: a driver without a loader. Its first line tells the device's name. Of each pipeline, stdin
   has four numbers (bytes of the module, specialization constants, storage buffers, words of push constants), then the
   constants and the module; stdout then has a line of JSON: the VkResult, seconds of a processor, the driver's numbers.
   SIGPROF ends it when a pipeline takes longer than MOST_SECONDS of the processor. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define MOST_SECONDS 300
#define MOST_CONSTANTS 256
#define MOST_BUFFERS 64
#define MOST_NUMBERS 64

static PFN_vkGetInstanceProcAddr get;
static VkInstance instance;
static VkDevice device;
static int has_statistics;

#define CALL(name) ((PFN_##name)get(instance, #name))

static void demand(VkResult result, const char *call)
{
    if (result != VK_SUCCESS) {
        fprintf(stderr, "%s: VkResult %d\n", call, result);
        exit(1);
    }
}

static void open_driver(const char *path)
{
    void *driver = dlopen(path, RTLD_NOW);
    if (!driver || !(get = (PFN_vkGetInstanceProcAddr)dlsym(driver, "vk_icdGetInstanceProcAddr"))) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    VkResult (*negotiate)(uint32_t *) = dlsym(driver, "vk_icdNegotiateLoaderICDInterfaceVersion");
    uint32_t version = 5;
    if (negotiate)
        demand(negotiate(&version), "vk_icdNegotiateLoaderICDInterfaceVersion");
    VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    demand(CALL(vkCreateInstance)(&info, NULL, &instance), "vkCreateInstance");
}

static void open_device(void)
{
    VkPhysicalDevice found;
    uint32_t count = 1;
    demand(CALL(vkEnumeratePhysicalDevices)(instance, &count, &found), "vkEnumeratePhysicalDevices");
    if (count == 0) {
        fprintf(stderr, "vkEnumeratePhysicalDevices: no device\n");
        exit(1);
    }
    VkPhysicalDeviceProperties properties;
    CALL(vkGetPhysicalDeviceProperties)(found, &properties);
    CALL(vkEnumerateDeviceExtensionProperties)(found, NULL, &count, NULL);
    VkExtensionProperties *extensions = calloc(count, sizeof *extensions);
    CALL(vkEnumerateDeviceExtensionProperties)(found, NULL, &count, extensions);
    const char *wanted = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    for (uint32_t each = 0; each < count; each++)
        has_statistics |= !strcmp(extensions[each].extensionName, wanted);
    free(extensions);

    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR features = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE};
    VkDeviceCreateInfo info = {
        VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = has_statistics ? &features : NULL,
        .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
        .enabledExtensionCount = has_statistics, .ppEnabledExtensionNames = &wanted};
    demand(CALL(vkCreateDevice)(found, &info, NULL, &device), "vkCreateDevice");
    printf("%s\n", properties.deviceName);
    fflush(stdout);
}

static void tell_numbers(VkPipeline pipeline)
{
    VkPipelineExecutableInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutableStatisticKHR told[MOST_NUMBERS];
    for (int each = 0; each < MOST_NUMBERS; each++)
        told[each].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, told[each].pNext = NULL;
    uint32_t count = MOST_NUMBERS;
    demand(CALL(vkGetPipelineExecutableStatisticsKHR)(device, &info, &count, told),
           "vkGetPipelineExecutableStatisticsKHR");
    for (uint32_t each = 0; each < count; each++)
        if (told[each].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR)
            printf(", \"%s\": %llu", told[each].name, (unsigned long long)told[each].value.u64);
}

static VkPipelineLayout layout_of(uint32_t buffers, uint32_t push_words, VkDescriptorSetLayout *set)
{
    VkDescriptorSetLayoutBinding bindings[MOST_BUFFERS];
    for (uint32_t each = 0; each < buffers; each++)
        bindings[each] = (VkDescriptorSetLayoutBinding){
            each, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    VkDescriptorSetLayoutCreateInfo set_info = {
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = buffers, .pBindings = bindings};
    demand(CALL(vkCreateDescriptorSetLayout)(device, &set_info, NULL, set), "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * push_words};
    VkPipelineLayoutCreateInfo info = {
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = set,
        .pushConstantRangeCount = push_words > 0, .pPushConstantRanges = &range};
    VkPipelineLayout layout;
    demand(CALL(vkCreatePipelineLayout)(device, &info, NULL, &layout), "vkCreatePipelineLayout");
    return layout;
}

static void compile(const uint32_t *spirv, const uint32_t head[4], const uint32_t *constants)
{
    VkShaderModuleCreateInfo module_info = {
        VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = head[0], .pCode = spirv};
    VkShaderModule module;
    demand(CALL(vkCreateShaderModule)(device, &module_info, NULL, &module), "vkCreateShaderModule");
    VkDescriptorSetLayout set;
    VkPipelineLayout layout = layout_of(head[2], head[3], &set);
    VkSpecializationMapEntry entries[MOST_CONSTANTS];
    for (uint32_t each = 0; each < head[1]; each++)
        entries[each] = (VkSpecializationMapEntry){each, 4 * each, 4};
    VkSpecializationInfo special = {head[1], entries, 4 * head[1], constants};
    VkComputePipelineCreateInfo info = {
        VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = has_statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0,
        .stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module, .pName = "main", .pSpecializationInfo = &special},
        .layout = layout, .basePipelineIndex = -1};
    VkPipeline pipeline = VK_NULL_HANDLE;
    struct itimerval patience = {.it_value.tv_sec = MOST_SECONDS};
    setitimer(ITIMER_PROF, &patience, NULL);
    clock_t begun = clock();
    VkResult result = CALL(vkCreateComputePipelines)(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    printf("{\"result\": %d, \"seconds\": %.4f", result, (double)(clock() - begun) / CLOCKS_PER_SEC);
    if (result == VK_SUCCESS && has_statistics)
        tell_numbers(pipeline);
    printf("}\n");
    fflush(stdout);
    CALL(vkDestroyPipeline)(device, pipeline, NULL);
    CALL(vkDestroyPipelineLayout)(device, layout, NULL);
    CALL(vkDestroyDescriptorSetLayout)(device, set, NULL);
    CALL(vkDestroyShaderModule)(device, module, NULL);
}

int main(int count, char **words)
{
    if (count != 2) {
        fprintf(stderr, "pipeline_compiler DRIVER.so\n");
        return 2;
    }
    open_driver(words[1]);
    open_device();
    uint32_t head[4], constants[MOST_CONSTANTS];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        uint32_t *spirv = head[1] > MOST_CONSTANTS || head[2] > MOST_BUFFERS ? NULL : malloc(head[0]);
        if (!spirv || fread(constants, 4, head[1], stdin) != head[1] || fread(spirv, head[0], 1, stdin) != 1) {
            fprintf(stderr, "what is to be compiled ends early, or is too large\n");
            return 1;
        }
        compile(spirv, head, constants);
        free(spirv);
    }
    return 0;
}

"""Two of the changes to Kompute: which devices it lists, and what shaders may use of one (``kompute_changes.py``)."""

from __future__ import annotations

from scripts.kompute_change import Change, Replacement

FEATURES = Change(
    "enables what shaders may use",
    "Devices were made without optional features: a shader that uses 8-bit integers in registers, integer dot products "
    "or cooperative matrices broke Vulkan's rules, whatever the driver made of it. They are enabled where the device "
    "has them, with their extensions; `kp.enabled_features` has their names.",
    (
        Replacement("src/Manager.cpp", "#include <iterator>\n", "#include <algorithm>\n#include <iterator>\n"),
        Replacement(
            "src/Manager.cpp",
            "    vk::DeviceCreateInfo deviceCreateInfo(vk::DeviceCreateFlags(),\n",
            "    // VkPhysicalDeviceShaderFloat16Int8Features, VkPhysicalDeviceShaderIntegerDotProductFeatures,\n"
            "    // VkPhysicalDeviceVulkanMemoryModelFeatures (which cooperative matrices need),\n"
            "    // VkPhysicalDeviceCooperativeMatrixFeaturesKHR and VkPhysicalDeviceShaderBfloat16FeaturesKHR:\n"
            "    // none has more than three members.\n"
            "    struct Features\n"
            "    {\n"
            "        VkStructureType sType;\n"
            "        void* pNext;\n"
            "        VkBool32 members[3];\n"
            "    };\n"
            "    const std::pair<const char*, int> optionalFeatures[] = {\n"
            '        { "VK_KHR_shader_float16_int8", 1000082000 },\n'
            '        { "VK_KHR_shader_integer_dot_product", 1000280000 },\n'
            '        { "VK_KHR_vulkan_memory_model", 1000211000 },\n'
            '        { "VK_KHR_cooperative_matrix", 1000506000 },\n'
            '        { "VK_KHR_shader_bfloat16", 1000141000 },\n'
            "    };\n"
            "    Features features[5] = {};\n"
            "    void* featureChain = nullptr;\n"
            "    if (physicalDevice.getProperties().apiVersion >= VK_API_VERSION_1_1) {\n"
            "        for (size_t i = 0; i < 5; i++) {\n"
            "            const auto& [name, type] = optionalFeatures[i];\n"
            "            if (uniqueExtensionNames.count(name) == 0) {\n"
            "                continue;\n"
            "            }\n"
            "            features[i].sType = static_cast<VkStructureType>(type);\n"
            "            features[i].pNext = featureChain;\n"
            "            featureChain = &features[i];\n"
            "            if (std::find(desiredExtensions.begin(), desiredExtensions.end(), name) ==\n"
            "                desiredExtensions.end()) {\n"
            "                validExtensions.push_back(name);\n"
            "            }\n"
            "        }\n"
            "        vk::PhysicalDeviceFeatures2 offered;\n"
            "        offered.pNext = featureChain;\n"
            "        physicalDevice.getFeatures2(&offered);\n"
            "        // With the memory model, atomics that other work groups see need its device scope.\n"
            "        features[2].members[0] = features[2].members[0] && features[2].members[1];\n"
            "        features[2].members[1] = features[2].members[0];\n"
            "        features[2].members[2] = VK_FALSE; // availability and visibility chains\n"
            "        features[3].members[0] = features[3].members[0] && features[2].members[0];\n"
            "        features[3].members[1] = VK_FALSE; // cooperativeMatrixRobustBufferAccess\n"
            "        features[4].members[1] = VK_FALSE; // shaderBFloat16DotProduct\n"
            "        features[4].members[2] = features[4].members[2] && features[4].members[0] &&\n"
            "                                 features[3].members[0];\n"
            "    }\n"
            "\n"
            "    vk::DeviceCreateInfo deviceCreateInfo(vk::DeviceCreateFlags(),\n",
        ),
        Replacement(
            "src/Manager.cpp",
            "                                          validExtensions.data());\n\n    this->mDevice",
            "                                          validExtensions.data());\n"
            "    deviceCreateInfo.pNext = featureChain;\n\n    this->mDevice",
        ),
        Replacement(
            "python/src/main.cpp",
            "    py::class_<kp::OpAlgoDispatch,\n               kp::OpBase,\n",
            '    m.attr("enabled_features") = py::make_tuple("shaderFloat16",\n'
            '                                                "shaderInt8",\n'
            '                                                "shaderIntegerDotProduct",\n'
            '                                                "vulkanMemoryModel",\n'
            '                                                "vulkanMemoryModelDeviceScope",\n'
            '                                                "cooperativeMatrix",\n'
            '                                                "shaderBFloat16Type",\n'
            '                                                "shaderBFloat16CooperativeMatrix");\n'
            "\n"
            "    py::class_<kp::OpAlgoDispatch,\n               kp::OpBase,\n",
        ),
    ),
)

PORTABILITY = Change(
    "lists portability devices",
    "Vulkan's loader hides devices that have a part of Vulkan only from whoever does not ask for them: on macOS those "
    "of MoltenVK, which are all. They are asked for where the loader can be asked (from 1.3.207 on), and their devices "
    "are opened with VK_KHR_portability_subset, as Vulkan demands. `kp.lists_portability_devices` says so.",
    (
        Replacement(
            "src/Manager.cpp",
            "    checkResult(vk::createInstance(\n"
            "      &computeInstanceCreateInfo, nullptr, this->mInstance.get()),\n"
            '                "vkCreateInstance");\n',
            "    // An older loader hides nothing, and says an error aloud where it is asked\n"
            "    vk::InstanceCreateInfo everyDeviceInfo = computeInstanceCreateInfo;\n"
            "    std::vector<const char*> everyExtension = applicationExtensions;\n"
            '    everyExtension.push_back("VK_KHR_portability_enumeration");\n'
            "    everyDeviceInfo.enabledExtensionCount =\n"
            "      static_cast<uint32_t>(everyExtension.size());\n"
            "    everyDeviceInfo.ppEnabledExtensionNames = everyExtension.data();\n"
            "    // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR, which older headers lack\n"
            "    everyDeviceInfo.flags |= static_cast<vk::InstanceCreateFlagBits>(1);\n"
            "    vk::Result created = vk::Result::eErrorExtensionNotPresent;\n"
            "    if (vk::enumerateInstanceVersion() >= VK_MAKE_VERSION(1, 3, 207)) {\n"
            "        created = vk::createInstance(\n"
            "          &everyDeviceInfo, nullptr, this->mInstance.get());\n"
            "    }\n"
            "    if (created == vk::Result::eErrorExtensionNotPresent) { // MoltenVK without a loader\n"
            "        created = vk::createInstance(\n"
            "          &computeInstanceCreateInfo, nullptr, this->mInstance.get());\n"
            "    }\n"
            '    checkResult(created, "vkCreateInstance");\n',
        ),
        Replacement(
            "src/Manager.cpp",
            "    // VkPhysicalDeviceShaderFloat16Int8Features, ",
            '    const char* portabilitySubset = "VK_KHR_portability_subset";\n'
            "    if (uniqueExtensionNames.count(portabilitySubset) != 0 &&\n"
            "        std::find(desiredExtensions.begin(), desiredExtensions.end(), portabilitySubset) ==\n"
            "          desiredExtensions.end()) {\n"
            "        validExtensions.push_back(portabilitySubset);\n"
            "    }\n"
            "\n"
            "    // VkPhysicalDeviceShaderFloat16Int8Features, ",
        ),
        Replacement(
            "python/src/main.cpp",
            '    m.attr("enabled_features") = ',
            '    m.attr("lists_portability_devices") = true;\n    m.attr("enabled_features") = ',
        ),
    ),
)

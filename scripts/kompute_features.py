"""Some of the changes to Kompute (``kompute_changes.py``): devices, features, threads that compile, dispatches."""

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

TOGETHER = Change(
    "compiles shaders by all cores",
    "A pipeline is compiled by the thread that asks for it, one after the other: the 60 of a network take 6 s with an "
    "NVIDIA driver that has none of them in its cache. `manager.algorithms(tensors, spirv, workgroups, spec_consts, "
    "push_consts)` takes a list of each, makes as many algorithms, by up to 16 threads, and releases the interpreter's "
    "lock meanwhile. Vulkan asks for no lock between pipelines of one device; the first error of all is thrown when "
    "every thread has ended, and nothing is left of the others.",
    (
        Replacement(
            "src/include/kompute/Manager.hpp",
            "    /**\n     * Destroy the GPU resources and all managed resources by manager.\n",
            "    /**\n"
            "     * Create several managed algorithms, compiled by several threads.\n"
            "     *\n"
            "     * @param tensors The tensors of each algorithm\n"
            "     * @param spirv The SPIRV bytes of each\n"
            "     * @param workgroups The kp::Workgroup of each\n"
            "     * @param specializationConstants The specialization constants of each\n"
            "     * @param pushConstants The push constants of each\n"
            "     * @returns Shared pointers with initialised algorithms, in order\n"
            "     */\n"
            "    std::vector<std::shared_ptr<Algorithm>> algorithms(\n"
            "      const std::vector<std::vector<std::shared_ptr<Tensor>>>& tensors,\n"
            "      const std::vector<std::vector<uint32_t>>& spirv,\n"
            "      const std::vector<Workgroup>& workgroups,\n"
            "      const std::vector<std::vector<uint32_t>>& specializationConstants,\n"
            "      const std::vector<std::vector<uint32_t>>& pushConstants);\n"
            "\n"
            "    /**\n     * Destroy the GPU resources and all managed resources by manager.\n",
        ),
        Replacement(
            "src/Manager.cpp",
            "Manager::~Manager()\n",
            "std::vector<std::shared_ptr<Algorithm>>\n"
            "Manager::algorithms(\n"
            "  const std::vector<std::vector<std::shared_ptr<Tensor>>>& tensors,\n"
            "  const std::vector<std::vector<uint32_t>>& spirv,\n"
            "  const std::vector<Workgroup>& workgroups,\n"
            "  const std::vector<std::vector<uint32_t>>& specializationConstants,\n"
            "  const std::vector<std::vector<uint32_t>>& pushConstants)\n"
            "{\n"
            "    const size_t count = tensors.size();\n"
            "    if (spirv.size() != count || workgroups.size() != count ||\n"
            "        specializationConstants.size() != count ||\n"
            "        pushConstants.size() != count) {\n"
            '        throw std::runtime_error("Kompute: lists of algorithms of unequal length");\n'
            "    }\n"
            "    std::vector<std::shared_ptr<Algorithm>> made(count);\n"
            "    std::vector<std::exception_ptr> failures(count);\n"
            "    std::atomic<size_t> next{ 0 };\n"
            "    const auto work = [&]() {\n"
            "        for (size_t i = next++; i < count; i = next++) {\n"
            "            try {\n"
            "                made[i].reset(new Algorithm(this->mDevice,\n"
            "                                            tensors[i],\n"
            "                                            spirv[i],\n"
            "                                            workgroups[i],\n"
            "                                            specializationConstants[i],\n"
            "                                            pushConstants[i]));\n"
            "            } catch (...) {\n"
            "                failures[i] = std::current_exception();\n"
            "            }\n"
            "        }\n"
            "    };\n"
            "    std::vector<std::thread> threads;\n"
            "    const size_t most = std::min<size_t>(16, std::thread::hardware_concurrency());\n"
            "    try {\n"
            "        while (threads.size() + 1 < std::min(most, count)) {\n"
            "            threads.emplace_back(work);\n"
            "        }\n"
            "    } catch (const std::system_error&) {\n"
            "        // No more threads are to be had: those that there are do the work\n"
            "    }\n"
            "    work();\n"
            "    for (std::thread& thread : threads) {\n"
            "        thread.join();\n"
            "    }\n"
            "    for (const std::exception_ptr& failure : failures) {\n"
            "        if (failure) {\n"
            "            std::rethrow_exception(failure);\n"
            "        }\n"
            "    }\n"
            "    if (this->mManageResources) {\n"
            "        this->mManagedAlgorithms.insert(\n"
            "          this->mManagedAlgorithms.end(), made.begin(), made.end());\n"
            "    }\n"
            "    return made;\n"
            "}\n"
            "\n"
            "Manager::~Manager()\n",
        ),
        Replacement(
            "src/Manager.cpp",
            '#include "kompute/Manager.hpp"\n',
            "#include <algorithm>\n#include <atomic>\n#include <exception>\n#include <system_error>\n"
            '#include <thread>\n\n#include "kompute/Manager.hpp"\n',
        ),
        Replacement(
            "python/src/main.cpp",
            '      .def("algorithm_like",\n',
            '      .def(\n        "algorithms",\n'
            "        [](kp::Manager& self,\n"
            "           const std::vector<std::vector<std::shared_ptr<kp::Tensor>>>& tensors,\n"
            "           const std::vector<py::bytes>& spirv,\n"
            "           const std::vector<kp::Workgroup>& workgroups,\n"
            "           const std::vector<std::vector<uint32_t>>& spec_consts,\n"
            "           const std::vector<std::vector<uint32_t>>& push_consts) {\n"
            "            std::vector<std::vector<uint32_t>> words;\n"
            "            for (const py::bytes& each : spirv) {\n"
            "                py::buffer_info info(py::buffer(each).request());\n"
            "                const uint32_t* data = reinterpret_cast<const uint32_t*>(info.ptr);\n"
            "                words.emplace_back(data, data + info.size / sizeof(uint32_t));\n"
            "            }\n"
            "            py::gil_scoped_release released;\n"
            "            return self.algorithms(\n"
            "              tensors, words, workgroups, spec_consts, push_consts);\n"
            "        },\n"
            '        py::arg("tensors"),\n'
            '        py::arg("spirv"),\n'
            '        py::arg("workgroups"),\n'
            '        py::arg("spec_consts"),\n'
            '        py::arg("push_consts"))\n'
            '      .def("algorithm_like",\n',
        ),
    ),
)

BESIDE = Change(
    "lets dispatches run beside one another",
    "Each dispatch was recorded behind a barrier for each of its tensors, so that copies are done before. On an NVIDIA "
    "H100 it waited for all earlier dispatches, too: a decoder's token took 4.27 ms instead of 3.75. "
    "`OpAlgoDispatch.follows_transfers = False` leaves the barriers out, for those who record an OpMemoryBarrier where "
    "there were copies.",
    (
        Replacement(
            "src/include/kompute/operations/OpAlgoDispatch.hpp",
            "  private:\n    // -------------- ALWAYS OWNED RESOURCES\n    std::shared_ptr<Algorithm> mAlgorithm;\n",
            "    /**\n"
            "     * Whether copies to the tensors may have been recorded or submitted\n"
            "     * before, behind which the dispatch waits\n"
            "     */\n"
            "    bool mFollowsTransfers = true;\n"
            "\n"
            "  private:\n    // -------------- ALWAYS OWNED RESOURCES\n    std::shared_ptr<Algorithm> mAlgorithm;\n",
        ),
        Replacement(
            "src/OpAlgoDispatch.cpp",
            "         this->mAlgorithm->getTensors()) {\n        tensor->record",
            "         this->mAlgorithm->getTensors()) {\n"
            "        if (!this->mFollowsTransfers) {\n"
            "            break;\n"
            "        }\n"
            "        tensor->record",
        ),
        Replacement(
            "python/src/main.cpp",
            '           DOC(kp, OpAlgoDispatch, OpAlgoDispatch),\n           py::arg("algorithm"),\n'
            '           py::arg("push_consts"));\n',
            '           DOC(kp, OpAlgoDispatch, OpAlgoDispatch),\n           py::arg("algorithm"),\n'
            '           py::arg("push_consts"))\n'
            '      .def_readwrite("follows_transfers", &kp::OpAlgoDispatch::mFollowsTransfers);\n',
        ),
    ),
)

"""dmlvk's changes to Kompute 0.9.0: each a few lines, each of use to every user of Kompute, none needed by dmlvk.

``scripts/build_kompute.py`` applies them to the source distribution from PyPI; the version becomes 0.9.0+dmlvk.10.
dmlvk looks at run time for what the installed package can do (``dmlvk/runtime/kompute.py``), and the unchanged package
gives the same results more slowly.
"""

from __future__ import annotations

from scripts.kompute_change import Change, Replacement
from scripts.kompute_features import BESIDE, FEATURES, PORTABILITY, TOGETHER

LOCAL_VERSION = "dmlvk.10"


def _checked(path: str, call: str, name: str) -> Replacement:
    """A Vulkan call whose result was thrown away."""
    return Replacement(path, f"    {call}", f'    checkResult({call[:-1]},\n                "{name}");')


_BUILD = Change(
    "builds with the Python that asked for it",
    "setup.py lacks a comma, which glues -DPYTHON_EXECUTABLE=… to the option before it: CMake then takes whichever "
    "Python it finds first (often another version, for example behind pyenv's shims), and the extension cannot be "
    "imported.",
    (
        Replacement(
            "setup.py",
            "'-DKOMPUTE_OPT_DISABLE_VULKAN_VERSION_CHECK=ON'\n",
            "'-DKOMPUTE_OPT_DISABLE_VULKAN_VERSION_CHECK=ON',\n",
        ),
    ),
)
_NUMPY = Change(
    "accepts NumPy 2",
    "The limit came with the pybind11 2.9 that Kompute bundles; pybind11 2.13 and later serve NumPy 1 and 2 alike.",
    (Replacement("setup.py", '"numpy<2.0.0"', '"numpy>=1.23"'),),
)
_VERSION = Change(
    "is marked as changed",
    "A user must see from `pip list` that this is not the package as it is on PyPI.",
    (Replacement("setup.py", "version='0.9.0'", f"version='0.9.0+{LOCAL_VERSION}'"),),
)
_FENCE = Change(
    "keeps its fence",
    "A fence was created and destroyed for every evaluation, which takes 470 of the 615 µs that a small dispatch costs "
    "on an NVIDIA H200. It is kept with the Sequence, polled for 1 ms (an operator on a tensor of 1 GiB is done by "
    "then; to be woken takes 50 µs) and only then waited for; 50 µs where the device is the processor that polls. "
    "A wait that ends by its time limit leaves the work running; its fence was destroyed in use.",
    (
        Replacement(
            "src/Sequence.cpp",
            "    this->mFence = this->mDevice->createFence(vk::FenceCreateInfo());\n",
            "    if (!this->mFence) {\n"
            "        this->mFence = this->mDevice->createFence(vk::FenceCreateInfo());\n"
            "        const bool onProcessor =\n"
            "          this->mPhysicalDevice->getProperties().deviceType ==\n"
            "          vk::PhysicalDeviceType::eCpu;\n"
            "        this->mPollTime = std::chrono::microseconds(onProcessor ? 50 : 1000);\n"
            "    } else {\n"
            '        checkResult(this->mDevice->resetFences(1, &this->mFence), "vkResetFences");\n'
            "    }\n",
        ),
        Replacement(
            "src/Sequence.cpp",
            "    vk::Result result =\n"
            "      this->mDevice->waitForFences(1, &this->mFence, VK_TRUE, waitFor);\n"
            "    this->mDevice->destroy(\n"
            "      this->mFence, (vk::Optional<const vk::AllocationCallbacks>)nullptr);\n"
            "\n"
            "    this->mIsRunning = false;\n",
            "    const auto pollUntil =\n"
            "      std::chrono::steady_clock::now() + this->mPollTime;\n"
            "    vk::Result result = this->mDevice->getFenceStatus(this->mFence);\n"
            "    while (result == vk::Result::eNotReady &&\n"
            "           std::chrono::steady_clock::now() < pollUntil) {\n"
            "        result = this->mDevice->getFenceStatus(this->mFence);\n"
            "    }\n"
            "    if (result == vk::Result::eNotReady) {\n"
            "        result =\n"
            "          this->mDevice->waitForFences(1, &this->mFence, VK_TRUE, waitFor);\n"
            "    }\n"
            "    if (result != vk::Result::eTimeout) {\n"
            "        this->mIsRunning = false;\n"
            '        checkResult(result, "waiting for a fence");\n'
            "    }\n",
        ),
        Replacement(
            "src/include/kompute/Sequence.hpp",
            "    std::shared_ptr<vk::PhysicalDevice> mPhysicalDevice = nullptr;\n",
            "    std::shared_ptr<vk::PhysicalDevice> mPhysicalDevice = nullptr;\n"
            "    std::chrono::microseconds mPollTime{ 50 };\n",
        ),
        Replacement("src/include/kompute/Sequence.hpp", "#pragma once\n", "#pragma once\n\n#include <chrono>\n"),
        Replacement(
            "src/Sequence.cpp",
            "    if (this->mFreeCommandBuffer) {\n",
            "    if (this->mFence) {\n"
            "        if (this->mIsRunning) {\n"
            "            (void)this->mDevice->waitForFences(\n"
            "              1, &this->mFence, VK_TRUE, UINT64_MAX);\n"
            "            this->mIsRunning = false;\n"
            "        }\n"
            "        this->mDevice->destroy(\n"
            "          this->mFence,\n"
            "          (vk::Optional<const vk::AllocationCallbacks>)nullptr);\n"
            "        this->mFence = nullptr;\n"
            "    }\n"
            "\n"
            "    if (this->mFreeCommandBuffer) {\n",
        ),
    ),
)
_ASYNC = Change(
    "submits asynchronously from Python, and lets other threads run",
    "`eval_async()` without an argument was bound to the blocking `eval()`. The interpreter's lock is released while "
    "the device works. Safe because the Python package is built without Kompute's log, whose sink is Python's.",
    (
        Replacement(
            "python/src/main.cpp",
            "        [](kp::Sequence& self) { return self.eval(); },\n        DOC(kp, Sequence, eval))\n",
            "        [](kp::Sequence& self) { return self.eval(); },\n"
            "        py::call_guard<py::gil_scoped_release>(),\n"
            "        DOC(kp, Sequence, eval))\n",
        ),
        Replacement(
            "python/src/main.cpp",
            "        [](kp::Sequence& self) { return self.eval(); },\n        DOC(kp, Sequence, evalAwait))\n",
            "        [](kp::Sequence& self) { return self.evalAsync(); },\n        DOC(kp, Sequence, evalAsync))\n",
        ),
        Replacement(
            "python/src/main.cpp",
            "        [](kp::Sequence& self) { return self.evalAwait(); },\n",
            "        [](kp::Sequence& self) { return self.evalAwait(); },\n"
            "        py::call_guard<py::gil_scoped_release>(),\n",
        ),
        Replacement(
            "python/src/main.cpp",
            "        [](kp::Sequence& self, uint32_t wait) { return self.evalAwait(wait); },\n",
            "        [](kp::Sequence& self, uint64_t wait) { return self.evalAwait(wait); },\n"
            "        py::call_guard<py::gil_scoped_release>(),\n",
        ),
    ),
)
_BARRIER = Change(
    "has OpMemoryBarrier in Python",
    "The C++ class was not bound. `OpMemoryBarrier(tensors)` makes later dispatches wait for the earlier ones, and see "
    "what they wrote to the tensors: 3 µs for a dependent dispatch on an NVIDIA H200, against 8 µs by way of a copy. "
    "`OpMemoryBarrier(tensors, True)` makes what dispatches wrote visible to the host, for tensors in host memory; "
    "with `of_transfers=True` dispatches wait for copies. One barrier for all memory takes the place of one a tensor.",
    (
        Replacement(
            "python/src/main.cpp",
            "    py::class_<kp::OpAlgoDispatch,\n               kp::OpBase,\n",
            "    py::class_<kp::OpMemoryBarrier,\n"
            "               kp::OpBase,\n"
            '               std::shared_ptr<kp::OpMemoryBarrier>>(m, "OpMemoryBarrier")\n'
            "      .def(py::init([](const std::vector<std::shared_ptr<kp::Tensor>>& tensors,\n"
            "                       bool to_host,\n"
            "                       bool of_transfers) {\n"
            "               return std::make_shared<kp::OpMemoryBarrier>(\n"
            "                 tensors,\n"
            "                 of_transfers ? vk::AccessFlagBits::eTransferWrite\n"
            "                              : vk::AccessFlagBits::eShaderWrite,\n"
            "                 to_host ? vk::AccessFlagBits::eHostRead\n"
            "                         : vk::AccessFlagBits(VK_ACCESS_SHADER_READ_BIT |\n"
            "                                              VK_ACCESS_SHADER_WRITE_BIT),\n"
            "                 of_transfers ? vk::PipelineStageFlagBits::eTransfer\n"
            "                              : vk::PipelineStageFlagBits::eComputeShader,\n"
            "                 to_host ? vk::PipelineStageFlagBits::eHost\n"
            "                         : vk::PipelineStageFlagBits::eComputeShader);\n"
            "           }),\n"
            '           py::arg("tensors"),\n'
            '           py::arg("to_host") = false,\n'
            '           py::arg("of_transfers") = false);\n'
            "\n"
            "    py::class_<kp::OpAlgoDispatch,\n               kp::OpBase,\n",
        ),
        Replacement(
            "src/OpMemoryBarrier.cpp",
            "        for (const std::shared_ptr<Tensor>& tensor : this->mTensors) {\n"
            "            tensor->recordPrimaryBufferMemoryBarrier(commandBuffer,\n"
            "                                                     this->mSrcAccessMask,\n"
            "                                                     this->mDstAccessMask,\n"
            "                                                     this->mSrcStageMask,\n"
            "                                                     this->mDstStageMask);\n"
            "        }\n",
            "        if (!this->mTensors.empty()) {\n"
            "            commandBuffer.pipelineBarrier(\n"
            "              this->mSrcStageMask,\n"
            "              this->mDstStageMask,\n"
            "              vk::DependencyFlags(),\n"
            "              vk::MemoryBarrier(this->mSrcAccessMask, this->mDstAccessMask),\n"
            "              nullptr,\n"
            "              nullptr);\n"
            "        }\n",
        ),
    ),
)
_CACHED = Change(
    "reads results from cached memory",
    "Staging memory was the first host-visible type, which on discrete GPUs is not cached: an NVIDIA H200's results "
    "were read at 3 GB/s, from the cached type at 13 GB/s. A cached type is taken where there is one.",
    (
        Replacement(
            "src/Tensor.cpp",
            "    uint32_t memoryTypeIndex = -1;\n",
            "    if (memoryPropertyFlags & vk::MemoryPropertyFlagBits::eHostVisible) {\n"
            "        const vk::MemoryPropertyFlags cachedFlags =\n"
            "          memoryPropertyFlags | vk::MemoryPropertyFlagBits::eHostCached;\n"
            "        for (uint32_t i = 0; i < memoryProperties.memoryTypeCount; i++) {\n"
            "            if ((memoryRequirements.memoryTypeBits & (1 << i)) &&\n"
            "                (memoryProperties.memoryTypes[i].propertyFlags & cachedFlags) ==\n"
            "                  cachedFlags) {\n"
            "                memoryPropertyFlags = cachedFlags;\n"
            "                break;\n"
            "            }\n"
            "        }\n"
            "    }\n"
            "\n"
            "    uint32_t memoryTypeIndex = -1;\n",
        ),
    ),
)
_RESULTS = Change(
    "raises when Vulkan fails",
    "Results of Vulkan calls were thrown away: without memory the process crashed later. Each failed call raises, and "
    "a Tensor that could not be made frees what it had got.",
    (
        Replacement(
            "src/include/kompute/Core.hpp",
            "#include <vulkan/vulkan.hpp>\n",
            "#include <vulkan/vulkan.hpp>\n"
            "\n"
            "#include <stdexcept>\n"
            "#include <string>\n"
            "\n"
            "namespace kp {\n"
            "inline void\n"
            "checkResult(vk::Result result, const char* call)\n"
            "{\n"
            "    if (result != vk::Result::eSuccess) {\n"
            '        throw std::runtime_error(std::string("Kompute: ") + call + ": " +\n'
            "                                 vk::to_string(result));\n"
            "    }\n"
            "}\n"
            "}\n",
        ),
        _checked(
            "src/Tensor.cpp", "this->mDevice->createBuffer(&bufferInfo, nullptr, buffer.get());", "vkCreateBuffer"
        ),
        _checked(
            "src/Tensor.cpp",
            "this->mDevice->allocateMemory(&memoryAllocateInfo, nullptr, memory.get());",
            "vkAllocateMemory",
        ),
        Replacement(
            "src/Sequence.cpp",
            "    this->mComputeQueue->submit(1, &submitInfo, this->mFence);\n",
            "    const vk::Result submitted =\n"
            "      this->mComputeQueue->submit(1, &submitInfo, this->mFence);\n"
            "    if (submitted != vk::Result::eSuccess) {\n"
            "        this->mIsRunning = false;\n"
            '        checkResult(submitted, "vkQueueSubmit");\n'
            "    }\n",
        ),
        _checked(
            "src/Sequence.cpp",
            "this->mDevice->createCommandPool(\n      &commandPoolInfo, nullptr, this->mCommandPool.get());",
            "vkCreateCommandPool",
        ),
        _checked(
            "src/Sequence.cpp",
            "this->mDevice->allocateCommandBuffers(&commandBufferAllocateInfo,\n"
            "                                          this->mCommandBuffer.get());",
            "vkAllocateCommandBuffers",
        ),
        _checked(
            "src/Manager.cpp",
            "vk::createInstance(\n      &computeInstanceCreateInfo, nullptr, this->mInstance.get());",
            "vkCreateInstance",
        ),
        _checked(
            "src/Manager.cpp",
            "physicalDevice.createDevice(\n      &deviceCreateInfo, nullptr, this->mDevice.get());",
            "vkCreateDevice",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->createDescriptorPool(\n      &descriptorPoolInfo, nullptr, this->mDescriptorPool.get());",
            "vkCreateDescriptorPool",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->createDescriptorSetLayout(\n"
            "      &descriptorSetLayoutInfo, nullptr, this->mDescriptorSetLayout.get());",
            "vkCreateDescriptorSetLayout",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->allocateDescriptorSets(&descriptorSetAllocateInfo,\n"
            "                                          this->mDescriptorSet.get());",
            "vkAllocateDescriptorSets",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->createShaderModule(\n      &shaderModuleInfo, nullptr, this->mShaderModule.get());",
            "vkCreateShaderModule",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->createPipelineLayout(\n      &pipelineLayoutInfo, nullptr, this->mPipelineLayout.get());",
            "vkCreatePipelineLayout",
        ),
        _checked(
            "src/Algorithm.cpp",
            "this->mDevice->createPipelineCache(\n      &pipelineCacheInfo, nullptr, this->mPipelineCache.get());",
            "vkCreatePipelineCache",
        ),
        Replacement(
            "src/Tensor.cpp",
            "    this->allocateMemoryCreateGPUResources();\n\n"
            "    if (this->tensorType() != Tensor::TensorTypes::eStorage) {\n"
            "        this->mapRawData();\n",
            "    try {\n"
            "        this->allocateMemoryCreateGPUResources();\n"
            "        if (this->tensorType() != Tensor::TensorTypes::eStorage) {\n"
            "            this->mapRawData();\n"
            "        }\n"
            "    } catch (...) {\n"
            "        this->destroy();\n"
            "        throw;\n"
            "    }\n"
            "\n"
            "    if (this->tensorType() != Tensor::TensorTypes::eStorage) {\n",
        ),
        Replacement(
            "src/Tensor.cpp",
            "    // Setting raw data to null regardless whether device is available to\n",
            "    const bool isMapped = this->mRawData != nullptr;\n\n"
            "    // Setting raw data to null regardless whether device is available to\n",
        ),
        Replacement(
            "src/Tensor.cpp",
            "    // Unmap the current memory data\n    if (this->tensorType() != Tensor::TensorTypes::eStorage) {\n",
            "    // Unmap the current memory data\n    if (isMapped) {\n",
        ),
    ),
)
_TIMESTAMPS = Change(
    "resets its timestamps",
    "The query pool of a Sequence was never reset, which Vulkan demands before each use of a query.",
    (
        Replacement(
            "src/Sequence.cpp",
            "    // latch the first timestamp before any commands are submitted\n    if (this->timestampQueryPool)\n",
            "    // latch the first timestamp before any commands are submitted\n"
            "    if (this->timestampQueryPool)\n"
            "        this->mCommandBuffer->resetQueryPool(\n"
            "          *this->timestampQueryPool, 0, this->mTimestampCount);\n"
            "    if (this->timestampQueryPool)\n",
        ),
        Replacement(
            "src/Sequence.cpp",
            "        queryPoolInfo.setQueryCount(totalTimestamps);\n",
            "        queryPoolInfo.setQueryCount(totalTimestamps);\n        this->mTimestampCount = totalTimestamps;\n",
        ),
        Replacement(
            "src/include/kompute/Sequence.hpp",
            "    vk::Fence mFence;\n",
            "    vk::Fence mFence;\n    uint32_t mTimestampCount = 0;\n",
        ),
    ),
)

_SHARED = Change(
    "shares pipelines between algorithms",
    "An Algorithm is a pipeline and the tensors that it works on in one: the same shader on other tensors was compiled "
    "anew, for 10 to 260 ms where the device is a processor (llvmpipe). `manager.algorithm_like(algorithm, tensors, "
    "workgroup)` makes one that takes 0.1 ms and shares pipeline, layouts and shader module; the last of them frees "
    "these. Constants are freed with their Algorithm, which nothing did; `manager.clear()`, which was not bound, lets "
    "a Manager forget what is gone.",
    (
        Replacement(
            "src/include/kompute/Algorithm.hpp",
            "    /**\n     *  Rebuild function to reconstruct",
            "    /**\n"
            "     *  An algorithm with the pipeline of another one, on other tensors.\n"
            "     *\n"
            "     *  @param other The algorithm whose pipeline is used\n"
            "     *  @param tensors The tensors, as many as the other one has\n"
            "     *  @param workgroup The kp::Workgroup to use for the dispatch\n"
            "     */\n"
            "    Algorithm(const Algorithm& other,\n"
            "              const std::vector<std::shared_ptr<Tensor>>& tensors,\n"
            "              const Workgroup& workgroup);\n"
            "\n"
            "    /**\n     *  Rebuild function to reconstruct",
        ),
        Replacement(
            "src/Algorithm.cpp",
            "Algorithm::~Algorithm()\n{\n"
            '    KP_LOG_DEBUG("Kompute Algorithm Destructor started");\n\n'
            "    this->destroy();\n",
            "Algorithm::Algorithm(const Algorithm& other,\n"
            "                     const std::vector<std::shared_ptr<Tensor>>& tensors,\n"
            "                     const Workgroup& workgroup)\n"
            "{\n"
            "    if (!other.mPipeline) {\n"
            '        throw std::runtime_error("Kompute: the algorithm was destroyed");\n'
            "    }\n"
            "    if (tensors.size() != other.mTensors.size()) {\n"
            '        throw std::runtime_error("Kompute: not as many tensors as the pipeline has");\n'
            "    }\n"
            "    this->mDevice = other.mDevice;\n"
            "    this->mTensors = tensors;\n"
            "    this->mDescriptorSetLayout = other.mDescriptorSetLayout;\n"
            "    this->mFreeDescriptorSetLayout = true;\n"
            "    this->mShaderModule = other.mShaderModule;\n"
            "    this->mFreeShaderModule = true;\n"
            "    this->mPipelineLayout = other.mPipelineLayout;\n"
            "    this->mFreePipelineLayout = true;\n"
            "    this->mPipelineCache = other.mPipelineCache;\n"
            "    this->mFreePipelineCache = true;\n"
            "    this->mPipeline = other.mPipeline;\n"
            "    this->mFreePipeline = true;\n"
            "    if (other.mPushConstantsData) {\n"
            "        this->mPushConstantsDataTypeMemorySize =\n"
            "          other.mPushConstantsDataTypeMemorySize;\n"
            "        this->mPushConstantsSize = other.mPushConstantsSize;\n"
            "        const size_t totalSize =\n"
            "          this->mPushConstantsDataTypeMemorySize * this->mPushConstantsSize;\n"
            "        this->mPushConstantsData = malloc(totalSize);\n"
            "        memcpy(this->mPushConstantsData, other.mPushConstantsData, totalSize);\n"
            "    }\n"
            "    this->setWorkgroup(workgroup, tensors.size() ? tensors[0]->size() : 1);\n"
            "    this->createParameters();\n"
            "}\n"
            "\n"
            "Algorithm::~Algorithm()\n{\n"
            '    KP_LOG_DEBUG("Kompute Algorithm Destructor started");\n\n'
            "    this->destroy();\n"
            "    free(this->mPushConstantsData);\n"
            "    free(this->mSpecializationConstantsData);\n",
        ),
        Replacement(
            "src/Algorithm.cpp",
            "    if (this->mFreePipeline && this->mPipeline) {\n",
            "    // What other algorithms share is freed by the last of them\n"
            "    if (this->mPipeline && this->mPipeline.use_count() > 1) {\n"
            "        this->mPipeline = nullptr;\n"
            "        this->mPipelineCache = nullptr;\n"
            "        this->mPipelineLayout = nullptr;\n"
            "        this->mShaderModule = nullptr;\n"
            "        this->mDescriptorSetLayout = nullptr;\n"
            "    }\n"
            "\n"
            "    if (this->mFreePipeline && this->mPipeline) {\n",
        ),
        Replacement(
            "src/Algorithm.cpp",
            "    // This is the component that is fed into the pipeline\n",
            "    if (!this->mDescriptorSetLayout) { // else it is another algorithm's, too\n"
            "    // This is the component that is fed into the pipeline\n",
        ),
        Replacement(
            "src/Algorithm.cpp",
            "    this->mFreeDescriptorSetLayout = true;\n\n    vk::DescriptorSetAllocateInfo",
            "    this->mFreeDescriptorSetLayout = true;\n    }\n\n    vk::DescriptorSetAllocateInfo",
        ),
        Replacement(
            "src/include/kompute/Manager.hpp",
            "    /**\n     * Destroy the GPU resources and all managed resources by manager.\n",
            "    /**\n"
            "     * Create a managed algorithm that shares the pipeline of another one.\n"
            "     *\n"
            "     * @param other The algorithm whose pipeline is used\n"
            "     * @param tensors The tensors, as many as the other one has\n"
            "     * @param workgroup The kp::Workgroup to use for the dispatch\n"
            "     * @returns Shared pointer with initialised algorithm\n"
            "     */\n"
            "    std::shared_ptr<Algorithm> algorithmLike(\n"
            "      const std::shared_ptr<Algorithm>& other,\n"
            "      const std::vector<std::shared_ptr<Tensor>>& tensors,\n"
            "      const Workgroup& workgroup)\n"
            "    {\n"
            "        std::shared_ptr<Algorithm> algorithm{ new kp::Algorithm(\n"
            "          *other, tensors, workgroup) };\n"
            "        if (this->mManageResources) {\n"
            "            this->mManagedAlgorithms.push_back(algorithm);\n"
            "        }\n"
            "        return algorithm;\n"
            "    }\n"
            "\n"
            "    /**\n     * Destroy the GPU resources and all managed resources by manager.\n",
        ),
        Replacement(
            "python/src/main.cpp",
            '      .def(\n        "algorithm",\n        [](kp::Manager& self,\n',
            '      .def("algorithm_like",\n'
            "           &kp::Manager::algorithmLike,\n"
            '           py::arg("other"),\n'
            '           py::arg("tensors"),\n'
            '           py::arg("workgroup"))\n'
            '      .def("clear", &kp::Manager::clear)\n'
            '      .def(\n        "algorithm",\n        [](kp::Manager& self,\n',
        ),
    ),
)

CHANGES = (
    _BUILD,
    _NUMPY,
    _VERSION,
    _RESULTS,
    _FENCE,
    _ASYNC,
    _BARRIER,
    BESIDE,
    _CACHED,
    _TIMESTAMPS,
    _SHARED,
    TOGETHER,
    FEATURES,
    PORTABILITY,
)
"""All changes, in the order in which they are made."""

REPAIRS = (_BUILD,)
"""What even the otherwise unchanged package needs to build."""

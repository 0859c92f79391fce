// Kompute with dmlvk's changes as one library with functions in C, which dmlvk/runtime/bundled.py calls by ctypes: one for
// each system, whatever Python is there. Vulkan's functions come from the loader that Python has opened.
//
// What is handed out is a pointer to a std::shared_ptr, which dmlvk_free_… deletes. A function that fails returns no
// pointer, or not 0; dmlvk_error() then says why, to the thread that called.

#include <cstring>
#include <new>

#define VK_NO_PROTOTYPES
#define VULKAN_HPP_DISPATCH_LOADER_DYNAMIC 1
#define VULKAN_HPP_ENABLE_DYNAMIC_LOADER_TOOL 0

#include "Algorithm.cpp"
#include "Core.cpp"
#include "Manager.cpp"
#include "OpAlgoDispatch.cpp"
#include "OpMemoryBarrier.cpp"
#include "OpTensorSyncDevice.cpp"
#include "OpTensorSyncLocal.cpp"
#include "Sequence.cpp"
#include "Tensor.cpp"

VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

#ifdef _WIN32
#define EXPORT extern "C" __declspec(dllexport)
#else
#define EXPORT extern "C" __attribute__((visibility("default")))
#endif

using Algorithm = std::shared_ptr<kp::Algorithm>;
using Manager = std::shared_ptr<kp::Manager>;
using Operation = std::shared_ptr<kp::OpBase>;
using Sequence = std::shared_ptr<kp::Sequence>;
using Tensor = std::shared_ptr<kp::Tensor>;
using Words = std::vector<uint32_t>;

namespace {

enum Kind : int { NONE = 0, RUNTIME = 1, MEMORY = 2 };

thread_local std::string message;
thread_local Kind kind = NONE;

template<typename Function>
auto guarded(const Function& function) -> decltype(function()) {
    try {
        return function();
    } catch (const std::bad_alloc& error) {
        message = error.what();
        kind = MEMORY;
    } catch (const std::exception& error) {
        message = error.what();
        kind = RUNTIME;
    } catch (...) {
        message = "an unknown error of Kompute's";
        kind = RUNTIME;
    }
    return {};
}

// 0 where the function returns, 1 where it throws.
template<typename Function>
int status(const Function& function) {
    return guarded([&] {
        function();
        return true;
    }) ? 0 : 1;
}

template<typename Value>
std::shared_ptr<Value>* handed_out(std::shared_ptr<Value> value) {
    return new std::shared_ptr<Value>(std::move(value));
}

std::vector<Tensor> list(Tensor* const* tensors, uint32_t count) {
    std::vector<Tensor> made;
    made.reserve(count);
    for (uint32_t i = 0; i < count; ++i) made.push_back(*tensors[i]);
    return made;
}

Words words(const void* bytes, size_t size) {
    Words made(size / sizeof(uint32_t));
    if (!made.empty()) std::memcpy(made.data(), bytes, made.size() * sizeof(uint32_t));
    return made;
}

// From the beginning of one tensor's memory to a place in another one's, which no staging buffer is needed for.
class PartCopy : public kp::OpBase {
  public:
    PartCopy(Tensor from, Tensor to, vk::DeviceSize offset, vk::DeviceSize size)
      : from(std::move(from)), to(std::move(to)), region(0, offset, size) {}
    void record(const vk::CommandBuffer& commands) override {
        commands.copyBuffer(from->constructDescriptorBufferInfo().buffer, to->constructDescriptorBufferInfo().buffer,
                            region);
    }
    void preEval(const vk::CommandBuffer&) override {}
    void postEval(const vk::CommandBuffer&) override {}

  private:
    Tensor from, to;
    vk::BufferCopy region;
};

}  // namespace

// VERSION of dmlvk/runtime/bundled.py: one more with each change of a function.
EXPORT int dmlvk_version() { return 1; }

EXPORT const char* dmlvk_error(int* what) {
    *what = kind;
    return message.c_str();
}

EXPORT int dmlvk_open(void* get_instance_proc_addr) {
    return status([&] {
        VULKAN_HPP_DEFAULT_DISPATCHER.init(reinterpret_cast<PFN_vkGetInstanceProcAddr>(get_instance_proc_addr));
    });
}

EXPORT void dmlvk_free_manager(Manager* self) { delete self; }
EXPORT void dmlvk_free_tensor(Tensor* self) { delete self; }
EXPORT void dmlvk_free_algorithm(Algorithm* self) { delete self; }
EXPORT void dmlvk_free_operation(Operation* self) { delete self; }
EXPORT void dmlvk_free_sequence(Sequence* self) { delete self; }

EXPORT Manager* dmlvk_manager(uint32_t device, const uint32_t* families, uint32_t family_count,
                              const char* const* extensions, uint32_t extension_count) {
    return guarded([&] {
        return handed_out(std::make_shared<kp::Manager>(device, Words(families, families + family_count),
                                                        std::vector<std::string>(extensions, extensions + extension_count)));
    });
}

EXPORT int dmlvk_manager_destroy(Manager* self) {
    return status([&] { (*self)->destroy(); });
}

EXPORT int dmlvk_manager_clear(Manager* self) {
    return status([&] { (*self)->clear(); });
}

// The name of a device in Kompute's list; nullptr behind the last one.
EXPORT const char* dmlvk_device_name(Manager* self, uint32_t index) {
    thread_local std::string name;
    return guarded([&]() -> const char* {
        const std::vector<vk::PhysicalDevice> devices = (*self)->listDevices();
        if (index >= devices.size()) return nullptr;
        name = devices[index].getProperties().deviceName.data();
        return name.c_str();
    });
}

EXPORT Sequence* dmlvk_sequence(Manager* self, uint32_t queue, uint32_t timestamps) {
    return guarded([&] { return handed_out((*self)->sequence(queue, timestamps)); });
}

// data: nullptr for memory without a staging buffer, which has no contents yet.
EXPORT Tensor* dmlvk_tensor(Manager* self, void* data, uint32_t count, int type) {
    return guarded([&] {
        return handed_out((*self)->tensor(data, count, sizeof(uint32_t), kp::Tensor::TensorDataTypes::eUnsignedInt,
                                          static_cast<kp::Tensor::TensorTypes>(type)));
    });
}

EXPORT int dmlvk_tensor_destroy(Tensor* self) {
    return status([&] { (*self)->destroy(); });
}

EXPORT int dmlvk_tensor_is_init(Tensor* self) { return (*self)->isInit() ? 1 : 0; }

EXPORT int dmlvk_tensor_create_staging(Tensor* self) {
    return status([&] { (*self)->createStaging(); });
}

EXPORT int dmlvk_tensor_destroy_staging(Tensor* self) {
    return status([&] { (*self)->destroyStaging(); });
}

EXPORT void* dmlvk_tensor_data(Tensor* self) {
    return guarded([&]() -> void* { return (*self)->rawData(); });
}

EXPORT uint32_t dmlvk_tensor_size(Tensor* self) { return (*self)->size(); }

EXPORT Algorithm* dmlvk_algorithm(Manager* self, Tensor* const* tensors, uint32_t count, const void* spirv,
                                  size_t spirv_size, const uint32_t* groups, const void* constants,
                                  size_t constants_size, const void* push, size_t push_size) {
    return guarded([&] {
        return handed_out((*self)->algorithm<uint32_t, uint32_t>(list(tensors, count), words(spirv, spirv_size),
                                                                 { groups[0], groups[1], groups[2] },
                                                                 words(constants, constants_size),
                                                                 words(push, push_size)));
    });
}

// Several at a time. Of each the numbers of tensors, bytes of SPIR-V, constants and push constants are counts[4 * i] and
// on; their contents lie behind one another.
EXPORT int dmlvk_algorithms(Manager* self, uint32_t number, const size_t* counts, Tensor* const* tensors,
                            const void* const* spirv, const uint32_t* groups, const uint32_t* constants,
                            const uint32_t* push, Algorithm** made) {
    return status([&] {
        std::vector<std::vector<Tensor>> bound;
        std::vector<Words> modules, specialization, pushed;
        std::vector<kp::Workgroup> sizes;
        for (uint32_t i = 0; i < number; ++i, counts += 4, groups += 3) {
            bound.push_back(list(tensors, static_cast<uint32_t>(counts[0])));
            modules.push_back(words(spirv[i], counts[1]));
            specialization.push_back(Words(constants, constants + counts[2]));
            pushed.push_back(Words(push, push + counts[3]));
            sizes.push_back({ groups[0], groups[1], groups[2] });
            tensors += counts[0];
            constants += counts[2];
            push += counts[3];
        }
        for (const Algorithm& each : (*self)->algorithms(bound, modules, sizes, specialization, pushed))
            *made++ = handed_out(each);
    });
}

EXPORT Algorithm* dmlvk_algorithm_like(Manager* self, Algorithm* other, Tensor* const* tensors, uint32_t count,
                                       uint32_t x, uint32_t y, uint32_t z) {
    return guarded([&] { return handed_out((*self)->algorithmLike(*other, list(tensors, count), { x, y, z })); });
}

EXPORT int dmlvk_algorithm_destroy(Algorithm* self) {
    return status([&] { (*self)->destroy(); });
}

EXPORT Operation* dmlvk_upload(Tensor* const* tensors, uint32_t count) {
    return guarded([&] { return new Operation(std::make_shared<kp::OpTensorSyncDevice>(list(tensors, count))); });
}

EXPORT Operation* dmlvk_download(Tensor* const* tensors, uint32_t count) {
    return guarded([&] { return new Operation(std::make_shared<kp::OpTensorSyncLocal>(list(tensors, count))); });
}

EXPORT Operation* dmlvk_copy(Tensor* from, Tensor* to, uint64_t offset, uint64_t size) {
    return guarded([&] { return new Operation(std::make_shared<PartCopy>(*from, *to, offset, size)); });
}

EXPORT Operation* dmlvk_barrier(Tensor* const* tensors, uint32_t count, int to_host, int of_transfers) {
    using Access = vk::AccessFlagBits;
    using Stage = vk::PipelineStageFlagBits;
    return guarded([&] {
        return new Operation(std::make_shared<kp::OpMemoryBarrier>(
            list(tensors, count), of_transfers ? Access::eTransferWrite : Access::eShaderWrite,
            to_host ? Access::eHostRead : Access(VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT),
            of_transfers ? Stage::eTransfer : Stage::eComputeShader, to_host ? Stage::eHost : Stage::eComputeShader));
    });
}

EXPORT Operation* dmlvk_dispatch(Algorithm* algorithm, const void* push, size_t push_size, int follows_transfers) {
    return guarded([&] {
        auto made = std::make_shared<kp::OpAlgoDispatch>(*algorithm, words(push, push_size));
        made->mFollowsTransfers = follows_transfers != 0;
        return new Operation(std::move(made));
    });
}

EXPORT int dmlvk_record(Sequence* self, Operation* operation) {
    return status([&] { (*self)->record(*operation); });
}

EXPORT int dmlvk_eval(Sequence* self) {
    return status([&] { (*self)->eval(); });
}

EXPORT int dmlvk_eval_async(Sequence* self) {
    return status([&] { (*self)->evalAsync(); });
}

EXPORT int dmlvk_eval_await(Sequence* self, uint64_t nanoseconds) {
    return status([&] { (*self)->evalAwait(nanoseconds); });
}

EXPORT int dmlvk_is_running(Sequence* self) { return (*self)->isRunning() ? 1 : 0; }

// How many timestamps there are; as many as fit are written.
EXPORT int dmlvk_timestamps(Sequence* self, uint64_t* ticks, uint32_t* count) {
    return status([&] {
        const std::vector<uint64_t> found = (*self)->getTimestamps();
        const size_t most = *count < found.size() ? *count : found.size();
        if (most > 0) std::memcpy(ticks, found.data(), most * sizeof(uint64_t));
        *count = static_cast<uint32_t>(found.size());
    });
}

EXPORT int dmlvk_sequence_destroy(Sequence* self) {
    return status([&] { (*self)->destroy(); });
}

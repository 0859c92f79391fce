/* What dmlvk's execution provider needs of ONNX Runtime's binary interface.
 *
 * Written for version 24 of the interface (ONNX Runtime 1.24), which is the least that it works with: its tables of
 * functions only ever grow at their end, so newer versions have the same functions at the same places. What version 25
 * has for profiling is used where it is there. No package of
 * the registries carries ONNX Runtime's headers; names, places and arguments follow its public documentation
 * (https://onnxruntime.ai/docs/api/c/, OrtApi, OrtEpApi, OrtEp, OrtEpFactory and the structures beside them), and
 * tests/onnxruntime calls each of them in the versions that are installed.
 *
 * This file alone knows places. dmlvk/onnxruntime/interface.py asks for functions by name.
 */
#ifndef DMLVK_ONNXRUNTIME_ABI_H
#define DMLVK_ONNXRUNTIME_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DMLVK_ABI_VERSION 24

/* The version that has profilers of providers: what below is said to be since 25 is not touched before. */
#define DMLVK_ABI_PROFILING_VERSION 25

#if defined(_WIN32)
#define DMLVK_CALL __stdcall
#else
#define DMLVK_CALL
#endif

/* Things of ONNX Runtime's that are only ever pointed to. */
typedef void Status;
typedef void Opaque;

/* OrtApi: name, place. */
#define DMLVK_API_FUNCTIONS(_)                        \
    _(CreateStatus, 0)                                \
    _(GetErrorMessage, 2)                             \
    _(GetTensorMutableData, 51)                       \
    _(GetStringTensorDataLength, 53)                  \
    _(CastTypeInfoToTensorInfo, 55)                   \
    _(GetTensorElementType, 60)                       \
    _(GetDimensionsCount, 61)                         \
    _(GetDimensions, 62)                              \
    _(GetSymbolicDimensions, 63)                      \
    _(GetTensorTypeAndShape, 65)                      \
    _(KernelContext_GetInputCount, 88)                \
    _(KernelContext_GetInput, 90)                     \
    _(KernelContext_GetOutput, 91)                    \
    _(ReleaseStatus, 93)                              \
    _(ReleaseMemoryInfo, 94)                          \
    _(ReleaseValue, 96)                               \
    _(ReleaseTensorTypeAndShapeInfo, 99)              \
    _(Logger_LogMessage, 247)                         \
    _(Logger_GetLoggingSeverityLevel, 248)            \
    _(ReadOpAttr, 272)                                \
    _(GetValueInfoName, 289)                          \
    _(GetValueInfoTypeInfo, 290)                      \
    _(CreateKeyValuePairs, 295)                       \
    _(AddKeyValuePair, 296)                           \
    _(GetKeyValuePairs, 298)                          \
    _(ReleaseKeyValuePairs, 300)                      \
    _(HardwareDevice_Type, 307)                       \
    _(HardwareDevice_VendorId, 308)                   \
    _(HardwareDevice_DeviceId, 310)                   \
    _(GetEpApi, 317)                                  \
    _(GetTensorSizeInBytes, 318)                      \
    _(CreateMemoryInfo_V2, 320)                       \
    _(ValueInfo_GetInitializerValue, 326)             \
    _(ValueInfo_GetExternalInitializerInfo, 327)      \
    _(ValueInfo_IsConstantInitializer, 331)           \
    _(Graph_GetName, 333)                             \
    _(Graph_GetModelPath, 334)                        \
    _(Graph_GetOnnxIRVersion, 335)                    \
    _(Graph_GetNumOperatorSets, 336)                  \
    _(Graph_GetOperatorSets, 337)                     \
    _(Graph_GetNumInputs, 338)                        \
    _(Graph_GetInputs, 339)                           \
    _(Graph_GetNumOutputs, 340)                       \
    _(Graph_GetOutputs, 341)                          \
    _(Graph_GetNumInitializers, 342)                  \
    _(Graph_GetInitializers, 343)                     \
    _(Graph_GetNumNodes, 344)                         \
    _(Graph_GetNodes, 345)                            \
    _(Graph_GetParentNode, 346)                       \
    _(Node_GetName, 349)                              \
    _(Node_GetOperatorType, 350)                      \
    _(Node_GetDomain, 351)                            \
    _(Node_GetSinceVersion, 352)                      \
    _(Node_GetNumInputs, 353)                         \
    _(Node_GetInputs, 354)                            \
    _(Node_GetNumOutputs, 355)                        \
    _(Node_GetOutputs, 356)                           \
    _(Node_GetNumImplicitInputs, 357)                 \
    _(Node_GetImplicitInputs, 358)                    \
    _(Node_GetNumAttributes, 359)                     \
    _(Node_GetAttributes, 360)                        \
    _(OpAttr_GetTensorAttributeAsOrtValue, 362)       \
    _(OpAttr_GetType, 363)                            \
    _(OpAttr_GetName, 364)                            \
    _(Node_GetNumSubgraphs, 365)                      \
    _(Node_GetEpName, 368)                            \
    _(ReleaseExternalInitializerInfo, 369)            \
    _(ExternalInitializerInfo_GetFilePath, 370)       \
    _(ExternalInitializerInfo_GetFileOffset, 371)     \
    _(ExternalInitializerInfo_GetByteSize, 372)       \
    _(GetTensorData, 378)                             \
    _(GetSessionOptionsConfigEntries, 379)            \
    _(TensorTypeAndShape_HasShape, 390)

/* OrtEpApi: name, place. */
#define DMLVK_EP_FUNCTIONS(_)                         \
    _(CreateEpDevice, 0)                              \
    _(ReleaseEpDevice, 1)                             \
    _(EpGraphSupportInfo_AddNodesToFuse, 2)           \
    _(EpDevice_AddAllocatorInfo, 5)                   \
    _(MemoryInfo_GetMemoryDevice, 6)                  \
    _(Value_GetMemoryDevice, 7)                       \
    _(MemoryDevice_GetDeviceType, 9)                  \
    _(MemoryDevice_GetVendorId, 11)                   \
    _(MemoryDevice_GetDeviceId, 12)                   \
    _(CreateHardwareDevice, 16)                       \
    _(ReleaseHardwareDevice, 17)                      \
    _(CreateProfilingEvent, 65)              /* since 25 */ \
    _(ReleaseProfilingEvent, 66)             /* since 25 */ \
    _(ProfilingEventsContainer_AddEvents, 72) /* since 25 */

/* OrtApiBase, which never changes. */
typedef struct {
    const void *(DMLVK_CALL *GetApi)(uint32_t version);
    const char *(DMLVK_CALL *GetVersionString)(void);
} ApiBase;

/* OrtErrorCode */
enum { DMLVK_ORT_FAIL = 1, DMLVK_ORT_EP_FAIL = 11 };

/* OrtCompiledModelCompatibility */
enum { DMLVK_COMPILED_MODEL_NOT_APPLICABLE = 0 };

/* OrtMemoryInfoDeviceType */
enum { DMLVK_MEMORY_CPU = 0, DMLVK_MEMORY_GPU = 1 };

/* By which dmlvk's memory is told from that of others, where ONNX Runtime asks for a vendor: "vk". */
#define DMLVK_VENDOR_ID 0x766B

/* OrtAllocator */
typedef struct Allocator {
    uint32_t version;
    void *(DMLVK_CALL *Alloc)(struct Allocator *self, size_t size);
    void (DMLVK_CALL *Free)(struct Allocator *self, void *memory);
    const Opaque *(DMLVK_CALL *Info)(const struct Allocator *self);
    void *(DMLVK_CALL *Reserve)(struct Allocator *self, size_t size);
    Status *(DMLVK_CALL *GetStats)(const struct Allocator *self, Opaque **pairs);
    void *(DMLVK_CALL *AllocOnStream)(struct Allocator *self, size_t size, Opaque *stream);
} Allocator;

/* OrtDataTransferImpl */
typedef struct DataTransfer {
    uint32_t version;
    void (DMLVK_CALL *Release)(struct DataTransfer *self);
    bool (DMLVK_CALL *CanCopy)(const struct DataTransfer *self, const Opaque *from, const Opaque *to);
    Status *(DMLVK_CALL *CopyTensors)(
        struct DataTransfer *self, const Opaque **from, Opaque **to, Opaque **streams, size_t count);
} DataTransfer;

/* OrtNodeFusionOptions */
typedef struct {
    uint32_t version;
    bool drop_constant_initializers;
} NodeFusionOptions;

/* OrtNodeComputeInfo */
typedef struct NodeComputeInfo {
    uint32_t version;
    Status *(DMLVK_CALL *CreateState)(struct NodeComputeInfo *self, Opaque *context, void **state);
    Status *(DMLVK_CALL *Compute)(struct NodeComputeInfo *self, void *state, Opaque *context);
    void (DMLVK_CALL *ReleaseState)(struct NodeComputeInfo *self, void *state);
} NodeComputeInfo;

/* OrtEpProfilerImpl, since 25. */
typedef struct Profiler {
    uint32_t version;
    void (DMLVK_CALL *Release)(struct Profiler *self);
    Status *(DMLVK_CALL *StartProfiling)(struct Profiler *self, int64_t offset_ns);
    Status *(DMLVK_CALL *StartEvent)(struct Profiler *self, uint64_t id);
    Status *(DMLVK_CALL *StopEvent)(struct Profiler *self, uint64_t id, const Opaque *event);
    Status *(DMLVK_CALL *EndProfiling)(struct Profiler *self, Opaque *events);
} Profiler;

/* OrtEp */
typedef struct Ep {
    uint32_t version;
    const char *(DMLVK_CALL *GetName)(const struct Ep *self);
    Status *(DMLVK_CALL *GetCapability)(struct Ep *self, const Opaque *graph, Opaque *support);
    Status *(DMLVK_CALL *Compile)(
        struct Ep *self, const Opaque **graphs, const Opaque **nodes, size_t count, NodeComputeInfo **infos,
        Opaque **context_nodes);
    void (DMLVK_CALL *ReleaseNodeComputeInfos)(struct Ep *self, NodeComputeInfo **infos, size_t count);
    Status *(DMLVK_CALL *GetPreferredDataLayout)(struct Ep *self, int *layout);
    Status *(DMLVK_CALL *ShouldConvertDataLayoutForOp)(
        struct Ep *self, const char *domain, const char *operator, int layout, int *should);
    Status *(DMLVK_CALL *SetDynamicOptions)(
        struct Ep *self, const char *const *keys, const char *const *values, size_t count);
    Status *(DMLVK_CALL *OnRunStart)(struct Ep *self, const Opaque *options);
    Status *(DMLVK_CALL *OnRunEnd)(struct Ep *self, const Opaque *options, bool synchronize);
    Status *(DMLVK_CALL *CreateAllocator)(struct Ep *self, const Opaque *memory_info, Allocator **allocator);
    Status *(DMLVK_CALL *CreateSyncStreamForDevice)(struct Ep *self, const Opaque *memory_device, Opaque **stream);
    const char *(DMLVK_CALL *GetCompiledModelCompatibilityInfo)(struct Ep *self, const Opaque *graph);
    Status *(DMLVK_CALL *GetKernelRegistry)(struct Ep *self, const Opaque **registry);
    Status *(DMLVK_CALL *IsConcurrentRunSupported)(struct Ep *self, bool *is_supported);
    Status *(DMLVK_CALL *Sync)(struct Ep *self);                                  /* since 25 */
    Status *(DMLVK_CALL *CreateProfiler)(struct Ep *self, Profiler **profiler); /* since 25 */
} Ep;

/* OrtEpFactory */
typedef struct Factory {
    uint32_t version;
    const char *(DMLVK_CALL *GetName)(const struct Factory *self);
    const char *(DMLVK_CALL *GetVendor)(const struct Factory *self);
    Status *(DMLVK_CALL *GetSupportedDevices)(
        struct Factory *self, const Opaque *const *devices, size_t count, Opaque **ep_devices, size_t most,
        size_t *found);
    Status *(DMLVK_CALL *CreateEp)(
        struct Factory *self, const Opaque *const *devices, const Opaque *const *metadata, size_t count,
        const Opaque *session_options, const Opaque *logger, Ep **ep);
    void (DMLVK_CALL *ReleaseEp)(struct Factory *self, Ep *ep);
    uint32_t (DMLVK_CALL *GetVendorId)(const struct Factory *self);
    const char *(DMLVK_CALL *GetVersion)(const struct Factory *self);
    Status *(DMLVK_CALL *ValidateCompiledModelCompatibilityInfo)(
        struct Factory *self, const Opaque *const *devices, size_t count, const char *info, int *compatibility);
    Status *(DMLVK_CALL *CreateAllocator)(
        struct Factory *self, const Opaque *memory_info, const Opaque *options, Allocator **allocator);
    void (DMLVK_CALL *ReleaseAllocator)(struct Factory *self, Allocator *allocator);
    Status *(DMLVK_CALL *CreateDataTransfer)(struct Factory *self, DataTransfer **transfer);
    bool (DMLVK_CALL *IsStreamAware)(const struct Factory *self);
    Status *(DMLVK_CALL *CreateSyncStreamForDevice)(
        struct Factory *self, const Opaque *memory_device, const Opaque *options, Opaque **stream);
    Status *(DMLVK_CALL *GetHardwareDeviceIncompatibilityDetails)(
        struct Factory *self, const Opaque *device, Opaque *details);
    Status *(DMLVK_CALL *CreateExternalResourceImporterForDevice)(
        struct Factory *self, const Opaque *ep_device, Opaque **importer);
    Status *(DMLVK_CALL *GetNumCustomOpDomains)(struct Factory *self, size_t *count);
    Status *(DMLVK_CALL *GetCustomOpDomains)(struct Factory *self, Opaque **domains, size_t count);
} Factory;

#endif

/* The library that ONNX Runtime loads for dmlvk's execution provider.
 *
 * It decides nothing: what ONNX Runtime asks goes to functions of Python, which dmlvk/onnxruntime/library.py sets
 * before the library is registered. When Python ends, they are taken away (dmlvk_detach): what still arrives is
 * answered by an error, and what is released then is only forgotten.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE /* sigaction and clock_gettime beside C11 */
#endif
#include <stdio.h>
#include <string.h>

#include "python.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Registered under a name with this ending, the provider stands in for the one of that name, whose memory is of no
 * vendor: onnxruntime-genai keeps its caches on devices of providers alone that it knows by name. */
#define STAND_IN "ExecutionProvider"

#define MOST_DIMENSIONS 16
#define RECORD (4 + MOST_DIMENSIONS) /* address, element type, is on the device, number of dimensions, dimensions */

#define INDEX(name, index) API_##name = index,
enum { DMLVK_API_FUNCTIONS(INDEX) };
#undef INDEX
#define INDEX(name, index) EP_##name = index,
enum { DMLVK_EP_FUNCTIONS(INDEX) };
#undef INDEX

/* ONNX Runtime's functions, by their places. */

#define CALL(table, place, result, ...) ((result(DMLVK_CALL *)(__VA_ARGS__))(table)[place])

static Status *failure(const Function *api, const char *message) {
    return CALL(api, API_CreateStatus, Status *, int, const char *)(DMLVK_ORT_EP_FAIL, message);
}

static Status *gone(const OwnFactory *factory) {
    return failure(factory->api, "dmlvk: the Python interpreter that computes has ended, or was detached");
}

static Status *no_memory(const OwnFactory *factory) { return failure(factory->api, "dmlvk: the host has no memory left"); }

/* What Python is asked, with integers: a status, or a number; 0 where Python cannot answer any more. */

#define AT(pointer) ((int64_t)(intptr_t)(pointer))
#define WORDS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static Status *status_of(const OwnFactory *factory, Duration duration, int function, const int64_t *words, size_t count) {
    int64_t answer = 0;
    switch (ask(duration, function, &answer, words, count)) {
    case ANSWERED: return (Status *)(intptr_t)answer;
    case RAISED: return failure(factory->api, "dmlvk: was interrupted");
    default: return gone(factory);
    }
}

static int64_t number_of(int function, const int64_t *words, size_t count) {
    int64_t answer = 0;
    ask(SHORT, function, &answer, words, count);
    return answer;
}

/* Memory. A small tensor lies on the host, and goes along with each run that reads or writes it, in the same submission:
 * no other call of Python's is needed for it. Where a larger one lies, Python says: at a place that no host has. */

#define SMALL 4096
#define IS_ON_DEVICE(address) (((uint64_t)(intptr_t)(address) >> 53 & 7) != 0) /* _FIRST of memory.py; tags are above */

static void *DMLVK_CALL allocate(Allocator *self, size_t size) {
    (void)self;
    if (size <= SMALL) return calloc(1, size > 0 ? size : 1);
    return size > INT64_MAX ? NULL : (void *)(intptr_t)number_of(PY_allocate, WORDS((int64_t)size));
}

static void DMLVK_CALL let_go(Allocator *self, void *memory) {
    (void)self;
    if (IS_ON_DEVICE(memory)) number_of(PY_free, WORDS(AT(memory)));
    else free(memory);
}

/* A part of a graph that runs. */

static Status *DMLVK_CALL create_state(NodeComputeInfo *self, Opaque *context, void **state) {
    (void)context;
    *state = self;
    return NULL;
}

static void DMLVK_CALL release_state(NodeComputeInfo *self, void *state) {
    (void)self;
    (void)state;
}

static Status *describe(const Function *api, const Opaque *value, int64_t *record) {
    memset(record, 0, RECORD * sizeof *record);
    if (value == NULL) return NULL; /* an input that is left out */
    Opaque *shape = NULL;
    Status *status = CALL(api, API_GetTensorTypeAndShape, Status *, const Opaque *, Opaque **)(value, &shape);
    if (status != NULL) return status;
    int element = 0;
    size_t rank = 0;
    status = CALL(api, API_GetTensorElementType, Status *, const Opaque *, int *)(shape, &element);
    if (status == NULL) status = CALL(api, API_GetDimensionsCount, Status *, const Opaque *, size_t *)(shape, &rank);
    if (status == NULL && rank > MOST_DIMENSIONS) status = failure(api, "dmlvk: an input has more than 16 dimensions");
    if (status == NULL)
        status = CALL(api, API_GetDimensions, Status *, const Opaque *, int64_t *, size_t)(shape, record + 4, rank);
    CALL(api, API_ReleaseTensorTypeAndShapeInfo, void, Opaque *)(shape);
    const void *contents = NULL;
    if (status == NULL)
        status = CALL(api, API_GetTensorData, Status *, const Opaque *, const void **)(value, &contents);
    if (status != NULL) return status;
    record[0] = AT(contents);
    record[1] = element;
    record[2] = IS_ON_DEVICE(contents);
    record[3] = (int64_t)rank;
    return NULL;
}

static Status *DMLVK_CALL compute(NodeComputeInfo *self, void *state, Opaque *context) {
    (void)state;
    OwnComputeInfo *info = (OwnComputeInfo *)self;
    const Function *api = info->factory->api;
    size_t count = 0;
    Status *status =
        CALL(api, API_KernelContext_GetInputCount, Status *, const Opaque *, size_t *)(context, &count);
    if (status != NULL) return status;
    int64_t few[32 * RECORD];
    int64_t *records = count <= 32 ? few : malloc(count * RECORD * sizeof *records);
    if (records == NULL) return no_memory(info->factory);
    for (size_t i = 0; i < count && status == NULL; i++) {
        const Opaque *value = NULL;
        status = CALL(api, API_KernelContext_GetInput, Status *, const Opaque *, size_t, const Opaque **)(
            context, i, &value);
        if (status == NULL) status = describe(api, value, records + i * RECORD);
    }
    if (status == NULL)
        status = status_of(
            info->factory, RUN, PY_compute, WORDS(info->id, AT(context), AT(records), (int64_t)count));
    if (records != few) free(records);
    return status;
}

/* Called by Python while it computes: memory for outputs, from one of them on. A shape is one number, how
 * many dimensions, and room for MOST_DIMENSIONS; a place two: address, and whether it is on the device. */
EXPORT Status *dmlvk_outputs(OwnFactory *factory, Opaque *context, int64_t first, int64_t count,
                             const int64_t *shapes, int64_t *places) {
    const Function *api = factory->api;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *shape = shapes + i * (1 + MOST_DIMENSIONS);
        Opaque *value = NULL;
        void *contents = NULL;
        Status *status = CALL(
            api, API_KernelContext_GetOutput, Status *, Opaque *, size_t, const int64_t *, size_t, Opaque **)(
            context, (size_t)(first + i), shape + 1, (size_t)shape[0], &value);
        if (status == NULL && value != NULL)
            status = CALL(api, API_GetTensorMutableData, Status *, Opaque *, void **)(value, &contents);
        if (status != NULL) return status;
        places[2 * i] = AT(contents);
        places[2 * i + 1] = IS_ON_DEVICE(contents);
    }
    return NULL;
}

/* A session's provider. */

static const char *DMLVK_CALL ep_name(const Ep *self) { return ((const OwnEp *)self)->factory->name; }

static Status *DMLVK_CALL ep_capability(Ep *self, const Opaque *graph, Opaque *support) {
    OwnEp *ep = (OwnEp *)self;
    return status_of(ep->factory, LONG, PY_capability, WORDS(ep->id, AT(graph), AT(support)));
}

static void DMLVK_CALL ep_release_infos(Ep *self, NodeComputeInfo **infos, size_t count) {
    (void)self;
    for (size_t i = 0; i < count; i++) {
        OwnComputeInfo *info = (OwnComputeInfo *)infos[i];
        if (info == NULL) continue;
        number_of(PY_release_program, WORDS(info->id));
        free(info);
        infos[i] = NULL;
    }
}

static Status *DMLVK_CALL ep_compile(Ep *self, const Opaque **graphs, const Opaque **nodes, size_t count,
                                     NodeComputeInfo **infos, Opaque **context_nodes) {
    (void)context_nodes;
    OwnEp *ep = (OwnEp *)self;
    for (size_t i = 0; i < count; i++) infos[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        OwnComputeInfo *info = calloc(1, sizeof *info);
        if (info == NULL) {
            ep_release_infos(self, infos, i);
            return no_memory(ep->factory);
        }
        Status *status =
            status_of(ep->factory, LONG, PY_compile, WORDS(ep->id, AT(graphs[i]), AT(nodes[i]), AT(&info->id)));
        if (status != NULL) {
            free(info);
            ep_release_infos(self, infos, i);
            return status;
        }
        info->base.version = DMLVK_ABI_VERSION;
        info->base.CreateState = create_state;
        info->base.Compute = compute;
        info->base.ReleaseState = release_state;
        info->factory = ep->factory;
        infos[i] = &info->base;
    }
    return NULL;
}

static Status *DMLVK_CALL ep_concurrent(Ep *self, bool *is_supported) {
    (void)self;
    *is_supported = true;
    return NULL;
}

/* Profiling. */

static void DMLVK_CALL profiler_release(Profiler *self) { free(self); }

static Status *DMLVK_CALL profiler_start(Profiler *self, int64_t offset_ns) {
    OwnEp *ep = ((OwnProfiler *)self)->ep;
    return status_of(ep->factory, RUN, PY_start_profiling, WORDS(ep->id, AT(self), offset_ns));
}

static Status *DMLVK_CALL profiler_end(Profiler *self, Opaque *events) {
    OwnEp *ep = ((OwnProfiler *)self)->ep;
    if (!atomic_load(&is_attached)) return NULL; /* a session that is released when Python has ended */
    return status_of(ep->factory, RUN, PY_end_profiling, WORDS(ep->id, AT(self), AT(events)));
}

static Status *DMLVK_CALL ep_create_profiler(Ep *self, Profiler **created) {
    OwnProfiler *profiler = calloc(1, sizeof *profiler);
    *created = NULL;
    if (profiler == NULL) return no_memory(((OwnEp *)self)->factory);
    profiler->base.version = DMLVK_ABI_PROFILING_VERSION;
    profiler->base.Release = profiler_release;
    profiler->base.StartProfiling = profiler_start;
    profiler->base.EndProfiling = profiler_end;
    profiler->ep = (OwnEp *)self;
    *created = &profiler->base;
    return NULL;
}

/* Copies between the host and devices. */

static const Opaque *DMLVK_CALL allocator_info(const Allocator *self) { return ((const OwnAllocator *)self)->info; }

static void DMLVK_CALL transfer_release(DataTransfer *self) { free(self); }

static bool DMLVK_CALL transfer_can_copy(const DataTransfer *self, const Opaque *from, const Opaque *to) {
    const OwnFactory *factory = ((const OwnDataTransfer *)self)->factory;
    const Function *api = factory->ep_api;
    bool is_own[2];
    const Opaque *ends[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        int type = CALL(api, EP_MemoryDevice_GetDeviceType, int, const Opaque *)(ends[i]);
        is_own[i] = type == DMLVK_MEMORY_GPU &&
                    CALL(api, EP_MemoryDevice_GetVendorId, uint32_t, const Opaque *)(ends[i]) == factory->vendor;
        if (!is_own[i] && type != DMLVK_MEMORY_CPU) return false;
    }
    return is_own[0] || is_own[1];
}

static Status *DMLVK_CALL transfer_copy(DataTransfer *self, const Opaque **from, Opaque **to, Opaque **streams,
                                        size_t count) {
    (void)streams;
    OwnFactory *factory = ((OwnDataTransfer *)self)->factory;
    const Function *api = factory->api;
    for (size_t i = 0; i < count; i++) {
        const void *source = NULL;
        void *target = NULL;
        size_t size = 0;
        Status *status = CALL(api, API_GetTensorData, Status *, const Opaque *, const void **)(from[i], &source);
        if (status == NULL)
            status = CALL(api, API_GetTensorMutableData, Status *, Opaque *, void **)(to[i], &target);
        if (status == NULL)
            status = CALL(api, API_GetTensorSizeInBytes, Status *, const Opaque *, size_t *)(from[i], &size);
        int64_t way = IS_ON_DEVICE(source) | IS_ON_DEVICE(target) << 1;
        if (status == NULL && way != 0)
            status = status_of(
                factory, SHORT, PY_copy, WORDS(AT(factory), way, AT(source), AT(target), (int64_t)size));
        else if (status == NULL && size > 0)
            memmove(target, source, size);
        if (status != NULL) return status;
    }
    return NULL;
}

/* The factory of providers. */

static const char *DMLVK_CALL factory_name(const Factory *self) { return ((const OwnFactory *)self)->name; }

static const char *DMLVK_CALL factory_vendor(const Factory *self) {
    (void)self;
    return python.vendor;
}

static const char *DMLVK_CALL factory_version(const Factory *self) {
    (void)self;
    return python.version;
}

static uint32_t DMLVK_CALL factory_vendor_id(const Factory *self) {
    (void)self;
    return 0;
}

static Status *DMLVK_CALL factory_devices(Factory *self, const Opaque *const *devices, size_t count,
                                          Opaque **ep_devices, size_t most, size_t *found) {
    *found = 0;
    int64_t number = 0;
    Status *status = status_of(
        (OwnFactory *)self, LONG, PY_devices,
        WORDS(AT(self), AT(devices), (int64_t)count, AT(ep_devices), (int64_t)most, AT(&number)));
    *found = (size_t)number;
    return status;
}

static Status *DMLVK_CALL factory_create_ep(Factory *self, const Opaque *const *devices,
                                            const Opaque *const *metadata, size_t count, const Opaque *options,
                                            const Opaque *logger, Ep **created) {
    (void)metadata;
    OwnFactory *factory = (OwnFactory *)self;
    *created = NULL;
    OwnEp *ep = calloc(1, sizeof *ep);
    if (ep == NULL) return no_memory(factory);
    Status *status = status_of(
        factory, LONG, PY_create_ep,
        WORDS(AT(self), AT(devices), (int64_t)count, AT(options), AT(logger), AT(&ep->id)));
    if (status != NULL) {
        free(ep);
        return status;
    }
    ep->factory = factory;
    ep->base.version = factory->version;
    ep->base.GetName = ep_name;
    ep->base.GetCapability = ep_capability;
    ep->base.Compile = ep_compile;
    ep->base.ReleaseNodeComputeInfos = ep_release_infos;
    ep->base.IsConcurrentRunSupported = ep_concurrent;
    if (factory->version >= DMLVK_ABI_PROFILING_VERSION) ep->base.CreateProfiler = ep_create_profiler;
    *created = &ep->base;
    return NULL;
}

static void DMLVK_CALL factory_release_ep(Factory *self, Ep *released) {
    (void)self;
    if (released == NULL) return;
    number_of(PY_release_ep, WORDS(((OwnEp *)released)->id));
    free(released);
}

static Status *DMLVK_CALL factory_validate(Factory *self, const Opaque *const *devices, size_t count,
                                           const char *info, int *compatibility) {
    (void)self;
    (void)devices;
    (void)count;
    (void)info;
    *compatibility = DMLVK_COMPILED_MODEL_NOT_APPLICABLE;
    return NULL;
}

static Status *DMLVK_CALL factory_create_allocator(Factory *self, const Opaque *info, const Opaque *options,
                                                   Allocator **created) {
    (void)options;
    *created = NULL;
    OwnFactory *factory = (OwnFactory *)self;
    OwnAllocator *allocator = calloc(1, sizeof *allocator);
    if (allocator == NULL) return no_memory(factory);
    allocator->base.version = DMLVK_ABI_VERSION;
    allocator->base.Alloc = allocate;
    allocator->base.Reserve = allocate;
    allocator->base.Free = let_go;
    allocator->base.Info = allocator_info;
    allocator->info = info;
    *created = &allocator->base;
    return NULL;
}

static void DMLVK_CALL factory_release_allocator(Factory *self, Allocator *allocator) {
    (void)self;
    free(allocator);
}

static Status *DMLVK_CALL factory_create_transfer(Factory *self, DataTransfer **created) {
    OwnDataTransfer *transfer = calloc(1, sizeof *transfer);
    *created = NULL;
    if (transfer == NULL) return no_memory((OwnFactory *)self);
    transfer->base.version = DMLVK_ABI_VERSION;
    transfer->base.Release = transfer_release;
    transfer->base.CanCopy = transfer_can_copy;
    transfer->base.CopyTensors = transfer_copy;
    transfer->factory = (OwnFactory *)self;
    *created = &transfer->base;
    return NULL;
}

static bool DMLVK_CALL factory_stream_aware(const Factory *self) {
    (void)self;
    return false;
}

static Status *DMLVK_CALL factory_create_stream(Factory *self, const Opaque *memory_device, const Opaque *options,
                                                Opaque **stream) {
    (void)self;
    (void)memory_device;
    (void)options;
    *stream = NULL;
    return NULL;
}

static Status *DMLVK_CALL factory_incompatibility(Factory *self, const Opaque *device, Opaque *details) {
    (void)self;
    (void)device;
    (void)details;
    return NULL;
}

static Status *DMLVK_CALL factory_importer(Factory *self, const Opaque *ep_device, Opaque **importer) {
    (void)self;
    (void)ep_device;
    *importer = NULL;
    return NULL;
}

static Status *DMLVK_CALL factory_domain_count(Factory *self, size_t *count) {
    (void)self;
    *count = 0;
    return NULL;
}

static Status *DMLVK_CALL factory_domains(Factory *self, Opaque **domains, size_t count) {
    (void)self;
    (void)domains;
    (void)count;
    return NULL;
}

/* What ONNX Runtime looks for. */

EXPORT Status *CreateEpFactories(const char *registered_name, const ApiBase *base, const Opaque *logger,
                                 Factory **factories, size_t most, size_t *count) {
    (void)logger;
    *count = 0;
    const char *version = base->GetVersionString();
    unsigned major = 0, minor = 0;
    const Function *first = base->GetApi(1); /* CreateStatus has the same place in every version */
    char message[256];
    if (sscanf(version, "%u.%u", &major, &minor) != 2 || major != 1 || minor < DMLVK_ABI_VERSION ||
        base->GetApi(DMLVK_ABI_VERSION) == NULL) {
        snprintf(message, sizeof message,
                 "dmlvk: its execution provider is written for version %d of ONNX Runtime's interface and those that "
                 "extend it: ONNX Runtime %s does not have that; install onnxruntime>=1.%d",
                 DMLVK_ABI_VERSION, version, DMLVK_ABI_VERSION);
        return failure(first, message);
    }
    if (!atomic_load(&is_attached))
        return failure(first, "dmlvk: its execution provider works inside of Python: import dmlvk.onnxruntime");
    if (most < 1) return failure(first, "dmlvk: there is no room for a factory");
    OwnFactory *factory = calloc(1, sizeof *factory); /* stays for ever: sessions may outlive the registration */
    if (factory == NULL) return failure(first, "dmlvk: the host has no memory left");
    factory->api = base->GetApi(DMLVK_ABI_VERSION);
    factory->ep_api = (const Function *)CALL(factory->api, API_GetEpApi, const void *, void)();
    factory->version = minor >= DMLVK_ABI_PROFILING_VERSION && base->GetApi(DMLVK_ABI_PROFILING_VERSION) != NULL
                           ? DMLVK_ABI_PROFILING_VERSION
                           : DMLVK_ABI_VERSION;
    size_t length = strlen(registered_name), ending = strlen(STAND_IN);
    bool is_own = length < ending || strcmp(registered_name + length - ending, STAND_IN) != 0 ||
                  strcmp(registered_name, python.name) == 0;
    snprintf(factory->name, sizeof factory->name, "%s", is_own ? python.name : registered_name);
    factory->vendor = is_own ? DMLVK_VENDOR_ID : 0;
    factory->base.version = DMLVK_ABI_VERSION;
    factory->base.GetName = factory_name;
    factory->base.GetVendor = factory_vendor;
    factory->base.GetSupportedDevices = factory_devices;
    factory->base.CreateEp = factory_create_ep;
    factory->base.ReleaseEp = factory_release_ep;
    factory->base.GetVendorId = factory_vendor_id;
    factory->base.GetVersion = factory_version;
    factory->base.ValidateCompiledModelCompatibilityInfo = factory_validate;
    factory->base.CreateAllocator = factory_create_allocator;
    factory->base.ReleaseAllocator = factory_release_allocator;
    factory->base.CreateDataTransfer = factory_create_transfer;
    factory->base.IsStreamAware = factory_stream_aware;
    factory->base.CreateSyncStreamForDevice = factory_create_stream;
    factory->base.GetHardwareDeviceIncompatibilityDetails = factory_incompatibility;
    factory->base.CreateExternalResourceImporterForDevice = factory_importer;
    factory->base.GetNumCustomOpDomains = factory_domain_count;
    factory->base.GetCustomOpDomains = factory_domains;
    factories[0] = &factory->base;
    *count = 1;
    return NULL;
}

EXPORT Status *ReleaseEpFactory(Factory *factory) {
    (void)factory;
    return NULL;
}

/* What Python calls. */

EXPORT int dmlvk_abi_version(void) { return DMLVK_ABI_VERSION; }

EXPORT int dmlvk_vendor_id(void) { return DMLVK_VENDOR_ID; }

EXPORT uint32_t dmlvk_factory_vendor(const OwnFactory *factory) { return factory->vendor; }

EXPORT void dmlvk_attach(const Callbacks *callbacks) {
    python = *callbacks;
    atomic_store(&is_attached, true);
}

/* Tells the main thread, and what the system calls for signals that Python handles. */
EXPORT void dmlvk_watch(unsigned long thread, Handler handler) {
    atomic_store(&main_thread, thread);
    if (handler != NULL && handler != note_signal) atomic_store(&python_handler, handler);
}

/* Calls a function of Python's, and gives signals that come meanwhile to Python afterwards. */
EXPORT Object *dmlvk_hold_signals(Object *function) { return hold_signals(function); }

/* Takes Python's functions away; returns how many calls of them are still running. */
EXPORT int64_t dmlvk_detach(void) {
    atomic_store(&is_attached, false);
    return atomic_load(&running);
}

/* A function of ONNX Runtime's by its name; NULL for one that is not declared in abi.h. */
EXPORT void *dmlvk_function(const OwnFactory *factory, const char *name) {
#define FIND(function, place) \
    if (strcmp(name, #function) == 0) return (void *)factory->api[place];
    DMLVK_API_FUNCTIONS(FIND)
#undef FIND
#define FIND(function, place) \
    if (strcmp(name, #function) == 0) return (void *)factory->ep_api[place];
    DMLVK_EP_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

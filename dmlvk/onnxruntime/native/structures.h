/* What provider.c works with: the functions that Python sets, and its own objects behind those of ONNX Runtime. */
#ifndef DMLVK_STRUCTURES_H
#define DMLVK_STRUCTURES_H

#include "abi.h"

typedef void (*Function)(void);

/* What Python does. Each returns a status of ONNX Runtime's, or NULL. library.py has the same structure. */
typedef struct {
    const char *name;
    const char *vendor;
    const char *version;
    Status *(*devices)(void *factory, const Opaque *const *devices, int64_t count, Opaque **found, int64_t most,
                       int64_t *number);
    Status *(*create_ep)(void *factory, const Opaque *const *devices, int64_t count, const Opaque *options,
                         const Opaque *logger, int64_t *ep);
    Status *(*release_ep)(int64_t ep);
    Status *(*capability)(int64_t ep, const Opaque *graph, Opaque *support);
    Status *(*compile)(int64_t ep, const Opaque *graph, const Opaque *node, int64_t *program);
    Status *(*release_program)(int64_t program);
    Status *(*compute)(int64_t program, Opaque *context, const int64_t *inputs, int64_t count);
    int64_t (*allocate)(int64_t size);
    void (*free)(int64_t address);
    Status *(*copy)(void *factory, int64_t way, int64_t from, int64_t to, int64_t size);
    Status *(*start_profiling)(int64_t ep, int64_t profiler, int64_t offset_ns);
    Status *(*end_profiling)(int64_t ep, int64_t profiler, Opaque *events);
} Callbacks;

typedef struct {
    Factory base;
    const Function *api;
    const Function *ep_api;
    char name[64];
    uint32_t vendor;  /* of its memory */
    uint32_t version; /* of the interface that sessions' providers are for */
} OwnFactory;

typedef struct {
    Ep base;
    OwnFactory *factory;
    int64_t id;
} OwnEp;

typedef struct {
    Profiler base;
    OwnEp *ep;
} OwnProfiler;

typedef struct {
    NodeComputeInfo base;
    OwnFactory *factory;
    int64_t id;
} OwnComputeInfo;

typedef struct {
    Allocator base;
    const Opaque *info;
} OwnAllocator;

typedef struct {
    DataTransfer base;
    OwnFactory *factory;
} OwnDataTransfer;

#endif

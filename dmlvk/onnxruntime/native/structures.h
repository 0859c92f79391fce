/* What provider.c works with: the functions that Python sets, and its own objects behind those of ONNX Runtime. */
#ifndef DMLVK_STRUCTURES_H
#define DMLVK_STRUCTURES_H

#include "abi.h"

typedef void (*Function)(void);

typedef void Object; /* Python's */

/* What Python does; library.py has the same names in the same order. Each takes integers, addresses among them, and
 * returns a status of ONNX Runtime's (0: none), but for allocate, which returns an address. */
#define DMLVK_PYTHON_FUNCTIONS(_) \
    _(devices)                    \
    _(create_ep)                  \
    _(release_ep)                 \
    _(capability)                 \
    _(compile)                    \
    _(release_program)            \
    _(compute)                    \
    _(allocate)                   \
    _(free)                       \
    _(copy)                       \
    _(start_profiling)            \
    _(end_profiling)

#define INDEX(name) PY_##name,
enum { DMLVK_PYTHON_FUNCTIONS(INDEX) PYTHON_FUNCTIONS };
#undef INDEX

/* Python as library.py describes it: functions of its C API that never change, and the functions above. */
typedef struct {
    const char *name;
    const char *vendor;
    const char *version;
    int (*ensure)(void);                              /* PyGILState_Ensure */
    void (*release)(int);                             /* PyGILState_Release */
    unsigned long (*thread)(void);                    /* PyThread_get_thread_ident */
    Object *(*make_tuple)(intptr_t);                  /* PyTuple_New */
    int (*set_item)(Object *, intptr_t, Object *);    /* PyTuple_SetItem */
    Object *(*make_number)(long long);                /* PyLong_FromLongLong */
    long long (*number)(Object *);                    /* PyLong_AsLongLong */
    Object *(*call)(Object *, Object *);              /* PyObject_CallObject */
    void (*let_go)(Object *);                         /* Py_DecRef */
    void (*fetch)(Object **, Object **, Object **);   /* PyErr_Fetch */
    void (*restore)(Object *, Object *, Object *);    /* PyErr_Restore */
    void (*write_unraisable)(Object *);               /* PyErr_WriteUnraisable */
    int (*check_signals)(void);                       /* PyErr_CheckSignals */
    int (*add_pending)(int (*)(void *), void *);      /* Py_AddPendingCall */
    Object *functions[PYTHON_FUNCTIONS];
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

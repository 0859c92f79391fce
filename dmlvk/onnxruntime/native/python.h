/* Calls of Python's functions, and the signals that come meanwhile.
 *
 * Python runs a signal's handler between any two steps of the main thread. In the middle of what it does here for ONNX
 * Runtime, what the handler raises (KeyboardInterrupt, say) would end as a status: ONNX Runtime takes that for a device
 * that fails, and computes by its CPU provider from then on. So handlers run where ONNX Runtime's own providers have
 * them: when its call is over.
 *
 * - While one of Python's functions runs for ONNX Runtime in the main thread, signals that Python handles are noted
 *   (note_signal stands before Python's own function of the system's kind), and given to Python afterwards.
 * - Signals that came before, while ONNX Runtime itself was at work, are handled before the function runs. What a handler
 *   raises then is kept, and raised as soon as the main thread is back in Python of the program (raise_kept, by
 *   Py_AddPendingCall, which runs such calls in the main thread alone).
 * - ONNX Runtime's own Python takes a ValueError or RuntimeError, whoever raises it, for a provider that fails while a
 *   session is made. So all that makes one is a single call here (hold_signals): it is over when the session is there.
 */
#ifndef DMLVK_PYTHON_H
#define DMLVK_PYTHON_H

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#if !defined(_WIN32)
#include <time.h>
#endif

#include "structures.h"

typedef void (*Handler)(int);

#define MOST_SIGNALS 65 /* one more than the largest number of Linux */
#define STANDARD_SIGNALS 32
#define LOOKED_FOR 1000000 /* nanoseconds for which short calls trust that no handler was set, runs for most signals */
#define BIT(number) (1ull << (number))
#define MOST_ATTEMPTS 16   /* of calls that must be done, each of which something was raised in */

/* How long a function is under way. SHORT ones must be done: what raises something is called again. */
typedef enum { SHORT, RUN, LONG } Duration;

typedef enum { ANSWERED, RAISED, GONE /* Python has ended, or was detached */ } Outcome;

static Callbacks python;
static atomic_bool is_attached;
static atomic_long running;

static _Atomic(Handler) python_handler; /* of the system's signals; NULL where Python has set none yet */
static atomic_ulong main_thread;
static atomic_int depth; /* of the calls in the main thread */
static atomic_bool noted[MOST_SIGNALS];

typedef struct Kept {
    struct Kept *next;
    Object *type, *value, *trace;
} Kept;

static Kept *kept; /* what is to be raised, the oldest first; only whoever has Python's lock is at it */
static bool is_pending;

/* Signals. */

static void note_signal(int number) {
#if defined(_WIN32)
    signal(number, note_signal); /* which the system has reset */
#endif
    atomic_store(&noted[number], true);
    Handler handler = atomic_load(&python_handler);
    if (atomic_load(&depth) == 0 && atomic_exchange(&noted[number], false) && handler != NULL) handler(number);
}

#if !defined(_WIN32)
/* Those by which programs end something, and whose handlers raise exceptions. */
#define STOPPING (BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGHUP) | BIT(SIGQUIT) | BIT(SIGALRM) | BIT(SIGUSR1) | BIT(SIGUSR2))
#endif

/* Puts note_signal before Python's own function for each signal that Python handles. */
static void watch_signals(Duration duration) {
    Handler handler = atomic_load(&python_handler);
    if (handler == NULL) return;
#if defined(_WIN32)
    static const int numbers[] = {SIGINT, SIGTERM, SIGBREAK};
    (void)duration;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Handler there = signal(numbers[i], note_signal);
        if (there != handler && there != note_signal && there != SIG_ERR) signal(numbers[i], there);
    }
#else
    static int64_t last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    uint64_t looked_at = ~0ull;
    if (duration != LONG && time - last < LOOKED_FOR) {
        if (duration == SHORT) return;
        looked_at = STOPPING; /* a look at all of them takes 4 us, as long as all that is done here for a small run */
    } else {
        last = time;
    }
    for (int number = 1; number < (duration == LONG ? MOST_SIGNALS : STANDARD_SIGNALS); number++) {
        /* Those of a fault come again until they are handled; the last two cannot be. */
        if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP) continue;
        if (number == SIGKILL || number == SIGSTOP || (number < 64 && !(looked_at & BIT(number)))) continue;
        struct sigaction there;
        if (sigaction(number, NULL, &there) != 0 || there.sa_flags & SA_SIGINFO || there.sa_handler != handler) continue;
        there.sa_handler = note_signal;
        sigaction(number, &there, NULL);
    }
#endif
}

/* What was raised. */

static int raise_kept(void *unused);

static void raise_soon(void) {
    if (kept == NULL || is_pending || atomic_load(&depth) != 0) return;
    is_pending = python.add_pending(raise_kept, NULL) == 0;
}

/* Called by Python in the main thread, between any two steps there. */
static int raise_kept(void *unused) {
    (void)unused;
    is_pending = false;
    if (kept == NULL || atomic_load(&depth) != 0) return 0; /* end_call sees to it again */
    Kept *first = kept;
    kept = first->next;
    python.restore(first->type, first->value, first->trace);
    free(first);
    raise_soon();
    return -1;
}

/* Keeps what was raised. */
static void keep_raised(void) {
    Object *type = NULL, *value = NULL, *trace = NULL;
    python.fetch(&type, &value, &trace);
    if (type == NULL) return;
    Kept *made = malloc(sizeof *made);
    if (made == NULL) { /* no memory for a few words: this one is told by Python where it can */
        python.restore(type, value, trace);
        python.write_unraisable(NULL);
        return;
    }
    *made = (Kept){NULL, type, value, trace};
    Kept **last = &kept;
    while (*last != NULL) last = &(*last)->next;
    *last = made;
}

/* Calls. */

static bool is_main_thread(void) { return python.thread() == atomic_load(&main_thread); }

static void begin_call(Duration duration) {
    if (!is_main_thread() || atomic_fetch_add(&depth, 1) > 0) return;
    watch_signals(duration);
    if (python.check_signals() != 0) keep_raised();
}

static void end_call(void) {
    if (!is_main_thread() || atomic_fetch_sub(&depth, 1) > 1) return;
    Handler handler = atomic_load(&python_handler);
    for (int number = 1; number < MOST_SIGNALS; number++)
        if (atomic_load(&noted[number]) && atomic_exchange(&noted[number], false)) handler(number);
    raise_soon();
}

/* What is to be raised now that a call is over, before the error that it may have ended with: what was interrupted fails. */
static Object *result_of(Object *result) {
    if (!is_main_thread() || atomic_load(&depth) != 0) return result;
    Object *type = NULL, *value = NULL, *trace = NULL;
    python.fetch(&type, &value, &trace);
    if (raise_kept(NULL) == 0 && python.check_signals() == 0) {
        python.restore(type, value, trace);
        return result;
    }
    Object *unneeded[] = {type, value, trace, result};
    for (size_t i = 0; i < sizeof unneeded / sizeof *unneeded; i++) python.let_go(unneeded[i]); /* NULL: nothing */
    return NULL;
}

/* Calls a function of the program's Python without arguments. Signals that come meanwhile are given to Python when it
 * is over; what their handlers raise is raised instead of returning. Returns NULL where something is raised. */
static Object *hold_signals(Object *function) {
    begin_call(LONG);
    bool is_interrupted = kept != NULL && is_main_thread() && atomic_load(&depth) == 1; /* before it began */
    Object *result = is_interrupted ? NULL : python.call(function, NULL);
    end_call();
    return result_of(result);
}

static Object *tuple_of(const int64_t *words, size_t count) {
    Object *made = python.make_tuple((intptr_t)count);
    for (size_t i = 0; i < count && made != NULL; i++) {
        Object *word = python.make_number(words[i]);
        if (word != NULL && python.set_item(made, (intptr_t)i, word) == 0) continue;
        python.let_go(made);
        made = NULL;
    }
    return made;
}

/* Calls one of Python's functions with integers. None of them raises anything by itself: where memory or the stack is
 * exhausted all the same, it is raised in the program (in other threads than the main one: told). */
static Outcome ask(Duration duration, int function, int64_t *answer, const int64_t *words, size_t count) {
    *answer = 0;
    atomic_fetch_add(&running, 1);
    if (!atomic_load(&is_attached)) {
        atomic_fetch_sub(&running, 1);
        return GONE;
    }
    int state = python.ensure();
    Object *type = NULL, *value = NULL, *trace = NULL; /* an error on its way, while a session is let go */
    python.fetch(&type, &value, &trace);
    begin_call(duration);
    Object *result = NULL;
    int attempts = duration == SHORT ? MOST_ATTEMPTS : 1;
    while (result == NULL && attempts-- > 0) {
        Object *arguments = tuple_of(words, count);
        if (arguments != NULL) result = python.call(python.functions[function], arguments);
        if (arguments != NULL) python.let_go(arguments);
        if (result != NULL) *answer = python.number(result);
        if (result == NULL && is_main_thread()) keep_raised();
        if (result == NULL && !is_main_thread()) python.write_unraisable(NULL);
    }
    if (result != NULL) python.let_go(result);
    end_call();
    python.restore(type, value, trace);
    python.release(state);
    atomic_fetch_sub(&running, 1);
    return result == NULL ? RAISED : ANSWERED;
}

#endif

#include "base/call_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

/* All exceptions masked, round to nearest, no FTZ, no DAZ. */
static const uint64_t USUAL = 0x1F80;

static uint64_t read_control(void) {
    return _mm_getcsr();
}

static void write_control(uint64_t control) {
    _mm_setcsr((unsigned)control);
}
#elif defined(__aarch64__)
static const uint64_t USUAL = 0;

static uint64_t read_control(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

static void write_control(uint64_t control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else /* what fesetenv does must do */
static const uint64_t USUAL = 0;

static uint64_t read_control(void) {
    return 0;
}

static void write_control(uint64_t control) {
    (void)control;
}
#endif

/* The calling thread's counter of failed allocations. In a library that is loaded by dlopen, any
 * other model of thread-local storage allocates when a thread first uses it, and ends the process
 * when that fails. */
#ifdef VERBATIM_SHARED
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local atomic_ulong *refused;

void call_mode_enter(CallMode *before, CallSetting setting) {
    before->control = read_control();
    fegetenv(&before->floats);
    fesetenv(FE_DFL_ENV);
    write_control(USUAL);
    before->setting = (CallSetting){uselocale(setting.locale), refused};
    refused = setting.refused;
}

void call_mode_leave(const CallMode *before) {
    uselocale(before->setting.locale);
    refused = before->setting.refused;
    fesetenv(&before->floats);
    write_control(before->control);
}

CallSetting call_mode_setting(void) {
    return (CallSetting){uselocale((locale_t)0), refused};
}

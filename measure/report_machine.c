#include "measure/report_machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/machine.h"
#include "core/isa.h"
#include "session/options.h"
#include "session/versions.h"

json_t *report_program(void) {
    char libraries[256];
    json_t *program = json_object();
    versions_of_libraries(libraries, sizeof libraries);
    json_object_set_new(program, "version", json_string(VERBATIM_VERSION));
    json_object_set_new(program, "numeric_revision", json_integer(NUMERIC_REVISION));
    json_object_set_new(program, "compiler", json_string(__VERSION__));
    json_object_set_new(program, "libraries", json_string(libraries));
    return program;
}

/* The caches that the first processor uses: [{"level": 1, "type": "Data", "bytes": 32768}] */
static json_t *report_caches(void) {
    json_t *caches = json_array();
    MachineCache cache;
    for (int i = 0; machine_cache_at(i, &cache); i++) {
        json_t *member = json_object();
        json_object_set_new(member, "level", json_integer(cache.level));
        json_object_set_new(member, "type", json_string(cache.type));
        json_object_set_new(member, "bytes", json_integer((json_int_t)cache.bytes));
        json_array_append_new(caches, member);
    }
    return caches;
}

json_t *report_machine(void) {
    struct utsname system;
    char processor[128], text[sizeof system.sysname + sizeof system.release + 1], library[64];
    json_t *machine = json_object(), *sets = json_array();
    machine_processor(processor, sizeof processor);
    json_object_set_new(machine, "processor", json_string(processor));
    for (size_t i = 0; isa_available(i); i++)
        json_array_append_new(sets, json_string(isa_available(i)->name));
    json_object_set_new(machine, "instruction_sets", sets);
    json_object_set_new(machine, "cores", json_integer(machine_cores()));
    json_object_set_new(machine, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(machine, "caches", report_caches());
    json_object_set_new(machine, "memory", json_integer((json_int_t)machine_memory()));
    if (uname(&system) == 0) {
        /* What follows the numbers is a name that whoever built the kernel chose. */
        int numbers = (int)strspn(system.release, "0123456789.");
        snprintf(text, sizeof text, "%s %.*s", system.sysname, numbers, system.release);
        json_object_set_new(machine, "kernel", json_string(text));
        json_object_set_new(machine, "architecture", json_string(system.machine));
    }
    if (confstr(_CS_GNU_LIBC_VERSION, library, sizeof library) == 0) strcpy(library, "unknown");
    json_object_set_new(machine, "c_library", json_string(library));
    return machine;
}

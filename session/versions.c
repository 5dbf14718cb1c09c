#include "session/versions.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "session/options.h"
#include "system/terminal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

void versions_of_libraries(char *text, size_t size) {
    char version[64] = "", data[64] = "";
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_VERSION, version);
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, data);
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    version[strcspn(version, " ")] = 0;
    snprintf(text, size, "PCRE2 %s (Unicode %s%s), utf8proc %s (Unicode %s)", version, data,
             jit ? ", JIT" : "", utf8proc_version(), utf8proc_unicode_version());
}

void versions_print(FILE *out) {
    char libraries[256];
    versions_of_libraries(libraries, sizeof libraries);
    terminal_print(out, "verbatim %s\n%s\n", VERBATIM_VERSION, libraries);
}

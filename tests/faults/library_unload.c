/* A program that loads the library by name, and unloads it while the threads of its runtime sleep:
 *
 *     library_unload LIBVERBATIM.SO MODEL.bin
 *
 * includes verbatim.h alone. scripts/test-shared runs it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <verbatim.h>

/* Loads the library, answers a request with two threads, and unloads it; 0: it worked. */
static int use(const char *library, const char *model_file) {
    static const char line[] = "{\"prompt\": \"Once upon a time\", \"max_tokens\": 20}";
    const struct timespec moment = {.tv_nsec = 50000000};
    const char *result = NULL;
    size_t length;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return fprintf(stderr, "%s\n", dlerror());
    __typeof__(&verbatim_open) open = dlsym(handle, "verbatim_open");
    __typeof__(&verbatim_begin) begin = dlsym(handle, "verbatim_begin");
    __typeof__(&verbatim_pass) pass = dlsym(handle, "verbatim_pass");
    __typeof__(&verbatim_result) get_result = dlsym(handle, "verbatim_result");
    __typeof__(&verbatim_close) close = dlsym(handle, "verbatim_close");
    VerbatimModel *model = open(model_file, "{\"threads\": 2}", NULL, 0);
    if (!model) return fprintf(stderr, "no model\n");
    VerbatimRequest *request = begin(model, line, strlen(line));
    while (pass(model) > 0) continue;
    if (get_result(request, &result, &length) != 1) return fprintf(stderr, "no result\n");
    close(model);
    if (dlclose(handle) != 0) return fprintf(stderr, "%s\n", dlerror());
    nanosleep(&moment, NULL);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int i = 0; i < 3; i++)
        if (use(argv[1], argv[2]) != 0) return 1;
    return 0;
}

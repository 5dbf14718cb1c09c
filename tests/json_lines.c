#include "tests/json_lines.h"

#include <stdio.h>
#include <stdlib.h>

int json_lines_serve(json_t *(*answer)(const json_t *request)) {
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *reply = request ? answer(request) : json_pack("{s:s}", "error", "not JSON");
        char *text = json_dumps(reply, JSON_COMPACT);
        puts(text ? text : "{\"error\": \"no reply\"}");
        fflush(stdout);
        free(text);
        json_decref(reply);
        json_decref(request);
    }
    free(line);
    return 0;
}

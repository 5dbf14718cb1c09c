#include "hub_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sha256.h"
#include "process.h"

typedef struct Hub {
    const char *root, *log;
    char connections[600]; /* the second log */
    int listener, port;
    int questions; /* that Org/busy has been asked; pages of Org/round */
    int later;     /* questions for a file of Org/later */
} Hub;

typedef struct Request {
    char path[512];  /* without the leading slash and the query */
    char query[256]; /* "": none */
    bool ranged, has_token, has_right_token;
    long from; /* the first byte of the range */
} Request;

static bool is_called(const char *path, const char *name) {
    const char *found = strstr(path, name);
    return found && found[-1] == '/' && (found[strlen(name)] == '/' || !found[strlen(name)]);
}

/* Reads a request up to the empty line; false: the other side went away. */
static bool read_request(int fd, Request *request) {
    char text[4096];
    size_t n = 0;
    *request = (Request){0};
    while (n < sizeof text - 1) {
        ssize_t got = read(fd, text + n, sizeof text - 1 - n);
        if (got <= 0) return false;
        n += (size_t)got;
        text[n] = '\0';
        if (strstr(text, "\r\n\r\n")) break;
    }
    if (sscanf(text, "GET /%511s", request->path) != 1) return false;
    char *query = strchr(request->path, '?');
    if (query) {
        snprintf(request->query, sizeof request->query, "%.255s", query + 1);
        *query = '\0';
    }
    const char *range = strstr(text, "Range: bytes=");
    request->ranged = range && sscanf(range, "Range: bytes=%ld-", &request->from) == 1;
    request->has_token = strstr(text, "Authorization:") != NULL;
    request->has_right_token = strstr(text, "Authorization: Bearer hf_secret\r\n") != NULL;
    return true;
}

/* Answers with a status, more headers (each with its line's end) and a text. */
static void answer(int fd, int status, const char *headers, const char *text) {
    dprintf(fd, "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n%s", status,
            strlen(text), headers, text);
}

/* Answers with bytes that have no end, up to ENDLESS_BYTES. */
static void answer_endlessly(int fd) {
    enum { ENDLESS_BYTES = 200 << 20 };
    static char blanks[1 << 16];
    memset(blanks, ' ', sizeof blanks);
    dprintf(fd, "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n");
    for (size_t sent = 0; sent < ENDLESS_BYTES; sent += sizeof blanks)
        if (write(fd, blanks, sizeof blanks) < 0) return;
}

/* A list that is nested more deeply than a reader wants to follow. */
static void answer_nested(int fd) {
    enum { DEPTH = 80000 };
    char *text = malloc(2 * DEPTH + 1);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    text[2 * DEPTH] = '\0';
    answer(fd, 200, "", text);
    free(text);
}

/* The sum of a file as Org/spelled has it: with its kind before it, and in upper case. */
static void spell(char sum[80]) {
    char upper[80] = "sha256:";
    for (size_t i = 0; i < SHA256_HEX; i++)
        upper[7 + i] = sum[i] >= 'a' ? (char)(sum[i] - 'a' + 'A') : sum[i];
    memcpy(sum, upper, sizeof upper);
}

/* The line of one file in the list of a model's files. */
static void print_file(FILE *out, const char *path, const char *name) {
    size_t n;
    char *bytes = file_read(path, &n), sum[80] = "", listed[32];
    bool is_config = strcmp(name, "config.json") == 0;
    sha256_text(bytes, n, sum);
    if (is_called(path, "spelled")) spell(sum);
    snprintf(listed, sizeof listed, "%zu", n);
    if (is_config && is_called(path, "size-float")) strcpy(listed, "1000.0");
    if (is_config && is_called(path, "size-octal")) strcpy(listed, "008");
    if (is_config && is_called(path, "size-huge")) strcpy(listed, "9223372036854775808");
    if (strcmp(bytes, "{}\n") == 0)
        fprintf(out,
                "{\"type\":\"file\",\"oid\":\"" HUB_EMPTY_OBJECT "\",\"size\":3,\"path\":\"%s\"}",
                name);
    else
        fprintf(out,
                "{\"type\":\"file\",\"oid\":\"00112233445566778899aabbccddeeff00112233\","
                "\"size\":%s,\"lfs\":{\"oid\":\"%s\",\"size\":%s,\"pointerSize\":130},"
                "\"path\":\"%s\"}",
                listed, sum, listed, name);
    free(bytes);
}

/* The list of a model's files in two pages, among them names that a stranger would like to have
 * written. */
static void answer_tree(const Hub *hub, int fd, const char *model, bool second) {
    char directory[600], path[1200], link[400] = "", *text = NULL;
    struct dirent **entries;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    snprintf(directory, sizeof directory, "%s/%s", hub->root, model);
    int n = scandir(directory, &entries, NULL, alphasort);
    fputs("[{\"type\":\"directory\",\"oid\":\"00\",\"size\":0,\"path\":\"onnx\"},"
          "{\"type\":\"file\",\"oid\":\"" HUB_EMPTY_OBJECT "\",\"size\":3,"
          "\"path\":\"../../../escaped.json\"}",
          out);
    if (is_called(directory, "planted"))
        fputs(",{\"type\":\"file\",\"oid\":\"" HUB_EMPTY_OBJECT "\",\"size\":3,"
              "\"path\":\"$(touch escaped).json\"},"
              "{\"type\":\"file\",\"oid\":\"../../escaped\",\"size\":3,"
              "\"path\":\"escaped.json\"}",
              out);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        snprintf(path, sizeof path, "%s/%s", directory, name);
        if (name[0] != '.' && (i % 2 == 1) == second) {
            fputc(',', out);
            print_file(out, path, name);
        }
        free(entries[i]);
    }
    free(entries);
    fputc(']', out);
    fclose(out);
    if (!second)
        snprintf(link, sizeof link,
                 "Link: <http://127.0.0.1:%d/api/models/%s/tree/" HUB_REVISION
                 "?recursive=true&cursor=2>; rel=\"next\"\r\n",
                 hub->port, model);
    if (!second && is_called(directory, "glob"))
        snprintf(link, sizeof link,
                 "Link: <http://127.0.0.1:%d/api/models/%s/tree/" HUB_REVISION
                 "?cursor=[1-2000000000]>; rel=\"next\"\r\n",
                 hub->port, model);
    answer(fd, 200, link, text);
    free(text);
}

/* The bytes of a file, as the host of files gives them. */
static void answer_file(const Hub *hub, int fd, const Request *request) {
    char path[1200], headers[200] = "";
    const char *name = request->path + strlen("cdn/");
    size_t size;
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", hub->root, name);
    if (request->has_token) return answer(fd, 400, "", "a token came here");
    if (strstr(name, "..") || stat(path, &info) != 0) return answer(fd, 404, "", "no such file");
    FILE *log = fopen(hub->log, "a");
    fprintf(log, "%s %ld\n", name, request->from);
    fclose(log);
    if (is_called(path, "portal")) return answer(fd, 200, "", "<html>Sign in</html>");
    if (is_called(path, "endless")) return answer_endlessly(fd);
    char *bytes = file_read(path, &size);
    bool ranges = !is_called(path, "whole") && !is_called(path, "stump");
    size_t from = request->ranged && ranges ? (size_t)request->from : 0;
    if (is_called(path, "short")) size -= size / 3;
    if (from >= size) {
        free(bytes);
        return answer(fd, 416, "", "");
    }
    if (is_called(path, "wrong")) bytes[size - 1] ^= 1;
    if (from > 0)
        snprintf(headers, sizeof headers, "Content-Range: bytes %zu-%zu/%zu\r\n", from, size - 1,
                 size);
    dprintf(fd, "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
            from > 0 ? 206 : 200, size - from, headers);
    size_t most = is_called(path, "mute") ? 0 : is_called(path, "cut") ? size / 3 + 1 : size;
    if (is_called(path, "stump")) most = size / 2;
    if (is_called(path, "crumbs")) most = 1;
    if (most > size - from) most = size - from;
    if (write(fd, bytes + from, most) < 0) perror("hub_server");
    free(bytes);
}

/* An answer of the hub itself. */
static void answer_hub(Hub *hub, int fd, const Request *request) {
    char model[256], path[600], location[700];
    struct stat info;
    int end = 0;
    if (strcmp(request->path, "api/models") == 0)
        return answer(fd, 200, "",
                      "[{\"_id\":\"0\",\"id\":\"Org/tiny\",\"tags\":[\"a\"]},"
                      "{\"_id\":\"1\",\"id\":\"Org/tiny-2\"},{\"id\":\"$(touch escaped)\"}]");
    bool is_api = sscanf(request->path, "api/models/%255[^/]%n", model, &end) == 1;
    const char *rest = is_api ? request->path + strlen("api/models/") : request->path;
    const char *slash = strchr(rest, '/'), *after = slash ? strchr(slash + 1, '/') : NULL;
    if (!after) return answer(fd, 404, "", "no page");
    snprintf(model, sizeof model, "%.*s", (int)(after - rest), rest);
    snprintf(path, sizeof path, "%s/%s", hub->root, model);
    if (strstr(model, "..") || stat(path, &info) != 0)
        return answer(fd, 404, "", "{\"error\":\"Repository not found\"}");
    if (is_called(path, "gated") && !request->has_right_token)
        return answer(fd, request->has_token ? 403 : 401, "", "{\"error\":\"Access\"}");
    if (is_called(path, "busy") && hub->questions++ < 1) return answer(fd, 503, "", "busy");
    if (is_called(path, "closed"))
        return answer(fd, 429, "Retry-After: 86400\r\n", "come back tomorrow");
    if (is_called(path, "nested") && strncmp(after, "/tree/", 6) == 0) return answer_nested(fd);
    if (is_called(path, "flood") && strncmp(after, "/tree/", 6) == 0) return answer_endlessly(fd);
    if (is_called(path, "round") && strncmp(after, "/tree/", 6) == 0) {
        snprintf(location, sizeof location,
                 "Link: <http://127.0.0.1:%d/api/models/%s/tree/" HUB_REVISION
                 "?cursor=%d>; rel=\"next\"\r\n",
                 hub->port, model, hub->questions++);
        return answer(fd, 200, location, "[]");
    }
    bool is_file = strncmp(after, "/resolve/", strlen("/resolve/")) == 0;
    if (is_called(path, "later") && is_file && hub->later < 2)
        return answer(fd, hub->later++ == 0 ? 429 : 503, "Retry-After: 1\r\n", "later");
    if (is_called(path, "never") && is_file) return answer(fd, 503, "", "busy");
    if (is_called(path, "tomorrow") && is_file)
        return answer(fd, 503, "Retry-After: 86400\r\n", "come back tomorrow");
    if (is_called(path, "long") && strcmp(after, "/revision/main") == 0)
        return answer(fd, 200, "", "{\"sha\":\"" HUB_REVISION "0\"}");
    if (strcmp(after, "/revision/main") == 0)
        return answer(fd, 200, "", "{\"id\":\"x\",\"sha\":\"" HUB_REVISION "\",\"siblings\":[]}");
    if (strcmp(after, "/tree/" HUB_REVISION) == 0)
        return answer_tree(hub, fd, model,
                           strstr(request->query, "cursor=2") ||
                               strstr(request->query, "cursor=["));
    if (strncmp(after, "/resolve/" HUB_REVISION "/", strlen("/resolve/" HUB_REVISION "/")) == 0) {
        const char *protocol = is_called(path, "ftp") ? "ftp" : "http";
        snprintf(location, sizeof location, "Location: %s://localhost:%d/cdn/%s/%s\r\n", protocol,
                 hub->port, model, after + strlen("/resolve/" HUB_REVISION "/"));
        return answer(fd, 302, location, "elsewhere");
    }
    answer(fd, 404, "", "{\"error\":\"Revision not found\"}");
}

static void serve(Hub *hub) {
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        Request request;
        int fd = accept(hub->listener, NULL, NULL);
        if (fd < 0) continue;
        FILE *connections = fopen(hub->connections, "a");
        fputs("connection\n", connections);
        fclose(connections);
        if (!read_request(fd, &request)) {
            /* it went away */
        } else if (strncmp(request.path, "cdn/", 4) == 0) {
            answer_file(hub, fd, &request);
        } else {
            answer_hub(hub, fd, &request);
        }
        shutdown(fd, SHUT_WR);
        close(fd);
    }
}

HubServer hub_server_start(const char *root, const char *log) {
    HubServer server = {0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    Hub hub = {.root = root, .log = log};
    snprintf(hub.connections, sizeof hub.connections, "%s.connections", log);
    hub.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(hub.listener >= 0);
    assert_int_equal(bind(hub.listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(hub.listener, 16), 0);
    assert_int_equal(getsockname(hub.listener, (struct sockaddr *)&address, &length), 0);
    hub.port = ntohs(address.sin_port);
    snprintf(server.address, sizeof server.address, "http://127.0.0.1:%d", hub.port);
    server.process = fork();
    assert_true(server.process >= 0);
    if (server.process == 0) serve(&hub);
    close(hub.listener);
    return server;
}

void hub_server_stop(HubServer *server) {
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
}

#include "modes/chat/courier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"
#include "system/descriptor.h"
#include "system/helper_process.h"
#include "system/replace_file.h"

extern char **environ;

enum { MAX_BYTES = 1 << 28 };

typedef enum Task {
    TASK_WRITE,
    TASK_READ,
    TASK_EDIT,
    TASK_COMPLETE,
    TASK_APPEND, /* this and the rest: to the session's file */
    TASK_REPLACE,
    TASK_SET_ASIDE
} Task;

/* The head of a message in the pipes, which path and text follow, each with its NUL. In a reply the
 * path is empty, and `task` is 0 for success or 1 for an error whose message is the text. */
typedef struct Message {
    uint32_t task, path_bytes;
    uint64_t text_bytes;
} Message;

/* Reads or writes all of bytes[n]; false: the other end has gone. */
static bool transfer(int fd, void *bytes, size_t n, bool sending) {
    for (size_t done = 0; done < n;) {
        char *at = (char *)bytes + done;
        ssize_t moved = sending ? write(fd, at, n - done) : read(fd, at, n - done);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        done += (size_t)moved;
    }
    return true;
}

static bool send_message(int fd, uint32_t task, const char *path, const char *text, size_t length) {
    Message message = {task, (uint32_t)strlen(path) + 1, length + 1};
    return transfer(fd, &message, sizeof message, true) &&
           transfer(fd, (char *)path, message.path_bytes, true) &&
           transfer(fd, (char *)text, length, true) && transfer(fd, "", 1, true);
}

/* Reads one message; *path and *text are malloc'ed and end with a NUL. False: the pipe has ended, a
 * size is out of range, or there is no memory. */
static bool receive_message(int fd, uint32_t *task, char **path, char **text, size_t *length) {
    Message message;
    *path = *text = NULL;
    if (!transfer(fd, &message, sizeof message, false)) return false;
    if (message.path_bytes < 1 || message.path_bytes > PATH_MAX + 1 || message.text_bytes < 1 ||
        message.text_bytes > MAX_BYTES)
        return false;
    *path = malloc(message.path_bytes);
    *text = malloc(message.text_bytes);
    *task = message.task;
    *length = (size_t)message.text_bytes - 1;
    if (*path && *text && transfer(fd, *path, message.path_bytes, false) &&
        transfer(fd, *text, message.text_bytes, false)) {
        (*path)[message.path_bytes - 1] = (*text)[*length] = '\0';
        return true;
    }
    free(*path);
    free(*text);
    return false;
}

/* ---- In the helper process ----------------------------------------------------------------- */

static Status serve_read(const char *path, char **text, size_t *length, Error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0) close(fd);
        return error_set(error, "%s: %s", path, strerror(errno));
    }
    Status status = S_ISREG(info.st_mode)
                        ? descriptor_read(fd, path, MAX_BYTES - 1, NULL, text, length, error)
                        : error_set(error, "%s: not a regular file", path);
    close(fd);
    return status;
}

/* The files that this process has written, which alone it may replace. */
typedef struct Written {
    struct WrittenFile {
        dev_t device;
        ino_t inode;
    } * files;
    size_t n, capacity;
} Written;

static bool was_written(const Written *written, const struct stat *info) {
    for (size_t i = 0; i < written->n; i++)
        if (written->files[i].device == info->st_dev && written->files[i].inode == info->st_ino)
            return true;
    return false;
}

static bool remember_written(Written *written, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 ||
        !array_reserve(&written->files, &written->capacity, written->n + 1, sizeof *written->files))
        return false;
    written->files[written->n++] = (struct WrittenFile){info.st_dev, info.st_ino};
    return true;
}

/* Whether `path` names a file that this process wrote. Fails for any other thing of this name. */
static Status find_target(const Written *written, const char *path, bool *ours, Error *error) {
    struct stat info;
    *ours = false;
    if (lstat(path, &info) != 0) return STATUS_OK;
    if (!S_ISREG(info.st_mode)) return error_set(error, "%s: not a regular file", path);
    *ours = was_written(written, &info);
    if (*ours) return STATUS_OK;
    return error_set(error, "%s: exists already; name another file, or remove it first", path);
}

static Status serve_write(Written *written, const char *path, const char *text, size_t length,
                          Error *error) {
    char *temporary;
    bool ours;
    if (find_target(written, path, &ours, error) != STATUS_OK) return STATUS_FAILED;
    int fd = replace_file_begin(path, NULL, 0, REPLACE_FILE_PRIVATE, &temporary, error);
    if (fd < 0) return STATUS_FAILED;
    Status status =
        remember_written(written, fd) ? STATUS_OK : error_set(error, "%s: no memory", path);
    if (status == STATUS_OK && !transfer(fd, (char *)text, length, true))
        status = error_set(error, "%s: %s", path, strerror(errno));
    if (status == STATUS_OK) status = replace_file_sync(fd, path, error);
    if (status == STATUS_OK)
        status = ours ? replace_file_rename(&temporary, path, error)
                      : replace_file_rename_new(&temporary, path, error);
    replace_file_discard(&temporary);
    close(fd);
    return status;
}

/* Gives an editor the terminal where the chat has a pipe or a file: it would take the messages that
 * follow for keys, and write its screen among the answers. Without a terminal it reads nothing, and
 * what it writes goes to stderr. *opened is to be closed; -1: nothing. */
static bool editor_streams(posix_spawn_file_actions_t *actions, int *opened) {
    bool reads = isatty(STDIN_FILENO), writes = isatty(STDOUT_FILENO);
    *opened = -1;
    if (reads && writes) return true;
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    *opened = terminal >= 0 ? terminal : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (*opened < 0) return false;
    int output = terminal >= 0 ? terminal : STDERR_FILENO;
    return (reads || posix_spawn_file_actions_adddup2(actions, *opened, STDIN_FILENO) == 0) &&
           (writes || posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO) == 0);
}

/* Starts the shell with the arguments; 0 or an errno. */
static int spawn_editor(pid_t *child, char *const *arguments) {
    posix_spawn_file_actions_t actions;
    int opened = -1, failed = posix_spawn_file_actions_init(&actions);
    if (failed) return failed;
    failed = editor_streams(&actions, &opened)
                 ? posix_spawnp(child, "sh", &actions, NULL, arguments, environ)
                 : EIO;
    posix_spawn_file_actions_destroy(&actions);
    if (opened >= 0) close(opened);
    return failed;
}

/* Lets the user edit the text in a temporary file with $VISUAL, $EDITOR or vi, and reads it back.
 * When the editor did not save the file, *edited stays as it was. */
static Status serve_edit(const char *text, size_t length, char **edited, size_t *edited_length,
                         Error *error) {
    char path[] = "/tmp/verbatim-message-XXXXXX";
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor) editor = getenv("EDITOR");
    if (!editor || !*editor) editor = "vi";
    int fd = mkstemp(path);
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    bool written = transfer(fd, (char *)text, length, true);
    /* An old time: the editor may write within the tick of the clock that files' times have. */
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    written = futimens(fd, old) == 0 && written;
    close(fd);
    /* $EDITOR may hold options, so that a shell must split it. */
    char command[PATH_MAX];
    char *arguments[] = {"sh", "-c", command, "sh", path, NULL};
    pid_t child;
    int exit_status = -1, failed = 1;
    if (written &&
        snprintf(command, sizeof command, "exec %s \"$1\"", editor) < (int)sizeof command)
        failed = spawn_editor(&child, arguments);
    while (!failed && waitpid(child, &exit_status, 0) < 0 && errno == EINTR) {
    }
    struct stat info;
    Status status = STATUS_OK;
    if (failed || exit_status != 0)
        status = error_set(error, "%s: no message came back", editor);
    else if (stat(path, &info) != 0 || info.st_mtime != old[1].tv_sec)
        status = serve_read(path, edited, edited_length, error);
    unlink(path);
    return status;
}

/* Lists the entries of the directory `at` whose names begin with `name`, each allocated, in
 * names[most]; returns how many. Directories end in '/'. */
static size_t list_names(const char *at, const char *name, char **names, size_t most) {
    size_t n = 0, length = strlen(name);
    DIR *directory = opendir(at);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct stat info;
        if (strncmp(entry->d_name, name, length) != 0 || (!*name && entry->d_name[0] == '.') ||
            strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        bool is_directory =
            fstatat(dirfd(directory), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
        if (n == most || strchr(entry->d_name, '\n') ||
            asprintf(&names[n], "%s%s", entry->d_name, is_directory ? "/" : "") < 0)
            continue;
        n++;
    }
    if (directory) closedir(directory);
    return n;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Completes a path: *result is the names' common beginning, then a line for each name, or "" where
 * there are none or more than MOST. */
static Status serve_complete(const char *path, char **result, size_t *length, Error *error) {
    enum { MOST = 1000 };
    char *names[MOST + 1], directory[PATH_MAX + 1];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
    size_t n = list_names(slash ? directory : ".", name, names, MOST + 1);
    size_t common = n > 0 ? strlen(names[0]) : 0;
    qsort(names, n, sizeof *names, compare_names);
    FILE *out = open_memstream(result, length);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < common; k++)
            if (names[i][k] != names[0][k]) common = k;
    if (n > 0) common = utf8_boundary(names[0], strlen(names[0]), common);
    if (out && n > 0 && n <= MOST) fprintf(out, "%.*s", (int)common, names[0]);
    for (size_t i = 0; i < n; i++) {
        if (out && n <= MOST) fprintf(out, "\n%s", names[i]);
        free(names[i]);
    }
    if (out && fclose(out) == 0) return STATUS_OK;
    return error_set(error, "no memory for names");
}

static Status serve_set_aside(const SessionFile *session, char **result, size_t *length,
                              Error *error) {
    char aside[PATH_MAX];
    if (session_file_set_aside(session, aside, error) != STATUS_OK) return STATUS_FAILED;
    *result = strdup(aside);
    *length = strlen(aside);
    return *result ? STATUS_OK : error_set(error, "no memory for a name");
}

/* Answers messages until the other end closes the pipe. */
static void serve(int from, int to, SessionFile session) {
    uint32_t task;
    char *path, *text;
    size_t length;
    Written written = {0};
    while (receive_message(from, &task, &path, &text, &length)) {
        Error error = {"there is no session"};
        char *result = NULL;
        size_t result_length = 0;
        Status status = STATUS_FAILED;
        if (task == TASK_WRITE)
            status = serve_write(&written, path, text, length, &error);
        else if (task == TASK_READ)
            status = serve_read(path, &result, &result_length, &error);
        else if (task == TASK_EDIT)
            status = serve_edit(text, length, &result, &result_length, &error);
        else if (task == TASK_COMPLETE)
            status = serve_complete(path, &result, &result_length, &error);
        else if (session.path && task == TASK_APPEND)
            status = session_file_append(&session, text, length, &error);
        else if (session.path && task == TASK_REPLACE)
            status = session_file_replace(&session, text, length, &error);
        else if (session.path && task == TASK_SET_ASIDE)
            status = serve_set_aside(&session, &result, &result_length, &error);
        bool ok = status == STATUS_OK;
        bool sent = send_message(to, !ok, "", ok ? (result ? result : "") : error.text,
                                 ok ? result_length : strlen(error.text));
        free(result);
        free(path);
        free(text);
        if (!sent) break;
    }
    free(written.files);
    session_file_remove_empty(&session);
    session_file_close(&session); /* before the pipe, which tells that it is free */
}

/* ---- In the program ------------------------------------------------------------------------ */

Status courier_start(Courier *courier, const SessionFile *session, Error *error) {
    HelperProcess helper;
    *courier = (Courier){-1, -1, -1};
    if (helper_process_start(&helper, "touches files", error) != STATUS_OK) return STATUS_FAILED;
    if (helper.process == 0) {
        /* Ctrl-C stops the answer; the editor sets its own signals. */
        signal(SIGINT, SIG_IGN);
        serve(helper.from, helper.to, session ? *session : SESSION_FILE_NONE);
        _exit(0);
    }
    *courier = (Courier){helper.process, helper.to, helper.from};
    return STATUS_OK;
}

void courier_end(Courier *courier) {
    struct pollfd end = {.fd = courier->from}; /* POLLHUP: it has ended */
    if (courier->to >= 0) close(courier->to);
    while (courier->process > 0 && poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    if (courier->from >= 0) close(courier->from);
    *courier = (Courier){-1, -1, -1};
}

/* Sends a task to the process that touches files and waits for the reply: the malloc'ed *result, or
 * the text of the error. */
static Status request(Courier *courier, Task task, const char *path, const char *text,
                      size_t length, char **result, size_t *result_length, Error *error) {
    uint32_t failed;
    char *empty, *reply;
    size_t reply_length;
    if (strlen(path) > PATH_MAX || length >= MAX_BYTES)
        return error_set(error, "%s: too long for the process that touches files", path);
    if (courier->to < 0 || !send_message(courier->to, (uint32_t)task, path, text, length) ||
        !receive_message(courier->from, &failed, &empty, &reply, &reply_length)) {
        courier_end(courier); /* what is left in the pipes is not a reply to the next message */
        return error_set(error, "%s: the process that touches files has ended", path);
    }
    free(empty);
    if (failed || !result) {
        Status status = failed ? error_set(error, "%s", reply) : STATUS_OK;
        free(reply);
        return status;
    }
    *result = reply;
    *result_length = reply_length;
    return STATUS_OK;
}

Status courier_write(Courier *courier, const char *path, const char *text, size_t length,
                     Error *error) {
    return request(courier, TASK_WRITE, path, text, length, NULL, NULL, error);
}

Status courier_read(Courier *courier, const char *path, char **text, size_t *length, Error *error) {
    return request(courier, TASK_READ, path, "", 0, text, length, error);
}

Status courier_complete(Courier *courier, const char *path, char **names, size_t *length,
                        Error *error) {
    return request(courier, TASK_COMPLETE, path, "", 0, names, length, error);
}

Status courier_edit(Courier *courier, const char *text, char **edited, size_t *length,
                    Error *error) {
    return request(courier, TASK_EDIT, "", text, strlen(text), edited, length, error);
}

Status courier_append(Courier *courier, const char *path, const char *text, size_t length,
                      Error *error) {
    return request(courier, TASK_APPEND, path, text, length, NULL, NULL, error);
}

Status courier_replace(Courier *courier, const char *path, const char *text, size_t length,
                       Error *error) {
    return request(courier, TASK_REPLACE, path, text, length, NULL, NULL, error);
}

Status courier_set_aside(Courier *courier, const char *path, char aside[PATH_MAX], Error *error) {
    char *name = NULL;
    size_t length;
    if (request(courier, TASK_SET_ASIDE, path, "", 0, &name, &length, error) != STATUS_OK)
        return STATUS_FAILED;
    snprintf(aside, PATH_MAX, "%s", name);
    free(name);
    return STATUS_OK;
}

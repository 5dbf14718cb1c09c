/* Latency and rate of a network, by TCP. Run by scripts/measure-ranks, one process at each end.
 *
 *     measure_link            listens, answers one measurement, and ends
 *     measure_link ADDRESS    prints "MICROSECONDS GBIT": half of the median round trip of 64 bytes
 *                             and the rate of 64 MiB, each in one direction
 *
 * Both ends poll, as MPI does while it waits: each needs a core of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7777, SMALL = 64, TRIPS = 2001, CHUNK = 1 << 16, CHUNKS = 1024 };

_Noreturn static void fail(const char *what) {
    fprintf(stderr, "measure_link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void send_all(int s, const char *data, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t sent = send(s, data + done, n - done, MSG_NOSIGNAL);
        if (sent < 0) fail("send");
        done += (size_t)sent;
    }
}

static void receive_all(int s, char *data, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t received = recv(s, data + done, n - done, MSG_DONTWAIT);
        if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) fail("receive");
        if (received > 0) done += (size_t)received;
    }
}

static int join(const char *address) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    const int yes = 1;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), other;
    if (s < 0) fail("socket");
    if (address) {
        if (inet_pton(AF_INET, address, &at.sin_addr) != 1) fail(address);
        for (int i = 0; connect(s, (struct sockaddr *)&at, sizeof at) != 0; i++) {
            if (i == 100) fail(address);
            usleep(20000);
            close(s);
            s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        }
        other = s;
    } else {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(s, (struct sockaddr *)&at, sizeof at) != 0 || listen(s, 1) != 0) fail("listen");
        other = accept(s, NULL, NULL);
        if (other < 0) fail("accept");
    }
    setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return other;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static char data[CHUNK];
    static double trips[TRIPS];
    int s = join(argc > 1 ? argv[1] : NULL);
    for (size_t i = 0; i < TRIPS; i++) {
        double start = seconds();
        if (argc > 1) send_all(s, data, SMALL);
        receive_all(s, data, SMALL);
        if (argc <= 1) send_all(s, data, SMALL);
        trips[i] = seconds() - start;
    }
    double start = seconds();
    for (size_t i = 0; i < CHUNKS; i++) {
        if (argc > 1) send_all(s, data, CHUNK);
        if (argc <= 1) receive_all(s, data, CHUNK);
    }
    if (argc > 1) receive_all(s, data, 1);
    if (argc <= 1) send_all(s, data, 1);
    double rate = 8e-9 * CHUNK * CHUNKS / (seconds() - start);
    qsort(trips, TRIPS, sizeof *trips, ascending);
    if (argc > 1) printf("%.1f %.2f\n", trips[TRIPS / 2] * 0.5e6, rate);
    return 0;
}

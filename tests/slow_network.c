/* A network of chosen delay and rate between network namespaces, for kernels without sch_netem.
 * Run by scripts/measure-ranks, as root.
 *
 *     slow_network MICROSECONDS GBIT NAMESPACE...
 *
 * Each namespace gets a TUN device "slow0" of the address 10.77.0.I, I counted from 1. What one
 * sends to another is handed on, as a cable would: packets leave one after another at the rate of
 * the sender's port, and arrive the delay later. Runs until a signal ends it, which removes the
 * devices. Give it a real-time priority (chrt), so that it wakes up in time. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_PORTS = 16,
    MTU = 9000,
    WAITING = 4096, /* packets on a port's cable */
    LATE = 30000    /* nanoseconds that a timer may be late: the last ones are polled away */
};

typedef struct Packet {
    uint64_t due; /* nanoseconds */
    size_t to, bytes;
    unsigned char data[MTU];
} Packet;

/* A namespace's end of the network. Packets arrive in the order in which they were sent. */
typedef struct Port {
    int fd;
    uint64_t free; /* when the last packet has left it */
    Packet *sent;  /* [WAITING], a ring */
    size_t first, n;
} Port;

typedef struct Network {
    Port ports[MOST_PORTS];
    size_t n_ports;
    uint64_t delay; /* nanoseconds */
    double nanoseconds_a_byte;
} Network;

_Noreturn static void fail(const char *what) {
    fprintf(stderr, "slow_network: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- Devices ---- */

/* Gives the device of the namespace that the process is in its address, and starts it. */
static void configure(struct ifreq *request, size_t number) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(0x0a4d0000u + (uint32_t)number);
    memcpy(&request->ifr_addr, &address, sizeof address);
    if (s < 0 || ioctl(s, SIOCSIFADDR, request) != 0) fail("address");
    address.sin_addr.s_addr = htonl(0xffffff00u);
    memcpy(&request->ifr_netmask, &address, sizeof address);
    if (ioctl(s, SIOCSIFNETMASK, request) != 0) fail("netmask");
    request->ifr_mtu = MTU;
    if (ioctl(s, SIOCSIFMTU, request) != 0) fail("MTU");
    request->ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(s, SIOCSIFFLAGS, request) != 0) fail("starting the device");
    close(s);
}

static void open_port(Port *port, const char *namespace, size_t number) {
    char path[256];
    struct ifreq request = {.ifr_name = "slow0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int net = open(path, O_RDONLY | O_CLOEXEC);
    if (net < 0 || setns(net, CLONE_NEWNET) != 0) fail(namespace);
    close(net);
    port->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (port->fd < 0 || ioctl(port->fd, TUNSETIFF, &request) != 0) fail("/dev/net/tun");
    configure(&request, number);
    port->sent = calloc(WAITING, sizeof *port->sent);
    if (!port->sent) fail("memory");
}

/* ---- Packets ---- */

/* The port that the packet is for, by the last byte of its IPv4 address; n_ports: none. */
static size_t target(const Network *network, const unsigned char *data, size_t bytes) {
    bool known = bytes >= 20 && data[0] >> 4 == 4 && data[19] >= 1 && data[19] <= network->n_ports;
    return known ? data[19] - 1u : network->n_ports;
}

/* Takes a few of the packets that the namespace sends, so that no other has to wait long. */
static void receive(Network *network, Port *port) {
    for (int i = 0; i < 4 && port->n < WAITING; i++) {
        Packet *p = &port->sent[(port->first + port->n) % WAITING];
        ssize_t bytes = read(port->fd, p->data, sizeof p->data);
        uint64_t time = now();
        if (bytes <= 0) return;
        p->bytes = (size_t)bytes;
        p->to = target(network, p->data, p->bytes);
        if (p->to == network->n_ports) continue;
        if (port->free < time) port->free = time;
        port->free += (uint64_t)((double)bytes * network->nanoseconds_a_byte);
        p->due = port->free + network->delay;
        port->n++;
    }
}

/* Hands on what is due. Returns when the next packet is; 0: none waits. */
static uint64_t deliver(Network *network, uint64_t time) {
    uint64_t next = 0;
    for (size_t i = 0; i < network->n_ports; i++) {
        Port *port = &network->ports[i];
        for (; port->n > 0 && port->sent[port->first].due <= time; port->n--) {
            const Packet *p = &port->sent[port->first];
            if (write(network->ports[p->to].fd, p->data, p->bytes) < 0 && errno != ENOBUFS)
                fail("delivering a packet");
            port->first = (port->first + 1) % WAITING;
        }
        if (port->n > 0 && (next == 0 || port->sent[port->first].due < next))
            next = port->sent[port->first].due;
    }
    return next;
}

int main(int argc, char **argv) {
    static Network network;
    struct pollfd ready[MOST_PORTS];
    if (argc < 5 || argc - 3 > MOST_PORTS) {
        fprintf(stderr, "usage: slow_network MICROSECONDS GBIT NAMESPACE NAMESPACE...\n");
        return 2;
    }
    network.delay = (uint64_t)(strtod(argv[1], NULL) * 1e3);
    network.nanoseconds_a_byte = 8.0 / strtod(argv[2], NULL);
    network.n_ports = (size_t)argc - 3;
    for (size_t i = 0; i < network.n_ports; i++) open_port(&network.ports[i], argv[i + 3], i + 1);
    for (;;) {
        uint64_t next = deliver(&network, now()), time = now();
        uint64_t left = next > time + LATE ? next - time - LATE : 0; /* then it polls */
        const struct timespec wait = {.tv_sec = (time_t)(left / 1000000000),
                                      .tv_nsec = (long)(left % 1000000000)};
        for (size_t i = 0; i < network.n_ports; i++) {
            bool room = network.ports[i].n < WAITING;
            ready[i] = (struct pollfd){.fd = network.ports[i].fd, .events = room ? POLLIN : 0};
        }
        int n = ppoll(ready, network.n_ports, next ? &wait : NULL, NULL);
        if (n < 0 && errno != EINTR) fail("poll");
        for (size_t i = 0; i < network.n_ports && n > 0; i++)
            if (ready[i].revents & POLLIN) receive(&network, &network.ports[i]);
    }
}

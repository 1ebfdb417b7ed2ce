/*
 * shape - shape one end of a veth pair: switch its offloads off and delay what it sends.
 *
 *     shape INTERFACE DELAY_MS
 *
 * Busybox can make a veth pair and move one end into a namespace, but it has neither ethtool nor
 * netem. Without offloads each packet in a capture is one segment, as on a real link.
 *
 * Sources: rtnetlink(7); <linux/pkt_sched.h> (netem); the kernel's ethtool_ioctl.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUE_PACKETS = 1000 };

struct request {
    struct nlmsghdr header;
    struct tcmsg queue;
    char attributes[256];
};

static void fail(const char *what) {
    fprintf(stderr, "shape: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Appends an attribute; returns the place of its data. */
static void *append(struct request *request, unsigned short type, const void *data, size_t size) {
    struct rtattr *attribute =
        (struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute), data, size);
    request->header.nlmsg_len =
        NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(RTA_LENGTH(size));
    return attribute;
}

static void delay(int interface, double milliseconds) {
    struct request request = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof request.queue),
                   .nlmsg_type = RTM_NEWQDISC,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE},
        .queue = {.tcm_family = AF_UNSPEC,
                  .tcm_ifindex = interface,
                  .tcm_handle = 0x10000,
                  .tcm_parent = TC_H_ROOT},
    };
    struct tc_netem_qopt shape = {.limit = QUEUE_PACKETS};
    long long nanoseconds = (long long)(milliseconds * 1e6);
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

    append(&request, TCA_KIND, "netem", sizeof "netem");
    struct rtattr *options = append(&request, TCA_OPTIONS, &shape, sizeof shape);
    append(&request, TCA_NETEM_LATENCY64, &nanoseconds, sizeof nanoseconds);
    options->rta_len =
        (unsigned short)((char *)&request + request.header.nlmsg_len - (char *)options);
    if (fd < 0 || send(fd, &request, request.header.nlmsg_len, 0) < 0 ||
        recv(fd, &answer, sizeof answer, 0) < 0)
        fail("netlink");
    errno = -answer.error.error;
    if (errno)
        fail("netem");
    close(fd);
}

static void switch_off_offloads(const char *interface) {
    static const unsigned commands[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ethtool_value off = {.cmd = commands[i]};
        struct ifreq device = {.ifr_data = (char *)&off};
        snprintf(device.ifr_name, sizeof device.ifr_name, "%s", interface);
        if (ioctl(fd, SIOCETHTOOL, &device) < 0)
            fail("ethtool");
    }
    close(fd);
}

int main(int argc, char **argv) {
    unsigned interface = argc == 3 ? if_nametoindex(argv[1]) : 0;

    if (!interface) {
        fprintf(stderr, "usage: shape INTERFACE DELAY_MS\n");
        return 2;
    }
    switch_off_offloads(argv[1]);
    delay((int)interface, atof(argv[2]));
    return 0;
}

/*
 * offloads - switch the segmentation and checksum offloads of an interface on or off.
 *
 *     offloads on|off INTERFACE
 *
 * Busybox has no ethtool. Without offloads each packet in a capture is one segment, as on a real
 * link. Source: the kernel's ethtool_ioctl.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int main(int argc, char **argv) {
    static const unsigned commands[] = {ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (argc != 3) {
        fprintf(stderr, "usage: offloads on|off INTERFACE\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ethtool_value value = {.cmd = commands[i], .data = strcmp(argv[1], "on") == 0};
        struct ifreq device = {.ifr_data = (char *)&value};
        snprintf(device.ifr_name, sizeof device.ifr_name, "%s", argv[2]);
        if (ioctl(fd, SIOCETHTOOL, &device) < 0) {
            fprintf(stderr, "offloads: %s: %s\n", argv[2], strerror(errno));
            return 1;
        }
    }
    return 0;
}

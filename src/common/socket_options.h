/*
 * socket_options.h - setting a socket's options, and reading back what the kernel granted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* setsockopt and getsockopt for options that are an int; name is for the message. */
void set_option(int fd, int level, int option, int64_t value, const char *name);
int get_option(int fd, int level, int option, const char *name);

/* The congestion control of --congestion, if any: chosen before connect(), and again afterwards,
   because a route with "congctl" overrides it. */
void choose_congestion(int fd);

/* What the kernel granted, as opposed to what was asked for. */
struct socket_options {
    bool is_tcp;
    char congestion[16]; /* TCP_CA_NAME_MAX, which the kernel's headers for programs lack */
    int mss, nodelay;    /* of TCP only */
    int sndbuf_bytes, rcvbuf_bytes;
    char local[96], peer[96]; /* "10.0.0.1 port 9000" */
};

struct socket_options read_options(int fd);

/* When a receiver acknowledges: as its kernel likes, as late as it may, or at once. The latter two
   last only until the kernel changes its mind, so they are set anew after every read. Returns the
   number of system calls made: 0 or 1. */
enum quickack { QUICKACK_ON, QUICKACK_OFF, QUICKACK_ALWAYS };
extern const char *const quickack_names[];
int set_quickack(int fd, int when);

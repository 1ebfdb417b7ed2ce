/*
 * tcp_info.h - what the kernel knows of a connection: TCP_INFO in tcp(7).
 */
#pragma once

#include "json.h"

#include <linux/tcp.h> /* newer than netinet/tcp.h: the whole of struct tcp_info */

/* Linux fills the fields it knows and leaves the rest 0. */
struct tcp_info read_tcp_info(int fd);

/* Every field of struct tcp_info, in the plain form those that say what TCP was waiting for; times
   and sizes are named with their unit. */
void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info);

/* Prints a sample of TCP_INFO as a line of JSON now and every `interval_ms` until stop_sampler(),
   from a thread of its own: also while the program waits in a write. 0 means never. */
void start_sampler(int fd, double interval_ms);
void stop_sampler(void);

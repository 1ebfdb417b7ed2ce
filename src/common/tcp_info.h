/*
 * tcp_info.h - the kernel's information on a connection (TCP_INFO in tcp(7)).
 */
#pragma once

#include "json.h"

#include <linux/tcp.h> /* has all of struct tcp_info, unlike netinet/tcp.h */

/* Reads TCP_INFO; Linux fills the fields it knows and leaves the rest 0. */
struct tcp_info read_tcp_info(int fd);

/* Writes every field of struct tcp_info, or in plain form only those on TCP's waits. Names of times
   and sizes include the unit. */
void json_tcp_info(struct json *j, const char *key, const struct tcp_info *info);

/* Prints a sample of TCP_INFO as a line of JSON now and every `interval_ms` until stop_sampler().
   It uses a separate thread, so it works while the program waits in a write. 0 means never. */
void start_sampler(int fd, double interval_ms);
void stop_sampler(void);

/*
 * cached_file.h - a file to be sent, and how much of it is in the page cache.
 */
#pragma once

#include <stdint.h>

/* A regular file opened for reading, and its size. */
int open_regular_file(const char *path, int64_t *size);

enum cache { CACHE_COLD, CACHE_WARM, CACHE_ASIS };
extern const char *const cache_names[];

/* Drops the file from the page cache or reads it in, and returns the share of it that is there
   (mincore(2)), 0 to 1; a failure if that isn't what was asked for. */
double prepare_cache(int file, const char *path, int cache);

/*
 * cached_file.h - a file to send, and its share in the page cache.
 */
#pragma once

#include <stdint.h>

/* Opens a regular file for reading, and sets its size. */
int open_regular_file(const char *path, int64_t *size);

enum cache { CACHE_COLD, CACHE_WARM, CACHE_ASIS };
extern const char *const cache_names[];

/* Drops the file from the page cache or reads it in. Returns its share there, 0 to 1 (mincore(2));
   fails if that is not the requested state. */
double prepare_cache(int file, const char *path, int cache);

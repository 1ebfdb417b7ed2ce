/* cached_file.c - see cached_file.h. */
#define _GNU_SOURCE
#include "cached_file.h"

#include "process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const cache_names[] = {"cold", "warm", "asis", NULL};

int open_regular_file(const char *path, int64_t *size) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0)
        fail("%s", path);
    if (!S_ISREG(status.st_mode))
        fail_because("%s is not a regular file", path);
    *size = status.st_size;
    return file;
}

/* By mincore(2), in windows: a file may be larger than the address space that we are allowed. */
static double cached_share(int file, const char *path) {
    enum { WINDOW_BYTES = 1 << 22 };
    const off_t size = lseek(file, 0, SEEK_END), page = sysconf(_SC_PAGESIZE);
    unsigned char *resident = allocate((size_t)(WINDOW_BYTES / page), 1);
    off_t pages = 0, in_memory = 0;
    for (off_t at = 0; at < size; at += WINDOW_BYTES) {
        size_t bytes = (size_t)(size - at < WINDOW_BYTES ? size - at : WINDOW_BYTES);
        void *mapping = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, at);
        if (mapping == MAP_FAILED || mincore(mapping, bytes, resident) < 0)
            fail("mincore of %s", path);
        for (off_t i = 0; i * page < (off_t)bytes; i++, pages++)
            in_memory += resident[i] & 1;
        munmap(mapping, bytes);
    }
    free(resident);
    return pages ? (double)in_memory / (double)pages : 1;
}

static void read_through(int file, const char *path) {
    enum { BLOCK = 1 << 20 };
    char *buffer = allocate(BLOCK, 1);
    ssize_t got;
    for (off_t at = 0; (got = pread(file, buffer, BLOCK, at)) > 0;)
        at += got;
    if (got < 0)
        fail("reading %s", path);
    free(buffer);
}

double prepare_cache(int file, const char *path, int cache) {
    /* Pages that still have to be written to the disk would stay, so write them first. */
    if (cache == CACHE_COLD && fsync(file) == 0)
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (cache == CACHE_WARM)
        read_through(file, path);
    /* A kernel short of memory takes a page back at any time: a few change no measurement. */
    const double tolerance = 0.05;
    double share = cached_share(file, path);
    if (cache == CACHE_COLD && share > tolerance)
        fail_because("cold: %.0f %% of %s is still in the page cache (is it on a tmpfs, in use, or "
                     "not yours?)",
                     share * 100, path);
    if (cache == CACHE_WARM && share < 1 - tolerance)
        fail_because("warm: only %.0f %% of %s stays in the page cache (is it larger than that?)",
                     share * 100, path);
    return share;
}

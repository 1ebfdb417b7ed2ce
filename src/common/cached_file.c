/* cached_file.c - see cached_file.h. */
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

enum { WINDOW_BYTES = 1 << 22 };

/* Returns the number of pages of a file's window in memory; mincore(2) needs a mapping. */
static size_t pages_in_memory(int file, const char *path, off_t at, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (size + page - 1) / page, in = 0;
    unsigned char *resident = allocate(pages, 1);
    void *mapping = mmap(NULL, size, PROT_READ, MAP_SHARED, file, at);
    if (mapping == MAP_FAILED || mincore(mapping, size, resident) < 0)
        fail("mincore of %s", path);
    for (size_t i = 0; i < pages; i++)
        in += resident[i] & 1;
    munmap(mapping, size);
    free(resident);
    return in;
}

/* Computes the share in windows, since a file may exceed the allowed address space. */
static double cached_share(int file, const char *path) {
    off_t size = lseek(file, 0, SEEK_END), page = sysconf(_SC_PAGESIZE);
    off_t pages = (size + page - 1) / page;
    size_t in = 0;
    for (off_t at = 0; at < size; at += WINDOW_BYTES)
        in += pages_in_memory(file, path, at,
                              (size_t)(size - at < WINDOW_BYTES ? size - at : WINDOW_BYTES));
    return pages > 0 ? (double)in / (double)pages : 1;
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
    /* Dirty pages would stay, so write them to the disk first. */
    if (cache == CACHE_COLD && fsync(file) == 0)
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (cache == CACHE_WARM)
        read_through(file, path);
    /* A kernel short of memory may drop pages at any time, but a few do not matter. */
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

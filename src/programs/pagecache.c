/*
 * pagecache - print how much of a file is in memory, and read it in or drop it.
 *
 *     pagecache [--state cold|warm|asis] FILE
 *
 * Chen Shuo's `nc < file` gave 116 MB/s the first time and 1075 MB/s the second, since the first
 * run read the disk and the second the page cache. A measurement should not leave that to chance.
 * cold drops the file (POSIX_FADV_DONTNEED in posix_fadvise(2)), warm reads it, and asis does
 * neither. mincore(2) reports the result, and the program fails if it is not the requested one.
 *
 * Only files on disks can be dropped, since those of a tmpfs exist only in memory.
 */
#include "net.h"

static int state = CACHE_ASIS;

static const struct program_option options[MAX_OPTIONS] = {
    {"state", 0, "STATE", "state to produce first", .choice = &state, .names = cache_names},
};

static const struct command command = {
    .usage = "pagecache [OPTION]... FILE",
    .summary = "Reports how much of FILE is in the page cache; reads it in or drops it on request.",
    .options = options,
    .arguments = {1, 1},
};

int main(int argc, char **argv) {
    const char *path = start_program(argc, argv, &command)[0];
    int64_t size;
    int file = open_regular_file(path, &size);
    double share = prepare_cache(file, path, state);

    struct json j = start_result(stdout);
    json_int(&j, "bytes", size);
    json_double(&j, "cached_share", share);
    json_finish(&j);
}

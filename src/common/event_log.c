/* event_log.c - see event_log.h. */
#include "event_log.h"

#include "process.h"

/* Half a million events stay in memory, so that writing them does not disturb the measurement. */
enum { LOG_BUFFER_BYTES = 1 << 24 };

static FILE *event_log;

void open_log(const char *path) {
    if (!path)
        return;
    event_log = fopen(path, "we");
    if (!event_log || setvbuf(event_log, NULL, _IOFBF, LOG_BUFFER_BYTES) != 0)
        fail("--log %s", path);
    fputs("# CLOCK_REALTIME ns, event, bytes\n", event_log);
}

void log_event(const char *event, size_t bytes) {
    if (event_log)
        fprintf(event_log, "%lld %s %zu\n", (long long)clock_ns(CLOCK_REALTIME), event, bytes);
}

void close_log(void) {
    if (event_log && fclose(event_log) == EOF)
        fail("writing the --log file");
    event_log = NULL;
}

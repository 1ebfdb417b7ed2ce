/* Any stream is parsed in the same way, however it is cut into reads. */
#include "fuzz.h"

#include "../../src/programs/recordsink.c"

struct outcome {
    int64_t records, batches;
    size_t filled;
    int padded_left;
    bool refused;
};

/* Parses the data in reads of `each` bytes; a malformed record ends it. */
static struct outcome take_apart(const uint8_t *data, size_t size, size_t each) {
    memset(&in, 0, sizeof in);
    char *pending = allocate(MAX_RECORD + each, 1);
    struct outcome outcome = {0};
    in.pending = pending;
    if (RUN_ENDS() == 0) {
        for (size_t at = 0; at < size; at += each) {
            size_t got = size - at < each ? size - at : each;
            memcpy(in.pending + in.filled, data + at, got);
            take_read(got);
            CHECK(in.filled < MAX_RECORD);
            CHECK(in.padded_left >= 0 && in.padded_left <= MAX_BATCH);
        }
        outcome = (struct outcome){in.records, in.batches, in.filled, in.padded_left, false};
    } else {
        outcome = (struct outcome){in.records, in.batches, 0, 0, true};
    }
    free(pending);
    return outcome;
}

static bool same(struct outcome a, struct outcome b) {
    return a.records == b.records && a.batches == b.batches && a.refused == b.refused &&
           a.filled == b.filled && a.padded_left == b.padded_left;
}

/* The first byte is the size of the reads. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t each = (size_t)data[0] + 1;
    struct outcome pieces = take_apart(data + 1, size - 1, each);
    struct outcome whole = take_apart(data + 1, size - 1, size);
    CHECK(same(pieces, whole));
    return 0;
}

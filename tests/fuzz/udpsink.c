/* For any datagrams, single or several per read (UDP_GRO), the counts agree. */
#include "fuzz.h"

#include "../../src/programs/udpsink.c"

static void forget(void) {
    int64_t highest = tally.next < MAX_COUNT ? tally.next : MAX_COUNT - 1;
    memset(tally.seen, 0, (size_t)highest / 8 + 1);
    memset(&tally, 0, offsetof(struct tally, seen));
}

static void check_counts(void) {
    CHECK(tally.arrived >= 0 && tally.arrived <= tally.next && tally.next <= MAX_COUNT);
    CHECK(tally.reordered <= tally.arrived);
    CHECK(tally.arrived == 0 || tally.started);
    CHECK(!tally.ended || tally.sent >= tally.arrived);
    CHECK(tally.bytes >= tally.arrived * (int64_t)sizeof(struct header));
}

/* Before each read, one byte gives the size of its datagrams, and another the size of the read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    forget();
    while (size >= 2) {
        size_t segment = data[0], length = data[1];
        data += 2;
        size -= 2;
        if (length > size)
            length = size;
        take_read((const char *)data, length, segment);
        check_counts();
        data += length;
        size -= length;
    }
    return 0;
}

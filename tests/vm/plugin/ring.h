/* What numatruth hands to the guest while it runs, through pages of the guest's own memory: samples of accesses, as
 * hardware takes them, and how far the followed programs are by the model. All numbers are the host's, little-endian.
 *
 * The guest marks each page with RING_PAGE and the page's own physical address, and tells numatruth of it
 * (MARK_RING). Page 0 is the head, the others hold records, and the ring is as long as there were pages when the
 * guest set a period (MARK_PERIOD). */
#include <stdint.h>

#define RING_PAGE 0x4e554d4152494e47ull
/* What numatruth makes of the mark of a page that it has found. */
#define RING_FOUND (~RING_PAGE)

#define RING_PAGES_MAX 1024
#define RING_NODES 8
#define RING_PROCESSES 64

enum { RECORD_LOAD = 1, RECORD_STORE = 2 };
/* As recordings number them. */
enum { SERVED_L1 = 1, SERVED_LLC = 3, SERVED_OTHER = 4, SERVED_LOCAL = 5, SERVED_REMOTE = 6 };

/* One sample; 64 of them fill a page. */
struct record {
    uint64_t sequence;
    /* Instructions of all processors so far. */
    uint64_t at;
    uint64_t address;
    uint64_t physical;
    uint32_t pid;
    uint32_t tid;
    uint32_t cycles;
    uint16_t cpu;
    uint8_t kind;
    uint8_t served;
    uint8_t unused[16];
};
_Static_assert(sizeof(struct record) == 64, "records fill pages");

/* A followed process; counts only grow. */
struct progress {
    uint64_t pid;
    uint64_t instructions;
    /* Nanoseconds of all its threads by the model, and those of them that waited for memory. */
    uint64_t nanoseconds;
    uint64_t stalled;
};

struct head {
    uint64_t mark;
    uint64_t physical;
    /* Records that numatruth has written and that the guest has taken. */
    uint64_t written;
    uint64_t taken;
    /* Records for which there was no room. */
    uint64_t lost;
    /* Instructions of all processors when the last window ended; nanoseconds of all windows. */
    uint64_t at;
    uint64_t length;
    uint64_t nodes;
    /* Lines that each node's memory gave and took. */
    uint64_t controller[RING_NODES];
    /* Lines from the memory and caches of a node (column) to another (row), and written back. */
    uint64_t traffic[RING_NODES][RING_NODES];
    struct progress processes[RING_PROCESSES];
};
_Static_assert(sizeof(struct head) <= 4096, "the head is a page");

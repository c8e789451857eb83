/* check FOLDER PERIOD ROUNDS: the sampler and the feeder together, without QEMU and without a guest: eight threads on eight
 * processors sweep a mebibyte each, and what the feeder writes to FOLDER/recording is to be held against what numatruth
 * counts into FOLDER/truth.json, and how fast they were by the model is in FOLDER/counters. src/held.rs does. */
#define _GNU_SOURCE
#define CHECK
#include <stdbool.h>
#include <stdint.h>

void check_install(char *out, uint64_t (*physical)(uint64_t));
void check_switch(int cpu, uint64_t process, uint64_t thread);
void check_mark(unsigned op, uint64_t a, uint64_t b);
void check_access(uint64_t address, bool store);
void check_end(void);
#define MARK(op, a, b) check_mark(op, a, b)

#include <sys/mman.h>

static uint8_t *map_ring(void);
static uint64_t physical_of(const void *page);

#include "feeder.c"

#define THREADS 8
#define NODES 4
#define NODE_BYTES (256ul << 20)
/* Where the ring lies: on which node, and how far from its beginning. */
#define RING_NODE 2
#define RING_OFFSET (40ul << 20)
#define PROCESS 499
#define FIRST_TID 500

static int ring_memory;
static uint8_t *ring_start;

static uint8_t *map_ring(void)
{
    ring_start = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory, RING_OFFSET);
    return ring_start;
}

static uint64_t physical_of(const void *page)
{
    return RING_NODE * NODE_BYTES + RING_OFFSET + ((const uint8_t *)page - ring_start);
}

/* A thread's mebibyte, and the node that it lies on. */
static uint64_t memory_of(int thread) { return (thread + 1ul) << 24; }
static uint64_t translate(uint64_t address)
{
    uint64_t thread = (address >> 24) - 1;
    return thread % NODES * NODE_BYTES + (64ul << 20) + thread * (2ul << 20) + (address & 0xfffff);
}

int main(int argc, char **argv)
{
    static char truth[4096];
    static char counters[200];
    char recording[4096];
    if (argc != 4)
        return 2;
    snprintf(truth, sizeof truth, "out=%s/truth.json", argv[1]);
    snprintf(recording, sizeof recording, "%s/recording", argv[1]);
    period = strtoull(argv[2], NULL, 10);
    snprintf(counters, sizeof counters, "%s/counters", argv[1]);
    speed = counters;
    for (int node = 0; node < NODES; node++) {
        int memory = memfd_create("memory-backend-memfd", MFD_CLOEXEC);
        if (memory < 0 || ftruncate(memory, NODE_BYTES))
            return 1;
        if (node == RING_NODE)
            ring_memory = memory;
    }
    check_install(truth, translate);
    for (int cpu = 0; cpu < THREADS; cpu++) {
        check_switch(cpu, 1, 0);
        MARK(MARK_CPU, cpu, 0);
    }
    make_table();
    make_ring();
    check_switch(0, PROCESS, FIRST_TID);
    MARK(MARK_ATTACH, 0, 0);
    for (int thread = 0; thread < THREADS; thread++) {
        check_switch(thread, PROCESS, FIRST_TID + thread);
        MARK(MARK_THREAD, FIRST_TID + thread, PROCESS);
    }
    int feed = open(recording, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (feed < 0 || !send_header(feed))
        return 1;
    MARK(MARK_START, 0, 0);
    time_before = nanoseconds();
    MARK(MARK_PERIOD, period, 7 << 1 | 1);
    /* Lines that each thread has used; between two rounds the ring is read. */
    uint64_t end = strtoull(argv[3], NULL, 10) * 3000;
    for (uint64_t line = 0; line < end; line += 3000) {
        for (int thread = 0; thread < THREADS; thread++) {
            check_switch(thread, PROCESS, FIRST_TID + thread);
            for (uint64_t next = line; next < line + 3000; next++) {
                uint64_t address = memory_of(thread) + (next * 64 & 0xfffff);
                check_access(address, false);
                check_access(address, true);
            }
        }
        if (!send_records(feed))
            return 1;
    }
    MARK(MARK_STOP, 0, 0);
    tell_speed();
    check_end();
    fprintf(stderr, "feeder: %" PRIu64 " samples, %" PRIu64 " lost\n", sent, lost);
    return 0;
}

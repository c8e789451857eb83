/* feeder FEED [--period N] [--of all|misses] [--seed N] [--speed FILE]: samples of the followed programs' accesses, as hardware
 * takes them, written to a feed of numad (docs/recording-format.md). numatruth takes the samples.
 *
 * With --speed, keeps a file up to date that says how far the followed processes are by the model (docs/config.md,
 * sampling.counters), and what controllers and pairs of nodes carried.
 *
 * With - for FEED it does that alone.
 *
 * Waits until somebody reads the feed, and begins anew whenever that ends. Says at its end, on standard error, how
 * many samples there were and how many were lost. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mark.h"
#include "ring.h"

/* The head and 256 pages of records: 16,384 samples, of which 20,000 a second need 400 between two readings. */
#define PAGES 257
#define PAGE 4096
#define READ_EVERY_NS 20000000
#define BLOCK_MAX 65536
#define ENTRY_MAX 64

static struct head *head;
static struct record *records;
static volatile sig_atomic_t ended;
static uint64_t sent, lost;
static uint64_t period = 1000;

static void fail(const char *what)
{
    fprintf(stderr, "feeder: %s\n", what);
    exit(1);
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* ---- the ring ---- */

#ifndef CHECK
/* Pages that stay where they are: the kernel's compaction is told to leave locked ones alone, and its balancing leaves
 * those alone whose place somebody chose. */
static uint8_t *map_ring(void)
{
    int setting = open("/proc/sys/vm/compact_unevictable_allowed", O_WRONLY | O_CLOEXEC);
    if (setting >= 0 && write(setting, "0\n", 2) != 2)
        fail("the kernel would move locked pages");
    close(setting);
    void *ring = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long first_node = 1;
    if (ring != MAP_FAILED && syscall(SYS_mbind, ring, PAGES * PAGE, MPOL_PREFERRED, &first_node, 64, 0))
        fail("the kernel's balancing would move the ring");
    return ring;
}

static uint64_t physical_of(const void *page)
{
    static int pagemap = -1;
    if (pagemap < 0)
        pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t entry = 0;
    if (pread(pagemap, &entry, 8, (uintptr_t)page / PAGE * 8) != 8)
        fail("cannot read /proc/self/pagemap; run it as root");
    return (entry & ((1ull << 55) - 1)) * PAGE;
}
#endif

static void make_ring(void)
{
    uint8_t *pages = map_ring();
    if (pages == MAP_FAILED || madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE) || mlock(pages, PAGES * PAGE))
        fail("no memory for the ring");
    for (int index = 0; index < PAGES; index++) {
        volatile uint64_t *words = (uint64_t *)(pages + index * PAGE);
        memset((void *)words, 0, PAGE);
        words[1] = physical_of((void *)words);
        words[0] = RING_PAGE;
        MARK(MARK_RING, words[1], index);
        if (words[0] != RING_FOUND)
            fail("nobody samples here: this is no guest of numad-vm, or it counts nothing");
    }
    head = (struct head *)pages;
    records = (struct record *)(pages + PAGE);
}

/* ---- the format ---- */

static uint32_t crc_table[256];

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
        crc_table[byte] = crc;
    }
}

/* Puts the checksum of everything into bytes 12 to 15, which are zero. */
static void seal(uint8_t *bytes, size_t length)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++)
        crc = crc_table[(uint8_t)(crc ^ bytes[i])] ^ crc >> 8;
    crc = ~crc;
    memcpy(bytes + 12, &crc, 4);
}

static size_t put(uint8_t *at, uint64_t number)
{
    size_t length = 0;
    while (number > 127) {
        at[length++] = number | 128;
        number >>= 7;
    }
    at[length++] = number;
    return length;
}

static size_t put_difference(uint8_t *at, uint64_t *base, uint64_t number)
{
    int64_t difference = number - *base;
    *base = number;
    return put(at, (uint64_t)difference << 1 ^ (uint64_t)(difference >> 63));
}

static uint8_t block[16 + BLOCK_MAX + ENTRY_MAX];
static size_t block_bytes;
static uint32_t block_entries;
static struct {
    uint64_t time, address, physical;
    uint32_t pid, tid, cpu;
} base;

static void begin_block(void)
{
    memset(block, 0, 16);
    memset(&base, 0, sizeof base);
    memcpy(block, "DATA", 4);
    block_bytes = 16;
    block_entries = 0;
}

static void add_sample(const struct record *record, uint64_t time)
{
    bool same_task = block_entries && base.pid == record->pid && base.tid == record->tid;
    bool same_cpu = block_entries && base.cpu == record->cpu;
    uint8_t *at = block + block_bytes;
    uint8_t *start = at;
    *at++ = 0x40 | 0x80 | (same_task ? 0x08 : 0) | (same_cpu ? 0x10 : 0) | (period == 1 ? 0x20 : 0);
    if (!same_task) {
        at += put(at, base.pid = record->pid);
        at += put(at, base.tid = record->tid);
    }
    if (!same_cpu)
        at += put(at, base.cpu = record->cpu);
    at += put_difference(at, &base.time, time);
    at += put_difference(at, &base.address, record->address);
    if (period != 1)
        at += put(at, period);
    *at++ = record->kind | record->served << 4;
    at += put(at, record->cycles);
    at += put_difference(at, &base.physical, record->physical);
    block_bytes += at - start;
    block_entries++;
}

static void add_lost(uint64_t count)
{
    block[block_bytes++] = 4;
    block_bytes += put(block + block_bytes, count);
    block_entries++;
}

/* ---- the feed ---- */

/* All or nothing; false when the reader is gone. Waits: a reader that is slow for long makes the ring full, and what
 * is lost then is counted there. */
static bool send_all(int feed, const uint8_t *bytes, size_t length)
{
    while (length) {
        ssize_t written = write(feed, bytes, length);
        if (written < 0 && errno == EINTR && !ended)
            continue;
        if (written < 0)
            return false;
        bytes += written;
        length -= written;
    }
    return true;
}

static bool send_block(int feed)
{
    if (!block_entries)
        return true;
    uint32_t length = block_bytes - 16;
    memcpy(block + 4, &length, 4);
    memcpy(block + 8, &block_entries, 4);
    seal(block, block_bytes);
    return send_all(feed, block, block_bytes);
}

static bool send_header(int feed)
{
    static const char clock[] = "CLOCK_MONOTONIC";
    char source[96];
    snprintf(source, sizeof source, "numatruth, one of %" PRIu64 " accesses", period);
    uint8_t bytes[256] = "NUMADREC";
    size_t at = 16;
    bytes[at++] = 1;
    bytes[at++] = 0;
    bytes[at++] = 1; /* bytes in a page */
    bytes[at++] = 2;
    at += put(bytes + at, PAGE);
    bytes[at++] = 2;
    bytes[at++] = sizeof clock - 1;
    memcpy(bytes + at, clock, sizeof clock - 1);
    at += sizeof clock - 1;
    bytes[at++] = 3;
    bytes[at++] = strlen(source);
    memcpy(bytes + at, source, strlen(source));
    at += strlen(source);
    uint32_t length = at - 18;
    memcpy(bytes + 8, &length, 4);
    seal(bytes, at);
    return send_all(feed, bytes, at);
}

/* When records were taken last, and the instructions of the last of them. */
static uint64_t time_before, at_before;

/* Sends what there is. Records tell instructions, not time: between two readings time is taken to go evenly. */
static bool send_records(int feed)
{
    static uint64_t lost_before;
    uint64_t time = nanoseconds();
    uint64_t written = *(volatile uint64_t *)&head->written;
    uint64_t room = (PAGES - 1) * (PAGE / sizeof *records);
    if (written == head->taken) {
        time_before = time;
        return true;
    }
    uint64_t at_last = records[(written - 1) % room].at;
    begin_block();
    uint64_t missed = head->lost - lost_before;
    lost_before = head->lost;
    lost += missed;
    if (missed)
        add_lost(missed);
    for (uint64_t next = head->taken; next != written; next++) {
        const struct record *record = &records[next % room];
        uint64_t into = record->at > at_before ? record->at - at_before : 0;
        uint64_t of = at_last > at_before ? at_last - at_before : 1;
        add_sample(record, time_before + (time - time_before) * into / of);
        if (block_bytes > BLOCK_MAX) {
            if (!send_block(feed))
                return false;
            begin_block();
        }
    }
    sent += written - head->taken;
    *(volatile uint64_t *)&head->taken = written;
    time_before = time;
    at_before = at_last;
    return send_block(feed);
}

/* ---- speed ---- */

/* Written with every fifth reading of the ring: ten times a second, where numad looks twice at most. */
#define SPEED_EVERY 5
static const char *speed;

/* Cycles of a processor that does an instruction in 0.4 ns. */
static uint64_t cycles(uint64_t nanoseconds) { return nanoseconds * 5 / 2; }

/* Whoever reads sees the old file or the new one. */
static void tell_speed(void)
{
    static unsigned readings;
    char part[256];
    if (!speed || readings++ % SPEED_EVERY)
        return;
    snprintf(part, sizeof part, "%s.part", speed);
    FILE *file = fopen(part, "w");
    if (!file)
        fail("cannot write the file of speeds");
    for (int i = 0; i < RING_PROCESSES && head->processes[i].pid; i++) {
        const struct progress *of = &head->processes[i];
        fprintf(file, "process %" PRIu64 " instructions %" PRIu64 " cycles %" PRIu64 " stalled %" PRIu64 "\n", of->pid,
                of->instructions, cycles(of->nanoseconds), cycles(of->stalled));
    }
    for (uint64_t node = 0; node < head->nodes; node++)
        fprintf(file, "controller %" PRIu64 " lines %" PRIu64 "\n", node, head->controller[node]);
    for (uint64_t from = 0; from < head->nodes; from++)
        for (uint64_t to = 0; to < head->nodes; to++)
            fprintf(file, "traffic %" PRIu64 " %" PRIu64 " lines %" PRIu64 "\n", from, to, head->traffic[from][to]);
    fprintf(file, "modelled %" PRIu64 " ns\n", head->length);
    if (fclose(file) || rename(part, speed))
        fail("cannot write the file of speeds");
}

/* ---- the program ---- */

#ifndef CHECK
static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static void feed_once(const char *path, uint64_t how)
{
    int feed = open(path, O_WRONLY | O_CLOEXEC);
    if (feed < 0) {
        if (errno == EINTR)
            return;
        fail("cannot open the feed");
    }
    bool read = send_header(feed);
    /* What nobody waited for is old. */
    *(volatile uint64_t *)&head->taken = *(volatile uint64_t *)&head->written;
    time_before = nanoseconds();
    MARK(MARK_PERIOD, period, how);
    struct timespec pause = {0, READ_EVERY_NS};
    while (read && !ended) {
        nanosleep(&pause, NULL);
        read = send_records(feed);
        tell_speed();
    }
    MARK(MARK_PERIOD, 0, how);
    close(feed);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    bool misses = true;
    if (argc < 2)
        fail("no feed is named");
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--period"))
            period = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--of"))
            misses = strcmp(argv[i + 1], "all");
        else if (!strcmp(argv[i], "--speed"))
            speed = argv[i + 1];
        else
            fail("unknown option; there are --period, --of, --seed and --speed");
    }
    if (!period)
        fail("a period of 0 samples nothing");
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (speed && !strcmp(argv[1], "-")) {
        make_ring();
        struct timespec pause = {0, READ_EVERY_NS};
        for (; !ended; nanosleep(&pause, NULL))
            tell_speed();
        return 0;
    }
    if (mkfifo(argv[1], 0600) && errno != EEXIST)
        fail("cannot make the feed");
    make_table();
    make_ring();
    /* Whoever attaches looks for the file before anything is in it. */
    tell_speed();
    while (!ended)
        feed_once(argv[1], seed << 1 | misses);
    fprintf(stderr, "feeder: %" PRIu64 " samples, %" PRIu64 " lost\n", sent, lost);
    return 0;
}
#endif

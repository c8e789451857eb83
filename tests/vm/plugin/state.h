/* What numatruth knows: its parameters, the caches it models, whom it follows and what it has counted. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define NODES_MAX 8
#define CPUS_MAX 64
#define THREADS_MAX 512
#define PROCESSES_MAX 64
#define EVENTS_MAX 65536
/* Sequences of lines that a processor is seen to follow at once, as hardware prefetchers do. */
#define STREAMS 8
#define LINE_BITS 6
#define PAGE_BITS 12
/* Pairs of thread and page; when three quarters are taken, new ones are dropped and counted. */
#define PAIRS (1u << 20)
/* The part of a pair's key that is the page: what is above it is the thread plus one. */
#define PAIR_PAGE 0xffffffffful

/* ---- parameters: name=value behind the plugin's path ---- */

static unsigned nodes = 4;
static unsigned cpus_per_node = 2;
static unsigned node_mib = 256;
/* Virtual nanoseconds of one instruction, as a power of two. */
static unsigned clock_shift = 4;
static unsigned l1_kib = 32;
static unsigned llc_kib = 1024;
static unsigned llc_ways = 16;
static unsigned window_ms = 20;
/* Count instructions alone. */
static unsigned no_memory = 0;
/* Count for each thread and page, too. */
static unsigned with_pages = 0;
static char report_path[512] = "numatruth.json";
/* Where the profile goes; empty without one. */
static char profile_path[512];
/* From node to node, in tenths of the own memory's; 0 where nothing was said. */
static unsigned distances[NODES_MAX * NODES_MAX];

/* ---- state ---- */

/* An entry of a processor's own cache, by virtual line. Valid while the directory has the same version. */
struct l1_entry {
    uint64_t virtual_line;
    uint32_t line;
    uint32_t version;
};

/* What the directory knows of a physical line. */
struct line_state {
    /* Changes whenever copies in processors' own caches become invalid. */
    uint32_t version;
    /* One bit for each node whose last cache has it. */
    uint8_t present;
    /* The processor that may write it without asking, plus one; 0 for none. */
    uint8_t exclusive;
    /* The node whose cache has a modified copy, plus one; 0 for none. */
    uint8_t dirty;
    uint8_t padding;
};

/* What one thread did on one node in the present window. */
struct cell {
    uint64_t instructions;
    uint64_t accesses;
    uint64_t l1_misses;
    uint64_t llc_hits;
    uint64_t invalidations;
    /* By node: lines from its memory, of these the sequential ones, from its caches, written back to it. */
    uint64_t memory[NODES_MAX];
    uint64_t sequential[NODES_MAX];
    uint64_t other_cache[NODES_MAX];
    uint64_t written_back[NODES_MAX];
    uint8_t active;
};

struct cpu {
    /* Where what it does now is counted; none while it is not counted. */
    struct cell *cell;
    struct l1_entry *l1;
    /* Instructions since the start. */
    uint64_t user;
    uint64_t kernel;
    /* QEMU's state of this processor, by which it is recognised. */
    uintptr_t env;
    /* `user` when it was last added to a cell. */
    uint64_t user_settled;
    /* Index of the thread; negative for one that is not followed. */
    int thread;
    int number;
    unsigned node;
    uint64_t cr3;
    uint64_t fs_base;
    uint64_t stream_next[STREAMS];
    unsigned stream_oldest;
    GByteArray *register_bytes;
    /* Accesses until the next is sampled, and the state of what decides on the one after. */
    uint64_t countdown;
    uint64_t random;
    /* The profiled thread whose work it does; none if it is another's. */
    struct task *task;
    /* Whether that is to be found anew. */
    bool looks;
} __attribute__((aligned(64)));

static struct cpu cpus[CPUS_MAX];
static unsigned cpu_count;
/* The one whose code runs now. */
static __thread __attribute__((tls_model("initial-exec"))) struct cpu *current;

static struct line_state *directory;
static uint64_t line_count;
static uint64_t lines_per_node;

/* Last caches: the line in each way of each set, UINT32_MAX for none, and the way to be replaced next. */
static uint32_t *llc[NODES_MAX];
static uint8_t *llc_victim[NODES_MAX];
static uint32_t llc_set_mask;
static unsigned llc_set_bits;
static uint32_t l1_mask;

static struct cell (*cells)[NODES_MAX];

static struct {
    uint64_t cr3;
    uint64_t fs_base;
    int process;
    /* What the guest calls it; -1 if it never said. */
    int64_t name;
    uint32_t pid;
} threads[THREADS_MAX];
static int thread_count;

/* Page tables of the processes that are followed. */
static uint64_t processes[PROCESSES_MAX];
static int process_count;
static int processes_alive;
/* No page table is here. */
#define PROCESS_GONE (~1ull)
#define NO_KEY (~0ull)

static struct {
    uint64_t time;
    int thread;
    unsigned node;
    unsigned op;
    uint64_t a;
    uint64_t b;
} events[EVENTS_MAX];
static int event_count;

static bool counting;
/* Before counting, while, and after. */
#define PHASES 3
static unsigned phase;
static uint64_t window;
static uint64_t window_instructions;
static uint32_t misses_unchecked;
/* Instructions of all processors, and of each, when counting began and ended. */
static uint64_t time_start;
static uint64_t time_stop;
static uint64_t user_start[CPUS_MAX];
static uint64_t kernel_start[CPUS_MAX];
static uint64_t user_stop[CPUS_MAX];
static uint64_t kernel_stop[CPUS_MAX];

static struct qemu_plugin_register *register_fs;
static struct qemu_plugin_register *register_cr3;
static struct qemu_plugin_register *register_rdi;
static struct qemu_plugin_register *register_rsi;
static struct qemu_plugin_register *register_rax;

/* Rows of windows that are over. */
static FILE *rows;
static char *rows_text;
static size_t rows_length;
static uint64_t row_count;

/* Accesses by thread and page, in an open hash table; key 0 is free. */
static struct pair {
    uint64_t key;
    uint64_t count;
} *pairs;
static uint32_t pairs_used;
static uint64_t pairs_dropped;

/* The memory sampler: takes one of so many accesses of each processor, as PEBS, IBS and SPE do, and writes them into
 * a ring in the guest's memory (ring.h). The same period and seed on the same run give the same samples. */
#include "ring.h"

static struct head *ring_head;
static struct record *ring_pages[RING_PAGES_MAX];
static unsigned ring_page_count;
/* Accesses for each sample, on average; 0 while nothing is sampled. */
static uint64_t period;
/* Whether accesses that the processor's own cache answers are left out. */
static bool misses_only;
static uint64_t sampler_seed;
static uint64_t sample_sequence;

/* Memory of the guest, as the files that QEMU made of it. */
static uint8_t *memories[NODES_MAX];

/* One of the files is the node's; which, the guest's mark tells. */
static uint8_t *map_memory(unsigned node, uint64_t offset, uint64_t physical)
{
    size_t bytes = (size_t)node_mib << 20;
    for (int file = 3; file < 256; file++) {
        char path[64], target[128];
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = 0;
        if (!strstr(target, "memfd:"))
            continue;
        uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED)
            continue;
        struct stat size;
        uint64_t *words = (uint64_t *)(memory + offset);
        if (!fstat(file, &size) && (size_t)size.st_size >= bytes && words[0] == RING_PAGE && words[1] == physical)
            return memories[node] = memory;
        munmap(memory, bytes);
    }
    return NULL;
}

/* A page of the ring, by its physical address. */
static void add_ring_page(uint64_t physical, uint64_t index)
{
    uint64_t node_bytes = (uint64_t)node_mib << 20;
    uint64_t node = physical / node_bytes, offset = physical % node_bytes;
    if (node >= nodes || index >= RING_PAGES_MAX || (physical & 4095))
        return;
    uint8_t *memory = memories[node] ? memories[node] : map_memory(node, offset, physical);
    if (!memory)
        return;
    uint64_t *words = (uint64_t *)(memory + offset);
    if (words[0] != RING_PAGE || words[1] != physical)
        return;
    words[0] = RING_FOUND;
    if (index == 0) {
        period = 0;
        ring_page_count = 0;
        ring_head = (struct head *)words;
    } else if (index == ring_page_count + 1) {
        ring_pages[ring_page_count++] = (struct record *)words;
    }
}

/* Steele, Lea and Flood's SplitMix64, of which each processor has a sequence of its own. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

/* From half the period to one and a half, so that no rhythm of a program's is that of the samples. */
static uint64_t next_countdown(struct cpu *cpu)
{
    return period - period / 2 + next_random(&cpu->random) % period;
}

/* From here on one of `each` accesses is sampled; none if 0. */
static void set_period(uint64_t each, uint64_t how)
{
    period = ring_head && ring_page_count ? each : 0;
    misses_only = how & 1;
    sampler_seed = how >> 1;
    sample_sequence = 0;
    for (unsigned i = 0; i < cpu_count; i++) {
        cpus[i].random = sampler_seed + ((uint64_t)(cpus[i].number + 1) << 32);
        cpus[i].countdown = period ? next_countdown(&cpus[i]) : 0;
    }
}

/* Distance of another node's memory in tenths of the own. */
static unsigned distance(unsigned from, unsigned to)
{
    return distances[from * NODES_MAX + to] ? distances[from * NODES_MAX + to] : from == to ? 10 : 20;
}

/* Nanoseconds of the model, which are the report's (src/truth.rs). */
#define NS_LLC 20
#define NS_MEMORY 90
#define NS_OTHER_CACHE 70
/* Cycles of a processor that does an instruction in 0.4 ns. */
static uint32_t cycles_of(unsigned ns) { return ns * 5 / 2; }

/* An access that may be sampled; `origin` is the node that answered, for SERVED_OTHER and beyond. */
static inline void count_down(struct cpu *cpu, uint64_t address, uint64_t physical, bool store, unsigned served,
                              unsigned origin)
{
    if (!period || --cpu->countdown)
        return;
    cpu->countdown = next_countdown(cpu);
    if (cpu->thread < 0 || threads[cpu->thread].name < 0)
        return;
    uint64_t room = (uint64_t)ring_page_count * (4096 / sizeof(struct record));
    uint64_t sequence = sample_sequence++;
    if (ring_head->written - ring_head->taken >= room) {
        ring_head->lost++;
        return;
    }
    uint64_t slot = ring_head->written % room;
    struct record *record = &ring_pages[slot / 64][slot % 64];
    unsigned ns = served == SERVED_L1    ? 2
                  : served == SERVED_LLC ? NS_LLC
                  : served == SERVED_OTHER
                      ? NS_OTHER_CACHE * distance(cpu->node, origin) / 10
                      : NS_MEMORY * distance(cpu->node, origin) / 10;
    *record = (struct record){
        .sequence = sequence,
        .at = now(),
        .address = address,
        .physical = physical,
        .pid = threads[cpu->thread].pid,
        .tid = threads[cpu->thread].name,
        .cycles = cycles_of(ns),
        .cpu = cpu->number,
        .kind = store ? RECORD_STORE : RECORD_LOAD,
        .served = served,
    };
    ring_head->written++;
}

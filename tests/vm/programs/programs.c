/* Programs as people write them, for OpenMP: each goes on until it is killed, and says after each round how many it has done.
 * Which one it is goes by its name, so that one binary is all of them.
 *
 * Memory is touched first by the first thread, as most programs do, but in `jacobi-touched`. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *room(size_t bytes)
{
    void *block = malloc(bytes);
    if (!block) {
        fprintf(stderr, "%s: no memory for %zu bytes\n", program_invocation_short_name, bytes);
        exit(1);
    }
    return block;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void say(long rounds)
{
    printf("%ld\n", rounds);
    fflush(stdout);
}

/* Five-point stencil over two grids of 32 MiB, a strip for each thread. */
static void jacobi(int touched)
{
    enum { SIDE = 2048 };
    double(*from)[SIDE] = room(sizeof(double[SIDE][SIDE])), (*to)[SIDE] = room(sizeof(double[SIDE][SIDE]));
#pragma omp parallel for schedule(static) if (touched)
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            from[row][column] = to[row][column] = column % 7;
    for (long round = 1;; round++) {
#pragma omp parallel for schedule(static)
        for (int row = 1; row < SIDE - 1; row++)
            for (int column = 1; column < SIDE - 1; column++)
                to[row][column] = (from[row - 1][column] + from[row + 1][column] + from[row][column - 1] +
                                   from[row][column + 1]) / 4;
        double(*old)[SIDE] = from;
        from = to;
        to = old;
        say(round);
    }
}

/* Power iteration with a sparse matrix: most columns near the diagonal, one of four anywhere. */
static void sparse(void)
{
    enum { ROWS = 200000, EACH = 12, NEAR = 1000 };
    int(*column)[EACH] = room(sizeof(int[ROWS][EACH]));
    double(*value)[EACH] = room(sizeof(double[ROWS][EACH]));
    double *sum = room(sizeof(double[ROWS])), *old = room(sizeof(double[ROWS])), *new = room(sizeof(double[ROWS]));
    uint64_t state = 1;
    for (int row = 0; row < ROWS; row++) {
        sum[row] = old[row] = new[row] = 1;
        for (int at = 0; at < EACH; at++) {
            uint64_t drawn = next(&state) >> 8;
            int near = row + (int)(drawn % (2 * NEAR + 1)) - NEAR;
            column[row][at] = drawn % 4 ? (near + ROWS) % ROWS : (int)(drawn % ROWS);
            value[row][at] = 1.0 / (1 + drawn % 13);
        }
    }
    for (long round = 1;; round++) {
        double squares = 0;
#pragma omp parallel for schedule(static)
        for (int row = 0; row < ROWS; row++) {
            double product = 0;
            for (int at = 0; at < EACH; at++)
                product += value[row][at] * old[column[row][at]];
            new[row] = product;
        }
#pragma omp parallel for schedule(static) reduction(+ : squares)
        for (int row = 0; row < ROWS; row++)
            squares += new[row] * new[row];
#pragma omp parallel for schedule(static)
        for (int row = 0; row < ROWS; row++) {
            sum[row] += old[row];
            old[row] = new[row] / sqrt(squares);
        }
        say(round);
    }
}

/* Words are counted: 8 MiB of input that all read, a table of 8 MiB for each thread. */
static void tables(void)
{
    enum { WORDS = 2 << 20, SLOTS = 1 << 20 };
    uint32_t *input = room(sizeof(uint32_t[WORDS]));
    uint64_t state = 1;
    for (int at = 0; at < WORDS; at++)
        input[at] = (uint32_t)(next(&state) >> 20);
    int threads = omp_get_max_threads();
    uint64_t **table = room(sizeof(uint64_t *[threads]));
    for (int thread = 0; thread < threads; thread++)
        table[thread] = memset(room(sizeof(uint64_t[SLOTS])), 0, sizeof(uint64_t[SLOTS]));
    for (long round = 1;; round++) {
#pragma omp parallel
        {
            uint64_t *own = table[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 4096)
            for (int at = 0; at < WORDS; at++)
                own[input[at] * 2654435761u % SLOTS]++;
        }
        say(round);
    }
}

/* Breadth first through a random graph of 16 MiB. */
static void search(void)
{
    enum { NODES = 400000, EDGES = 10 };
    int(*edges)[EDGES] = room(sizeof(int[NODES][EDGES]));
    int *depth = room(sizeof(int[NODES])), *now = room(sizeof(int[NODES])), *later = room(sizeof(int[NODES]));
    uint64_t state = 1;
    for (int node = 0; node < NODES; node++)
        for (int edge = 0; edge < EDGES; edge++)
            edges[node][edge] = (int)(next(&state) % NODES);
    for (long round = 1;; round++) {
#pragma omp parallel for
        for (int node = 0; node < NODES; node++)
            depth[node] = -1;
        int count = 1;
        now[0] = (int)(round * 7919 % NODES);
        depth[now[0]] = 0;
        for (int level = 1; count; level++) {
            int found = 0;
#pragma omp parallel for schedule(dynamic, 256)
            for (int at = 0; at < count; at++)
                for (int edge = 0; edge < EDGES; edge++) {
                    int node = edges[now[at]][edge];
                    if (depth[node] < 0 && __sync_bool_compare_and_swap(&depth[node], -1, level))
                        later[__sync_fetch_and_add(&found, 1)] = node;
                }
            int *old = now;
            now = later;
            later = old;
            count = found;
        }
        say(round);
    }
}

/* A ring from one thread to another. Who fills it has 4 MiB of his own, who empties it 8 MiB. */
enum { RING = 1 << 18, AT_ONCE = 64 };

struct ring {
    _Alignas(64) volatile long put;
    _Alignas(64) volatile long taken;
    _Alignas(64) uint64_t words[RING];
};

static void *fill(void *ring_)
{
    struct ring *ring = ring_;
    enum { OWN = 1 << 19 };
    uint64_t *own = memset(room(sizeof(uint64_t[OWN])), 1, sizeof(uint64_t[OWN])), state = (uintptr_t)ring | 1;
    for (;;) {
        while (ring->put - ring->taken >= RING - AT_ONCE)
            sched_yield();
        for (int at = 0; at < AT_ONCE; at++) {
            uint64_t drawn = next(&state);
            ring->words[(ring->put + at) % RING] = own[drawn % OWN] += drawn;
        }
        __sync_synchronize();
        ring->put += AT_ONCE;
    }
    return NULL;
}

static void *empty(void *ring_)
{
    struct ring *ring = ring_;
    enum { OWN = 1 << 20 };
    uint64_t *own = memset(room(sizeof(uint64_t[OWN])), 1, sizeof(uint64_t[OWN]));
    for (;;) {
        while (ring->put == ring->taken)
            sched_yield();
        for (int at = 0; at < AT_ONCE; at++)
            own[ring->words[(ring->taken + at) % RING] % OWN]++;
        __sync_synchronize();
        ring->taken += AT_ONCE;
    }
    return NULL;
}

static void pipes(void)
{
    int pairs = omp_get_max_threads() / 2;
    struct ring **rings = room(sizeof(struct ring *[pairs]));
    for (int pair = 0; pair < pairs; pair++)
        rings[pair] = memset(aligned_alloc(64, sizeof(struct ring)), 0, sizeof(struct ring));
    // All who fill first, so that neighbours by number are no partners.
    pthread_t thread;
    for (int pair = 0; pair < pairs; pair++)
        pthread_create(&thread, NULL, fill, rings[pair]);
    for (int pair = 0; pair < pairs; pair++)
        pthread_create(&thread, NULL, empty, rings[pair]);
    for (;;)
        pause();
}

static void jacobi_from_one(void)
{
    jacobi(0);
}

static void jacobi_touched(void)
{
    jacobi(1);
}

static const struct {
    const char *name;
    void (*run)(void);
} PROGRAMS[] = {
    {"jacobi", jacobi_from_one}, {"jacobi-touched", jacobi_touched}, {"sparse", sparse},
    {"tables", tables},          {"search", search},                 {"pipes", pipes},
};

int main(void)
{
    const char *name = program_invocation_short_name;
    const size_t count = sizeof PROGRAMS / sizeof *PROGRAMS;
    for (size_t at = 0; at < count; at++)
        if (!strcmp(name, PROGRAMS[at].name)) {
            printf("%s begins\n", name);
            fflush(stdout);
            PROGRAMS[at].run();
        }
    fprintf(stderr, "%s: no program has this name; there are", name);
    for (size_t at = 0; at < count; at++)
        fprintf(stderr, " %s", PROGRAMS[at].name);
    fprintf(stderr, "\n");
    return 2;
}

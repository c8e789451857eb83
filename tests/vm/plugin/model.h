/* The model of time, while the guest runs: the same as the report's (src/truth.rs, where the figures are explained).
 * What it makes of each window is added up in the head of the ring (ring.h), for the guest to read. */

#define NS_INSTRUCTION 0.4
#define NS_INVALIDATION 40.0
#define OVERLAP 3.0
#define OVERLAP_SEQUENTIAL 10.0
/* A controller's time for one line. */
#define NS_SERVICE 6.0

/* Nanoseconds that a thread waited for memory on a node, if every access waits so long at each controller. */
static double stall_of(const struct cell *cell, unsigned node, const double *waits)
{
    double stall = (cell->llc_hits * (double)NS_LLC + cell->invalidations * NS_INVALIDATION) / OVERLAP;
    for (unsigned to = 0; to < nodes; to++) {
        double far = distance(node, to) / 10.0;
        double random = (cell->memory[to] - cell->sequential[to]) / OVERLAP;
        double sequential = cell->sequential[to] / OVERLAP_SEQUENTIAL;
        stall += (random + sequential) * (NS_MEMORY * far + waits[to]);
        stall += cell->other_cache[to] * (double)NS_OTHER_CACHE * far / OVERLAP;
    }
    return stall;
}

static double time_of(int thread, const double *waits)
{
    double time = 0;
    for (unsigned node = 0; node < nodes; node++)
        if (cells[thread][node].active)
            time += cells[thread][node].instructions * NS_INSTRUCTION + stall_of(&cells[thread][node], node, waits);
    return time;
}

static void wait_at(const uint64_t *lines, double length, double *waits)
{
    for (unsigned node = 0; node < nodes; node++) {
        double used = lines[node] * NS_SERVICE / length;
        waits[node] = NS_SERVICE * used / (2 * (1 - used));
    }
}

/* The mean time of the threads that did at least a tenth of what the busiest did, if the window is so long. */
static double needed(const uint64_t *lines, double length)
{
    double waits[NODES_MAX], times[THREADS_MAX], most = 0, sum = 0;
    unsigned busy = 0;
    wait_at(lines, length, waits);
    for (int thread = 0; thread < thread_count; thread++) {
        times[thread] = time_of(thread, waits);
        most = times[thread] > most ? times[thread] : most;
    }
    for (int thread = 0; thread < thread_count; thread++) {
        if (times[thread] > 0.1 * most) {
            sum += times[thread];
            busy++;
        }
    }
    return busy ? sum / busy : 0;
}

/* The length of the window at which accesses come as close together as they wait for each other. */
static double length_of(const uint64_t *lines)
{
    double busiest = 0;
    for (unsigned node = 0; node < nodes; node++)
        busiest = lines[node] > busiest ? lines[node] : busiest;
    busiest *= NS_SERVICE;
    double low = busiest * 1.0001 + 1e-3, high = busiest * 1.5 + 1;
    while (needed(lines, high) > high)
        high *= 2;
    for (int step = 0; step < 30; step++) {
        double middle = (low + high) / 2;
        if (needed(lines, middle) > middle)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* The row of a process; none when the table is full. */
static struct progress *progress_of(uint32_t pid)
{
    for (unsigned i = 0; i < RING_PROCESSES; i++) {
        if (!ring_head->processes[i].pid)
            ring_head->processes[i].pid = pid;
        if (ring_head->processes[i].pid == pid)
            return &ring_head->processes[i];
    }
    return NULL;
}

static void add_thread(int thread, const double *waits)
{
    struct progress *progress = threads[thread].pid ? progress_of(threads[thread].pid) : NULL;
    for (unsigned node = 0; node < nodes; node++) {
        const struct cell *cell = &cells[thread][node];
        if (!cell->active)
            continue;
        for (unsigned to = 0; to < nodes; to++)
            ring_head->traffic[node][to] += cell->memory[to] + cell->other_cache[to] + cell->written_back[to];
        if (!progress)
            continue;
        double stalled = stall_of(cell, node, waits);
        progress->instructions += cell->instructions;
        progress->nanoseconds += cell->instructions * NS_INSTRUCTION + stalled;
        progress->stalled += stalled;
    }
}

/* Adds a window that is over to what the guest may know. */
static void tell_window(void)
{
    uint64_t lines[NODES_MAX] = {0};
    double waits[NODES_MAX];
    if (!ring_head)
        return;
    for (int thread = 0; thread < thread_count; thread++)
        for (unsigned node = 0; node < nodes; node++)
            for (unsigned to = 0; to < nodes && cells[thread][node].active; to++)
                lines[to] += cells[thread][node].memory[to] + cells[thread][node].written_back[to];
    double length = length_of(lines);
    wait_at(lines, length, waits);
    for (int thread = 0; thread < thread_count; thread++)
        add_thread(thread, waits);
    for (unsigned node = 0; node < nodes; node++)
        ring_head->controller[node] += lines[node];
    ring_head->length += length;
    ring_head->at = now();
    ring_head->nodes = nodes;
}

/* cg ROUNDS [THREADS [STRIDE]]: an MPI program that communicates as CG of the NAS Parallel Benchmarks does, on two to the n ranks.
 *
 * Ranks are a grid of ROWS x COLUMNS, with as many columns as rows or twice as many. In each round a rank works on
 * its own matrix, sums a piece of the result along its row (partners at half the row, a quarter, ...),
 * exchanges it with its transpose partner, and sums one number along its row. Messages are short enough to go through
 * the memory that ranks share; longer ones the kernel would copy, whose accesses the ground truth does not count.
 *
 * ROUNDS is a file of eight bytes in which rank 0 counts rounds. It runs until it is killed. With THREADS, each rank works
 * with so many threads on its matrix, of which the first alone calls MPI. With STRIDE, a rank plays the part of its number
 * times that, modulo the ranks: neighbours in the grid are not neighbours by number.
 *
 * cg --oracle DISTANCES < MATRIX: for eight ranks on four nodes, or as many as there are nodes, prints the placement with
 * the least sum of bytes times distance, as `share cost NODE NODE ...`, where share is of bytes within a node. With
 * NODE... behind DISTANCES (rows divided by `/`, numbers by `:`), the same of that placement. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As in class S on eight ranks: pieces of the vector, and what a rank has of the matrix. */
enum { PIECE = 448, PART = 16384, STEPS_MAX = 5, RANKS_MAX = 8 };

static double matrix[PART];
static int threads = 1, stride = 1;
static pthread_barrier_t before, after;
static unsigned round_now;

/* The share of one thread: neighbours overlap, so that threads of a rank share memory. */
static void work(int thread)
{
    int from = thread ? PART * thread / threads - PART / 4 : 0, to = PART * (thread + 1) / threads;
    for (int at = from; at < to; at++)
        matrix[at] = matrix[at] * 0.5 + at;
}

static void *worker(void *number)
{
    for (;;) {
        pthread_barrier_wait(&before);
        work((int)(intptr_t)number);
        pthread_barrier_wait(&after);
    }
    return NULL;
}

static void exchange(double *out, double *in, int doubles, int part)
{
    MPI_Request request;
    int size, with = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (with * stride % size != part)
        with++;
    MPI_Irecv(in, doubles, MPI_DOUBLE, with, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, doubles, MPI_DOUBLE, with, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void run(volatile uint64_t *rounds)
{
    int rank, size, columns = 1, rows, steps = 0, along[STEPS_MAX];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank = rank * stride % size;
    while (columns * columns < size)
        columns *= 2;
    rows = size / columns;
    int row = rank / columns, column = rank % columns;
    for (int width = columns; width > 1 && steps < STEPS_MAX; width /= 2)
        along[steps++] = row * columns + (column + width / 2) % width + column / width * width;
    int across = rows == columns ? rank % rows * rows + rank / rows
                                 : 2 * (rank / 2 % rows * rows + rank / 2 / rows) + rank % 2;
    static double out[PIECE], in[PIECE];
    double sum = rank, other;
    for (;; round_now++) {
        if (threads > 1)
            pthread_barrier_wait(&before);
        work(0);
        if (threads > 1)
            pthread_barrier_wait(&after);
        for (int step = steps; step-- > 0;) {
            exchange(out, in, PIECE, along[step]);
            for (int at = 0; at < PIECE; at++)
                out[at] = (out[at] + in[at]) * 0.5;
        }
        if (across != rank)
            exchange(out, in, PIECE, across);
        for (int step = 0; step < steps; step++) {
            exchange(&sum, &other, 1, along[step]);
            sum = (sum + other) * 0.5;
        }
        if (rank == 0)
            *rounds = round_now;
    }
}

static double bytes[RANKS_MAX][RANKS_MAX];
static int distance[RANKS_MAX][RANKS_MAX];

static double cost(int ranks, const int *node, double *share)
{
    double far = 0, within = 0, all = 0;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) {
            far += bytes[from][to] * distance[node[from]][node[to]];
            all += bytes[from][to];
            within += node[from] == node[to] ? bytes[from][to] : 0;
        }
    *share = all > 0 ? within / all : 0;
    return all > 0 ? far / all : 0;
}

static void place(int ranks, int nodes, int rank, int *node, int *taken, int *best, double *least)
{
    double share;
    if (rank == ranks) {
        double now = cost(ranks, node, &share);
        if (*least < 0 || now < *least) {
            *least = now;
            memcpy(best, node, RANKS_MAX * sizeof *best);
        }
        return;
    }
    for (node[rank] = 0; node[rank] < nodes; node[rank]++)
        if (taken[node[rank]] < (ranks + nodes - 1) / nodes) {
            int here = node[rank];
            taken[here]++;
            place(ranks, nodes, rank + 1, node, taken, best, least);
            taken[here]--;
            node[rank] = here;
        }
}

static int oracle(int count, char **words)
{
    int nodes = 0, ranks = 0, node[RANKS_MAX] = {0}, taken[RANKS_MAX] = {0}, best[RANKS_MAX] = {0};
    char line[1024], *kept_row, *kept;
    for (char *row = strtok_r(words[2], "/", &kept_row); row && nodes < RANKS_MAX; row = strtok_r(NULL, "/", &kept_row)) {
        int to = 0;
        for (char *word = strtok_r(row, ":", &kept); word && to < RANKS_MAX; word = strtok_r(NULL, ":", &kept))
            distance[nodes][to++] = atoi(word);
        nodes++;
    }
    for (; ranks < RANKS_MAX && fgets(line, sizeof line, stdin); ranks++) {
        int to = 0;
        for (char *word = strtok_r(line, " \n", &kept); word && to < RANKS_MAX; word = strtok_r(NULL, " \n", &kept))
            bytes[ranks][to++] = atof(word);
    }
    double least = -1, share;
    if (count > 3) {
        for (int rank = 0; rank < ranks && rank + 3 < count; rank++)
            best[rank] = atoi(words[rank + 3]) % RANKS_MAX;
    } else {
        place(ranks, nodes, 0, node, taken, best, &least);
    }
    least = cost(ranks, best, &share);
    printf("%.3f %.3f", share, least);
    for (int rank = 0; rank < ranks; rank++)
        printf(" %d", best[rank]);
    printf("\n");
    return 0;
}

int main(int count, char **words)
{
    if (count > 2 && !strcmp(words[1], "--oracle"))
        return oracle(count, words);
    if (count < 2)
        return 2;
    int given, file = open(words[1], O_RDWR);
    volatile uint64_t *rounds = mmap(NULL, sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || rounds == MAP_FAILED)
        return 2;
    threads = count > 2 ? atoi(words[2]) : 1;
    stride = count > 3 ? atoi(words[3]) : 1;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &given);
    pthread_barrier_init(&before, NULL, (unsigned)threads);
    pthread_barrier_init(&after, NULL, (unsigned)threads);
    for (intptr_t number = 1; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)number))
            return 1;
    }
    run(rounds);
}

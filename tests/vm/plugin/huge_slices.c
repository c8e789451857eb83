/* huge-slices: threads that each write two explicit huge pages and as many kilobytes of small ones, all of which
 * the first thread touched first. Says one line when that is done, and runs until it is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4
#define HUGE_BYTES (2ul * 2 << 20)
#define SMALL_BYTES (1ul << 20)

static char *huge;
static char *small;

static void sweep(volatile char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        memory[at]++;
}

static void *work(void *number)
{
    size_t index = (size_t)number;
    for (;;) {
        sweep(huge + index * HUGE_BYTES, HUGE_BYTES);
        sweep(small + index * SMALL_BYTES, SMALL_BYTES);
    }
    return NULL;
}

static char *map(size_t bytes, int flags)
{
    char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    memset(memory, 1, bytes);
    return memory;
}

int main(void)
{
    huge = map(THREADS * HUGE_BYTES, MAP_HUGETLB);
    small = map(THREADS * SMALL_BYTES, 0);
    if (!huge || !small) {
        perror("huge-slices: no memory");
        return 1;
    }
    for (size_t index = 0; index < THREADS; index++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)index))
            return 1;
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

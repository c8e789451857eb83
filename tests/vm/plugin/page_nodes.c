/* page-nodes PID...: the node of every page that these processes have, one line `PID ADDRESS NODE` for each.
 *
 * The daemon's own view of it is under test, so this asks the kernel by itself. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH 512

/* Asks for one batch; false if the process is gone. */
static int tell(int pid, uint64_t first, size_t count, long page_bytes)
{
    void *pages[BATCH];
    int nodes[BATCH];
    for (size_t i = 0; i < count; i++)
        pages[i] = (void *)(uintptr_t)(first + i * page_bytes);
    if (syscall(SYS_move_pages, pid, count, pages, NULL, nodes, 0) < 0)
        return errno != ESRCH;
    for (size_t i = 0; i < count; i++)
        if (nodes[i] >= 0)
            printf("%d %" PRIx64 " %d\n", pid, first + i * page_bytes, nodes[i]);
    return 1;
}

static int tell_all(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    if (!maps) {
        perror(path);
        return 0;
    }
    long page_bytes = sysconf(_SC_PAGESIZE);
    char line[1024];
    while (fgets(line, sizeof line, maps)) {
        uint64_t start, end;
        char rights[8];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, rights) != 3)
            continue;
        /* What cannot be written is the programs' code, of which all processes have the same pages. */
        if (rights[1] != 'w')
            continue;
        while (start < end) {
            size_t left = (end - start) / page_bytes;
            size_t count = left < BATCH ? left : BATCH;
            if (!tell(pid, start, count, page_bytes))
                break;
            start += count * page_bytes;
        }
    }
    fclose(maps);
    return 1;
}

int main(int argc, char **argv)
{
    int done = argc > 1;
    for (int i = 1; i < argc; i++)
        done &= tell_all(atoi(argv[i]));
    return !done;
}

/* page-nodes PID...: the node of every page that these processes have, one line `PID ADDRESS NODE` for each; of memory
 * that is mapped shared `DEVICE:INODE OFFSET NODE`, for that is the same page whoever has it.
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

/* A mapping: whose pages they are, and by how much what is told of an address differs from it. */
struct mapping {
    char owner[64];
    uint64_t away;
};

/* Asks for one batch; false if the process is gone. */
static int tell(int pid, uint64_t first, size_t count, long page_bytes, const struct mapping *mapping)
{
    void *pages[BATCH];
    int nodes[BATCH];
    for (size_t i = 0; i < count; i++)
        pages[i] = (void *)(uintptr_t)(first + i * page_bytes);
    if (syscall(SYS_move_pages, pid, count, pages, NULL, nodes, 0) < 0)
        return errno != ESRCH;
    for (size_t i = 0; i < count; i++)
        if (nodes[i] >= 0)
            printf("%s %" PRIx64 " %d\n", mapping->owner, first + i * page_bytes - mapping->away, nodes[i]);
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
        uint64_t start, end, offset, inode;
        unsigned major, minor;
        char rights[8];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64, &start, &end, rights, &offset, &major,
                   &minor, &inode) != 7)
            continue;
        /* What cannot be written is the programs' code, of which all processes have the same pages. */
        if (rights[1] != 'w')
            continue;
        struct mapping mapping = { .away = 0 };
        if (rights[3] == 's' && inode != 0) {
            snprintf(mapping.owner, sizeof mapping.owner, "%u:%u:%" PRIu64, major, minor, inode);
            mapping.away = start - offset;
        } else {
            snprintf(mapping.owner, sizeof mapping.owner, "%d", pid);
        }
        while (start < end) {
            size_t left = (end - start) / page_bytes;
            size_t count = left < BATCH ? left : BATCH;
            if (!tell(pid, start, count, page_bytes, &mapping))
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

/* A profile of one process, counted in instructions: which code ran, called from where, in which system call.
 *
 * The process asks for it (profile_so.c). Its threads are told apart as those of the ground truth are, but also while
 * the kernel works for them: the kernel writes a thread's pointer (fs_base) when it switches to it, and none for its
 * own threads, which borrow any process's page table.
 *
 * Calls are followed by what ends each block: a call's return address is put on the thread's stack of them, and a
 * return takes away what is above where it comes out. So unwinding and signals do no lasting harm. Blocks are
 * shared by all processes that map the same code, with the addresses of whoever ran it first: a process that is
 * profiled needs files of its own. */

/* Of how many places calls are told apart, and how many counts there are; beyond, they are dropped and told. */
#define CONTEXTS_MAX (1u << 18)
#define COUNTS_MAX (1u << 21)
#define TASKS_MAX 64
#define CALLS_MAX 512
#define NO_CALL (-1)
/* Any address in the kernel; none of its code is there. */
#define KERNEL (1ull << 63)

enum ending { ENDS_OTHERWISE, ENDS_IN_CALL, ENDS_IN_RETURN };

/* A translated block. QEMU may throw translations away, and nobody tells us, so these stay. */
struct block {
    uint64_t address;
    /* Its last instruction, and what follows. */
    uint64_t last;
    uint64_t after;
    uint32_t instructions;
    enum ending ending;
};

/* Where a call returns to, and from where its caller was called; the first is no call. */
static struct context {
    uint64_t returns_to;
    uint32_t parent;
} *contexts;
static uint32_t context_count = 1;
/* Indices of contexts, in an open hash table of twice the size; 0 is free. */
static uint32_t *context_slots;

static struct count {
    uint64_t address;
    uint64_t instructions;
    uint32_t context;
    int16_t call;
    uint8_t phase;
} *counts;
static uint32_t counts_used;
static uint64_t counts_dropped;

struct task {
    uint64_t fs_base;
    const struct block *before;
    uint32_t context;
    /* The same with the place in user code that the kernel was entered from; 0 while it was not. */
    uint32_t kernel_context;
    int16_t call;
};
static struct task tasks[TASKS_MAX];
static int task_count;
static uint64_t profiled = NO_KEY;

static uint64_t calls[PHASES][CALLS_MAX];

static inline uint32_t spread(uint64_t key, uint32_t size)
{
    return (key * 0x9e3779b97f4a7c15ull) >> 32 & (size - 1);
}

static uint32_t context_below(uint32_t parent, uint64_t returns_to)
{
    uint32_t slot = spread(returns_to + parent * 0x100000001b3ull, 2 * CONTEXTS_MAX);
    for (;; slot = (slot + 1) & (2 * CONTEXTS_MAX - 1)) {
        uint32_t index = context_slots[slot];
        if (!index)
            break;
        if (contexts[index].parent == parent && contexts[index].returns_to == returns_to)
            return index;
    }
    if (context_count == CONTEXTS_MAX)
        return parent;
    contexts[context_count].parent = parent;
    contexts[context_count].returns_to = returns_to;
    context_slots[slot] = context_count;
    return context_count++;
}

static void add_count(uint32_t context, int16_t call, uint64_t address, uint32_t instructions)
{
    uint32_t slot = spread(address + context * 0x100000001b3ull + (uint64_t)(call + 1) * PHASES + phase, COUNTS_MAX);
    for (;; slot = (slot + 1) & (COUNTS_MAX - 1)) {
        struct count *count = &counts[slot];
        if (!count->instructions) {
            if (counts_used >= COUNTS_MAX / 4 * 3) {
                counts_dropped += instructions;
                return;
            }
            counts_used++;
            *count = (struct count){address, 0, context, call, phase};
        }
        if (count->address == address && count->context == context && count->call == call && count->phase == phase) {
            count->instructions += instructions;
            return;
        }
    }
}

/* Puts the thread's calls in order for the block that runs now, by how the one before it ended. */
static void follow_calls(struct task *task, const struct block *block)
{
    const struct block *before = task->before;
    task->before = block;
    if (!before)
        return;
    /* An instruction that faulted runs once more, and the call was not made yet. */
    bool again = block->address == before->address || block->address == before->last;
    if (before->ending == ENDS_IN_CALL && !again)
        task->context = context_below(task->context, before->after);
    if (before->ending != ENDS_IN_RETURN)
        return;
    for (uint32_t at = task->context; at; at = contexts[at].parent) {
        if (contexts[at].returns_to == block->address) {
            task->context = contexts[at].parent;
            return;
        }
    }
}

static void profile_user(struct task *task, const struct block *block)
{
    follow_calls(task, block);
    task->call = NO_CALL;
    task->kernel_context = 0;
    add_count(task->context, NO_CALL, block->address, block->instructions);
}

static void profile_kernel(struct task *task, const struct block *block)
{
    if (!task->kernel_context)
        task->kernel_context = task->before ? context_below(task->context, task->before->after) : task->context;
    /* Where it was entered from, and which of its code ran: both at once would be too many. */
    add_count(task->kernel_context, task->call, KERNEL, block->instructions);
    add_count(0, task->call, block->address, block->instructions);
}

/* The profiled thread that this processor works for; none if it is another's. */
static struct task *find_task(uint64_t cr3, uint64_t fs_base)
{
    if (cr3 != profiled || !fs_base)
        return NULL;
    for (int i = 0; i < task_count; i++)
        if (tasks[i].fs_base == fs_base)
            return &tasks[i];
    if (task_count == TASKS_MAX)
        return NULL;
    tasks[task_count] = (struct task){.fs_base = fs_base, .call = NO_CALL};
    return &tasks[task_count++];
}

/* From here on this is the process; NO_KEY for none. */
static void profile_process(uint64_t cr3)
{
    profiled = cr3;
    task_count = 0;
    for (unsigned i = 0; i < cpu_count; i++) {
        cpus[i].task = NULL;
        cpus[i].looks = true;
    }
}

static void note_call(struct task *task, uint64_t number)
{
    task->call = number < CALLS_MAX ? (int16_t)number : NO_CALL;
    if (number < CALLS_MAX)
        calls[phase][number]++;
}

/* Skips prefixes: those of size, repetition and branches, and REX. */
static const uint8_t *behind_prefixes(const uint8_t *code, const uint8_t *end)
{
    while (code < end && (*code == 0x66 || *code == 0xf2 || *code == 0xf3 || *code == 0x3e || (*code & 0xf0) == 0x40))
        code++;
    return code;
}

static enum ending ending_of(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    code = behind_prefixes(code, end);
    if (code == end)
        return ENDS_OTHERWISE;
    bool indirect = *code == 0xff && code + 1 < end && (code[1] >> 3 & 7) == 2;
    if (*code == 0xe8 || indirect)
        return ENDS_IN_CALL;
    return *code == 0xc3 || *code == 0xc2 ? ENDS_IN_RETURN : ENDS_OTHERWISE;
}

static bool is_system_call(const uint8_t *code, size_t length)
{
    return length == 2 && code[0] == 0x0f && code[1] == 0x05;
}

/* Whether the kernel goes to another thread by it: a new page table, or a new thread pointer (wrfsbase). */
static bool is_switch(const uint8_t *code, size_t length)
{
    const uint8_t *end = code + length;
    bool repeated = length && *code == 0xf3;
    code = behind_prefixes(code, end);
    if (end - code < 3 || code[0] != 0x0f)
        return false;
    bool page_table = code[1] == 0x22 && (code[2] >> 3 & 7) == 3;
    bool pointer = repeated && code[1] == 0xae && code[2] >> 6 == 3 && (code[2] >> 3 & 7) == 2;
    return page_table || pointer;
}

static __attribute__((noinline)) void run_user(struct cpu *cpu, const struct block *block)
{
    cpu->user += block->instructions;
    if (cpu->task)
        profile_user(cpu->task, block);
}

static __attribute__((noinline)) void run_kernel(struct cpu *cpu, const struct block *block)
{
    cpu->kernel += block->instructions;
    if (UNLIKELY(cpu->looks)) {
        cpu->looks = false;
        cpu->task = find_task(read_page_table(cpu), read_register(cpu, register_fs));
    }
    if (cpu->task)
        profile_kernel(cpu->task, block);
}

/* These two do no more by themselves, that the register which read_env reads is not yet used for something else. */
static void on_profiled_user_block(unsigned index, void *block)
{
    uintptr_t env = read_env();
    (void)index;
    run_user(running_cpu(env), block);
}

static void on_profiled_kernel_block(unsigned index, void *block)
{
    uintptr_t env = read_env();
    (void)index;
    run_kernel(running_cpu(env), block);
}

/* Before a system call, whose number nobody has changed yet. */
static void on_system_call(unsigned index, void *data)
{
    (void)index, (void)data;
    if (current->task)
        note_call(current->task, read_register(current, register_rax));
}

/* The kernel is about to work for another thread. */
static void on_switch(unsigned index, void *data)
{
    (void)index, (void)data;
    current->looks = true;
}

static void translate_profiled(struct qemu_plugin_tb *translated, bool kernel)
{
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        abort();
    block->instructions = qemu_plugin_tb_n_insns(translated);
    block->address = qemu_plugin_tb_vaddr(translated);
    struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(translated, block->instructions - 1);
    uint8_t code[16] = {0};
    size_t length = qemu_plugin_insn_size(last);
    qemu_plugin_insn_data(last, code, sizeof code);
    block->last = qemu_plugin_insn_vaddr(last);
    block->after = block->last + length;
    block->ending = ending_of(code, length);
    qemu_plugin_register_vcpu_tb_exec_cb(translated, kernel ? on_profiled_kernel_block : on_profiled_user_block,
                                         kernel ? CB_R_REGS : CB_NO_REGS, block);
}

static bool make_profile(void)
{
    contexts = reserve(CONTEXTS_MAX * sizeof *contexts);
    context_slots = reserve(2 * CONTEXTS_MAX * sizeof *context_slots);
    counts = reserve(COUNTS_MAX * sizeof *counts);
    return contexts && context_slots && counts;
}

static void print_profile(const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to)
        return;
    fprintf(to, "dropped %lu\n", counts_dropped);
    for (uint32_t i = 1; i < context_count; i++)
        fprintf(to, "context %u %u %lx\n", i, contexts[i].parent, contexts[i].returns_to);
    for (unsigned in = 0; in < PHASES; in++)
        for (unsigned number = 0; number < CALLS_MAX; number++)
            if (calls[in][number])
                fprintf(to, "calls %u %u %lu\n", in, number, calls[in][number]);
    for (uint32_t slot = 0; slot < COUNTS_MAX; slot++) {
        const struct count *count = &counts[slot];
        if (count->instructions)
            fprintf(to, "count %u %u %d %lx %lu\n", count->phase, count->context, count->call, count->address,
                    count->instructions);
    }
    fclose(to);
}

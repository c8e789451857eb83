/* numatruth without QEMU, for check.c: what it asks of QEMU is answered here. */
#include "numatruth.c"

struct qemu_plugin_register {
    uint64_t value;
};
struct qemu_plugin_hwaddr {
    uint64_t address;
};

static struct qemu_plugin_register registers[5];
static struct qemu_plugin_hwaddr physical_address;
static uint8_t register_bytes[8];
static GByteArray register_array = {register_bytes, 8};
static uint64_t (*translate)(uint64_t);

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address)
{
    (void)info;
    physical_address.address = translate(address);
    return &physical_address;
}
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address) { return !address; }
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address) { return address->address; }
int qemu_plugin_read_register(struct qemu_plugin_register *which, GByteArray *to)
{
    memcpy(to->data, &which->value, 8);
    return 8;
}
GByteArray *g_byte_array_new(void) { return &register_array; }
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned length)
{
    (void)length;
    return array;
}
/* Nothing is translated here. */
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t a, void (*b)(qemu_plugin_id_t, unsigned)) { (void)a, (void)b; }
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t a, void (*b)(qemu_plugin_id_t, struct qemu_plugin_tb *))
{
    (void)a, (void)b;
}
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t a, void (*b)(qemu_plugin_id_t, void *), void *c)
{
    (void)a, (void)b, (void)c;
}
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *a, vcpu_udata_cb b, int c, void *d)
{
    (void)a, (void)b, (void)c, (void)d;
}
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *a, mem_cb_t b, int c, int d, void *e)
{
    (void)a, (void)b, (void)c, (void)d, (void)e;
}
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *a, vcpu_udata_cb b, int c, void *d)
{
    (void)a, (void)b, (void)c, (void)d;
}
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *a) { return !a; }
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *a) { return !a; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *a, size_t b)
{
    (void)a, (void)b;
    return NULL;
}
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *a, void *b, size_t c)
{
    (void)a, (void)b;
    return c;
}
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *a) { return !a; }
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *a) { return !a; }
GArray *qemu_plugin_get_registers(void) { return NULL; }

void check_install(char *out, uint64_t (*physical)(uint64_t))
{
    qemu_info_t info = {.system_emulation = true, .system.max_vcpus = 8};
    char *options[] = {"pages=1", "dist=10:20:30:20/20:10:20:30/30:20:10:20/20:30:20:10", out};
    translate = physical;
    register_fs = &registers[0];
    register_cr3 = &registers[1];
    register_rdi = &registers[2];
    register_rsi = &registers[3];
    if (qemu_plugin_install(0, &info, 3, options))
        exit(1);
}

/* From here on a processor runs a thread of a process. */
void check_switch(int cpu, uint64_t process, uint64_t thread)
{
    find_cpu(1 + cpu);
    registers[0].value = thread;
    registers[1].value = process << 12;
    on_return(0, NULL);
}

void check_mark(unsigned op, uint64_t a, uint64_t b)
{
    registers[2].value = a;
    registers[3].value = b;
    on_mark(0, (void *)(uintptr_t)op);
}

void check_access(uint64_t address, bool store)
{
    current->user += 4;
    on_access(0, 0, address, store ? (void *)1 : NULL);
}

void check_end(void) { on_exit_of_qemu(0, NULL); }

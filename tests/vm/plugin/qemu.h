/* The part of QEMU's plugin interface (version 4, QEMU 9.1 and later) that numatruth uses.
 *
 * Written down here so that no QEMU headers are needed to build it; the names are QEMU's and GLib's. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;

typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    union {
        struct {
            int smp_vcpus;
            int max_vcpus;
        } system;
    };
} qemu_info_t;

typedef struct {
    struct qemu_plugin_register *handle;
    const char *name;
    const char *feature;
} reg_desc;

typedef struct {
    uint8_t *data;
    unsigned len;
} GByteArray;

typedef struct {
    char *data;
    unsigned len;
} GArray;

/* Whether a callback reads or changes registers. */
enum { CB_NO_REGS, CB_R_REGS, CB_RW_REGS };

enum { MEM_R = 1, MEM_W = 2 };

typedef void (*vcpu_udata_cb)(unsigned, void *);
typedef void (*mem_cb_t)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, vcpu_udata_cb, int flags,
                                            void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, mem_cb_t, int flags, int rw,
                                      void *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, vcpu_udata_cb, int flags,
                                          void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *);
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);

#define EXPORT __attribute__((visibility("default")))

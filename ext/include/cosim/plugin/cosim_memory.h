/* cosim memory plug-ins, ABI version 1.0. Plain C11; includable from C++.
 *
 * A memory plug-in is a memory channel with its controller: a model of one's own, or a wrapper around a DRAM simulator.
 * It takes bursts (a read or a write of access_bytes) and says when each is done. The host cuts requests into bursts,
 * maps addresses, keeps the finite read-return buffer, and moves the data. This file is the contract: what it does not
 * say is not promised. One instance is one channel; time counts in ticks (command slots) from 0.
 *
 * The host calls, with ticks that never go back: advance(t) for every t that next_event named, then pop until it
 * gives nothing, then accept(t) for what has arrived. A burst accepted at t is done at t + 1 or later.
 *
 * Versions: (major << 16) | minor. The host refuses another major. A minor appends fields at the end of structs only;
 * every struct begins with its size as its writer knew it, and a reader touches a field only if it lies inside.
 */
#ifndef COSIM_MEMORY_H
#define COSIM_MEMORY_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define COSIM_MEMORY_ABI_MAJOR 1u
#define COSIM_MEMORY_ABI_MINOR 0u
#define COSIM_MEMORY_ABI ((COSIM_MEMORY_ABI_MAJOR << 16) | COSIM_MEMORY_ABI_MINOR)
#define COSIM_MEMORY_ENTRY "cosim_memory_entry"

/* Negative returns; the run ends with an error that names plug-in, request and tick. */
#ifndef COSIM_OK
#define COSIM_OK 0
#define COSIM_E_CONFIG (-1)
#define COSIM_E_TOPOLOGY (-2)
#define COSIM_E_NOMEM (-3)
#define COSIM_E_INTERNAL (-4)
#define COSIM_NEVER UINT64_MAX
#endif

#define COSIM_MEMORY_READ 0u
#define COSIM_MEMORY_WRITE 1u

/* cosim_memory_v1.caps; unknown bits are ignored. COMMANDS: pop_command gives every command issued, so that
 * `cosim plugins check` can hold them against the standard's timing constraints. */
#define COSIM_CAP_COMMANDS (1u << 0)

/* The channel that the user asked for; stays where it is from create until destroy has returned. */
typedef struct cosim_memory_config {
  uint32_t struct_size;
  uint32_t reserved;
  uint32_t pseudo_channels;
  uint32_t stack_ids;
  uint32_t bank_groups;
  uint32_t banks_per_group;
  uint32_t rows;
  uint32_t columns;               /* bursts in a row */
  uint32_t access_bytes;          /* of a burst */
  uint32_t ticks_per_cycle;       /* command slots per CK */
  uint64_t capacity_bytes;        /* of the channel */
  uint64_t peak_bytes_per_second; /* of the channel */
  uint64_t tick_fs_num;           /* a tick lasts tick_fs_num / tick_fs_den femtoseconds */
  uint64_t tick_fs_den;
  const char* preset;
} cosim_memory_config;

/* One burst; valid only during the call. */
typedef struct cosim_memory_request {
  uint32_t struct_size;
  uint32_t op;             /* COSIM_MEMORY_READ or COSIM_MEMORY_WRITE */
  uint64_t id;             /* handed back when it is done; of no other burst under way */
  uint64_t offset;         /* of the first byte in the channel: the coordinates below in their order, column fastest */
  uint32_t pseudo_channel; /* where the host's address map puts it */
  uint32_t stack_id;
  uint32_t bank_group;
  uint32_t bank;
  uint32_t row;
  uint32_t column;
  uint32_t class_id; /* message class, 0 in a run of requests alone */
  uint32_t reserved;
} cosim_memory_request;

/* A burst that is done: the last beat of a read on the bus, of a write taken. */
typedef struct cosim_memory_completion {
  uint64_t id;
  uint64_t tick;
} cosim_memory_completion;

/* A command that was issued, for the constraint check. `command`: ACT, PREpb, PREab, RD, WR, RDA, WRA, REFab or REFpb,
 * static; bank counts over stack ids and bank groups, UINT32_MAX for all banks; what a command lacks is UINT32_MAX. */
typedef struct cosim_memory_command {
  uint64_t tick;
  const char* command;
  uint32_t pseudo_channel;
  uint32_t bank;
  uint32_t row;
  uint32_t column;
} cosim_memory_command;

typedef struct cosim_memory_v1 {
  uint32_t abi; /* COSIM_MEMORY_ABI of the header that the plug-in was compiled with */
  uint32_t struct_size;
  const char* name;    /* UTF-8, static */
  const char* version; /* UTF-8, static */
  uint32_t caps;
  uint32_t reserved; /* 0 */

  /* Makes *self, once per simulation. params: the user's `params` as compact JSON, "{}" when there are none. Returns
   * COSIM_OK, or a COSIM_E_* with the reason as a string in err[err_cap]. */
  int32_t (*create)(const cosim_memory_config* config, const char* params, void** self, char* err, size_t err_cap);
  /* Exactly once after a successful create, never while another call runs. */
  void (*destroy)(void* self);
  /* Takes a burst at `tick` and returns 1; 0: no room, to be offered again after the next advance; negative:
   * COSIM_E_*. Bursts are offered one by one in the order in which they are asked for. */
  int32_t (*accept)(void* self, const cosim_memory_request* request, uint64_t tick);
  /* The next tick, later than the last advance, at which advance would do something or a burst is done; COSIM_NEVER
   * while nothing will happen without an accept. With bursts under way COSIM_NEVER is a deadlock. */
  uint64_t (*next_event)(const void* self);
  /* Does everything that is due up to and including `tick`. Returns COSIM_OK or a COSIM_E_*. */
  int32_t (*advance)(void* self, uint64_t tick);
  /* Writes at most `cap` bursts whose tick has come, each once, and returns how many. */
  int32_t (*pop)(void* self, cosim_memory_completion* out, uint32_t cap);

  /* The rest may be NULL. */

  /* Both or neither. save returns the bytes that the state takes and writes them if cap is enough; load makes the
   * instance what it was. Without them a run with this memory cannot be saved. */
  uint64_t (*save)(const void* self, void* state, uint64_t cap);
  int32_t (*load)(void* self, const void* state, uint64_t size);
  /* Parameters as JSON for `cosim plugins show`, static: [{"name": .., "default": .., "unit": .., "help": ..}, ..]. The
   * host checks the user's params against these names; NULL: it passes them on unchecked. */
  const char* params_json;
  /* As pop, for the commands issued since the last call, in the order of their ticks; see COSIM_CAP_COMMANDS. */
  int32_t (*pop_command)(void* self, cosim_memory_command* out, uint32_t cap);
} cosim_memory_v1;

/* The one exported symbol. Returns NULL when the plug-in cannot serve this host's major version. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const cosim_memory_v1* cosim_memory_entry(uint32_t host_abi);

/* Rules.
 *  - Results depend only on what create, accept and advance tell: no time of day, no addresses, no rand(), no mutable
 *    globals (instances may run in different threads). Calls to one instance never overlap.
 *  - The host's structs are valid during the call; a plug-in keeps no pointer to them and writes only `out`.
 *  - The host checks: every accepted burst is done exactly once, later than its acceptance, and popped at a tick that
 *    has come; next_event lies ahead. What breaks this ends the run with an error.
 *  - No C++ exception, longjmp or signal crosses this line; no Python in a plug-in: the host holds no interpreter lock.
 *  - Each side frees what it allocated. */

#ifdef __cplusplus
}
#endif
#endif

/* cosim arbiter plug-ins, ABI version 1.0. Plain C11; includable from C++.
 *
 * An arbiter plug-in is an allocator of a router: it matches requesters with resources, once per router and cycle in
 * which anything is asked for. Two stages of a router can be arbitrated, each by an instance of its own: heads ask for
 * output virtual channels (VC allocation), flits for output ports (switch allocation). Buffers, credits, routing,
 * links, statistics and laws stay the host's. This file is the contract: what it does not say is not promised.
 *
 * Versions: (major << 16) | minor. The host refuses another major. A minor appends fields at the end of structs only;
 * every struct begins with its size as its writer knew it, and a reader touches a field only if it lies inside.
 */
#ifndef COSIM_ARBITER_H
#define COSIM_ARBITER_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define COSIM_ARBITER_ABI_MAJOR 1u
#define COSIM_ARBITER_ABI_MINOR 0u
#define COSIM_ARBITER_ABI ((COSIM_ARBITER_ABI_MAJOR << 16) | COSIM_ARBITER_ABI_MINOR)
#define COSIM_ARBITER_ENTRY "cosim_arbiter_entry"

/* Negative returns; the run ends with an error that names plug-in, node and cycle. */
#ifndef COSIM_OK
#define COSIM_OK 0
#define COSIM_E_CONFIG (-1)
#define COSIM_E_TOPOLOGY (-2)
#define COSIM_E_NOMEM (-3)
#define COSIM_E_INTERNAL (-4)
#define COSIM_NEVER UINT64_MAX
#endif

#define COSIM_STAGE_VC 0u
#define COSIM_STAGE_SWITCH 1u

/* cosim_arbiter_v1.caps; unknown bits are ignored. STATELESS: grants depend on create and on the requests at hand
 * alone: there is nothing to save. */
#define COSIM_CAP_STATELESS_ARBITER (1u << 0)

/* cosim_arbiter_request.flags. SPECULATIVE: a head that has no output VC yet; what it wins may be lost. */
#define COSIM_REQUEST_SPECULATIVE (1u << 0)

/* Stays where it is from create until destroy has returned. */
typedef struct cosim_arbiter_config {
  uint32_t struct_size;
  uint32_t stage;     /* COSIM_STAGE_VC or COSIM_STAGE_SWITCH */
  uint32_t n_nodes;   /* routers */
  uint32_t n_ports;   /* of every router, input and output alike */
  uint32_t n_vcs;     /* of every port */
  uint32_t n_classes; /* message classes */
  uint32_t n_inputs;  /* VC stage: n_ports * n_vcs input VCs, port * n_vcs + vc; switch: n_ports */
  uint32_t n_outputs; /* likewise */
} cosim_arbiter_config;

/* One input asks for one output. In the switch stage the host has put one VC of the input forward for that output. */
typedef struct cosim_arbiter_request {
  uint32_t input;
  uint32_t output;
  uint32_t in_vc;    /* VC of the input port that the packet is in */
  uint32_t class_id; /* of the packet */
  uint32_t priority; /* VC stage: of the routing's candidate, lower ones preferred; switch: 0 */
  uint32_t flags;
  uint32_t packet_flits;
  uint32_t reserved;
  uint64_t create_cycle; /* of the packet */
} cosim_arbiter_request;

/* All requests of one router in one cycle, by ascending input, then output; valid only during the call. */
typedef struct cosim_arbitration {
  uint32_t struct_size;
  uint32_t node;
  uint32_t n_requests; /* at least 1 */
  uint32_t reserved;
  uint64_t cycle;
  const cosim_arbiter_request* requests; /* [n_requests] */
} cosim_arbitration;

typedef struct cosim_arbiter_v1 {
  uint32_t abi; /* COSIM_ARBITER_ABI of the header that the plug-in was compiled with */
  uint32_t struct_size;
  const char* name;    /* UTF-8, static */
  const char* version; /* UTF-8, static */
  uint32_t caps;
  uint32_t reserved; /* 0 */

  /* Makes *self, once per simulation and stage, for all routers. params: the user's `params` as compact JSON, "{}" when
   * there are none. Returns COSIM_OK, or a COSIM_E_* with the reason as a string in err[err_cap]. */
  int32_t (*create)(const cosim_arbiter_config* config, const char* params, void** self, char* err, size_t err_cap);
  /* Exactly once after a successful create, never while another call runs. */
  void (*destroy)(void* self);
  /* Sets grants[i] to 1 for every request granted; they are 0 before. A granted input and a granted output must be of
   * one granted request only. Returns COSIM_OK or a COSIM_E_*. Granting nothing is allowed, but not for ever. */
  int32_t (*arbitrate)(void* self, const cosim_arbitration* asked, uint8_t* grants);

  /* The rest may be NULL. */

  /* Both or neither. save returns the bytes that the state takes and writes them if cap is enough; load makes the
   * instance what it was. Without them an arbiter that is not STATELESS cannot be saved. */
  uint64_t (*save)(const void* self, void* state, uint64_t cap);
  int32_t (*load)(void* self, const void* state, uint64_t size);
  /* Parameters as JSON for `cosim plugins show`, static: [{"name": .., "default": .., "unit": .., "help": ..}, ..]. The
   * host checks the user's params against these names; NULL: it passes them on unchecked. */
  const char* params_json;
} cosim_arbiter_v1;

/* The one exported symbol. Returns NULL when the plug-in cannot serve this host's major version. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const cosim_arbiter_v1* cosim_arbiter_entry(uint32_t host_abi);

/* Rules.
 *  - Grants depend only on what create and the arbitrations so far tell: no time of day, no addresses, no rand(), no
 *    mutable globals (instances may run in different threads). Calls to one instance never overlap. The routers of one
 *    cycle are asked in ascending order; an arbiter must not let one router's requests decide over another's.
 *  - The host checks that the grants are a matching of requests; what is none ends the run with an error, and so do
 *    100,000 cycles in which requests stand and nothing is granted in the whole network.
 *  - No C++ exception, longjmp or signal crosses this line; no Python in a plug-in: the host holds no interpreter lock.
 *  - Each side frees what it allocated. */

#ifdef __cplusplus
}
#endif
#endif

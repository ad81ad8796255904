/* cosim router models, ABI version 1.0. Plain C11; includable from C++.
 *
 * A router model is a whole router: buffers, routing, allocation and flow control are the plug-in's. Links, network
 * interfaces, statistics and laws stay the host's. There is one instance per router, and one call per router and cycle
 * in which the router has something to do. This file is the contract: what it does not say is not promised.
 *
 * A cycle. A flit that a router sends at cycle t over a link of latency L is handed to the next router at t + L + 1;
 * sent to an endpoint it is read at t + 2. A flit may be sent in the cycle in which it arrived. A flit that waits at an
 * endpoint's port enters when the router takes it, in the cycle of the call; its endpoint sent it two cycles before.
 *
 * Flow control. info.buffer_flits > 0: every VC of a link's input has so many slots; the host counts, a flit may only
 * be sent to a router when a slot is free, and a slot that the router frees at t counts upstream from t + L + 1 +
 * credit_delay on. info.buffer_flits = 0: none; a router takes every flit that arrives and must see to it that it can.
 * Endpoints always take what is sent to them, and hold what the router does not take.
 *
 * Versions: (major << 16) | minor. The host refuses another major. A minor appends fields at the end of structs only;
 * every struct begins with its size as its writer knew it, and a reader touches a field only if it lies inside.
 */
#ifndef COSIM_ROUTER_MODEL_H
#define COSIM_ROUTER_MODEL_H
#include <cosim/plugin/cosim_router.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define COSIM_ROUTER_MODEL_ABI_MAJOR 1u
#define COSIM_ROUTER_MODEL_ABI_MINOR 0u
#define COSIM_ROUTER_MODEL_ABI ((COSIM_ROUTER_MODEL_ABI_MAJOR << 16) | COSIM_ROUTER_MODEL_ABI_MINOR)
#define COSIM_ROUTER_MODEL_ENTRY "cosim_router_model_entry"

/* cosim_router_model_v1.caps; unknown bits are ignored. STATELESS: the router holds nothing between two calls, no flit
 * either: there is nothing to save. */
#define COSIM_CAP_STATELESS_MODEL (1u << 0)

typedef struct cosim_flit {
  uint32_t id;       /* of no other flit under way */
  uint32_t vc;       /* arrived: the VC it came on; waiting: the first VC of its class; sent: the VC to go on */
  uint32_t src;      /* endpoint */
  uint32_t dst;      /* endpoint */
  uint32_t class_id; /* message class */
  uint32_t index;    /* in its packet, 0 is the head */
  uint32_t packet_flits;
  uint32_t hops; /* routers visited before this one */
  uint64_t packet_id;
  uint64_t create_cycle; /* of the packet */
  uint64_t state;        /* the plug-ins' own: 0 at the source, then as it was sent */
} cosim_flit;

/* What a router is told in one cycle, and what it answers; valid only during the call. Ports and VCs as in
 * cosim_topology; masks have bit p for port p or bit v for VC v. */
typedef struct cosim_router_step {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t cycle;
  uint64_t rand;             /* drawn from (seed, node, cycle): use this, never rand() */
  uint64_t arrived_ports;    /* input ports at which a flit has arrived */
  const cosim_flit* arrived; /* [max_ports] by input port, where the bit is set */
  uint64_t waiting_ports;    /* ports of endpoints at which a flit waits to enter */
  const cosim_flit* waiting; /* [max_ports] by port, where the bit is set */
  const uint64_t* credits;   /* [max_ports] VCs of the output port in which a slot came free */

  /* The answer; all zero, next_event COSIM_NEVER, when the call begins. */
  uint64_t taken_ports; /* of waiting_ports: those whose flit entered */
  uint64_t sent_ports;  /* output ports to which a flit is sent */
  cosim_flit* sent;     /* [max_ports] by output port: id, vc and state are read */
  uint64_t* freed;      /* [max_ports] VCs of the input port in which a slot came free */
  uint64_t next_event;  /* the next cycle, later than this one, in which to be called even if nothing arrives */
} cosim_router_step;

/* What an instance says of itself in create. */
typedef struct cosim_router_info {
  uint32_t struct_size;
  uint32_t buffer_flits; /* slots of every VC of a link's input: the network's vc_buf_size when create begins; the
                            same for all routers */
  uint32_t
      pipeline_cycles; /* 1 when create begins: a flit leaves pipeline_cycles - 1 after it arrived at the earliest */
  uint32_t reserved;
} cosim_router_info;

typedef struct cosim_router_model_v1 {
  uint32_t abi; /* COSIM_ROUTER_MODEL_ABI of the header that the plug-in was compiled with */
  uint32_t struct_size;
  const char* name;    /* UTF-8, static */
  const char* version; /* UTF-8, static */
  uint32_t caps;
  uint32_t reserved; /* 0 */

  /* Makes *self, the router `node`. params: the user's `params` as compact JSON, "{}" when there are none. topo stays
   * where it is until the last destroy. Returns COSIM_OK, or a COSIM_E_* with the reason as a string in err[err_cap].
   */
  int32_t (*create)(const cosim_topology* topo, uint32_t node, const char* params, cosim_router_info* info, void** self,
                    char* err, size_t err_cap);
  /* Exactly once after a successful create, never while another call runs. */
  void (*destroy)(void* self);
  /* Called for the cycles in which a flit or a credit arrives, in which a flit begins to wait at an endpoint's port,
   * and which the last call asked for. Returns COSIM_OK or a COSIM_E_*. */
  int32_t (*step)(void* self, cosim_router_step* io);

  /* The rest may be NULL. */

  /* Both or neither. save returns the bytes that the state takes and writes them if cap is enough; load makes the
   * instance what it was. Without them a router that is not STATELESS cannot be saved. */
  uint64_t (*save)(const void* self, void* state, uint64_t cap);
  int32_t (*load)(void* self, const void* state, uint64_t size);
  /* Parameters as JSON for `cosim plugins show`, static: [{"name": .., "default": .., "unit": .., "help": ..}, ..]. The
   * host checks the user's params against these names; NULL: it passes them on unchecked. */
  const char* params_json;
} cosim_router_model_v1;

/* The one exported symbol. Returns NULL when the plug-in cannot serve this host's major version. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const cosim_router_model_v1* cosim_router_model_entry(uint32_t host_abi);

/* Rules.
 *  - What a router does depends only on create and on its own steps: no time of day, no addresses, no rand(), no
 * mutable globals (instances may run in different threads). Routers exchange nothing but flits. Calls to one instance
 * never overlap.
 *  - The host checks every answer: a flit that is not in this router or is sent twice, a port that does not exist or
 *    ejects at an endpoint that is not dst, a VC of another class, a missing credit, a slot that is freed twice, a flit
 *    faster than the pipeline end the run with an error. So do 100,000 cycles in which flits are under way and no
 *    endpoint reads one. When no router wants to be called and flits are left, the network is deadlocked.
 *  - No C++ exception, longjmp or signal crosses this line; no Python in a plug-in: the host holds no interpreter lock.
 *  - Each side frees what it allocated. */

#ifdef __cplusplus
}
#endif
#endif

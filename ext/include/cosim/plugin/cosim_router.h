/* cosim routing plug-ins, ABI version 1.0. Plain C11; includable from C++.
 *
 * A routing plug-in tells, for one head flit at one router, the output ports and virtual channels it may take. Virtual
 * channel and switch allocation, credits, links, interfaces, statistics and laws stay the host's. This file is the
 * contract: what it does not say is not promised.
 *
 * A shared object exports one symbol, cosim_router_entry. The host asks it for a table of functions, creates one
 * instance per simulation and destroys it exactly once; it keeps the shared object loaded until after that.
 *
 * Versions: (major << 16) | minor. The host refuses another major. A minor appends fields at the end of structs only;
 * every struct begins with its size as its writer knew it, and a reader touches a field only if it lies inside.
 *
 * Words: a node is a router; an endpoint is what sends and receives packets (what cosim's Python side calls a node).
 */
#ifndef COSIM_ROUTER_H
#define COSIM_ROUTER_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define COSIM_ROUTER_ABI_MAJOR 1u
#define COSIM_ROUTER_ABI_MINOR 0u
#define COSIM_ROUTER_ABI ((COSIM_ROUTER_ABI_MAJOR << 16) | COSIM_ROUTER_ABI_MINOR)
#define COSIM_ROUTER_ENTRY "cosim_router_entry"

/* Negative returns; the run ends with an error that names plug-in, node, packet and cycle. */
#ifndef COSIM_OK
#define COSIM_OK 0
#define COSIM_E_CONFIG (-1)
#define COSIM_E_TOPOLOGY (-2)
#define COSIM_E_NOMEM (-3)
#define COSIM_E_INTERNAL (-4)
#define COSIM_NEVER UINT64_MAX
#endif

/* cosim_router_v1.caps; unknown bits are ignored.
 * PURE: route() depends on node, in_port, dst and class_id only and never stalls: the host asks once for each and keeps
 *   the answer, and `cosim plugins check` proves freedom from deadlock.
 * MULTICAST: route() reads dest_set. Reserved: this host sends a packet to several endpoints as unicasts.
 * THREADSAFE: route() may run at once for different nodes of one instance.
 * STATELESS: route() depends on what create, req (but not req->cycle) and view tell and on no earlier call: nothing to
 *   save, and a network in which nothing can move is known to be deadlocked at once.
 * NO_VIEW: route() never reads the view; the host passes NULL for it, which is faster. */
#define COSIM_CAP_PURE (1u << 0)
#define COSIM_CAP_MULTICAST (1u << 1)
#define COSIM_CAP_THREADSAFE (1u << 2)
#define COSIM_CAP_STATELESS (1u << 3)
#define COSIM_CAP_NO_VIEW (1u << 4)

/* Or-ed into what route() returns: the same answer for every head with this node, in_port, dst and class_id. The host
 * need not ask again for them; where it does, another answer ends the run with an error. Implied by PURE. */
#define COSIM_ROUTE_ALWAYS (1 << 16)

#define COSIM_NO_LINK UINT32_MAX /* in cosim_topology.neighbor */

/* Does not change and stays where it is from create until destroy has returned. Arrays over output ports are indexed
 * [node * max_ports + port]; a port without a link has neighbor COSIM_NO_LINK and zeros elsewhere. */
typedef struct cosim_topology {
  uint32_t struct_size;
  uint32_t n_nodes; /* routers */
  uint32_t n_endpoints;
  uint32_t max_ports;  /* of every router, input and output alike */
  uint32_t n_vcs;      /* of every port */
  uint32_t n_classes;  /* message classes */
  uint32_t n_links;    /* directed */
  uint32_t n_dims;     /* 0: no coordinates */
  uint32_t flit_bytes; /* 0: not stated */
  uint32_t reserved;
  const char* kind;                /* "mesh", "torus", "graph", ... */
  const uint32_t* dims;            /* [n_dims] nodes per dimension; node = x + dims[0] * y + ... */
  const uint32_t* neighbor;        /* node behind the port */
  const uint32_t* neighbor_port;   /* input port there */
  const uint32_t* ejection;        /* [n_endpoints] node * max_ports + port, also where the endpoint injects */
  const uint64_t* class_vcs;       /* [n_classes] bit v: a packet of this class may use VC v */
  const uint32_t* link_latency;    /* cycles */
  const uint32_t* link_flit_bytes; /* 0: not stated */
  const uint64_t* link_clock_hz;   /* 0: not stated */
  const uint32_t* link_level;      /* of the package: 0 is the network's own */
} cosim_topology;

/* One head flit that asks for an output; valid only during the call. A head asks when it has reached the front of its
 * buffer, and again in every later cycle until it is granted a VC (unless the answer holds always). */
typedef struct cosim_route_req {
  uint32_t struct_size;
  uint32_t node;
  uint32_t in_port;
  uint32_t in_vc;
  uint32_t src; /* endpoint */
  uint32_t dst; /* endpoint */
  uint32_t class_id;
  uint32_t hops; /* routers visited before this one */
  uint32_t packet_flits;
  uint32_t dest_words; /* of dest_set */
  uint64_t cycle;
  uint64_t packet_id;       /* in the order in which the packets were offered, from 0 */
  const uint64_t* dest_set; /* [dest_words] bits of the endpoints still to reach; NULL: unicast */
  uint64_t rand;            /* drawn from (seed, node, packet_id, hops): use this, never rand() */
} cosim_route_req;

/* What req->node sees of itself when the head asks; valid only during the call. */
typedef struct cosim_router_view {
  uint32_t struct_size;
  uint32_t n_ports;
  const uint16_t* credits;   /* [n_ports * n_vcs] free slots downstream, in flits; 65535 also for more */
  const uint16_t* out_queue; /* [n_ports] flits in this router's buffers that were routed to the port */
  const uint8_t* link_up;    /* [n_ports] 0: no link, or failed */
} cosim_router_view;

/* One output that the packet may take. vc_mask: bit v allows VC v; all bits mean every VC of the packet's class, and
 * VCs of another class are an error. Lower priorities are preferred, equal ones in the order written. */
typedef struct cosim_candidate {
  uint32_t port;
  uint32_t priority;
  uint64_t vc_mask;
} cosim_candidate;

typedef struct cosim_router_v1 {
  uint32_t abi; /* COSIM_ROUTER_ABI of the header that the plug-in was compiled with */
  uint32_t struct_size;
  const char* name;    /* UTF-8, static */
  const char* version; /* UTF-8, static */
  uint32_t caps;
  uint32_t reserved; /* 0 */

  /* Makes *self, once per simulation. params: the user's `params` as compact JSON, "{}" when there are none. Returns
   * COSIM_OK, or a COSIM_E_* with the reason as a string in err[err_cap]. */
  int32_t (*create)(const cosim_topology* topo, const char* params, void** self, char* err, size_t err_cap);
  /* Exactly once after a successful create, never while another call runs. */
  void (*destroy)(void* self);
  /* Writes 1..cap candidates and returns how many, COSIM_ROUTE_ALWAYS or-ed in where it holds; 0: none now, ask again
   * in the next cycle; negative: COSIM_E_*. */
  int32_t (*route)(void* self, const cosim_route_req* req, const cosim_router_view* view, cosim_candidate* out,
                   uint32_t cap);

  /* The rest may be NULL. */

  /* Called for cycle 0 or later, cycles ascending, before any route of that cycle. Returns the next cycle, later than
   * this one, for which it wants to be called; COSIM_NEVER: the next in which a head is routed. As nothing but route
   * reads what it changes, the host may call it late, but always before the first route of that cycle or a later. */
  uint64_t (*tick)(void* self, uint64_t cycle);

  /* Both or neither. save returns the bytes that the state takes and writes them if cap is enough; load makes the
   * instance what it was. Without them a plug-in that is neither PURE nor STATELESS cannot be saved. */
  uint64_t (*save)(const void* self, void* state, uint64_t cap);
  int32_t (*load)(void* self, const void* state, uint64_t size);

  /* Parameters as JSON for `cosim plugins show`, static: [{"name": .., "default": .., "unit": .., "help": ..}, ..]. The
   * host checks the user's params against these names; NULL: it passes them on unchecked. */
  const char* params_json;
} cosim_router_v1;

/* The one exported symbol. Returns NULL when the plug-in cannot serve this host's major version. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const cosim_router_v1* cosim_router_entry(uint32_t host_abi);

/* Rules.
 *  - Results depend only on what create, req and view tell and on earlier calls to this instance: no time of day, no
 *    addresses, no rand(), no mutable globals (instances may run in different threads). Calls to one instance never
 *    overlap.
 *  - req, view and out are the host's; a plug-in keeps no pointer to them and writes only `out`.
 *  - The host checks every candidate: a port that does not exist or has no link, VCs that do not exist, ejection at an
 *    endpoint that is not dst end the run with an error.
 *  - No C++ exception, longjmp or signal crosses this line; no Python in a plug-in: the host holds no interpreter lock.
 *  - Each side frees what it allocated. */

#ifdef __cplusplus
}
#endif
#endif

/* A bufferless deflection router: every flit that arrives leaves in the same cycle. The oldest flit chooses first and
 * takes the free port that brings it nearest to its destination; the last ones take what is left, away from it if need
 * be. A node's flit enters when an output is left over. The oldest flit of the network is never deflected, so that every
 * flit arrives in the end. Needs as many links out of a router as into it. */
#include <cosim/plugin/cosim_params.h>
#include <cosim/plugin/cosim_router_model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t node;
  uint32_t n_nodes;
  uint32_t max_ports;
  uint64_t links;       /* output ports with a link */
  uint32_t* node_of;    /* [n_endpoints] router of an endpoint */
  uint32_t* port_of;    /* [n_endpoints] its port there */
  uint32_t* distance;   /* [max_ports * n_nodes] hops from the router behind a port */
  int youngest_first;
} router;

static void free_router(router* r) {
  free(r->node_of);
  free(r->port_of);
  free(r->distance);
  free(r);
}

/* Hops from `from` to every node, by breadth-first search. */
static void search(const cosim_topology* topo, uint32_t from, uint32_t* hops, uint32_t* queue) {
  uint32_t head = 0, tail = 0;
  for (uint32_t n = 0; n < topo->n_nodes; ++n) hops[n] = UINT32_MAX;
  hops[from] = 0;
  queue[tail++] = from;
  while (head < tail) {
    const uint32_t at = queue[head++];
    for (uint32_t p = 0; p < topo->max_ports; ++p) {
      const uint32_t next = topo->neighbor[at * topo->max_ports + p];
      if (next == COSIM_NO_LINK || hops[next] != UINT32_MAX) continue;
      hops[next] = hops[at] + 1;
      queue[tail++] = next;
    }
  }
}

static int32_t create(const cosim_topology* topo, uint32_t node, const char* params, cosim_router_info* info,
                      void** self, char* err, size_t err_cap) {
  router* r = calloc(1, sizeof(*r));
  uint32_t* queue = malloc(topo->n_nodes * sizeof(*queue));
  if (r != NULL) {
    r->node_of = malloc(topo->n_endpoints * sizeof(*r->node_of));
    r->port_of = malloc(topo->n_endpoints * sizeof(*r->port_of));
    r->distance = malloc((size_t)topo->max_ports * topo->n_nodes * sizeof(*r->distance));
  }
  if (r == NULL || queue == NULL || r->node_of == NULL || r->port_of == NULL || r->distance == NULL) {
    if (r != NULL) free_router(r);
    free(queue);
    return COSIM_E_NOMEM;
  }
  r->node = node;
  r->n_nodes = topo->n_nodes;
  r->max_ports = topo->max_ports;
  r->youngest_first = cosim_param_bool(params, "youngest_first", 0);
  for (uint32_t e = 0; e < topo->n_endpoints; ++e) {
    r->node_of[e] = topo->ejection[e] / topo->max_ports;
    r->port_of[e] = topo->ejection[e] % topo->max_ports;
  }
  uint32_t out = 0, in = 0;
  for (uint32_t p = 0; p < topo->max_ports; ++p) {
    const uint32_t next = topo->neighbor[node * topo->max_ports + p];
    if (next == COSIM_NO_LINK) continue;
    ++out;
    r->links |= (uint64_t)1 << p;
    search(topo, next, &r->distance[(size_t)p * topo->n_nodes], queue);
  }
  for (uint32_t o = 0; o < topo->n_nodes * topo->max_ports; ++o) in += topo->neighbor[o] == node;
  free(queue);
  if (in > out) {
    snprintf(err, err_cap, "router %u has %u links in and %u out: a bufferless router needs as many out", node, in, out);
    free_router(r);
    return COSIM_E_TOPOLOGY;
  }
  info->buffer_flits = 0;
  *self = r;
  return COSIM_OK;
}

static void destroy(void* self) { free_router(self); }

static int older(const router* r, const cosim_flit* a, const cosim_flit* b) {
  const int swap = r->youngest_first;
  if (a->create_cycle != b->create_cycle) return (a->create_cycle < b->create_cycle) != swap;
  if (a->packet_id != b->packet_id) return (a->packet_id < b->packet_id) != swap;
  return (a->index < b->index) != swap;
}

/* The free port that brings a flit nearest to its destination. */
static uint32_t nearest(const router* r, const cosim_flit* flit, uint64_t free_ports) {
  uint32_t best = UINT32_MAX, hops = UINT32_MAX;
  for (uint32_t p = 0; p < r->max_ports; ++p) {
    if ((free_ports >> p & 1u) == 0) continue;
    const uint32_t to = r->distance[(size_t)p * r->n_nodes + r->node_of[flit->dst]];
    if (best == UINT32_MAX || to < hops) {
      best = p;
      hops = to;
    }
  }
  return best;
}

static void send(cosim_router_step* io, uint32_t port, const cosim_flit* flit) {
  io->sent[port] = *flit;
  io->sent_ports |= (uint64_t)1 << port;
}

static int32_t step(void* self, cosim_router_step* io) {
  const router* r = self;
  const cosim_flit* order[64];
  uint32_t count = 0;
  for (uint32_t p = 0; p < r->max_ports; ++p) {
    if ((io->arrived_ports >> p & 1u) == 0) continue;
    uint32_t at = count++;
    for (; at > 0 && older(r, &io->arrived[p], order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = &io->arrived[p];
  }
  uint64_t free_ports = r->links;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t home = r->port_of[order[i]->dst];
    if (r->node_of[order[i]->dst] == r->node && (io->sent_ports >> home & 1u) == 0) {
      send(io, home, order[i]);
      continue;
    }
    const uint32_t port = nearest(r, order[i], free_ports);
    free_ports &= ~((uint64_t)1 << port);
    send(io, port, order[i]);
  }
  for (uint32_t p = 0; p < r->max_ports; ++p) {
    if ((io->waiting_ports >> p & 1u) == 0) continue;
    const cosim_flit* flit = &io->waiting[p];
    const uint32_t home = r->port_of[flit->dst];
    const int here = r->node_of[flit->dst] == r->node;
    if (here ? (io->sent_ports >> home & 1u) != 0 : free_ports == 0) {
      io->next_event = io->cycle + 1; /* it asks again */
      continue;
    }
    const uint32_t port = here ? home : nearest(r, flit, free_ports);
    free_ports &= ~((uint64_t)1 << port);
    io->taken_ports |= (uint64_t)1 << p;
    send(io, port, flit);
  }
  return COSIM_OK;
}

static const cosim_router_model_v1 table = {
    .abi = COSIM_ROUTER_MODEL_ABI,
    .struct_size = sizeof(cosim_router_model_v1),
    .name = "deflection_router_model",
    .version = "1.0",
    .caps = COSIM_CAP_STATELESS_MODEL,
    .create = create,
    .destroy = destroy,
    .step = step,
    .params_json = "[{\"name\": \"youngest_first\", \"default\": false, \"unit\": \"\", "
                   "\"help\": \"the other way round, to see what age is good for\"}]",
};

const cosim_router_model_v1* cosim_router_model_entry(uint32_t host_abi) {
  return host_abi >> 16 == COSIM_ROUTER_MODEL_ABI_MAJOR ? &table : NULL;
}

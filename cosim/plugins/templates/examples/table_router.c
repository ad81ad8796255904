/* Shortest paths, looked up in a table that create() fills: for every destination a breadth-first search backwards over
 * the links; of several ways the lowest output port. On a mesh that is dimension order, on any graph a shortest path,
 * free of deadlock or not: `cosim plugins check` tells. */
#include <cosim/plugin/cosim_router.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct table_router {
  uint32_t n_endpoints;
  uint16_t ports[]; /* [node * n_endpoints + dst] */
} table_router;

static void destroy(void *self) { free(self); }

/* Distances of all nodes to `target`, hop by hop until none changes. */
static void distances(const cosim_topology *t, uint32_t target, uint32_t *distance) {
  for (uint32_t node = 0; node < t->n_nodes; ++node) distance[node] = UINT32_MAX;
  distance[target] = 0;
  for (uint32_t hops = 0, changed = 1; changed; ++hops) {
    changed = 0;
    for (uint32_t node = 0; node < t->n_nodes; ++node) {
      if (distance[node] != UINT32_MAX) continue;
      for (uint32_t port = 0; port < t->max_ports; ++port) {
        const uint32_t next = t->neighbor[node * t->max_ports + port];
        if (next == COSIM_NO_LINK || distance[next] != hops) continue;
        distance[node] = hops + 1;
        changed = 1;
        break;
      }
    }
  }
}

static int32_t create(const cosim_topology *t, const char *params, void **self, char *err, size_t err_cap) {
  (void)params;
  table_router *r = malloc(sizeof(*r) + sizeof(uint16_t) * t->n_nodes * t->n_endpoints);
  uint32_t *distance = malloc(sizeof(uint32_t) * t->n_nodes);
  if (r == NULL || distance == NULL) {
    free(r);
    free(distance);
    return COSIM_E_NOMEM;
  }
  r->n_endpoints = t->n_endpoints;
  for (uint32_t dst = 0; dst < t->n_endpoints; ++dst) {
    const uint32_t target = t->ejection[dst] / t->max_ports;
    distances(t, target, distance);
    for (uint32_t node = 0; node < t->n_nodes; ++node) {
      uint32_t best = t->ejection[dst] % t->max_ports;
      if (distance[node] == UINT32_MAX) {
        snprintf(err, err_cap, "endpoint %u cannot be reached from node %u", dst, node);
        free(distance);
        free(r);
        return COSIM_E_TOPOLOGY;
      }
      for (uint32_t port = 0; node != target && port < t->max_ports; ++port) {
        const uint32_t next = t->neighbor[node * t->max_ports + port];
        if (next == COSIM_NO_LINK || distance[next] + 1 != distance[node]) continue;
        best = port;
        break;
      }
      r->ports[node * t->n_endpoints + dst] = (uint16_t)best;
    }
  }
  free(distance);
  *self = r;
  return COSIM_OK;
}

static int32_t route(void *self, const cosim_route_req *req, const cosim_router_view *view, cosim_candidate *out,
                     uint32_t cap) {
  const table_router *r = self;
  (void)view;
  (void)cap;
  out[0].port = r->ports[req->node * r->n_endpoints + req->dst];
  out[0].vc_mask = UINT64_MAX;
  out[0].priority = 0;
  return 1;
}

static const cosim_router_v1 table = {
    .abi = COSIM_ROUTER_ABI,
    .struct_size = sizeof(cosim_router_v1),
    .name = "table_router",
    .version = "1.0",
    .caps = COSIM_CAP_PURE | COSIM_CAP_STATELESS | COSIM_CAP_NO_VIEW,
    .create = create,
    .destroy = destroy,
    .route = route,
    .params_json = "[]",
};

const cosim_router_v1 *cosim_router_entry(uint32_t host_abi) {
  return host_abi >> 16 == COSIM_ROUTER_ABI_MAJOR ? &table : NULL;
}

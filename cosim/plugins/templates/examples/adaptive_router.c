/* Negative-first routing on a mesh of any dimensions: a packet first makes its moves towards lower coordinates, in any
 * order, then those towards higher ones. Of the ways that are open the one with the most free slots comes first. No
 * turn from a positive to a negative direction: no cycle of waits (Glass and Ni, "The turn model for adaptive routing",
 * ISCA 1992), whatever the VCs. */
#include <cosim/plugin/cosim_params.h>
#include <cosim/plugin/cosim_router.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 8u

typedef struct adaptive_router {
  const cosim_topology *t;
  int64_t bias; /* free slots by which another way must be better than the lowest dimension's */
} adaptive_router;

static void destroy(void *self) { free(self); }

static int32_t create(const cosim_topology *t, const char *params, void **self, char *err, size_t err_cap) {
  if (strcmp(t->kind, "mesh") != 0 || t->n_dims > MOST_DIMS) {
    snprintf(err, err_cap, "expected a mesh of at most %u dimensions, got a %s", MOST_DIMS, t->kind);
    return COSIM_E_TOPOLOGY;
  }
  adaptive_router *r = malloc(sizeof(*r));
  if (r == NULL) return COSIM_E_NOMEM;
  r->t = t;
  r->bias = cosim_param_int(params, "bias_flits", 0);
  *self = r;
  return COSIM_OK;
}

/* Output port from `node` to its neighbour `next`; a mesh has it. */
static uint32_t port_to(const cosim_topology *t, uint32_t node, uint32_t next) {
  uint32_t port = 0;
  while (t->neighbor[node * t->max_ports + port] != next) ++port;
  return port;
}

static int32_t route(void *self, const cosim_route_req *req, const cosim_router_view *view, cosim_candidate *out,
                     uint32_t cap) {
  const adaptive_router *r = self;
  const cosim_topology *t = r->t;
  const uint32_t target = t->ejection[req->dst] / t->max_ports;
  const uint64_t vcs = t->class_vcs[req->class_id];
  if (req->node == target) {
    out[0] = (cosim_candidate){t->ejection[req->dst] % t->max_ports, 0, UINT64_MAX};
    return 1;
  }
  uint32_t count = 0, stride = 1;
  int negative = 0;
  int64_t free_slots[MOST_DIMS];
  for (uint32_t d = 0; d < t->n_dims && count < cap; stride *= t->dims[d++]) {
    const uint32_t here = req->node / stride % t->dims[d], there = target / stride % t->dims[d];
    if (here == there || (there > here && negative)) continue;
    if (there < here && !negative) {
      negative = 1;
      count = 0; /* positive moves wait */
    }
    const uint32_t port = port_to(t, req->node, there > here ? req->node + stride : req->node - stride);
    int64_t slots = count == 0 ? r->bias : 0;
    for (uint32_t vc = 0; vc < t->n_vcs; ++vc) {
      if (vcs >> vc & 1) slots += view->credits[port * t->n_vcs + vc];
    }
    uint32_t at = count++;
    for (; at > 0 && free_slots[at - 1] < slots; --at) {
      free_slots[at] = free_slots[at - 1];
      out[at] = out[at - 1];
    }
    free_slots[at] = slots;
    out[at] = (cosim_candidate){port, 0, UINT64_MAX};
  }
  return (int32_t)count;
}

static const cosim_router_v1 table = {
    .abi = COSIM_ROUTER_ABI,
    .struct_size = sizeof(cosim_router_v1),
    .name = "adaptive_router",
    .version = "1.0",
    .caps = COSIM_CAP_STATELESS,
    .create = create,
    .destroy = destroy,
    .route = route,
    .params_json = "[{\"name\": \"bias_flits\", \"default\": 0, \"unit\": \"flits\","
                   " \"help\": \"free slots by which another way must be better than the lowest dimension's\"}]",
};

const cosim_router_v1 *cosim_router_entry(uint32_t host_abi) {
  return host_abi >> 16 == COSIM_ROUTER_ABI_MAJOR ? &table : NULL;
}

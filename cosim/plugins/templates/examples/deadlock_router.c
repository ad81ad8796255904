/* Deadlock-prone on purpose: packets to nodes with an even sum of coordinates go dimension by dimension upwards, the
 * others downwards, on the same VCs. Both kinds of turn close a cycle of links that wait for one another; what
 * `cosim plugins check` says of it is worth reading. */
#include <cosim/plugin/cosim_router.h>
#include <stdio.h>

static int32_t create(const cosim_topology *t, const char *params, void **self, char *err, size_t err_cap) {
  (void)params;
  if (t->n_dims < 2) {
    snprintf(err, err_cap, "expected a mesh of two dimensions or more, got a %s of %u", t->kind, t->n_dims);
    return COSIM_E_TOPOLOGY;
  }
  *self = (void *)(uintptr_t)t; /* nothing of its own */
  return COSIM_OK;
}

static void destroy(void *self) { (void)self; }

static int32_t route(void *self, const cosim_route_req *req, const cosim_router_view *view, cosim_candidate *out,
                     uint32_t cap) {
  const cosim_topology *t = self;
  const uint32_t target = t->ejection[req->dst] / t->max_ports;
  uint32_t port = t->ejection[req->dst] % t->max_ports, stride = 1, sum = 0, first = UINT32_MAX, last = UINT32_MAX;
  (void)view;
  (void)cap;
  for (uint32_t d = 0; d < t->n_dims; stride *= t->dims[d++]) {
    const uint32_t here = req->node / stride % t->dims[d], there = target / stride % t->dims[d];
    sum += there;
    if (here == there) continue;
    last = there > here ? req->node + stride : req->node - stride;
    if (first == UINT32_MAX) first = last;
  }
  if (first != UINT32_MAX) {
    const uint32_t next = sum % 2 == 0 ? first : last;
    for (port = 0; t->neighbor[req->node * t->max_ports + port] != next;) ++port;
  }
  out[0] = (cosim_candidate){port, 0, UINT64_MAX};
  return 1;
}

static const cosim_router_v1 table = {
    .abi = COSIM_ROUTER_ABI,
    .struct_size = sizeof(cosim_router_v1),
    .name = "deadlock_router",
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

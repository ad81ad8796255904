/* Oldest packet first, for VC or switch allocation: requests are granted in the order of their packets' creation, each
 * if its input and its output are still free. Equal ones go by input, then by the output after the one last granted. */
#include <cosim/plugin/cosim_arbiter.h>
#include <cosim/plugin/cosim_params.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t n_inputs;
  uint32_t n_outputs;
  int by_class;  /* message classes with small numbers first */
  uint8_t* last; /* [n_nodes * n_inputs] output last granted to an input */
  uint64_t size;
} state;

static int32_t create(const cosim_arbiter_config* config, const char* params, void** self, char* err, size_t err_cap) {
  state* s = calloc(1, sizeof(*s));
  if (s == NULL) return COSIM_E_NOMEM;
  if (config->n_outputs > 255) {
    strncpy(err, "at most 255 outputs", err_cap - 1);
    free(s);
    return COSIM_E_CONFIG;
  }
  s->n_inputs = config->n_inputs;
  s->n_outputs = config->n_outputs;
  s->by_class = cosim_param_bool(params, "by_class", 0);
  s->size = (uint64_t)config->n_nodes * config->n_inputs;
  s->last = calloc(s->size, 1);
  if (s->last == NULL) {
    free(s);
    return COSIM_E_NOMEM;
  }
  *self = s;
  return COSIM_OK;
}

static void destroy(void* self) {
  state* s = self;
  free(s->last);
  free(s);
}

/* How far behind the output last granted to its input a request's output stands. */
static uint32_t turn(const state* s, uint32_t node, const cosim_arbiter_request* r) {
  const uint32_t next = s->last[(uint64_t)node * s->n_inputs + r->input] + 1u;
  return (r->output + s->n_outputs - next) % s->n_outputs;
}

static int goes_before(const state* s, uint32_t node, const cosim_arbiter_request* a, const cosim_arbiter_request* b) {
  const uint32_t fresh_a = a->flags & COSIM_REQUEST_SPECULATIVE;
  const uint32_t fresh_b = b->flags & COSIM_REQUEST_SPECULATIVE;
  if (fresh_a != fresh_b) return fresh_a < fresh_b;
  if (s->by_class && a->class_id != b->class_id) return a->class_id < b->class_id;
  if (a->create_cycle != b->create_cycle) return a->create_cycle < b->create_cycle;
  if (a->input != b->input) return a->input < b->input;
  if (a->priority != b->priority) return a->priority < b->priority;
  return turn(s, node, a) < turn(s, node, b);
}

static int32_t arbitrate(void* self, const cosim_arbitration* asked, uint8_t* grants) {
  state* s = self;
  uint64_t inputs = 0, outputs = 0; /* taken */
  for (;;) {
    const cosim_arbiter_request* best = NULL;
    for (uint32_t i = 0; i < asked->n_requests; ++i) {
      const cosim_arbiter_request* r = &asked->requests[i];
      if ((inputs >> r->input & 1u) != 0 || (outputs >> r->output & 1u) != 0) continue;
      if (best == NULL || goes_before(s, asked->node, r, best)) best = r;
    }
    if (best == NULL) return COSIM_OK;
    inputs |= (uint64_t)1 << best->input;
    outputs |= (uint64_t)1 << best->output;
    s->last[(uint64_t)asked->node * s->n_inputs + best->input] = (uint8_t)best->output;
    grants[best - asked->requests] = 1;
  }
}

static uint64_t save(const void* self, void* bytes, uint64_t cap) {
  const state* s = self;
  if (cap >= s->size) memcpy(bytes, s->last, s->size);
  return s->size;
}

static int32_t load(void* self, const void* bytes, uint64_t size) {
  state* s = self;
  if (size != s->size) return COSIM_E_INTERNAL;
  memcpy(s->last, bytes, size);
  return COSIM_OK;
}

static const cosim_arbiter_v1 table = {
    .abi = COSIM_ARBITER_ABI,
    .struct_size = sizeof(cosim_arbiter_v1),
    .name = "oldest_arbiter",
    .version = "1.0",
    .create = create,
    .destroy = destroy,
    .arbitrate = arbitrate,
    .save = save,
    .load = load,
    .params_json = "[{\"name\": \"by_class\", \"default\": false, \"unit\": \"\", "
                   "\"help\": \"message classes with small numbers before others\"}]",
};

const cosim_arbiter_v1* cosim_arbiter_entry(uint32_t host_abi) {
  return host_abi >> 16 == COSIM_ARBITER_ABI_MAJOR ? &table : NULL;
}

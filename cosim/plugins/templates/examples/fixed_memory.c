/* A memory of fixed latency and bandwidth: a burst begins when the one before has left the bus, and is
 * done `latency_cycles` after it began. No banks, no refresh. */
#include <cosim/plugin/cosim_memory.h>
#include <cosim/plugin/cosim_params.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 1024u /* bursts under way */

typedef struct fixed_memory {
  uint64_t latency, gap, now, bus_free; /* ticks */
  uint64_t first, last;                 /* of the ring: bursts in the order in which they are done */
  cosim_memory_completion ring[QUEUE];
} fixed_memory;

static void destroy(void *self) { free(self); }

static int32_t create(const cosim_memory_config *c, const char *params, void **self, char *err, size_t err_cap) {
  (void)err, (void)err_cap;
  fixed_memory *m = calloc(1, sizeof(*m));
  if (m == NULL) return COSIM_E_NOMEM;
  m->latency = (uint64_t)cosim_param_int(params, "latency_cycles", 30) * c->ticks_per_cycle;
  m->gap = (uint64_t)cosim_param_int(params, "burst_cycles", 1) * c->ticks_per_cycle;
  *self = m;
  return COSIM_OK;
}

static int32_t accept(void *self, const cosim_memory_request *r, uint64_t tick) {
  fixed_memory *m = self;
  if (m->last - m->first == QUEUE) return 0;
  const uint64_t begin = m->bus_free > tick ? m->bus_free : tick;
  m->bus_free = begin + m->gap;
  m->ring[m->last++ % QUEUE] = (cosim_memory_completion){r->id, begin + m->latency + m->gap};
  return 1;
}

static uint64_t next_event(const void *self) {
  const fixed_memory *m = self;
  return m->first == m->last ? COSIM_NEVER : m->ring[m->first % QUEUE].tick;
}

static int32_t advance(void *self, uint64_t tick) {
  ((fixed_memory *)self)->now = tick;
  return COSIM_OK;
}

static int32_t pop(void *self, cosim_memory_completion *out, uint32_t cap) {
  fixed_memory *m = self;
  uint32_t n = 0;
  while (n < cap && m->first < m->last && m->ring[m->first % QUEUE].tick <= m->now) out[n++] = m->ring[m->first++ % QUEUE];
  return (int32_t)n;
}

static uint64_t save(const void *self, void *state, uint64_t cap) {
  if (cap >= sizeof(fixed_memory)) memcpy(state, self, sizeof(fixed_memory));
  return sizeof(fixed_memory);
}

static int32_t load(void *self, const void *state, uint64_t size) {
  memcpy(self, state, size);
  return COSIM_OK;
}

static const cosim_memory_v1 table = {
    COSIM_MEMORY_ABI, sizeof(cosim_memory_v1), "fixed_memory", "1.0", 0, 0, create, destroy, accept, next_event, advance,
    pop, save, load,
    "[{\"name\": \"latency_cycles\", \"default\": 30, \"unit\": \"CK\", \"help\": \"from begin to first beat\"},"
    " {\"name\": \"burst_cycles\", \"default\": 1, \"unit\": \"CK\", \"help\": \"of a burst on the bus\"}]",
    NULL};

const cosim_memory_v1 *cosim_memory_entry(uint32_t host_abi) {
  return host_abi >> 16 == COSIM_MEMORY_ABI_MAJOR ? &table : NULL;
}

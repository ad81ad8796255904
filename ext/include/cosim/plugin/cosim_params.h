/* Reading the parameters of a cosim plug-in: a flat JSON object as the host writes it (compact, keys quoted). */
#ifndef COSIM_PARAMS_H
#define COSIM_PARAMS_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Where the value of `name` begins; NULL when there is none. Quotes inside strings are escaped, so that a quoted name
 * behind a brace or comma is a key. */
static inline const char* cosim_param_find(const char* params, const char* name) {
  const size_t length = strlen(name);
  for (const char* at = strchr(params, '"'); at != NULL; at = strchr(at + 1, '"')) {
    if (at == params || (at[-1] != '{' && at[-1] != ',')) continue;
    if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '"' && at[length + 2] == ':') return at + length + 3;
  }
  return NULL;
}

static inline int64_t cosim_param_int(const char* params, const char* name, int64_t otherwise) {
  const char* value = cosim_param_find(params, name);
  return value != NULL ? (int64_t)strtoll(value, NULL, 10) : otherwise;
}

static inline double cosim_param_double(const char* params, const char* name, double otherwise) {
  const char* value = cosim_param_find(params, name);
  return value != NULL ? strtod(value, NULL) : otherwise;
}

/* 1 for true, 0 for false. */
static inline int cosim_param_bool(const char* params, const char* name, int otherwise) {
  const char* value = cosim_param_find(params, name);
  return value != NULL ? *value == 't' : otherwise;
}
#endif

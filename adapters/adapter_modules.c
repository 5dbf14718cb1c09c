#include "adapters/adapter_modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

AdapterModule *adapter_module(AdapterModules *modules, const char *own_name, size_t length) {
    if (modules->n > 0) { /* in a sorted table a module's factors are neighbours */
        AdapterModule *last = &modules->items[modules->n - 1];
        if (strlen(last->own_name) == length && memcmp(last->own_name, own_name, length) == 0)
            return last;
    }
    if (!array_reserve(&modules->items, &modules->capacity, modules->n + 1, sizeof(AdapterModule)))
        return NULL;
    AdapterModule *module = &modules->items[modules->n];
    *module = (AdapterModule){.own_name = strndup(own_name, length)};
    if (!module->own_name) return NULL;
    modules->n++;
    return module;
}

void adapter_modules_free(AdapterModules *modules) {
    for (size_t i = 0; i < modules->n; i++) {
        free(modules->items[i].name);
        free(modules->items[i].own_name);
    }
    free(modules->items);
    free(modules->wholes);
    raw_table_free(&modules->table);
    *modules = (AdapterModules){0};
}

size_t adapter_rank(const AdapterModule *module) {
    return (size_t)module->b->dims[1] / (module->n_experts ? module->n_experts : 1);
}

size_t adapter_rows(const AdapterModule *module) {
    return module->n_experts ? module->n_rows : (size_t)module->b->dims[0];
}

static bool is_readable(StoredType type) {
    return type == STORED_F32 || type == STORED_F16 || type == STORED_BF16 || type == STORED_Q8_0;
}

Status adapter_check_modules(const AdapterModules *modules, const char *path, Error *error) {
    if (modules->n == 0) return error_set(error, "%s: holds no adapter", path);
    for (size_t i = 0; i < modules->n; i++) {
        const AdapterModule *m = &modules->items[i];
        if (!m->a || !m->b)
            return error_set(error, "%s: '%.100s' has only one of the two factors A and B", path,
                             m->own_name);
        const RawTensor *factors[] = {m->a, m->b};
        for (int k = 0; k < 2; k++) {
            if (factors[k]->n_dims != 2 || factors[k]->dims[0] == 0 || factors[k]->dims[1] == 0)
                return error_set(error,
                                 "%s: '%.100s': an adapter of a layer that is not a plain matrix",
                                 path, m->own_name);
            if (!is_readable(factors[k]->type))
                return error_set(error,
                                 "%s: '%.100s' is of type %s, which this program cannot read", path,
                                 m->own_name, factors[k]->type_name);
        }
        uint64_t rank = m->a->dims[m->a_is_turned ? 1 : 0];
        if (rank != m->b->dims[1])
            return error_set(error, "%s: '%.100s': A has rank %llu and B rank %llu", path,
                             m->own_name, (unsigned long long)rank,
                             (unsigned long long)m->b->dims[1]);
    }
    return STATUS_OK;
}

/* Each layer keeps its rows in a struct of its own, in place and behind pointers. Once, layer 1 forgets to count. At each
 * entry it tells what the layers hold. */
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 3 };
struct kv_cache { float keys[FLOATS]; int used; };
struct layer { float scale; struct kv_cache kv; struct kv_cache *own; };
struct model { struct layer layers[LAYERS]; struct kv_cache *caches[LAYERS]; int n_past, step; };

static void add_rows(struct model *m, int n)
{
    for (int i = 0; i < LAYERS; i++) {
        int counted = m->step == 5 && i == 1 ? 0 : n;
        m->layers[i].kv.used += counted;
        m->layers[i].own->used += counted;
        m->caches[i]->used += counted;
    }
}

__attribute__((noinline)) void model_eval(struct model *m, const int *toks, int n_toks)
{
    printf("%d %d %d %d\n", m->n_past, m->layers[0].kv.used, m->layers[1].kv.used, m->layers[2].kv.used);
    fflush(stdout);
    add_rows(m, toks[0] < 0 ? 0 : n_toks);
    m->n_past += n_toks;
    m->step++;
}

int main(void)
{
    struct model *m = calloc(1, sizeof *m);
    int prompt[] = {4, 8, 15, 16};
    for (int i = 0; i < LAYERS; i++) {
        m->layers[i].own = calloc(1, sizeof(struct kv_cache));
        m->caches[i] = calloc(1, sizeof(struct kv_cache));
    }
    model_eval(m, prompt, 4);
    for (int token = 20; token < 28; token++)
        model_eval(m, &token, 1);
    return 0;
}

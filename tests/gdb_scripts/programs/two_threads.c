/* Two token loops in turn, each in a thread of its own and with a state of its own. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

struct state {
    int id, seq_len, rows[2];
};
static atomic_int turn;

__attribute__((noipa)) void forward(struct state *st, int n)
{
    for (int layer = 0; layer < 2; layer++)
        st->rows[layer] += n;
    st->seq_len += n;
}

static void *generate(void *arg)
{
    struct state st = {.id = (int)(intptr_t)arg};
    for (int step = 0; step < 5; step++) {
        while (turn != st.id)
            sched_yield();
        forward(&st, step ? 1 : 3);
        turn = !st.id;
    }
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, generate, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

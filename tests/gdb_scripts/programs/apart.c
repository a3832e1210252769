/* A state that clang takes apart when it optimises, and arguments that it keeps at the frame's base when it does not. */
#define N_LAYERS 3
static struct {
    int len;
    int rows[N_LAYERS];
    int n_layers;
} state = {.n_layers = N_LAYERS};

__attribute__((noinline)) int forward(int token, int n)
{
    for (int i = 0; i < N_LAYERS; i++)
        state.rows[i] += n;
    state.len += n;
    return (token + state.len) % 50;
}

int main(void)
{
    int token = forward(11, 3);
    for (int i = 0; i < 2; i++)
        token = forward(token, 1);
    return token;
}

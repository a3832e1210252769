/* A token loop as C++ writes it today: tokens by value in a span or in a vector, the layers in a vector. The program
   prints, at each entry of its forward, the first token, how many there are, the length, and each layer's rows. */
#include <cstdio>
#include <vector>
#if TOKENS_IN_A_SPAN
#include <span>
using Tokens = std::span<const int>;
#else
using Tokens = const std::vector<int> &;
#endif

struct Layer {
    std::vector<float> keys;
    int used = 0;
};

struct Engine {
    std::vector<Layer> layers{3};
    int n_past = 0;
    long sum = 0;

    __attribute__((noinline)) int forward(Tokens tokens);
};

int Engine::forward(Tokens tokens)
{
    std::printf("%d %zu %d %d %d %d\n", tokens[0], tokens.size(), n_past, layers[0].used, layers[1].used,
                layers[2].used);
    for (int token : tokens)
        sum += token;
    for (Layer &layer : layers)
        layer.used += (int)tokens.size();
    n_past += (int)tokens.size();
    return (int)(sum % 50);
}

int main()
{
    Engine engine;
    std::vector<int> fed{11, 12, 13};
    for (int i = 0; i < 5; i++)
        fed = {engine.forward(fed)};
    return 0;
}

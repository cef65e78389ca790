// A small network trained twice from the same seed: plain, then inside a budget. Both end with the same bits.
#include <spillway/spillway.h>
#include <torch/torch.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kSteps = 4;
constexpr const char* kBudget = "24MiB";  // the plain run takes about 80

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  model->push_back(torch::nn::Linear(256, 512));
  for (int block = 0; block < 8; ++block) {
    model->push_back(torch::nn::ReLU());
    model->push_back(torch::nn::Dropout(0.1));
    model->push_back(torch::nn::Linear(512, 512));
  }
  return model;
}

// The losses, then the parameters.
std::vector<torch::Tensor> train(bool budgeted) {
  torch::manual_seed(0);
  torch::nn::Sequential model = make_model();
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  std::vector<torch::Tensor> results;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor input = torch::randn({1024, 256});
    optimizer.zero_grad();
    torch::Tensor loss = model->forward(input).square().mean();
    loss.backward();
    optimizer.step();
    if (budgeted) spillway::step();
    std::printf("%s step %d: loss %.6f\n", budgeted ? "budgeted" : "plain", step, loss.item<double>());
    results.push_back(loss.detach());
  }
  for (const torch::Tensor& parameter : model->parameters()) results.push_back(parameter.detach());
  return results;
}

int differing(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !torch::equal(a[i], b[i]);
  return count;
}

}  // namespace

int main() {
  const std::vector<torch::Tensor> plain = train(/*budgeted=*/false);

  const spillway::Budget budget(kBudget);
  const std::vector<torch::Tensor> budgeted = train(/*budgeted=*/true);

  const spillway::Stats stats = spillway::stats();
  const int different = differing(plain, budgeted);
  std::printf("budget %lld, peak %lld, plain peak %lld, moved out %lld, recomputed %lld ops, %lld steps\n",
              static_cast<long long>(stats.budget), static_cast<long long>(stats.peak),
              static_cast<long long>(stats.plain_peak), static_cast<long long>(stats.moved_out),
              static_cast<long long>(stats.recomputed_ops), static_cast<long long>(stats.steps));
  std::printf("%d of %zu tensors differ\n", different, plain.size());
  return different == 0 && stats.violations == 0 && stats.moved_out + stats.recomputed_ops > 0 ? 0 : 1;
}

// The adapter over a card: what enable(device="cuda:N") makes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "torch/adapter.h"

namespace spillway {

struct CudaStart {
  int card = 0;
  std::optional<Bytes> host_limit;         // none: a large part of what the machine and its limits leave
  std::optional<std::string> spill_folder; // none: no file tier
  bool adaptive_workspace = false;
  Rates rates;                             // of this card, where they were measured
  bool native_allocator = false;           // torch's own allocator places memory, inside the budget on what it reserves
};

// What lies below a card that has a budget.
[[nodiscard]] MoverOptions card_tiers(std::optional<Bytes> host_limit, bool has_folder);

// Makes the adapter, installs it and puts its allocator in front of torch's. Throws InputError.
void start_on_cuda(EngineOptions engine, const CudaStart& start);

}  // namespace spillway
